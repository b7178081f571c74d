{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
select id, customer_id, amount, placed_at from {{ ref('orders') }}
