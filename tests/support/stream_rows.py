"""Rows as SQL compares them, and what a changefeed adds up to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb

import ivm

SETTINGS = "CREATE TYPE mood AS ENUM ('low', 'mid', 'high'); CREATE MACRO plus_one(x) AS x + 1;"


def normal(value: Any) -> Any:
    """A value as SQL compares it, doubles at nine digits."""
    if isinstance(value, float):
        return str(value) if value != value else float(f"{value:.9g}") + 0.0
    if isinstance(value, (list, tuple)):
        return ("list", *[normal(v) for v in value])
    if isinstance(value, dict):
        return ("dict", *sorted((str(normal(k)), normal(v)) for k, v in value.items()))
    return value


def multiset(rows: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(repr(normal(row)) for row in rows)


class Feed:
    """What a view holds by its changefeed alone."""

    def __init__(self, db: ivm.Database, view: str) -> None:
        self._feed = db.subscribe(view)
        self._scratch = duckdb.connect()
        self._scratch.execute(SETTINGS)
        (listed,) = [v.columns for v in db.views() if v.name == view]
        self._casts = ", ".join(f'"{name}"::{kind}' for name, kind in listed)
        self.rows = multiset(db.execute(f"FROM {view}").fetchall())

    def catch_up(self) -> None:
        while (found := self._feed.poll(0)) is not None:
            _, delta = found
            self._scratch.register("delta", delta)
            rows = self._scratch.execute(f"SELECT {self._casts}, _weight FROM delta").fetchall()
            for row in rows:
                self.rows[repr(normal(row[:-1]))] += row[-1]
        self.rows = Counter({row: n for row, n in self.rows.items() if n})

    def close(self) -> None:
        self._feed.close()
        self._scratch.close()
