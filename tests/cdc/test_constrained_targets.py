"""Streams into tables with UNIQUE constraints, and with defaults that are evaluated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

import ivm
from ivm import errors
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

Row: TypeAlias = tuple[Any, ...]
Event: TypeAlias = dict[str, Any]
NAMES = ("k", "u", "a", "b")
TABLE = """
CREATE TABLE t (k INTEGER PRIMARY KEY, u INTEGER UNIQUE, a INTEGER, b VARCHAR, UNIQUE (a, b));
CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n, sum(u) AS u FROM t GROUP BY a
"""
KEYS = ((1,), (2, 3))


def named(row: Row) -> dict[str, Any]:
    return dict(zip(NAMES, row, strict=True))


def clashes(rows: dict[int, Row], new: Row) -> bool:
    """Whether a row has a UNIQUE key that another one has."""
    for key in KEYS:
        value = [new[i] for i in key]
        others = [row for k, row in rows.items() if k != new[0]]
        if None not in value and value in [[row[i] for i in key] for row in others]:
            return True
    return False


def some_row(random: Random, key: int) -> Row:
    return (
        key,
        random.choice([None, *range(5)]),
        random.choice([None, 0, 1, 2]),
        random.choice([None, "x", "y"]),
    )


def some_event(
    random: Random, rows: dict[int, Row], *, moves: bool
) -> tuple[Event, int, Row | None]:
    """A change of random rows, the key that it takes a row from, and the row that it writes."""
    kind = random.choice(["c", "u", "u", "d"]) if rows else "c"
    if kind == "c":
        row = some_row(random, random.randrange(7))
        return {"op": "c", "after": named(row)}, row[0], row
    old = random.choice(sorted(rows))
    if kind == "d":
        return {"op": "d", "before": named(rows[old])}, old, None
    # To a key that no row has had: which of several rows is meant is not tested here.
    row = some_row(random, random.randrange(7, 1 << 30) if moves and random.random() < 0.3 else old)
    return {"op": "u", "before": named(rows[old]), "after": named(row)}, old, row


def applied(rows: dict[int, Row], old: int, new: Row | None) -> dict[int, Row]:
    left = {k: row for k, row in rows.items() if k != old}
    return left if new is None else {**left, new[0]: new}


def cut(random: Random, events: list[Event]) -> Iterator[list[Event]]:
    while events:
        count = random.randint(1, 12)
        yield events[:count]
        events = events[count:]


def content(db: ivm.Database) -> list[Row]:
    return db.execute("FROM t ORDER BY k").fetchall()


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", range(examples(40)))
def test_the_table_is_as_upstream_has_it_wherever_batches_are_cut(
    seed: int, tmp_path: Path
) -> None:
    random, rows, events = Random(seed), dict[int, Row](), list[Event]()
    while len(events) < 60:
        event, old, new = some_event(random, rows, moves=False)
        if new is None or not clashes(applied(rows, old, None), new):
            rows = applied(rows, old, new)
            events.append(event)
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute(TABLE)
        for batch in cut(random, events):
            assert db.ingest("t", batch).refused == {}
        assert content(db) == sorted(rows.values())
        assert_verified(db)
    with ivm.connect(tmp_path / "a.duckdb") as db:
        assert content(db) == sorted(rows.values())
        assert_verified(db)


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", range(examples(40)))
def test_one_event_after_the_other_is_refused_where_duckdb_would(seed: int) -> None:
    random, rows = Random(seed), dict[int, Row]()
    with ivm.connect() as db:
        db.execute(TABLE)
        for _ in range(50):
            event, old, new = some_event(random, rows, moves=False)
            refused = db.ingest("t", [event]).refused
            fits = new is None or not clashes(applied(rows, old, None), new)
            assert (refused == {}) is fits, (event, rows)
            assert fits or "UNIQUE constraint failed: another row of t has" in refused[0]
            rows = applied(rows, old, new) if fits else rows
            assert content(db) == sorted(rows.values())
        assert_verified(db)


@pytest.mark.cases(2)
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("seed", range(examples(40)))
def test_what_is_not_refused_fits_and_is_all_applied(seed: int, moves: bool) -> None:
    random, stored = Random(seed), dict[int, Row]()
    with ivm.connect() as db:
        db.execute(TABLE)
        for _ in range(8):
            rows, batch, effects = stored, list[Event](), list[tuple[int, Row | None]]()
            for _ in range(random.randint(1, 12)):
                event, old, new = some_event(random, rows, moves=moves)
                rows = applied(rows, old, new)
                batch.append(event)
                effects.append((old, new))
            refused = db.ingest("t", batch).refused
            for number, (old, new) in enumerate(effects):
                if number not in refused:
                    stored = applied(stored, old, new)
                elif new is not None and new[0] != old:  # it is gone there all the same
                    stored = applied(stored, old, None)
            assert content(db) == sorted(stored.values()), (batch, refused)
            assert not any(clashes(stored, row) for row in stored.values())
        assert_verified(db)


def test_rows_exchange_their_keys_in_one_batch() -> None:
    with ivm.connect() as db:
        db.execute(TABLE + "; INSERT INTO t VALUES (1, 1, 1, 'x'), (2, 2, 2, 'x'), (3, 3, 3, 'x')")
        ring = [(1, 2, 2, "x"), (2, 3, 3, "x"), (3, 1, 1, "x")]
        assert db.ingest("t", [{"op": "u", "after": named(row)} for row in ring]).refused == {}
        assert content(db) == ring
        assert_verified(db)


def test_a_row_keeps_its_key_against_an_earlier_event() -> None:
    """Bug of a first version: the row's own change was refused, and its key was another one's."""
    with ivm.connect() as db:
        db.execute(TABLE + "; INSERT INTO t VALUES (1, 1, 1, 'x'), (2, 2, 2, 'x')")
        batch = [(2, 1, 2, "x"), (1, 1, 9, "x")]
        found = db.ingest("t", [{"op": "u", "after": named(row)} for row in batch])
        assert list(found.refused) == [0]
        assert content(db) == [(1, 1, 9, "x"), (2, 2, 2, "x")]


def test_rows_that_have_their_keys_of_each_other_lose_the_last_one() -> None:
    with ivm.connect() as db:
        db.execute(TABLE + "; INSERT INTO t VALUES (1, 1, 1, 'x'), (2, 2, 2, 'x')")
        batch = [(2, 1, 2, "x"), (1, 1, 2, "x")]  # the first has u of the second, that has (a, b)
        found = db.ingest("t", [{"op": "u", "after": named(row)} for row in batch])
        rows = content(db)
        assert len({row[1] for row in rows}) == len({row[2:] for row in rows}) == len(rows) == 2
        assert found.refused


def test_a_refused_row_can_be_retried_when_its_key_is_free(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute(TABLE + "; INSERT INTO t VALUES (1, 1, 1, 'x')")
        file.write_text('{"op": "c", "after": {"k": 2, "u": 1, "a": 5, "b": "y"}}\n')
        db.execute(f"CREATE SOURCE s INTO t FROM FILES (path '{file}', format 'debezium')")
        db.start_sources()
        while not db.sources()[0].caught_up:
            time.sleep(0.01)
        letters = db.execute("SELECT reason FROM _ivm.dead_letters").fetchall()
        assert letters == [("UNIQUE constraint failed: another row of t has u: 1",)]
        db.execute("DELETE FROM t WHERE k = 1")
        db.execute("RETRY DEAD LETTERS FOR s")
        assert content(db) == [(2, 1, 5, "y")]
        assert_verified(db)


def test_a_whole_copy_of_equal_keys_leaves_the_first() -> None:
    rows = [(k, k % 10, k, "x") for k in range(3_000)]
    with ivm.connect() as db:
        db.execute(TABLE)
        found = db.ingest("t", [{"op": "r", "after": named(row)} for row in rows])
        assert content(db) == rows[:10]
        assert len(found.refused) == len(rows) - 10


def test_values_that_were_not_sent_are_evaluated_for_each_row() -> None:
    with ivm.connect() as db:
        db.execute("""
            CREATE SEQUENCE n START 100;
            CREATE TABLE t (k INTEGER PRIMARY KEY, name VARCHAR, n INTEGER DEFAULT nextval('n'),
                t TIMESTAMP WITH TIME ZONE DEFAULT now(), word VARCHAR DEFAULT 'none');
            CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n
        """)
        rows = [{"k": k, "name": "a"} for k in range(3)]
        assert db.ingest("t", [{"op": "c", "after": row} for row in rows]).refused == {}
        before = db.execute("SELECT k, n, word, t IS NOT NULL FROM t ORDER BY k").fetchall()
        assert before == [(k, 100 + k, "none", True) for k in range(3)]
        changed = [{"op": "u", "after": {"k": k, "name": "b"}} for k in (0, 7)]
        anew = [{"op": "d", "before": {"k": 2}}, {"op": "c", "after": {"k": 2, "name": "c"}}]
        db.ingest("t", [*changed, *anew])
        found: dict[int, int] = dict(db.execute("SELECT k, n FROM t").fetchall())
        assert (found[0], found[1]) == (100, 101)
        assert len({*found.values(), 102}) == 5  # those of the new rows are new ones
        assert dict(db.execute("SELECT k, name FROM t").fetchall()) == {
            **{0: "b", 1: "a"},
            **{2: "c", 7: "b"},
        }
        assert_verified(db)


def test_a_row_without_its_parent_is_a_dead_letter() -> None:
    with ivm.connect() as db:
        db.execute("""
            CREATE TABLE p (k INTEGER PRIMARY KEY, name VARCHAR UNIQUE);
            CREATE TABLE t (k INTEGER PRIMARY KEY, p INTEGER REFERENCES p (k), u VARCHAR UNIQUE,
                name VARCHAR REFERENCES p (name));
            INSERT INTO p VALUES (1, 'a'), (2, 'b');
            CREATE MATERIALIZED VIEW v AS
                SELECT p.name, count(*) AS n FROM t JOIN p ON p.k = t.p GROUP BY p.name
        """)
        rows = [(1, 1, "x", None), (2, 3, "y", None), (3, None, None, "c"), (4, 2, "x", "b")]
        named = [dict(zip(("k", "p", "u", "name"), row, strict=True)) for row in rows]
        refused = db.ingest("t", [{"op": "c", "after": row} for row in named]).refused
        assert {i: why.split(" constraint failed: ")[1] for i, why in refused.items()} == {
            1: "no row of p has k: 3",
            2: "no row of p has name: c",
            3: "another row of t has u: x",
        }
        with pytest.raises(errors.ConstraintError, match="referenced"):
            db.execute("DELETE FROM p WHERE k = 1")
        moved = [{"op": "u", "after": {"k": 1, "p": 2}}, {"op": "u", "after": {"k": 1, "p": 9}}]
        assert [*db.ingest("t", moved).refused] == [1]
        assert db.execute("FROM t").fetchall() == [(1, 2, "x", None)]
        db.execute("DELETE FROM p WHERE k = 1")
        db.ingest("t", [{"op": "d", "before": {"k": 1}}])
        db.execute("DELETE FROM p")
        assert_verified(db)


def test_a_row_that_comes_back_and_fits_no_more_says_what_to_do() -> None:
    def move(old: int, new: int) -> Event:
        rows = {"before": {"k": old, "p": 1}, "after": {"k": new, "p": 1}}
        return {"op": "u", **rows, "source": {"db": "d", "schema": "s", "table": "t", "txId": 7}}

    with ivm.connect() as db:
        db.execute("""
            CREATE TABLE p (k INTEGER PRIMARY KEY);
            CREATE TABLE t (k INTEGER PRIMARY KEY, p INTEGER REFERENCES p (k));
            INSERT INTO p VALUES (1), (2);
            INSERT INTO t VALUES (1, 1), (2, 2)
        """)
        db.ingest("t", [move(1, 2)])
        db.execute("DELETE FROM p WHERE k = 2")
        with pytest.raises(errors.ConstraintError, match=r"no row of p has k: 2; .*comes back"):
            db.ingest("t", [move(2, 9)])
        db.execute("INSERT INTO p VALUES (2)")
        assert not db.ingest("t", [move(2, 9)]).refused
        assert db.execute("FROM t ORDER BY k").fetchall() == [(2, 2), (9, 1)]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("CREATE TABLE t (k INTEGER UNIQUE, v INTEGER)", "but no primary key"),
        (
            "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER); CREATE TABLE c (k INTEGER "
            "REFERENCES t (k))",
            "foreign keys refer to it",
        ),
        (
            "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER, g INTEGER AS (k + 1))",
            "generated column",
        ),
    ],
)
def test_other_tables_are_refused_with_the_reason(table: str, reason: str) -> None:
    with ivm.connect() as db:
        db.execute(table)
        with pytest.raises(errors.UnsupportedError, match=reason):
            db.ingest("t", [{"op": "c", "after": {"k": 1, "v": 1}}])
