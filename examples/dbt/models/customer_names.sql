{{ config(materialized='view') }}
select id as customer_id, name, region from {{ ref('customers') }}
