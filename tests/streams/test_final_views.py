"""Final views against a model: rows that the watermark passes are kept as they are then."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import ivm
from ivm.errors import ConstraintError
from tests.support.crash_image import image
from tests.support.view_oracle import assert_same_rows, verdicts
from tests.tiers import seeds

Row = tuple[Any, ...]
Id = tuple[str, int]

MINUTE = timedelta(minutes=1)
BEGIN = datetime(2026, 3, 1)
DELAYS = {"a": 10 * MINUTE, "b": 25 * MINUTE}
TABLES = "CREATE TABLE {} (id INTEGER PRIMARY KEY, ts TIMESTAMP, k INTEGER, v INTEGER"
HOUR = "time_bucket(INTERVAL '1 hour', ts)"


@dataclass(frozen=True)
class Final:
    """A final view.

    Attributes:
        query: the user's text.
        oracle: the same in DuckDB's SQL.
        by: the column that tells when a row is final.
        closes: whether a row is final at the time that it names, or only after it.
        tables: that it reads.
        bucket: of the watermark, with which the column is compared.
        reach: how long after its watermark's time a row of the second table still matters.
    """

    query: str
    oracle: str
    by: int
    tables: str = "a"
    after: bool = False
    bucket: timedelta | None = None
    reach: timedelta = timedelta()

    def is_passed(self, row: Row, watermark: datetime | None) -> bool:
        if watermark is None or row[self.by] is None:
            return False
        if self.bucket is not None:
            watermark -= (watermark - BEGIN) % self.bucket
        end: datetime = row[self.by]
        return end < watermark if self.after else end <= watermark


HOPS = (
    "(SELECT *, e - INTERVAL '1 hour' AS s FROM (SELECT *, unnest([h + i * INTERVAL '20 minutes'"
    " for i in range(1, 4)]) AS e FROM (SELECT *, time_bucket(INTERVAL '20 minutes', ts) AS h"
    " FROM a WHERE isfinite(ts))))"
)
SESSIONS = (
    "(SELECT *, min(ts) OVER w AS s, max(ts) OVER w + INTERVAL '15 minutes' AS e FROM (SELECT *,"
    " sum(new) OVER (PARTITION BY k ORDER BY ts RANGE UNBOUNDED PRECEDING) AS n FROM (SELECT *,"
    " (ts - INTERVAL '15 minutes' <= lag(ts) OVER (PARTITION BY k ORDER BY ts)) IS NOT TRUE AS new"
    " FROM a WHERE isfinite(ts))) WINDOW w AS (PARTITION BY k, n))"
)
FINITE = "WHERE isfinite(ts)"


LATEST = "x.id, x.ts, y.ts"
"""What an ASOF join tells for certain: of rows at one time it may take any."""


def _near(
    rest: str, columns: str = "x.id, x.ts, y.id, y.v", rows: str = "a", reach: int = 10
) -> Final:
    """A view of rows of a, each with those of b that are near to it in time."""
    query = f"SELECT {columns} FROM {rows} x {rest}".replace(
        "{}", f"INTERVAL '{abs(reach)} minutes'"
    )
    finite = query.replace("FROM a x", "FROM (FROM a WHERE isfinite(ts)) x")
    return Final(query, finite, by=1, tables="ab", after=True, reach=reach * MINUTE)


VIEWS = {
    "hours": Final(
        "SELECT window_start, window_end, k, count(*), sum(v), max(v)"
        " FROM tumble(a, ts, INTERVAL '1 hour') GROUP BY ALL",
        f"SELECT {HOUR}, {HOUR} + INTERVAL '1 hour', k, count(*), sum(v), max(v) FROM a {FINITE}"
        " GROUP BY ALL",
        by=1,
    ),
    "hops": Final(
        "SELECT window_end, count(*), avg(v) FROM hop(a, ts, '20 minutes', '1 hour') GROUP BY ALL",
        f"SELECT e, count(*), avg(v) FROM {HOPS} GROUP BY ALL",
        by=0,
    ),
    "grown": Final(
        "SELECT window_end, k, count(DISTINCT v) FROM cumulate(a, ts, '20 minutes', '1 hour')"
        " GROUP BY ALL",
        "SELECT e, k, count(DISTINCT v) FROM (SELECT *, time_bucket(INTERVAL '1 hour', ts)"
        " + i * INTERVAL '20 minutes' AS e FROM a, range(1, 4) r(i) WHERE isfinite(ts))"
        " WHERE e > ts GROUP BY ALL",
        by=0,
    ),
    "visits": Final(
        "SELECT k, window_start, window_end, count(*), sum(v)"
        " FROM session(a, ts, '15 minutes', partition_by := [k]) GROUP BY ALL",
        f"SELECT k, s, e, count(*), sum(v) FROM {SESSIONS} GROUP BY ALL",
        by=2,
        after=True,
    ),
    "rows": Final(
        "SELECT id, ts, v + 1 FROM a WHERE k > 0", "SELECT id, ts, v + 1 FROM a WHERE k > 0 AND"
        " isfinite(ts)", by=1, after=True,
    ),
    "truncated": Final(
        "SELECT date_trunc('hour', ts), k, min(v) FROM a GROUP BY ALL HAVING count(*) > 1",
        f"SELECT date_trunc('hour', ts), k, min(v) FROM a {FINITE} GROUP BY ALL"
        " HAVING count(*) > 1",
        by=0,
        after=True,
        bucket=60 * MINUTE,
    ),
    "best": Final(
        "SELECT window_end, id, v FROM tumble(a, ts, '1 hour')"
        " QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY v DESC, id) <= 2",
        f"SELECT {HOUR} + INTERVAL '1 hour' AS e, id, v FROM a {FINITE}"
        " QUALIFY row_number() OVER (PARTITION BY e ORDER BY v DESC, id) <= 2",
        by=0,
    ),
    "matched": Final(
        "SELECT x.window_end, x.k, x.n, y.n FROM (SELECT window_end, k, count(*) AS n"
        " FROM tumble(a, ts, '1 hour') GROUP BY ALL) x LEFT JOIN (SELECT window_end, k, sum(v) AS n"
        " FROM tumble(b, ts, '1 hour') GROUP BY ALL) y USING (window_end, k)",
        f"SELECT x.e, x.k, x.n, y.n FROM (SELECT {HOUR} + INTERVAL '1 hour' AS e, k, count(*) AS n"
        f" FROM a {FINITE} GROUP BY ALL) x LEFT JOIN (SELECT {HOUR} + INTERVAL '1 hour' AS e, k,"
        f" sum(v) AS n FROM b {FINITE} GROUP BY ALL) y USING (e, k)",
        by=0,
        tables="ab",
    ),
    "unmatched": Final(
        "SELECT window_end, k, v FROM tumble(a, ts, '1 hour') x WHERE NOT EXISTS (FROM"
        " tumble(b, ts, '1 hour') y WHERE y.window_end = x.window_end AND y.k = x.k)",
        f"SELECT {HOUR} + INTERVAL '1 hour' AS e, k, v FROM a x WHERE isfinite(ts) AND NOT EXISTS"
        f" (FROM b WHERE isfinite(ts) AND {HOUR} = time_bucket(INTERVAL '1 hour', x.ts)"
        " AND k = x.k)",
        by=0,
        tables="ab",
    ),
    "either": Final(
        "SELECT window_end, k FROM tumble(a, ts, '1 hour') UNION"
        " SELECT window_end, k FROM tumble(b, ts, '1 hour')",
        f"SELECT {HOUR} + INTERVAL '1 hour', k FROM (FROM a UNION ALL FROM b) {FINITE}"
        " GROUP BY ALL",
        by=0,
        tables="ab",
    ),
    "answered": _near("LEFT JOIN b y ON y.k = x.k AND y.ts BETWEEN x.ts AND x.ts + {}"),
    "around": _near(
        "JOIN (FROM b WHERE isfinite(ts)) y ON y.k = x.k"
        " AND y.ts - x.ts BETWEEN INTERVAL '-5 minutes' AND {}",
        rows="(FROM a WHERE isfinite(ts))",
    ),
    "then": _near("ASOF JOIN b y ON y.k = x.k AND x.ts > y.ts", columns=LATEST, reach=0),
    "then or not": _near(
        "ASOF LEFT JOIN b y ON y.k = x.k AND x.ts >= y.ts", columns=LATEST, reach=0
    ),
    "alone": _near(
        "WHERE NOT EXISTS (FROM b y WHERE y.k = x.k AND x.ts < y.ts AND y.ts - {} <= x.ts)",
        columns="x.id, x.ts",
    ),
    "asked": _near(
        "WHERE EXISTS (FROM b y WHERE x.ts + {} >= y.ts AND x.ts <= y.ts AND x.k = y.k)",
        columns="x.id, x.ts",
    ),
    "counted": _near("", columns="x.id, x.ts, (SELECT count(*) FROM b y WHERE y.k = x.k"
        " AND y.ts BETWEEN x.ts AND x.ts + {} AND isfinite(y.ts))"),
    "answers an hour": Final(
        "SELECT window_end, count(x.id), sum(y.v) FROM tumble(a, ts, '1 hour') x LEFT JOIN b y"
        " ON y.k = x.k AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '10 minutes' GROUP BY ALL",
        f"SELECT {HOUR.replace('ts', 'x.ts')} + INTERVAL '1 hour' AS e, count(x.id), sum(y.v)"
        " FROM a x LEFT JOIN b y ON y.k = x.k AND isfinite(y.ts)"
        " AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '10 minutes' WHERE isfinite(x.ts) GROUP BY ALL",
        by=0,
        tables="ab",
        reach=10 * MINUTE,
    ),
    "shifted": _near("LEFT JOIN b y ON y.k = x.k AND y.ts = x.ts - {}", reach=-10),
    "apart": _near("JOIN b y ON NOT y.ts > x.ts AND INTERVAL '10 minutes' + y.ts >= x.ts", reach=0),
    "growth": Final(
        "WITH h AS (SELECT window_start AS w, count(*) AS n FROM tumble(a, ts, '1 hour')"
        " GROUP BY ALL) SELECT x.w, x.n, y.n FROM h x LEFT JOIN h y"
        " ON y.w = x.w - INTERVAL '1 hour'",
        f"WITH h AS (SELECT {HOUR} AS w, count(*) AS n FROM a {FINITE} GROUP BY ALL)"
        " SELECT x.w, x.n, y.n FROM h x LEFT JOIN h y ON y.w = x.w - INTERVAL '1 hour'",
        by=0,
        after=True,
        bucket=60 * MINUTE,
    ),
    "first": Final(
        "SELECT k, v, min(ts) FROM a GROUP BY ALL",
        f"SELECT k, v, min(ts) FROM a {FINITE} GROUP BY ALL", by=2, after=True,
    ),
}  # fmt: skip


@dataclass
class Model:
    """What the tables and the final views hold."""

    refuses: bool
    rows: dict[Id, Row] = field(default_factory=dict)
    greatest: dict[str, datetime] = field(default_factory=dict)
    final: dict[str, list[Row]] = field(default_factory=dict)
    late: Counter[str] = field(default_factory=Counter)
    twin: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        for table in DELAYS:
            self.twin.execute(TABLES.format(table) + ")")

    def watermark(self, tables: str, reach: timedelta = timedelta()) -> datetime | None:
        known = [self.greatest.get(table) for table in tables]
        marks = [g - DELAYS[t] for g, t in zip(known, tables, strict=True) if g is not None]
        marks[1:] = [mark - reach for mark in marks[1:]]
        return min(marks) if len(marks) == len(tables) else None

    def is_late(self, table: str, *times: Any) -> bool:
        watermark = self.watermark(table)
        finite = [time for time in times if isinstance(time, datetime)]
        return watermark is not None and any(time < watermark for time in finite)

    def commit(self, changes: dict[Id, Row | None]) -> None:
        """Applies what a transaction has come to, and notes what becomes final by it."""
        views = {name: VIEWS[name] for name in self.final}
        before = {name: self.watermark(view.tables, view.reach) for name, view in views.items()}
        for key, row in changes.items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row
                self._see(key[0], row[1])
        for table in DELAYS:
            self.twin.execute(f"DELETE FROM {table}")
            mine = [row for (name, _), row in self.rows.items() if name == table]
            if mine:
                self.twin.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", mine)
        for name, view in views.items():
            now = self.watermark(view.tables, view.reach)
            for row in self.twin.execute(view.oracle).fetchall():
                if view.is_passed(row, now) and not view.is_passed(row, before[name]):
                    self.final[name].append(row)

    def _see(self, table: str, time: Any) -> None:
        if isinstance(time, datetime):
            self.greatest[table] = max(self.greatest.get(table, time), time)


class Stream:
    """A database under random transactions, and its model."""

    def __init__(self, path: Path, random: Random, *, refuses: bool, batch: int) -> None:
        self.path, self.random, self.batch = path, random, batch
        self.model, self.now = Model(refuses), BEGIN
        self.db = ivm.connect(path)
        for table, delay in DELAYS.items():
            clause = f", WATERMARK FOR ts AS ts - INTERVAL '{delay // MINUTE} minutes')"
            policy = " WITH (late = 'refuse')" if refuses else ""
            self.db.execute(TABLES.format(table) + clause + policy)

    def make(self, names: list[str]) -> None:
        self.model.final = {name: [] for name in names}
        for name in names:
            query = f"{VIEWS[name].query} EMIT ON WINDOW CLOSE"
            self.db.execute(f'CREATE MATERIALIZED VIEW "{name}" AS {query}')

    def time(self) -> Any:
        self.now += self.random.choice([0, 0, 1, 3, 30]) * MINUTE
        odd = self.random.randrange(40)
        if odd < 2:
            return [None, "infinity"][odd]
        return self.now + self.random.randrange(-40, 5) * MINUTE

    def transaction(self) -> None:
        random, model = self.random, self.model
        changes: dict[Id, Row | None] = {}
        late, statements = False, list[tuple[str, list[Any]]]()
        counted = Counter[str]()
        for _ in range(random.randrange(1, self.batch + 1)):
            table, id = random.choice("aab"), random.randrange(60)
            old = changes.get((table, id), model.rows.get((table, id)))
            row: Row = (id, self.time(), random.randrange(3), random.randrange(9))
            new = None if old is not None and random.random() < 0.3 else row
            if old is None:
                statements.append((f"INSERT INTO {table} VALUES (?, ?, ?, ?)", list(row)))
            elif new is None:
                statements.append((f"DELETE FROM {table} WHERE id = ?", [id]))
            else:
                set = "ts = ?, k = ?, v = ?"
                statements.append((f"UPDATE {table} SET {set} WHERE id = ?", [*row[1:], id]))
            if model.is_late(table, old and old[1], new and new[1]):
                late = True
                counted[table] += 1
            changes[table, id] = new
        try:
            self._run(statements)
        except ConstraintError:
            assert model.refuses
            assert late
            return
        assert not (model.refuses and late)
        model.late += counted
        model.commit(changes)

    def _run(self, statements: list[tuple[str, list[Any]]]) -> None:
        if len(statements) == 1:
            self.db.execute(*statements[0])
            return
        with self.db.transaction():
            for sql, values in statements:
                if self.random.random() < 0.2:
                    self.db.execute("SELECT count(*) FROM a").fetchall()  # begins in DuckDB
                self.db.execute(sql, values)

    def check(self) -> None:
        for view in self.db.views():
            found = self.db.execute(f'FROM "{view.name}"').fetchall()
            assert_same_rows(found, self.model.final[view.name], view.name)
        marks = self.db.execute('SELECT "table", watermark, late_rows FROM _ivm.watermarks')
        for table, watermark, late in marks.fetchall():
            assert (watermark, late) == (self.model.watermark(table), self.model.late[table])

    def reopen(self) -> None:
        self.db.close()
        self.db = ivm.connect(self.path)


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("batch", [1, 12])
def test_rows_are_final_as_they_are_when_the_watermark_passes_them(
    tmp_path: Path, seed: int, batch: int
) -> None:
    random = Random(f"{seed} {batch}")
    stream = Stream(tmp_path / "s.duckdb", random, refuses=seed % 3 == 0, batch=batch)
    names = random.sample(list(VIEWS), 5)
    stream.make(names)
    for _ in range(60 if batch == 1 else 25):
        stream.transaction()
        if random.random() < 0.3:
            stream.check()
        if random.random() < 0.05:
            stream.reopen()
    stream.check()
    assert all(row["ok"] for row in verdicts(stream.db))
    stream.db.close()


@pytest.mark.parametrize("seed", seeds(4))
def test_what_a_crash_leaves_goes_on_as_if_there_had_been_none(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    stream = Stream(tmp_path / "s.duckdb", random, refuses=False, batch=4)
    stream.make(random.sample(list(VIEWS), 8))
    for number in range(30):
        stream.transaction()
        if random.random() < 0.3:
            stream.check()
        if random.random() < 0.15:
            left, stream.path = stream.db, image(stream.path, tmp_path / f"{number}.duckdb")
            stream.db = ivm.connect(stream.path)
            stream.check()
            left.close()
    stream.check()
    stream.db.close()


@pytest.mark.parametrize("name", ["hours", "visits", "matched", "answered", "alone"])
def test_the_changefeed_of_a_final_view_has_each_row_once(tmp_path: Path, name: str) -> None:
    stream = Stream(tmp_path / "s.duckdb", Random(name), refuses=False, batch=6)
    stream.make([name])
    told = list[Row]()
    with stream.db.subscribe(name) as feed:
        for _ in range(60):
            stream.transaction()
        while (change := feed.poll(0)) is not None:
            *columns, weights = [column.to_pylist() for column in change[1].columns]
            assert set(weights) == {1}
            told += zip(*columns, strict=True)
    assert len(told) > 10
    assert_same_rows(told, stream.model.final[name], name)
    stream.db.close()


@pytest.mark.parametrize("seed", seeds(3))
def test_without_late_rows_the_end_is_the_batch_answer_whatever_the_batches(seed: int) -> None:
    random, now = Random(seed), BEGIN
    rows = list[tuple[str, Row]]()
    for id in range(300):
        now += random.choice([0, 0, 1, 4, 40]) * MINUTE
        table = random.choice("aab")
        time = now - random.randrange(0, DELAYS[table] // MINUTE) * MINUTE
        rows.append((table, (id, time, random.randrange(3), random.randrange(9))))
    twin = duckdb.connect()
    for table in DELAYS:
        twin.execute(TABLES.format(table) + ")")
        mine = [row for name, row in rows if name == table]
        twin.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", mine)
    for batch in (1, random.randrange(2, 60), len(rows)):
        with ivm.connect() as db:
            for table, delay in DELAYS.items():
                clause = f", WATERMARK FOR ts AS ts - INTERVAL '{delay // MINUTE} minutes')"
                db.execute(TABLES.format(table) + clause + " WITH (late = 'refuse')")
            for name, view in VIEWS.items():
                query = f"{view.query} EMIT ON WINDOW CLOSE"
                db.execute(f'CREATE MATERIALIZED VIEW "{name}" AS {query}')
            for start in range(0, len(rows), batch):
                with db.transaction():
                    for table, row in rows[start : start + batch]:
                        db.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", list(row))
            for table in DELAYS:
                db.advance(table, "infinity")
            for name, view in VIEWS.items():
                found = db.execute(f'FROM "{name}"').fetchall()
                assert_same_rows(found, twin.execute(view.oracle).fetchall(), name)
            assert all(row["ok"] for row in verdicts(db))
