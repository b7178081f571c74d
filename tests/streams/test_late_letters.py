"""Late events of statements become dead letters: what came is either applied or buried."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ivm
from ivm.errors import ConstraintError, SqlError
from tests.support.crash_image import image
from tests.support.view_oracle import assert_same_rows, verdicts
from tests.tiers import seeds

Row = tuple[int, datetime, str]
TIME, OLD = datetime(2026, 3, 1, 10), datetime(2026, 3, 1, 9)
LATE = datetime(2026, 3, 1, 9, 30)
MINUTE = timedelta(minutes=1)
BEGIN = datetime(2026, 3, 1)
KEYED = "CREATE TABLE c (id INTEGER PRIMARY KEY, ts TIMESTAMP, k VARCHAR, "
KEYLESS = "CREATE TABLE c (id INTEGER, ts TIMESTAMP, k VARCHAR, "
MARKED = "WATERMARK FOR ts AS ts - INTERVAL '5 minutes') WITH (late = 'dead letters')"


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute(KEYED + MARKED)
        opened.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) FROM c GROUP BY k")
        opened.execute("INSERT INTO c VALUES (1, '2026-03-01 10:00', 'a'), (2, NULL, 'b')")
        yield opened


def letters(db: ivm.Database) -> list[tuple[str, Any, Any]]:
    """The events of the dead letters."""
    found = db.execute("SELECT payload FROM _ivm.dead_letters").fetchall()
    events = [json.loads(payload) for (payload,) in found]
    return [(event["op"], event["before"], event["after"]) for event in events]


@dataclass
class Sent:
    """What has been sent, and what is to become of it."""

    rows: dict[int, Row] = field(default_factory=dict)
    buried: Counter[tuple[str, int]] = field(default_factory=Counter)
    watermark: datetime | None = None

    def is_late(self, *rows: Row | None) -> bool:
        known = [row[1] for row in rows if row is not None]
        return self.watermark is not None and any(time < self.watermark for time in known)

    def change(self, id: int, new: Row | None) -> int:
        """Applies an event, or buries it; returns how many rows it changes."""
        old = self.rows.get(id)
        if self.is_late(old, new):
            self.buried["d" if new is None else "c" if old is None else "u", id] += 1
            return 0
        self.rows.pop(id, None)
        if new is not None:
            self.rows[id] = new
        return 1

    def commit(self) -> None:
        greatest = max([row[1] for row in self.rows.values()], default=None)
        if greatest is not None:
            reached = greatest - 5 * MINUTE
            self.watermark = max(self.watermark or reached, reached)


class Sender:
    """A database that is sent random events, by statements of all kinds."""

    def __init__(self, path: Path, random: Random) -> None:
        self.path, self.random, self.sent, self.now = path, random, Sent(), BEGIN
        self.db = ivm.connect(path)
        self.db.execute(KEYED + MARKED)
        self.db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) FROM c GROUP BY k")

    def row(self, id: int) -> Row:
        self.now += self.random.choice([0, 0, 1, 4]) * MINUTE
        time = self.now - self.random.choice([0, 0, 0, 2, 7, 30]) * MINUTE
        return id, time, self.random.choice("xyz")

    def new(self, count: int) -> list[Row]:
        free = sorted(set(range(200)) - self.sent.rows.keys())
        return [self.row(id) for id in self.random.sample(free, count)]

    def transaction(self) -> None:
        count = self.random.choice([1, 1, 1, 3])
        with self.db.transaction() if count > 1 else nullcontext():
            for _ in range(count):
                self.statement()
        self.sent.commit()

    def statement(self) -> None:
        kinds = [self.values, self.select, self.many, self.columns, self.upsert, self.csv]
        kinds += [self.update, self.delete, self.update, self.merge] if self.sent.rows else []
        self.random.choice(kinds)()

    def values(self) -> None:
        rows = self.new(self.random.randrange(1, 4))
        texts = ", ".join(f"({id}, '{time}', '{k}')" for id, time, k in rows)
        self._told(self.db.execute(f"INSERT INTO c VALUES {texts}").rowcount, rows)

    def select(self) -> None:
        rows = self.new(3)
        texts = ", ".join(f"({id}, TIMESTAMP '{time}', '{k}')" for id, time, k in rows)
        query = f"SELECT id, ts, upper(lower(k)).lower() FROM (VALUES {texts}) AS t(id, ts, k)"
        self._told(self.db.execute(f"INSERT INTO c {query}").rowcount, rows)

    def many(self) -> None:
        rows = self.new(3)
        done = self.db.executemany("INSERT INTO c VALUES (?, ?, ?)", [list(row) for row in rows])
        self._told(done.rowcount, rows)

    def columns(self) -> None:
        rows = self.new(2)
        self.db.insert(
            "c", dict(zip(("id", "ts", "k"), map(list, zip(*rows, strict=True)), strict=True))
        )
        self._told(None, rows)

    def csv(self) -> None:
        rows = self.new(3)
        path = self.path.with_suffix(".csv")
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        self._told(self.db.execute(f"COPY c FROM '{path}' (HEADER false)").rowcount, rows)

    def upsert(self) -> None:
        rows = [*self.new(1), *[self.row(id) for id in self._some(2)]]
        if self.random.random() < 0.5:
            columns = dict(zip(("id", "ts", "k"), map(list, zip(*rows, strict=True)), strict=True))
            self.db.upsert("c", columns)
            return self._told(None, rows)
        texts = ", ".join(f"({id}, '{time}', '{k}')" for id, time, k in rows)
        done = self.db.execute(f"INSERT OR REPLACE INTO c VALUES {texts}")
        self._told(done.rowcount, rows)

    def merge(self) -> None:
        rows = [*self.new(1), *[self.row(id) for id in self._some(2)]]
        texts = ", ".join(f"({id}, TIMESTAMP '{time}', '{k}')" for id, time, k in rows)
        done = self.db.execute(
            f"MERGE INTO c USING (VALUES {texts}) AS t(id, ts, k) ON c.id = t.id"
            " WHEN MATCHED THEN UPDATE SET ts = t.ts, k = t.k"
            " WHEN NOT MATCHED THEN INSERT VALUES (t.id, t.ts, t.k)"
        )
        self._told(done.rowcount, rows)

    def update(self) -> None:
        ids = self._some(2)
        if self.random.random() < 0.5:
            done = self.db.execute(f"UPDATE c SET k = k || 'u' WHERE id IN ({self._listed(ids)})")
            rows: list[Row] = [(id, ts, k + "u") for id, ts, k in map(self.sent.rows.get, ids)]  # type: ignore[misc]
        else:
            rows = [self.row(ids[0])]
            done = self.db.execute(
                "UPDATE c SET ts = ?, k = ? WHERE id = ?", [*rows[0][1:], ids[0]]
            )
        self._told(done.rowcount, rows)

    def delete(self) -> None:
        ids = self._some(2)
        done = self.db.execute(f"DELETE FROM c WHERE id IN ({self._listed(ids)})")
        assert done.rowcount == sum(self.sent.change(id, None) for id in ids)

    def _some(self, count: int) -> list[int]:
        known = sorted(self.sent.rows)
        return self.random.sample(known, min(count, len(known)))

    def _listed(self, ids: list[int]) -> str:
        return ", ".join(map(str, ids))

    def _told(self, count: int | None, rows: list[Row]) -> None:
        """Notes rows that were sent, and compares what the statement has told of them."""
        changed = sum(self.sent.change(row[0], row) for row in rows)
        assert count is None or count == changed

    def check(self) -> None:
        assert_same_rows(self.db.execute("FROM c").fetchall(), self.sent.rows.values(), "c")
        found = Counter((op, (after or before)["id"]) for op, before, after in letters(self.db))
        assert found == self.sent.buried
        marks = self.db.execute("SELECT watermark, late_rows FROM _ivm.watermarks").fetchall()
        assert marks == [(self.sent.watermark, found.total())]
        assert all(row["ok"] for row in verdicts(self.db))


@pytest.mark.parametrize("seed", seeds(8))
def test_what_is_sent_is_applied_or_buried(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sender = Sender(tmp_path / "begin.duckdb", random)
    for number in range(60):
        sender.transaction()
        if random.random() < 0.2:
            sender.check()
        if random.random() < 0.1:
            before, sender.path = sender.db, image(sender.path, tmp_path / f"{number}.duckdb")
            sender.db = ivm.connect(sender.path)
            before.close()
    sender.check()
    assert {op for op, _ in sender.sent.buried} == {"c", "u", "d"}
    sender.db.close()


def test_a_letter_tells_the_event_and_why(db: ivm.Database) -> None:
    assert db.execute("UPDATE c SET ts = '2026-03-01 09:00' WHERE id = 1").rowcount == 0
    told = db.execute('SELECT source, "table", reason, payload FROM _ivm.dead_letters').fetchall()
    (source, table, reason, payload), = told  # fmt: skip
    assert (source, table) == ("late rows", "c")
    assert reason == "late: before the watermark of 'c', 2026-03-01 09:55:00"
    before = {"id": 1, "ts": "2026-03-01 10:00:00", "k": "a"}
    assert letters(db) == [("u", before, before | {"ts": "2026-03-01 09:00:00"})]
    db.execute("CREATE TABLE late (id INTEGER PRIMARY KEY, ts TIMESTAMP, k VARCHAR)")
    done = db.ingest("late", [payload], format="debezium")
    assert done.refused == {}
    assert db.execute("FROM late").fetchall() == [(1, datetime(2026, 3, 1, 9), "a")]
    assert db.execute('DISCARD DEAD LETTERS FOR "late rows"').rowcount == 1
    assert letters(db) == []


def test_rows_without_a_key_are_buried_as_often_as_they_come() -> None:
    with ivm.connect() as db:
        db.execute(KEYLESS + MARKED)
        db.execute("INSERT INTO c VALUES (1, '2026-03-01 10:00', 'a')")
        late = "(2, TIMESTAMP '2026-03-01 09:00', 'x')"
        assert db.execute(f"INSERT INTO c VALUES {late}, {late}").rowcount == 0
        query = f"SELECT * FROM (VALUES {late}, (3, TIMESTAMP '2026-03-01 10:01', 'y')) t, range(2)"
        query = query.replace("*", "t.*")
        assert db.execute(f"INSERT INTO c {query}").rowcount == 2
        assert [after["id"] for _, _, after in letters(db)] == [2, 2, 2, 2]
        assert db.execute("SELECT id FROM c ORDER BY id").fetchall() == [(1,), (3,), (3,)]
        assert db.execute("UPDATE c SET k = 'z' WHERE id = 3").rowcount == 2
        db.execute("INSERT INTO c VALUES (4, '2026-03-01 11:00', 'z')")
        assert db.execute("DELETE FROM c").rowcount == 1
        assert db.execute("SELECT id FROM c ORDER BY id").fetchall() == [(1,), (3,), (3,)]
        assert len(letters(db)) == 7
        db.execute("INSERT INTO c VALUES (4, '2026-03-01 11:00', 'z')")
        for change in ("UPDATE c SET k = 'z'", "UPDATE c SET ts = '2026-03-01 01:00' WHERE id = 4"):
            with pytest.raises(ConstraintError, match="one by one"):
                db.execute(change)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("INSERT INTO c VALUES (3, '2026-03-01 09:00', 'x') RETURNING id", "RETURNING"),
        ("INSERT INTO c SELECT 3, TIMESTAMP '2026-03-01 09:00', 'x' RETURNING id", "RETURNING"),
        ("DELETE FROM c WHERE id = 1 RETURNING *", "RETURNING"),
        ("UPDATE c SET id = id + 10", "primary key"),
        ("UPDATE c SET k = 'x', id = CASE id WHEN 1 THEN 4 WHEN 4 THEN 1 ELSE 2 END", "primary"),
        ("UPDATE c SET (k, id) = ('x', id + 3)", "primary key"),
        (
            "MERGE INTO c USING (VALUES (1, 4), (4, 1)) AS t(a, b) ON c.id = t.a"
            " WHEN MATCHED THEN UPDATE SET id = t.b",
            "primary key",
        ),
    ],
)
def test_what_cannot_be_told_is_refused_whole(
    db: ivm.Database, statement: str, reason: str
) -> None:
    db.execute("INSERT INTO c VALUES (4, '2026-03-01 11:00', 'z')")
    before = db.execute("FROM c").fetchall()
    with pytest.raises(ConstraintError, match=reason):
        db.execute(statement)
    assert_same_rows(db.execute("FROM c").fetchall(), before, "c")
    assert letters(db) == []
    db.execute("INSERT INTO c VALUES (5, '2026-03-01 11:00', 'z') RETURNING id")


def test_what_calls_and_prepared_statements_tell_is_without_late_rows(db: ivm.Database) -> None:
    rows = {"id": [3, 4], "ts": ["2026-03-01 09:00", "2026-03-01 10:01"], "k": ["x", "y"]}
    assert db.insert("c", rows) == 1
    assert db.upsert("c", {**rows, "id": [5, 4]}) == 1
    db.execute("PREPARE p AS INSERT INTO c VALUES ($1, $2, $3)")
    assert db.execute("EXECUTE p(6, '2026-03-01 09:00', 'x')").rowcount == 0
    assert db.execute("EXECUTE p(6, '2026-03-01 10:02', 'x')").rowcount == 1
    assert db.executemany("UPDATE c SET id = ? WHERE id = ?", [[8, 4]]).rowcount == 1
    assert db.insert("c", {"id": [7], "ts": ["2026-03-01 09:00"], "k": ["x"]}) == 0
    db.execute("INSERT INTO c VALUES (9, '2026-03-01 11:00', 'z')")
    assert db.delete("c", {"id": [1, 9]}) == 1
    assert len(letters(db)) == 5


def test_letters_have_all_columns_whatever_they_are_called() -> None:
    with ivm.connect() as db:
        db.execute(f'CREATE TABLE c (a INTEGER PRIMARY KEY, "B" VARCHAR, ts TIMESTAMP, {MARKED}')
        db.execute("INSERT INTO c VALUES (1, 'x', '2026-03-01 10:00'), (2, '', '2026-03-01 11:00')")
        row = {"a": 1, "B": "x", "ts": "2026-03-01 10:00:00"}
        db.execute("DELETE FROM c WHERE a = 1")
        db.execute("UPDATE c SET \"B\" = 'z' WHERE a = 1")
        db.execute("INSERT INTO c VALUES (3, 'x', '2026-03-01 10:00')")
        wanted = [("d", row, None), ("u", row, row | {"B": "z"}), ("c", None, row | {"a": 3})]
        assert letters(db) == wanted


@pytest.mark.parametrize(
    ("key", "call", "told"),
    [
        ("", lambda db: db.apply("c", rows([5, LATE, "a"]), [3]), 0),
        ("", lambda db: db.apply("c", rows([5, TIME, "a"], [5, LATE, "z"]), [2, 3]), 1),
        ("", lambda db: db.insert("c", rows([5, TIME, "a"], [6, LATE, "z"], [7, LATE, "z"])), 1),
        ("PRIMARY KEY", lambda db: db.apply("c", rows([1, OLD, "a"], [1, OLD, "b"]), [-1, 1]), 0),
        ("PRIMARY KEY", lambda db: db.upsert("c", rows([2, OLD, "n"], [1, OLD, "b"])), 0),
        ("PRIMARY KEY", lambda db: db.upsert("c", rows([2, TIME, "n"], [1, OLD, "a"])), 2),
        ("PRIMARY KEY", lambda db: db.upsert("c", rows([2, TIME, "n"], [2, LATE, "b"])), 0),
        ("PRIMARY KEY", lambda db: db.upsert("c", rows([2, LATE, "n"], [2, TIME, "b"])), 2),
        ("PRIMARY KEY", lambda db: db.delete("c", {"id": [1, 9]}), 1),
    ],
)
def test_what_calls_tell_is_of_what_they_were_given(
    key: str, call: Callable[[ivm.Database], int], told: int
) -> None:
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE c (id INTEGER {key}, ts TIMESTAMP, k VARCHAR, {MARKED}")
        db.insert("c", rows([1, OLD, "a"], [9, TIME, "w"]))
        assert call(db) == told


def rows(*given: list[Any]) -> dict[str, list[Any]]:
    """The rows of a call, as columns."""
    return dict(zip(["id", "ts", "k"], map(list, zip(*given, strict=True)), strict=True))


def test_late_rows_of_a_trigger_are_none_of_the_statement(db: ivm.Database) -> None:
    db.execute("CREATE TABLE d (id INTEGER, ts TIMESTAMP)")
    db.execute(
        "CREATE TRIGGER copies AFTER INSERT ON d REFERENCING NEW TABLE AS n FOR EACH STATEMENT"
        " INSERT INTO c SELECT id, ts, 'd' FROM n"
    )
    assert db.execute("INSERT INTO d VALUES (50, '2026-03-01 09:30')").rowcount == 1
    again = db.execute("INSERT INTO d VALUES (51, '2026-03-01 09:30') RETURNING id")
    assert again.fetchall() == [(51,)]
    assert len(letters(db)) == 2


def test_generated_columns_are_in_letters_alone() -> None:
    with ivm.connect() as db:
        db.execute(
            "CREATE TABLE c (id INTEGER PRIMARY KEY, ts TIMESTAMP, h BIGINT AS (hour(ts)),"
            f" old INTEGER, {MARKED}"
        )
        db.insert("c", {"id": [1, 2], "ts": [OLD, TIME], "old": [7, 8]})
        for statement in ("DELETE FROM c WHERE id = 1", "UPDATE c SET old = 9 WHERE old = 7"):
            assert db.execute(statement).rowcount == 0
        assert db.delete("c", {"id": [1]}) == 0
        assert db.execute("SELECT id, h, old FROM c ORDER BY ALL").fetchall() == [
            (1, 9, 7),
            (2, 10, 8),
        ]
        assert [(op, row["h"], row["old"]) for op, row, _ in letters(db)] == [
            ("d", 9, 7),
            ("u", 9, 7),
            ("d", 9, 7),
        ]


def test_tables_of_letters_and_others_are_made_in_one_transaction() -> None:
    with ivm.connect() as db:
        with db.transaction():
            db.execute(KEYED + MARKED)
            db.execute("ALTER TABLE c RENAME COLUMN k TO named")
            db.execute("CREATE TABLE other (x INTEGER)")
            db.execute("INSERT INTO c VALUES (1, '2026-03-01 10:00', 'a')")
        db.execute("INSERT INTO c VALUES (2, '2026-03-01 09:00', 'b')")
        assert [new["named"] for _, _, new in letters(db)] == ["b"]


def test_triggers_do_not_see_late_rows(db: ivm.Database) -> None:
    db.execute("CREATE TABLE log (id INTEGER)")
    db.execute(
        "CREATE TRIGGER t AFTER INSERT ON c REFERENCING NEW TABLE AS n FOR EACH STATEMENT"
        " INSERT INTO log SELECT id FROM n"
    )
    with pytest.raises(ConstraintError, match="has triggers"):
        db.execute("INSERT INTO c VALUES (3, '2026-03-01 09:00', 'x')")
    db.execute("INSERT INTO c VALUES (3, '2026-03-01 10:00', 'x')")
    assert db.execute("FROM log").fetchall() == [(3,)]


def test_letters_go_with_a_rollback_and_the_policy_with_export(
    db: ivm.Database, tmp_path: Path
) -> None:
    db.execute("BEGIN")
    assert db.execute("INSERT INTO c VALUES (3, '2026-03-01 09:00', 'x')").rowcount == 0
    assert len(letters(db)) == 1
    db.execute("ROLLBACK")
    assert letters(db) == []
    assert db.execute("SELECT late_rows FROM _ivm.watermarks").fetchall() == [(0,)]
    db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect() as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert other.execute("INSERT INTO c VALUES (3, '2026-03-01 09:00', 'x')").rowcount == 0
        assert len(letters(other)) == 1


def test_a_source_that_sends_late_rows_has_them_under_its_own_name(db: ivm.Database) -> None:
    event = {"op": "insert", "id": 3, "ts": "2026-03-01 09:00", "k": "x"}
    assert list(db.ingest("c", [event], format="json", source="devices").refused) == [0]
    assert db.execute("SELECT source FROM _ivm.dead_letters").fetchall() == [("devices",)]


def test_other_policies_are_named(db: ivm.Database) -> None:
    with pytest.raises(SqlError, match="'apply', 'refuse', 'dead letters'"):
        db.execute("ALTER TABLE c SET WATERMARK FOR ts AS ts WITH (late = 'bury')")
    db.execute("ALTER TABLE c SET WATERMARK FOR ts AS ts WITH (late = 'apply')")
    assert db.execute("INSERT INTO c VALUES (3, '2026-03-01 09:00', 'x')").rowcount == 1
