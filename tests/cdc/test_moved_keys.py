"""Keys that are shifted, swapped or moved in one statement keep every row."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ivm
from ivm.storage.errors import UnsupportedError
from tests.tiers import examples, seeds

Row = tuple[int, str, int | None]
FORMS = ["debezium", "debezium, keys before", "debezium, pairs", "maxwell"]


def named(row: Row) -> dict[str, Any]:
    return dict(zip(("pos", "v", "w"), row, strict=True))


def events(form: str, old: Row, new: Row) -> Iterator[Any]:
    """The events of an update that moves a row."""
    if form == "maxwell":
        yield {"type": "update", "data": named(new), "old": {"pos": old[0]}}
    elif form == "debezium, pairs":
        yield {"op": "d", "before": named(old), "after": None}
        yield None
        yield {"op": "c", "before": None, "after": named(new)}
    else:
        before = {"pos": old[0]} if "keys" in form else named(old)
        yield {"op": "u", "before": before, "after": named(new)}


def moved(random: Random) -> tuple[list[Row], dict[int, int]]:
    """Rows, and the keys to which one statement moves them, in any order."""
    count = random.randint(2, 7)
    rows: list[Row] = [(i, f"row {i}", random.choice([None, 1, 2])) for i in range(count)]
    return rows, dict(zip(range(count), random.sample(range(count + 2), count), strict=True))


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_one_statement_keeps_every_row(form: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
        db.execute(
            "CREATE MATERIALIZED VIEW p AS SELECT w, count(*) AS n, max(v) FROM q GROUP BY w"
        )
        for seed in seeds(20):
            random = Random(f"{seed} {form}")
            rows, to = moved(random)
            db.execute("DELETE FROM q")
            db.execute(
                "INSERT INTO q VALUES " + ", ".join(["(?, ?, ?)"] * len(rows)), sum(rows, ())
            )
            goes = [row for row in random.sample(rows, len(rows)) if to[row[0]] != row[0]]
            batch = [e for row in goes for e in events(form, row, (to[row[0]], *row[1:]))]
            db.ingest("q", batch, format=form.split(",")[0])
            right = sorted((to[row[0]], *row[1:]) for row in rows)
            assert db.execute("FROM q ORDER BY pos").fetchall() == right, (rows, to, goes)
        assert all(row[1] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


def of_transaction(event: Any, form: str, number: int) -> Any:
    if event is None:
        return None
    return event | ({"xid": number} if form == "maxwell" else {"source": {"txId": number}})


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_a_statement_in_several_batches_keeps_every_row(form: str, tmp_path: Path) -> None:
    """Also where the database is closed between them, and an older transaction left rows behind."""
    for seed in seeds(examples(20)):
        random = Random(f"{seed} {form}")
        rows, to = moved(random)
        goes = [row for row in random.sample(rows, len(rows)) if to[row[0]] != row[0]]
        told = [e for row in goes for e in events(form, row, (to[row[0]], *row[1:]))]
        told = [of_transaction(event, form, 7) for event in told]
        path = tmp_path / f"{seed}.duckdb"
        with ivm.connect(path) as db:
            db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
            old = (99, "old", None), (100, "met", 1)
            db.insert("q", [named(row) for row in (*rows, *old)])
            cut = [of_transaction(e, form, 6) for e in events(form, old[0], (100, "old", None))]
            db.ingest("q", cut, format=form.split(",")[0])
        size = len(told) // max(len(goes), 1)  # events of one row
        while told:
            count = size * random.randint(1, len(told) // size)
            with ivm.connect(path) as db:
                for batch in (told[:count], told[count : 2 * count]):
                    if batch:
                        db.ingest("q", batch, format=form.split(",")[0])
            told = told[2 * count :]
        with ivm.connect(path) as db:
            right = sorted([(100, "old", None), *[(to[row[0]], *row[1:]) for row in rows]])
            assert db.execute("FROM q ORDER BY pos").fetchall() == right, (rows, to, goes)
            last = [of_transaction({"op": "c", "after": named((200, "", 0))}, "debezium", 8)]
            db.ingest("q", last)
            assert db.execute("FROM _ivm.displaced").fetchall() == []


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_a_statement_that_comes_again_changes_nothing(form: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
        for seed in seeds(examples(20)):
            random = Random(f"{seed} {form}")
            rows, to = moved(random)
            db.execute("DELETE FROM q")
            db.insert("q", [named(row) for row in rows])
            told = [e for row in rows for e in events(form, row, (to[row[0]], *row[1:]))]
            told = [of_transaction(event, form, 7) for event in told]
            right = sorted((to[row[0]], *row[1:]) for row in rows)
            for _ in range(2):
                db.ingest("q", told, format=form.split(",")[0])
                assert db.execute("FROM q ORDER BY pos").fetchall() == right, (rows, to)


@pytest.mark.parametrize("form", FORMS)
def test_a_statement_that_comes_again_in_other_batches_changes_nothing(form: str) -> None:
    """What has come before it breaks off comes once more, and all in any batches."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
        for seed in seeds(examples(40)):
            random = Random(f"{seed} {form}")
            rows, to = moved(random)
            db.execute("DELETE FROM q")
            db.insert("q", [named(row) for row in rows])
            goes = [row for row in random.sample(rows, len(rows)) if to[row[0]] != row[0]]
            told = [list(events(form, row, (to[row[0]], *row[1:]))) for row in goes]
            times = [told[: random.randint(0, len(told))] for _ in range(2)]
            batches = [batch for time in (*times, told) for batch in cut(random, time)]
            for batch in batches:
                one = [of_transaction(event, form, seed) for events in batch for event in events]
                db.ingest("q", one, format=form.split(",")[0])
            right = sorted((to[row[0]], *row[1:]) for row in rows)
            assert db.execute("FROM q ORDER BY pos").fetchall() == right, (rows, to, batches)


