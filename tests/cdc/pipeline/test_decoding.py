"""What the workers of a pipeline make of lines has the effect that `Database.ingest` has.

The workers' code runs here over batches cut anywhere, and the database applies what comes out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ivm
from ivm.cdc import records
from ivm.cdc.apply import Ingested, apply_parts, prepare
from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.pipeline.part import SparkPart
from ivm.cdc.pipeline.worker import SCHEMA
from ivm.cdc.sources.source import Position
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

KEYED = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, s VARCHAR, d DECIMAL(8, 2))"
CHECKED = KEYED.replace("s VARCHAR", "s VARCHAR CHECK (s <> 'no')")
UNIQUE = KEYED.replace("s VARCHAR", "s VARCHAR UNIQUE")
KEYLESS = KEYED.replace(" PRIMARY KEY", "")
VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c, sum(d) AS d, max(s) FROM t GROUP BY n"
)


@dataclass
class Frame:
    """Lines in batches; runs what Spark's workers would."""

    batches: list[pa.RecordBatch]

    def mapInArrow(  # noqa: N802 (as Spark calls it)
        self, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: str
    ) -> Frame:
        return Frame(list(work(iter(self.batches))))

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.Table.from_batches(self.batches, SCHEMA)


def batch(stream: str, lines: list[str | None]) -> pa.RecordBatch:
    raw = [None if line is None else line.encode() for line in lines]
    columns = {
        "stream": pa.array([stream] * len(lines), pa.string()),
        "time": pa.array([0] * len(lines), pa.int64()),
        "value": pa.array(raw, pa.binary()),
    }
    return pa.record_batch(columns)


def cut(lines: list[str | None], cuts: list[int]) -> list[pa.RecordBatch]:
    ends = sorted({*[c % (len(lines) + 1) for c in cuts], len(lines)})
    begins = [0, *ends]
    return [batch("a", lines[b:e]) for b, e in zip(begins, ends, strict=False) if b < e]


def applied(
    db: ivm.Database, batches: list[pa.RecordBatch], number: int, format: str, version: str = ""
) -> Ingested:
    """Applies what the workers make of a micro-batch."""
    envelope = envelope_of(format, version=version)
    part = SparkPart("t", cast(Any, Frame(batches)), envelope, None, lambda _: None, by_time=True)

    def work(session: Any) -> Ingested:
        records.create(session)
        prepared = prepare(session, part)
        position = {"spark": Position(number)}
        return apply_parts(session, "s", [lambda: prepared], position).parts[0]

    return db._with_session(work)


values = st.fixed_dictionaries(
    {"id": st.sampled_from([1, 2, 3, None])},
    optional={
        "n": st.sampled_from([1, 2, None, "x"]),
        "s": st.sampled_from(["a", "no", None, "__debezium_unavailable_value"]),
        "d": st.sampled_from(["1.50", None]),
    },
)


@st.composite
def lines(draw: st.DrawFn) -> str | None:
    kind = draw(st.sampled_from([*"ccuuuudd", "t", "no JSON", "none"]))
    if kind in ("no JSON", "none"):
        return "{" if kind == "no JSON" else None
    after = draw(values)
    before = {**draw(values), "id": draw(st.sampled_from([after["id"], after["id"], 3]))}
    if kind == "t":
        return draw(st.sampled_from([json.dumps({"op": "t"}), None]))
    if kind == "d":
        return json.dumps({"op": "d", "before": after, "after": None})
    return json.dumps({"op": kind, "before": before if kind == "u" else None, "after": after})


def rows(db: ivm.Database, sql: str) -> list[Any]:
    return sorted(db.execute(sql).fetchall(), key=repr)


@pytest.mark.full(smoke=2)
@pytest.mark.parametrize("table", [KEYED, CHECKED, KEYLESS, UNIQUE])
@given(
    st.lists(
        st.tuples(st.lists(lines(), max_size=12), st.lists(st.integers(0, 12), max_size=3)),
        max_size=4,
    )
)
@example(
    [
        (
            [
                '{"op": "c", "after": {"id": 1, "n": 1, "s": "a", "d": "1.50"}}',
                '{"op": "u", "before": {"id": 1}, "after": {"id": 2, "n": 5}}',
                '{"op": "c", "after": {"id": 1, "n": 2, "s": "b", "d": "2.50"}}',
            ],
            [],
        )
    ]
)
@example(  # the second event is not refused, since the first has written n
    [
        (
            [
                '{"op": "c", "after": {"id": 2, "n": 2, "s": "a", "d": "1.50"}}',
                '{"op": "u", "before": {"id": 2}, "after": {"id": 2}}',
                '{"op": "c", "after": {"id": 2, "n": 1, "s": "b", "d": "2.50"}}',
            ],
            [],
        )
    ]
)
@settings(max_examples=examples(60), deadline=None)
def test_micro_batches_are_what_ingest_makes_of_them(
    table: str, batches: list[tuple[list[str | None], list[int]]]
) -> None:
    with ivm.connect() as db, ivm.connect() as oracle:
        for each in (db, oracle):
            each.execute(f"{table}; {VIEW}")
        for number, (texts, cuts) in enumerate(batches):
            done = applied(db, cut(texts, cuts), number, "debezium")
            wanted = oracle.ingest("t", texts, source="s", position=number)
            assert (done.applied, done.ignored) == (wanted.applied, wanted.ignored)
            assert done.refused == wanted.refused
            assert rows(db, "FROM t") == rows(oracle, "FROM t")
            letters = "SELECT event, reason, payload FROM _ivm.dead_letters"
            assert rows(db, letters) == rows(oracle, letters)
        assert_verified(db)


def test_superseded_events_do_not_travel() -> None:
    texts: list[str | None] = [
        json.dumps({"op": "u", "after": {"id": i % 3, "n": i, "s": "a", "d": "1.00"}})
        for i in range(300)
    ]
    with ivm.connect() as db:
        db.execute(KEYED)
        done = applied(db, [batch("a", texts)], 0, "debezium")
        assert (done.applied, done.counts["superseded"], done.counts["updates"]) == (300, 297, 3)
        assert rows(db, "SELECT id, n FROM t") == [(0, 297), (1, 298), (2, 299)]


@pytest.mark.full
def test_a_version_column_keeps_every_event() -> None:
    texts: list[str | None] = [
        json.dumps({"op": "u", "after": {"id": 1, "n": n, "s": "a", "d": None}}) for n in (5, 7, 6)
    ]
    with ivm.connect() as db:
        db.execute(KEYED)
        done = applied(db, [batch("a", texts)], 0, "debezium", version="n")
        assert done.counts["stale"] == 1
        assert rows(db, "SELECT n FROM t") == [(7,)]


def test_streams_come_one_after_the_other_with_their_own_lines() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER)")
        both = pa.Table.from_batches([batch("b", ["{", '{"id": 1}']), batch("a", ["{"])])
        applied(db, both.combine_chunks().to_batches(), 0, "json appends")
        letters = db.execute("SELECT stream, position FROM _ivm.dead_letters ORDER BY ALL")
        assert letters.fetchall() == [("a", 1), ("b", 1)]
