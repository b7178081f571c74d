-- A table that each run makes anew; the view over it stays, and follows.
{{ config(materialized='table', indexes=[{'columns': ['customer_id']}]) }}
select id, customer_id, amount, placed_at from {{ ref('orders') }} where amount > 0
