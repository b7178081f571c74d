"""A batch of events comes to what DuckDB makes of them one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.cdc.formats.events import DELETE, INSERT, UPDATE, Events
from ivm.cdc.merge import keyed
from ivm.cdc.merge.keyed import merge_keyed
from ivm.cdc.merge.merged import Merged
from ivm.cdc.merge.steps import Steps, steps_of
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.values.column import Column, column_from_arrow
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

TABLE = """
CREATE TABLE t (a INTEGER, b VARCHAR, n INTEGER NOT NULL, x DOUBLE CHECK (x < 5), s VARCHAR,
                PRIMARY KEY (a, b))
"""
VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c, sum(x) AS x, max(s) FROM t GROUP BY n"
)
WIDTH = 5
UNKNOWN, UNCHANGED = "not sent", "not sent, as it has not changed"
NOT_SENT = (UNKNOWN, UNCHANGED)

keys = st.tuples(st.integers(0, 2), st.sampled_from(["k", "l"]))
values = st.tuples(
    st.sampled_from([0, 1, 2, None]),
    st.sampled_from([0.0, -0.0, 1.5, 9.0, None]),
    st.sampled_from(["p", "q", None]),
)
sent = st.lists(st.sampled_from([None, None, *NOT_SENT]), min_size=3, max_size=3)


@dataclass(frozen=True)
class Event:
    operation: int
    row: tuple[Any, ...]  # UNKNOWN or UNCHANGED where a value was not sent
    old: tuple[int, str]


@st.composite
def events(draw: st.DrawFn) -> Event:
    operation = draw(st.sampled_from([INSERT, UPDATE, UPDATE, DELETE]))
    key, old, row = draw(keys), draw(keys), draw(values)
    if operation != UPDATE:
        return Event(operation, (*key, *row), key)
    known = zip(row, draw(sent), strict=True)
    data = [value if what is None else what for value, what in known]
    return Event(operation, (*key, *data), old if draw(st.booleans()) else key)


def columns_of(rows: list[tuple[Any, ...]], info: Any) -> dict[int, Column]:
    kinds = (pa.int32(), pa.string(), pa.int32(), pa.float64(), pa.string())
    cells = [[None if row[i] in NOT_SENT else row[i] for row in rows] for i in range(len(rows[0]))]
    return {
        i: column_from_arrow(pa.array(values, kinds[i]), info.schema[i][1])
        for i, values in enumerate(cells)
    }


def batch_of(batch: list[Event], info: Any) -> Events:
    unknown = {i: np.array([e.row[i] in NOT_SENT for e in batch]) for i in range(WIDTH)}
    unchanged = {i: np.array([e.row[i] == UNCHANGED for e in batch]) for i in range(WIDTH)}
    return Events(
        np.array([e.operation for e in batch], np.uint8),
        columns_of([e.row for e in batch], info),
        {i: mask for i, mask in unknown.items() if mask.any()},
        columns_of([e.old for e in batch], info),
        {i: mask for i, mask in unchanged.items() if mask.any()},
    )


class Oracle:
    """The events as statements of DuckDB, one after the other."""

    def __init__(self) -> None:
        self.duck = duckdb.connect()
        self.duck.execute(TABLE)

    def row(self, key: tuple[int, str]) -> tuple[Any, ...] | None:
        return self.duck.execute("FROM t WHERE a = ? AND b = ?", list(key)).fetchone()

    def delete(self, key: tuple[int, str]) -> None:
        self.duck.execute("DELETE FROM t WHERE a = ? AND b = ?", list(key)).fetchall()

    def apply(self, event: Event) -> bool:
        """Whether DuckDB takes the event."""
        if event.operation == DELETE:
            self.delete(event.old)
            return True
        found = self.row(event.old)
        if found is None and UNCHANGED in event.row:
            return False
        stored = found or (*event.old, None, None, None)
        pairs = zip(event.row, stored, strict=True)
        row = [was if value in NOT_SENT else value for value, was in pairs]
        self.duck.execute("BEGIN")
        try:
            self.delete(event.old)
            self.delete((row[0], row[1]))
            self.duck.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", row).fetchall()
        except duckdb.ConstraintException:
            self.duck.execute("ROLLBACK")
            return False
        self.duck.execute("COMMIT")
        return True

    @property
    def rows(self) -> list[str]:
        return sorted(map(repr, self.duck.execute("FROM t").fetchall()))


def applied(db: ivm.Database, batch: list[Event]) -> Merged:
    """The batch merged and committed as one epoch."""
    engine = db._engine
    info = engine.catalog.tables["t"]
    with Transaction(engine, engine.warehouse.cursor(), lambda _: None) as transaction:
        path = transaction.fast_path("t")
        assert path is not None
        merged = merge_keyed(path, batch_of(batch, info), transaction.index("t", all_columns=True))
        transaction.add(merged.change)
    transaction.commit()
    return merged


@pytest.mark.full
@given(st.lists(st.lists(events(), min_size=1, max_size=8), min_size=1, max_size=3))
@settings(max_examples=examples(90), deadline=None)
def test_a_batch_is_its_events_one_after_the_other(batches: list[list[Event]]) -> None:
    oracle = Oracle()
    with ivm.connect(":memory:") as db:
        db.execute(TABLE)
        db.execute(VIEW)
        for batch in batches:
            refused = {i for i, event in enumerate(batch) if not oracle.apply(event)}
            merged = applied(db, batch)
            assert merged.refused.keys() == refused
            assert sorted(map(repr, db.execute("FROM t").fetchall())) == oracle.rows
        assert_verified(db)


def test_what_a_sound_upstream_does_not_send_is_counted() -> None:
    def event(operation: int, a: int, old: int | None = None) -> Event:
        return Event(operation, (a, "k", a, 0.0, "s"), (a if old is None else old, "k"))

    with ivm.connect(":memory:") as db:
        db.execute(TABLE)
        merged = applied(
            db,
            [
                event(INSERT, 1),
                event(INSERT, 1),
                event(UPDATE, 2),
                event(UPDATE, 3, 2),
                event(DELETE, 2),
                event(DELETE, 3),
                event(UPDATE, 3),
            ],
        )
        assert merged.counts == {
            "inserts": 2,
            "updates": 3,
            "deletes": 2,
            "known_inserts": 1,
            "unknown_updates": 2,
            "unknown_deletes": 1,
        }
        assert db.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (3,)]


DIRT = {
    "a NULL": (Event(UPDATE, (1, "k", None, UNKNOWN, UNKNOWN), (1, "k")), [1]),
    "no row": (Event(UPDATE, (2, "k", 1, UNCHANGED, UNKNOWN), (2, "k")), [201, 1]),
}


@pytest.mark.parametrize("what", DIRT)
def test_dirt_of_one_key_costs_no_rounds(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    rounds = []

    def counted(path: FastPath, events: Events, index: KeyIndex) -> Steps:
        rounds.append(len(events))
        return steps_of(path, events, index)

    monkeypatch.setattr(keyed, "steps_of", counted)
    dirt, expected = DIRT[what]
    with ivm.connect() as db:
        db.execute(TABLE)
        good = Event(INSERT, (1, "k", 1, 1.0, "s"), (1, "k"))
        merged = applied(db, [good, *[dirt] * 200])
        assert (len(merged.refused), rounds) == (200, expected)
        assert db.execute("FROM t").fetchall() == [(1, "k", 1, 1.0, "s")]
