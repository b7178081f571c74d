"""Events that come again or late are told by their version: a model applies them one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ivm

TABLE = "CREATE TABLE t (k INTEGER PRIMARY KEY, version BIGINT, x INTEGER)"
Row = tuple[int, int | None, int]

keys = st.integers(0, 3)
versions = st.none() | st.integers(0, 6)
events = st.tuples(st.sampled_from("cud"), keys, keys, versions, st.integers(0, 99))


def event(drawn: tuple[str, int, int, int | None, int]) -> dict[str, Any]:
    """A write of key `new`, an update that moves `old` there, or a delete of `old`."""
    op, old, new, version, x = drawn
    before = {"k": old, "version": version}
    after = {"k": new, "version": version, "x": x}
    return {
        "op": op,
        "before": None if op == "c" else before,
        "after": None if op == "d" else after,
    }


def applied(rows: dict[int, Row], drawn: Any) -> None:
    """Applies one event to the model, if it is not older than the rows that it concerns."""
    op, old, new, version, x = drawn
    concerned = {"c": [new], "u": [old, new], "d": [old]}[op]
    has = [rows[key][1] for key in concerned if key in rows]
    highest = max([found for found in has if found is not None], default=None)
    known = version is not None and highest is not None
    if known and (version < highest or (version == highest and op != "d")):
        return
    for key in concerned:
        rows.pop(key, None)
    if op != "d":
        rows[new] = (new, version, x)


@pytest.mark.full
@given(st.lists(st.lists(events, max_size=8), max_size=4))
def test_stale_events_change_nothing(batches: list[list[Any]]) -> None:
    rows: dict[int, Row] = {}
    with ivm.connect() as db:
        db.execute(TABLE)
        for batch in batches:
            db.ingest("t", [event(drawn) for drawn in batch], version="version")
            for drawn in batch:
                applied(rows, drawn)
        assert sorted(db.execute("FROM t").fetchall()) == sorted(rows.values())


parts: dict[str, Any] = {"version": versions, "x": st.none() | st.integers(-1, 3)}
rows = st.fixed_dictionaries({"k": keys}, optional=parts)
sent = st.fixed_dictionaries({"op": st.sampled_from("cud"), "before": rows, "after": rows})
defaults = st.sampled_from(["", "DEFAULT 3"])


@pytest.mark.full
@given(st.lists(sent, max_size=6), st.lists(st.booleans(), min_size=6), defaults)
def test_where_batches_are_cut_changes_nothing(
    events: list[Any], ends: list[bool], default: str
) -> None:
    # A row may come without its version, with NULL as it, and be moved or refused.
    with ivm.connect() as db:
        for name in ("one", "cut"):
            columns = f"version BIGINT {default}, x INTEGER NOT NULL DEFAULT 0 CHECK (x >= 0)"
            db.execute(f"CREATE TABLE {name} (k INTEGER PRIMARY KEY, {columns})")
        batch, refused = list[Any](), [0, 0]
        for event, end in zip(events, [*ends[: len(events) - 1], True], strict=False):
            refused[0] += len(db.ingest("one", [event], version="version").refused)
            batch.append(event)
            if end:
                refused[1] += len(db.ingest("cut", batch, version="version").refused)
                batch = []
        one, cut = (db.execute(f"FROM {name} ORDER BY k").fetchall() for name in ("one", "cut"))
        assert (one, refused[0]) == (cut, refused[1])


@pytest.fixture
def db() -> Any:
    with ivm.connect() as opened:
        opened.execute(TABLE)
        yield opened


@pytest.mark.full
def test_a_batch_sent_twice_changes_nothing(db: ivm.Database) -> None:
    batch = [event(("c", 0, 1, 1, 10)), event(("u", 1, 1, 2, 20)), event(("c", 0, 2, 1, 30))]
    assert db.ingest("t", batch, version="VERSION").counts.get("stale") is None
    again = db.ingest("t", batch, version="version")
    assert sorted(db.execute("FROM t").fetchall()) == [(1, 2, 20), (2, 1, 30)]
    assert (again.applied, again.counts["stale"]) == (0, 3)


@pytest.mark.full
@pytest.mark.parametrize(
    ("table", "version", "reason"),
    [
        ("(k INTEGER PRIMARY KEY, v VARCHAR)", "v", "must be an integer"),
        ("(k INTEGER PRIMARY KEY)", "v", "no column 'v'"),
        ("(k INTEGER, v INTEGER)", "v", "no primary key"),
    ],
)
def test_what_is_no_version_is_refused(table: str, version: str, reason: str) -> None:
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t {table}")
        with pytest.raises(ivm.errors.InputError, match=reason):
            db.ingest("t", [{"op": "c", "after": {"k": 1, "v": 1}}], version=version)


@pytest.mark.parametrize("x", ["x", None])
@pytest.mark.parametrize(("version", "left"), [(6, []), (4, [(0, 5, 1)])])
def test_a_refused_move_takes_an_older_row_away(x: Any, version: int, left: list[Any]) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, version BIGINT, x INTEGER NOT NULL)")
        db.ingest("t", [event(("c", 0, 0, 5, 1))], version="version")
        done = db.ingest("t", [event(("u", 0, 1, version, x))], version="version")
        assert db.execute("FROM t").fetchall() == left
        assert done.applied + len(done.refused) + done.counts.get("stale", 0) == 1


def test_a_refused_move_whose_version_does_not_fit_takes_nothing_away(db: ivm.Database) -> None:
    db.ingest("t", [event(("c", 0, 0, 5, 1))], version="version")
    db.ingest("t", [event(("u", 0, 1, 1 << 70, 2))], version="version")
    assert db.execute("FROM t").fetchall() == [(0, 5, 1)]  # which may be newer
