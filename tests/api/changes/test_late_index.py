"""Until a large table has been read in a thread, its keys are found all the same."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import ivm
from ivm.engine.tables import key_indexes
from ivm.errors import ConstraintError, InputError, UnavailableError
from ivm.ingest.key_index import LateIndex
from ivm.ingest.snapshot import Snapshot
from ivm.storage.arrangement import write_buffer
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.zset import ZSet, add
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

Model = dict[tuple[int, str], float | None]

VIEW = "CREATE MATERIALIZED VIEW v AS SELECT s, sum(x) AS x, count(*) AS n FROM t GROUP BY s"
COLUMNS = ("i", "s", "x")


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a few rows are a run, which is merged with others."""
    monkeypatch.setattr(key_indexes, "LARGE", 0)
    monkeypatch.setattr(write_buffer, "TAIL_ROWS", 2)


class Gate:
    """Holds the threads that read tables until it opens."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        scan = Snapshot.scan

        def held(snapshot: Snapshot, columns: Sequence[int]) -> Iterator[ZSet]:
            self._open.wait()
            yield from scan(snapshot, columns)

        patch.setattr(Snapshot, "scan", held)

    def open(self, db: ivm.Database) -> None:
        """Let them read, to the end."""
        self._open.set()
        for index in db._engine.indexes._known.values():
            if isinstance(index, LateIndex):
                index._reading.join()

    def close(self) -> None:
        self._open.clear()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made._open.set()


def filled() -> tuple[ivm.Database, Model]:
    db = ivm.connect()
    db.execute("CREATE TABLE t (i INTEGER, s VARCHAR, x DOUBLE, PRIMARY KEY (i, s))")
    model: Model = {(i, s): float(i) for i in range(20) for s in ("a", "b")}
    db.execute("INSERT INTO t SELECT i, s, i FROM range(20) r(i), (VALUES ('a'), ('b')) w(s)")
    db.execute(VIEW)
    return db, model


def index(db: ivm.Database) -> str:
    return type(db._engine.indexes.find("t")).__name__


def check(db: ivm.Database, model: Model) -> None:
    found = db.execute("FROM t").fetchall()
    assert sorted(map(repr, found)) == sorted(repr((*k, x)) for k, x in model.items())
    assert_verified(db, "v")


keys = st.tuples(st.integers(0, 30), st.sampled_from("ab"))
values = st.sampled_from([None, 0.0, -0.0, 1.5])
changes = st.one_of(
    st.tuples(st.sampled_from(["insert", "upsert"]), st.dictionaries(keys, values, min_size=1)),
    st.tuples(st.just("delete"), st.sets(keys, min_size=1, max_size=5)),
    st.tuples(st.just("native"), st.integers(0, 30)),
    st.tuples(st.sampled_from(["flush", "open"]), st.none()),
)


def change(db: ivm.Database, model: Model, kind: str, given: Any) -> None:
    """Make the change in both; what is refused is refused for a reason."""
    if kind == "native":
        db.execute("UPDATE t SET x = x + y FROM (SELECT ? AS j, 1 AS y) WHERE i = j", [given])
        for key in [key for key in model if key[0] == given]:
            old = model[key]
            model[key] = None if old is None else old + 1
    elif kind == "delete":
        call(all(key in model for key in given), lambda: db.delete("t", columns(given, 2)))
        if all(key in model for key in given):
            for key in given:
                del model[key]
    else:
        rows = columns([(*key, x) for key, x in given.items()], 3)
        fits = kind == "upsert" or not any(key in model for key in given)
        call(fits, lambda: getattr(db, kind)("t", rows))
        if fits:
            model.update(given)


def columns(rows: Any, count: int) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS[:count])}


def call(fits: bool, run: Callable[[], object]) -> None:
    if fits:
        run()
    else:
        with pytest.raises(ConstraintError):
            run()


@pytest.mark.full
@settings(max_examples=examples(25), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(history=st.lists(st.tuples(st.booleans(), st.lists(changes, max_size=5)), max_size=5))
def test_any_history_leaves_what_was_said(
    history: list[tuple[bool, list[tuple[str, Any]]]],
) -> None:
    """The reading ends at any point of it; some transactions are rolled back."""
    with pytest.MonkeyPatch.context() as patch:
        gate = Gate(patch)
        try:
            play(gate, history)
        finally:
            gate._open.set()


def step(gate: Gate, db: ivm.Database, model: Model, kind: str, given: Any) -> None:
    if kind == "flush":
        db.execute("SELECT count(*) FROM t").fetchall()
    elif kind == "open":
        gate.open(db)
    else:
        change(db, model, kind, given)


def play(gate: Gate, history: list[tuple[bool, list[tuple[str, Any]]]]) -> None:
    db, model = filled()
    for kept, parts in history:
        after = dict(model)
        db.execute("BEGIN")
        try:
            for kind, given_ in parts:
                step(gate, db, after, kind, given_)
            db.execute("COMMIT" if kept else "ROLLBACK")
        except UnavailableError:  # what was refused has ended it
            with contextlib.suppress(InputError):  # a COMMIT has taken it away
                db.execute("ROLLBACK")
            kept = False
        model = after if kept else model
        check(db, model)
    for x in (8.0, 9.0):
        db.upsert("t", columns([(1, "a", x)], 3))
        model[1, "a"] = x
        gate.open(db)
        check(db, model)
    assert index(db) == "KeyIndex"
    db.close()


def test_keys_are_found_while_the_table_is_read(gate: Gate) -> None:
    db, model = filled()
    with db:
        db.upsert("t", columns([(1, "a", 5.0), (99, "a", 6.0)], 3))
        db.delete("t", columns([(2, "b")], 2))
        with pytest.raises(ConstraintError, match="Duplicate key"):
            db.insert("t", columns([(99, "a", 1.0)], 3))
        assert index(db) == "LateIndex"
        model |= {(1, "a"): 5.0, (99, "a"): 6.0}
        del model[2, "b"]
        check(db, model)
        gate.open(db)
        assert index(db) == "KeyIndex"
        with pytest.raises(ConstraintError, match="not stored"):
            db.delete("t", columns([(2, "b")], 2))
        check(db, model)


@pytest.mark.full
@pytest.mark.parametrize(
    "statement",
    ["CREATE INDEX j ON t (x)", "ALTER TABLE t ALTER x SET NOT NULL", "ALTER TABLE t ADD y INT"],
)
def test_a_table_can_be_altered_while_it_is_read(gate: Gate, statement: str) -> None:
    """DuckDB refuses that as long as a snapshot from before a change is held."""
    db, _ = filled()
    with db:
        db.upsert("t", columns([(1, "a", 5.0)], 3))
        db.execute("SELECT count(*) FROM t").fetchall()
        assert index(db) == "LateIndex"
        gate._open.set()
        db.execute(statement)
        db.delete("t", columns([(1, "a")], 2))
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(39,)]


def test_what_has_gone_since_the_snapshot_stays_away(gate: Gate) -> None:
    """Also where runs of later changes are merged."""
    db, model = filled()
    check(db, model)
    for i in range(20):
        change(db, model, "upsert", {(i, "a"): 7.0})
        change(db, model, "delete", {(i, "b")})
        change(db, model, "upsert", {(i, "a"): None, (30, "a"): float(i)})
    assert index(db) == "LateIndex"
    for opened in (False, True):
        if opened:
            gate.open(db)
        for i in range(20):
            change(db, model, "insert", {(i, "b"): 1.0})  # refused if the row were there
            change(db, model, "delete", {(i, "b")})
        check(db, model)
    assert index(db) == "KeyIndex"
    db.close()


def test_what_cannot_be_read_is_read_again() -> None:
    def fails(*args: object) -> Iterator[ZSet]:
        raise duckdb.InterruptException("stop")

    db, model = filled()
    with db:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Snapshot, "scan", fails)
            db.upsert("t", columns([(1, "a", 5.0)], 3))
            db._engine.indexes._known["t"]._reading.join()  # type: ignore[attr-defined]
        db.upsert("t", columns([(1, "b", 6.0)], 3))
        model |= {(1, "a"): 5.0, (1, "b"): 6.0}
        check(db, model)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Snapshot, "scan", fails)  # else it may have been read before it is asked
            patch.setattr(Snapshot, "find", fails)
            db._engine.indexes.forget()
            with pytest.raises(UnavailableError, match="stop"):
                db.upsert("t", columns([(1, "b", 7.0)], 3))
        db.upsert("t", columns([(1, "b", 8.0)], 3))
        model[1, "b"] = 8.0
        check(db, model)


@pytest.mark.full
def test_what_has_been_read_is_not_held(gate: Gate) -> None:
    """Bug: until somebody changed the table again, DuckDB kept each version of every row."""
    db, _ = filled()
    with db:
        db.upsert("t", columns([(1, "a", 5.0)], 3))
        gate.open(db)
        (late,) = db._engine.indexes._known.values()
        assert isinstance(late, LateIndex)
        with pytest.raises(duckdb.ConnectionException):
            late._snapshot.rows()
        db.delete("t", columns([(1, "a"), (2, "b")], 2))
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(38,)]


@pytest.mark.full
def test_closing_ends_the_reading(gate: Gate, tmp_path: Any) -> None:
    path = str(tmp_path / "t.duckdb")
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, x DOUBLE)")
        db.execute("INSERT INTO t SELECT i, i FROM range(100) r(i)")
        db.upsert("t", {"i": [1, 200], "x": [5.0, 6.0]})
        assert index(db) == "LateIndex"
        gate._open.set()
    with ivm.connect(path) as db:
        assert db.execute("SELECT sum(x) FROM t").fetchall() == [(4950 + 4 + 6,)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("BIGINT", ["1", "-9223372036854775808"]),
        ("HUGEINT", ["1", "170141183460469231731687303715884105727"]),
        ("DECIMAL(9,2)", ["1.50", "-0.01"]),
        ("DOUBLE", ["0.0", "'nan'", "'-inf'", "0.1"]),
        ("FLOAT", ["-0.0", "0.1", "16777216"]),
        ("VARCHAR", ["''", "'a'", "'A'", "'é'"]),
        ("VARCHAR COLLATE NOCASE", ["'a'", "'B'"]),
        ("BLOB", ["''", "'\\xFF'"]),
        ("BOOLEAN", ["true", "false"]),
        ("DATE", ["'2024-01-01'", "'infinity'", "'10000-01-01'"]),
        ("TIMESTAMP", ["'2024-01-01 00:00:00.000001'", "'-infinity'"]),
        ("TIMESTAMPTZ", ["'2024-01-01 00:00:00+02'"]),
        ("TIME", ["'24:00:00'", "'00:00:00'"]),
        ("UUID", ["'8ceadae7-9c71-4d89-b5e1-00bd5b811dd5'"]),
        ("ENUM('x', 'y')", ["'x'", "'y'"]),
    ],
)
def test_a_key_of_any_type_is_found_alone_as_among_others(type: str, values: list[str]) -> None:
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (k {type} PRIMARY KEY, n INTEGER)")
        for n, value in enumerate(values):
            db.execute(f"INSERT INTO t VALUES ({value}, {n})")
        (name,) = db._engine.catalog.version.user_tables
        snapshot = db._engine.tables.snapshot(name)
        try:
            stored = db._engine.tables.content(name)
            for row in range(len(stored)):
                keys = [stored.columns[0].slice(row, row + 1)]
                alone = snapshot.find((0, 1), (0,), keys)
                schema = snapshot._schema((0, 1)), snapshot._schema((0,))
                among = snapshot._find_all(*schema, keys)
                types = [type for _, type in schema[0]]
                assert not len(consolidate(add([alone, among.negate()]), types))
                assert len(alone) == 1
            db.execute("DELETE FROM t")
            db.flush()
            assert len(snapshot.find((0, 1), (0,), keys)) == 1
        finally:
            snapshot.release()
        emptied = db._engine.tables.snapshot(name)
        assert len(emptied.find((0, 1), (0,), keys)) == 0
        emptied.release()
