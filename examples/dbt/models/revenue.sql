-- Live: right after every commit to its tables, whether by dbt or anybody else.
{{ config(materialized='materialized_view', indexes=[{'columns': ['region']}]) }}
select region, count(*) as orders, sum(amount) as amount
from {{ ref('paid_orders') }} join {{ ref('customer_names') }} using (customer_id)
group by region
