"""A row has the facts of the event that wrote it last, wherever batches of events are cut."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.cdc import records
from ivm.cdc.apply import Ingested, apply_parts, prepare
from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.kafka.facts import FACTS
from ivm.cdc.sources.metadata import BYTES, COUNT, parse_metadata
from ivm.cdc.sources.metadata_part import MetadataPart
from ivm.cdc.sources.source import Position
from ivm.session.session import Session
from tests.tiers import examples

METADATA = parse_metadata("nr = offset, n = header:n", FACTS, appends=False)


class Event(NamedTuple):
    """An event, the value that it carries for the column of a fact, and the fact."""

    op: str
    id: int
    v: str | None  # not sent
    nr: int | str | None  # the event's own, which does not count
    header: str | None

    @property
    def line(self) -> str:
        sent = {"v": self.v, "nr": self.nr}
        there = {name: value for name, value in sent.items() if value is not None}
        return json.dumps({"op": self.op, "id": self.id, **there})


EVENTS = st.builds(
    Event,
    st.sampled_from(["insert", "update", "delete", "jump"]),
    st.integers(0, 3),
    st.sampled_from(["a", "b", None]),
    st.sampled_from([7, "none", None]),
    st.sampled_from(["1", "2", "x", None]),
)


def apply(db: ivm.Database, events: list[Event], first: int) -> Ingested:
    """Applies a batch; the number of the first event is its offset."""
    lines = pa.array([event.line for event in events], pa.large_string())
    offsets = range(first, first + len(events))
    part = JsonPart("t", lines, envelope_of("json"), "p", first)
    headers = [event.header and event.header.encode() for event in events]
    facts = {"offset": pa.array(offsets, COUNT), "header:n": pa.array(headers, BYTES)}

    def work(session: Session) -> Ingested:
        prepared = prepare(session, MetadataPart(part, METADATA, facts))
        reached = {"p": Position(first + len(events))}
        return apply_parts(session, "s", [lambda: prepared], reached).parts[0]

    done: Ingested = db._with_session(work)
    return done


def expected(rows: dict[int, tuple[Any, ...]], event: Event, offset: int) -> bool:
    """What an event makes of the rows; returns whether it is refused."""
    if event.op == "jump" or (event.op != "delete" and event.header == "x"):
        return True
    if event.op == "delete":
        rows.pop(event.id, None)
    else:
        stored = rows.get(event.id, (None,))[0]
        number = None if event.header is None else int(event.header)
        rows[event.id] = (event.v if event.v is not None else stored, offset, number)
    return False


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(EVENTS, min_size=1, max_size=8), min_size=1, max_size=4))
def test_the_last_event_of_a_row_tells_its_facts(batches: list[list[Event]]) -> None:
    rows: dict[int, tuple[Any, ...]] = {}
    offset, refused = 0, set[int]()
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (nr BIGINT, v VARCHAR, id INTEGER PRIMARY KEY, n INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT max(nr) AS nr, sum(n) AS n FROM t")
        db._with_session(records.create)
        for batch in batches:
            done = apply(db, batch, offset)
            refused |= {offset + line for line in done.refused}
            wrong = {offset + i for i, e in enumerate(batch) if expected(rows, e, offset + i)}
            assert {offset + line for line in done.refused} == wrong
            offset += len(batch)
        found = {id: rest for id, *rest in db.execute("SELECT id, v, nr, n FROM t").fetchall()}
        assert {id: tuple(rest) for id, rest in found.items()} == rows
        kept = db.execute("SELECT position, facts FROM _ivm.letter_facts").fetchall()
        told = {position: json.loads(facts)["offset"] for position, facts in kept}
        assert told == {offset: offset for offset in refused}
        [(nr, n)] = db.execute("FROM w").fetchall()
        assert nr == max((row[1] for row in rows.values()), default=None)
        sent = [row[2] for row in rows.values() if row[2] is not None]
        assert n == (sum(sent) if sent else None)