def cut(random: Random, changes: list[list[Any]]) -> Iterator[list[list[Any]]]:
    """Changes in batches."""
    while changes:
        count = random.randint(1, len(changes))
        yield changes[:count]
        changes = changes[count:]


@pytest.mark.full
@pytest.mark.parametrize("times", [1, 2])
def test_files_keep_every_row_in_all_their_batches(times: int, tmp_path: Path) -> None:
    """The statement may come again."""
    rows: list[Row] = [(i, str(i), i) for i in range(5000)]
    told: list[Any] = [{"op": "c", "after": named(row)} for row in rows]
    Random(0).shuffle(rows)
    moves = [e for r in rows for e in events(FORMS[0], r, (r[0] + 1, *r[1:]))]
    told += times * [of_transaction(event, FORMS[0], 7) for event in moves]
    (tmp_path / "q.json").write_text("\n".join(map(json.dumps, told)) + "\n")
    with ivm.connect() as db:
        db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
        db.execute(f"CREATE SOURCE s INTO q FROM FILES (path '{tmp_path}/*', format 'debezium')")
        db.start_sources()
        while not db.sources()[0].caught_up:
            assert db.sources()[0].state != "stopped"
            time.sleep(0.01)
        assert db.execute("FROM q ORDER BY pos").fetchall() == [
            (i + 1, str(i), i) for i in range(5000)
        ]


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_leaves_again_leaves_the_one_that_it_met(form: str, cut: bool) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
        db.insert("q", [named((1, "a", 1)), named((2, "b", 2))])
        steps = ((1, "a", 1), (2, "a", 1)), ((2, "a", 1), (3, "a", 1))
        batches = [[of_transaction(e, form, 7) for e in events(form, *step)] for step in steps]
        for batch in batches if cut else [[*batches[0], *batches[1]]]:
            db.ingest("q", batch, format=form.split(",")[0])
        assert db.execute("FROM q ORDER BY pos").fetchall() == [(2, "b", 2), (3, "a", 1)]


def test_a_row_that_comes_again_by_itself_is_the_one_that_goes() -> None:
    """Its update is refused, so that the delete tells a row that is not there."""
    told: list[Any] = [
        {"op": "c", "after": {"id": 1, "x": 1}},
        {"op": "u", "before": {"id": 1, "x": 1}, "after": {"id": 1, "x": -1}},
        {"op": "d", "before": {"id": 1, "x": -1}},
    ]
    batch = [of_transaction(event, "debezium", 7) for event in told]
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER CHECK (x > 0))")
        db.ingest("t", batch[:1])
        db.ingest("t", batch)
        assert db.execute("FROM t").fetchall() == []


def test_rows_that_are_read_once_more_displace_none() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
        for v in ("a", "b"):
            read = [{"op": "r", "after": named((i, v, i))} for i in range(100)]
            db.ingest("q", [of_transaction(event, "debezium", 7) for event in read])
        assert db.execute("SELECT DISTINCT v FROM q").fetchall() == [("b",)]
        assert db.execute("FROM _ivm.displaced").fetchall() == []
        assert db._engine.indexes.find("q", all_columns=True) is None


@pytest.mark.parametrize("apart", [False, True])
def test_nothing_builds_on_a_row_that_a_refused_move_takes_away(apart: bool) -> None:
    batch = [
        {"op": "u", "before": {"id": 1}, "after": {"id": 2, "x": -1, "y": 0}},
        {"op": "u", "before": {"id": 1}, "after": {"id": 3, "x": 1}},
    ]
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, x INT CHECK (x >= y), y INT DEFAULT 0)")
        db.execute("INSERT INTO t VALUES (1, 5, 5)")
        for events in [[event] for event in batch] if apart else [batch]:
            db.ingest("t", events)
        assert db.execute("FROM t").fetchall() == [(3, 1, 0)]


