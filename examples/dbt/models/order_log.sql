{{ config(materialized='incremental', unique_key='id') }}
select id, customer_id, amount, placed_at from {{ ref('orders') }}
{% if is_incremental() %}
where placed_at >= (select max(placed_at) from {{ this }})
{% endif %}
