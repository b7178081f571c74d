{% snapshot customer_history %}
{{ config(unique_key='id', strategy='check', check_cols=['name', 'region']) }}
select * from {{ ref('customers') }}
{% endsnapshot %}