@pytest.mark.full
def test_what_comes_again_changes_nothing() -> None:
    history: list[Any] = [
        {"op": "c", "after": {"id": 1, "v": "a"}},
        {"op": "u", "before": {"id": 1, "v": "a"}, "after": {"id": 1, "v": "b"}},
        {"op": "u", "before": {"id": 1, "v": "b"}, "after": {"id": 2, "v": "b"}},
        {"op": "c", "after": {"id": 1, "v": "c"}},
        {"op": "d", "before": {"id": 2, "v": "b"}},
        {"op": "d", "before": {"id": 1, "v": "c"}},
        {"op": "c", "after": {"id": 2, "v": "d"}},
    ]
    for cut in range(len(history) + 1):
        with ivm.connect() as db:
            db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR)")
            db.ingest("t", history[:cut])
            db.ingest("t", history)
            assert db.execute("FROM t").fetchall() == [(2, "d")], cut


TRANSACTIONS: list[tuple[str, list[dict[str, Any]]]] = [
    ("debezium", [{"source": {"txId": n, "ts_ms": 5}} for n in (1, 2)]),
    ("debezium", [{"source": {"txId": None, "gtid": f"a:{n}"}} for n in (1, 2)]),
    ("debezium", [{"source": {"commit_lsn": f"{n}"}} for n in (1, 2)]),
    ("debezium", [{"source": {"ts_ms": n}} for n in (1, 2)]),
    ("maxwell", [{"xid": n, "ts": 5} for n in (1, 2)]),
    ("maxwell", [{"ts": n} for n in (1, 2)]),
]


@pytest.mark.full
@pytest.mark.parametrize(("form", "told"), TRANSACTIONS)
def test_rows_meet_within_a_transaction_alone(form: str, told: list[dict[str, Any]]) -> None:
    """A row that came again is gone with the one of a later transaction."""
    old, new = {"pos": 1, "v": "a", "w": 1}, {"pos": 1, "v": "b", "w": 1}
    with ivm.connect() as db:
        db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
        if form == "maxwell":
            batch = [{"type": "insert", "data": old}, {"type": "delete", "data": new}]
        else:
            batch = [{"op": "c", "after": old}, {"op": "d", "before": new}]
        one = [{**event, **told[0]} for event in batch]
        assert _left(db, one, form) == [(1, "a", 1)]
        assert _left(db, [one[0], {**batch[1], **told[1]}], form) == []


def _left(db: ivm.Database, batch: list[Any], form: str) -> list[Row]:
    db.execute("DELETE FROM q; INSERT INTO q VALUES (1, 'b', 1)")
    db.ingest("q", batch, format=form)
    return db.execute("FROM q").fetchall()


def shifted(path: Path, within: str) -> list[tuple[Any, ...]]:
    """The rows after a statement that shifts keys, within which ours is run; 9 is a letter."""
    rows: list[Row] = [(0, "a", 1), (1, "b", 2), (2, "c", 3)]
    first = [{"op": "c", "after": named(row)} for row in (*rows, (9, "z", None))]
    moves = [e for row in rows for e in events("debezium", row, (row[0] + 1, *row[1:]))]
    moves = [of_transaction(event, "debezium", 7) for event in moves]
    with ivm.connect() as db:
        db.execute("CREATE TABLE q (pos INTEGER PRIMARY KEY, v VARCHAR, w INTEGER NOT NULL)")
        db.execute(f"CREATE SOURCE s INTO q FROM FILES (path '{path}/*', format 'debezium')")
        for number, told in enumerate((first, moves[:1], moves[1:])):
            if number == 2:
                db.execute(within)
            (path / f"{number}.json").write_text("".join(json.dumps(e) + "\n" for e in told))
            db.start_sources()
            while not db.sources()[0].caught_up:
                time.sleep(0.01)
            db.stop_sources()
        return db.execute("FROM q ORDER BY pos").fetchall()


def test_retried_letters_leave_alone_what_a_statement_has_displaced(tmp_path: Path) -> None:
    found = shifted(tmp_path, "ALTER TABLE q ALTER w DROP NOT NULL; RETRY DEAD LETTERS FOR s")
    assert found == [(1, "a", 1), (2, "b", 2), (3, "c", 3), (9, "z", None)]


ALTERED = {
    "ALTER TABLE q ADD COLUMN x DECIMAL(9, 2) DEFAULT 1.5": ("a", 1, Decimal("1.50")),
    "ALTER TABLE q DROP v": (1,),
    "ALTER TABLE q RENAME v TO u": ("a", 1),
    "ALTER TABLE q ALTER w TYPE VARCHAR": ("a", "1"),
    "ALTER TABLE q RENAME TO other; ALTER TABLE other RENAME TO q": ("a", 1),
}


@pytest.mark.parametrize("change", ALTERED)
def test_a_table_altered_within_a_statement_keeps_every_row(change: str, tmp_path: Path) -> None:
    found = shifted(tmp_path, change)
    assert [row[0] for row in found] == [1, 2, 3]
    assert found[0][1:] == ALTERED[change]


def test_a_type_that_displaced_rows_cannot_have_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="when events of a later transaction have come"):
        shifted(tmp_path, "ALTER TABLE q ALTER v TYPE INTEGER USING length(v)")
