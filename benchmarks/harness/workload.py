"""The benchmark's tables and views: customers and orders, N orders and N / 10 customers.

Amounts are DOUBLE unless asked otherwise: the harder case for exact incremental sums, and the one
DuckDB recomputes fastest. DECIMAL(12,2) is what a shop would declare.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

AMOUNT_TYPES = {"double": "DOUBLE", "decimal": "DECIMAL(12,2)"}
REGIONS = tuple(f"region-{i:02d}" for i in range(25))
SEGMENTS = ("automobile", "building", "furniture", "household", "machinery")
STATUSES = ("open", "paid", "shipped", "returned", "cancelled")
CUSTOMERS_PER_ORDER = 10

SCHEMA = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, region VARCHAR NOT NULL, segment VARCHAR NOT NULL);
CREATE TABLE orders (
    id BIGINT PRIMARY KEY, customer_id BIGINT NOT NULL, amount {amount} NOT NULL,
    status VARCHAR NOT NULL, ts TIMESTAMP NOT NULL
);
"""

FILL = """
INSERT INTO customers
SELECT i, list_extract($regions, (hash(i, 1) % len($regions))::INT + 1),
       list_extract($segments, (hash(i, 2) % len($segments))::INT + 1)
FROM range($customers) r(i);
INSERT INTO orders
SELECT i, (hash(i, 3) % $customers)::BIGINT, (hash(i, 4) % 100000) / 100,
       list_extract($statuses, (hash(i, 5) % len($statuses))::INT + 1),
       TIMESTAMP '2024-01-01' + to_seconds((hash(i, 6) % 31536000)::BIGINT)
FROM range($orders) r(i);
"""

VIEWS = {
    # 125 groups over a join: the dashboard.
    "v1": """
        SELECT c.region, c.segment, count(*) AS orders, sum(o.amount) AS revenue
        FROM orders o JOIN customers c ON o.customer_id = c.id
        WHERE o.status <> 'cancelled'
        GROUP BY c.region, c.segment""",
    # The join itself, about one order in a thousand.
    "v2": """
        SELECT o.id, o.amount, o.ts, c.id AS customer
        FROM orders o JOIN customers c ON o.customer_id = c.id
        WHERE c.region = 'region-07' AND c.segment = 'building' AND o.amount > 900""",
    # One group a customer, with aggregates that a deletion can take back.
    "v3": """
        SELECT customer_id, max(amount) AS largest, min(amount) AS smallest,
               count(DISTINCT status) AS statuses
        FROM orders GROUP BY customer_id""",
    # Top-k per group.
    "v4": """
        SELECT customer_id, id, amount, ts FROM (
            SELECT *, row_number() OVER (
                PARTITION BY customer_id ORDER BY ts DESC, id DESC) AS place
            FROM orders)
        WHERE place <= 3""",
    # Days by status: a group key that is computed, and an average.
    "v5": """
        SELECT date_trunc('day', ts) AS day, status, count(*) AS orders, avg(amount) AS mean
        FROM orders GROUP BY ALL""",
}


def create(path: Path, orders: int, amount: str) -> None:
    """Make a DuckDB file of the workload with plain DuckDB; nothing of ivm is in it.

    Args:
        path: the file to make.
        orders: rows of `orders`; `customers` gets a tenth.
        amount: a key of `AMOUNT_TYPES`.
    """
    values = {
        "regions": list(REGIONS),
        "segments": list(SEGMENTS),
        "statuses": list(STATUSES),
        "customers": orders // CUSTOMERS_PER_ORDER,
        "orders": orders,
    }
    with duckdb.connect(str(path)) as con:
        con.execute(SCHEMA.format(amount=AMOUNT_TYPES[amount]))
        for statement in FILL.strip().rstrip(";").split(";"):
            named = {name: value for name, value in values.items() if f"${name}" in statement}
            con.execute(statement, named).fetchall()
