-- Live over a table that grows.
{{ config(materialized='materialized_view') }}
select customer_id, max(placed_at) as latest from {{ ref('order_log') }} group by customer_id
