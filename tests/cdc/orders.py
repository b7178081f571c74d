"""A table of orders with a view, and events that create orders."""

from __future__ import annotations

from typing import Any

import ivm

ORDERS = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, amount DECIMAL(10,2),
                     note VARCHAR, made TIMESTAMP)
"""
VIEW = """
CREATE MATERIALIZED VIEW revenue AS
SELECT customer, count(*) AS n, sum(amount) AS amount, max(made) AS last
FROM orders GROUP BY customer
"""


def created(id: int, **values: Any) -> dict[str, Any]:
    return {"op": "c", "after": {"id": id, "customer": 1, **values}}


def content(db: ivm.Database, query: str = "SELECT id FROM orders ORDER BY id") -> list[Any]:
    return db.execute(query).fetchall()
