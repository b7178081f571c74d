"""Rows that are made once, when a row arrives: JOIN … AS OF ARRIVAL.

The oracle is DuckDB: in each commit it is asked with the user's own text, without the words, for
what the rows that came find, and these rows are kept until theirs go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import ivm
from ivm.errors import IvmError, SqlError, UnsupportedError
from tests.support.crash_image import image
from tests.support.view_oracle import assert_same_rows, verdicts
from tests.tiers import seeds, some

Row = tuple[Any, ...]

TABLES = {
    "v": "id INTEGER PRIMARY KEY, k INTEGER, x INTEGER, note VARCHAR",
    "p": "id INTEGER PRIMARY KEY, k INTEGER, s VARCHAR, unread INTEGER",
    "q": "k INTEGER, x INTEGER",
}
VIEWS = {
    "inner": "SELECT v.id, v.x, p.s FROM v JOIN p AS OF ARRIVAL ON p.id = v.k",
    "left": "SELECT v.id, v.x + 1, upper(p.s) FROM v LEFT JOIN p AS OF ARRIVAL ON p.id = v.k",
    "several": "SELECT v.id, q.x FROM v JOIN q AS OF ARRIVAL USING (k)",
    "chain": "SELECT v.id, p.s, q.x FROM v LEFT JOIN p AS OF ARRIVAL ON p.id = v.k"
    " JOIN q AS OF ARRIVAL ON q.k = p.k",
    "chosen": "SELECT v.id, v.x, p.s FROM v JOIN p AS OF ARRIVAL ON p.id = v.k AND p.k <> v.x"
    " WHERE v.x > 2 AND p.s <> 'b'",
    "counted": "SELECT n.c, v.id FROM v LEFT JOIN (SELECT k, count(*) AS c, max(x) AS m FROM q"
    " GROUP BY k) n AS OF ARRIVAL ON n.k = v.k",
    "any": "SELECT v.id, q.x FROM v LEFT JOIN q AS OF ARRIVAL ON q.x < v.x",
    "asked": "SELECT v.id, (SELECT max(x) FROM q WHERE q.k = v.k) AS m, p.s FROM v"
    " LEFT JOIN p AS OF ARRIVAL ON p.id IS NOT DISTINCT FROM v.k"
    " WHERE EXISTS (FROM q WHERE q.x <> v.x)",
    "turned": "FROM (SELECT id, k FROM v WHERE x IS NOT NULL) AS w INNER JOIN p AS OF ARRIVAL"
    " ON w.k = p.id SELECT w.id, p.s, p.k",
    "above": "SELECT i.id, p.s, i.s AS was FROM inner_above i JOIN p AS OF ARRIVAL ON p.k = i.x",
}  # fmt: skip
READ = {
    **dict.fromkeys(VIEWS, "SELECT id, k, x FROM v"),
    **dict.fromkeys(["several", "chain", "counted"], "SELECT id, k FROM v"),
    "any": "SELECT id, x FROM v",
    "above": "FROM inner_above",
}
"""What a view reads of the rows that arrive: a change of other columns is none to it."""
ABOVE = "SELECT v.id, v.x, p.s FROM v JOIN p ON p.id = v.k"


def _plain(query: str) -> str:
    return query.replace("AS OF ARRIVAL ", "").replace("inner_above", f"({ABOVE})")


class Stream:
    """A database under random transactions, and what its views hold."""

    def __init__(self, path: Path, random: Random, names: list[str]) -> None:
        self.path, self.random, self.twin = path, random, duckdb.connect()
        self.db = ivm.connect(path)
        for name, columns in TABLES.items():
            for side in (self.db, self.twin):
                side.execute(f"CREATE TABLE {name} ({columns})")
        self.made: dict[str, dict[Any, list[Row]]] = {}
        self.came: dict[str, dict[Any, Row]] = {}
        for _ in range(5):
            self.transaction(3)
        self.db.execute(f"CREATE MATERIALIZED VIEW inner_above AS {ABOVE}")
        for name in names:
            self.db.execute(f'CREATE MATERIALIZED VIEW "{name}" AS {VIEWS[name]}')
            self.db.execute(f'CREATE MATERIALIZED VIEW "{name} n" AS SELECT count(*) FROM "{name}"')
        self.made = {name: {} for name in names}
        self._arrive()

    def _arrive(self) -> None:
        """Makes the rows of what has come, and drops those of what has gone."""
        for name, made in self.made.items():
            now = {row[0]: row for row in self.twin.execute(_plain(READ[name])).fetchall()}
            before = self.came.get(name, {})
            self.came[name] = now
            for key in before.keys() - now.keys():
                del made[key]
            came = [key for key, row in now.items() if before.get(key) != row]
            made |= {key: [] for key in came}
            at = 1 if name == "counted" else 0
            for row in self.twin.execute(_plain(VIEWS[name])).fetchall() if came else ():
                if row[at] in came:
                    made[row[at]].append(row)

    def transaction(self, size: int) -> None:
        with self.db.transaction():
            for _ in range(self.random.randrange(1, size + 1)):
                self._change(self.random.choice("vvvpqq"))
        self._arrive()

    def _change(self, table: str) -> None:
        random = self.random
        values = [random.choice([None, *range(5)]) for _ in range(2)]
        key, word = random.randrange(12), random.choice(["a", "b", None])
        row = [key, *values, word] if table == "v" else [key, values[0], word, values[1]]
        way = random.randrange(5)
        if table == "q":
            sql, row = "INSERT INTO q VALUES (?, ?)", values
            if way == 0:
                sql, row = "DELETE FROM q WHERE k = ?", values[:1]
            elif way == 1:
                sql = "UPDATE q SET x = ? WHERE k = ?"
        elif way == 0:
            sql, row = f"DELETE FROM {table} WHERE id = ?", [key]
        elif way == 1:
            name = "note" if table == "v" else "unread"
            sql, row = f"UPDATE {table} SET {name} = ? WHERE id = ?", [random.randrange(9), key]
        elif way == 2 and table == "v":
            sql, row = "UPDATE v SET id = id + 20 WHERE id = ? AND id + 20 NOT IN (FROM v)", [key]
            sql = sql.replace("FROM v)", "SELECT id FROM v)")
        else:
            sql = f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?)"
        for side in (self.db, self.twin):
            side.execute(sql, row)

    def refresh(self, name: str) -> None:
        """Fills a view again: what found nothing looks again."""
        self.db.execute(f'REFRESH MATERIALIZED VIEW "{name}"')
        made, at = self.made[name], 1 if name == "counted" else 0
        empty = [key for key, rows in made.items() if not rows]
        for row in self.twin.execute(_plain(VIEWS[name])).fetchall():
            if row[at] in empty:
                made[row[at]].append(row)

    def check(self) -> None:
        for name, made in self.made.items():
            wanted = [row for rows in made.values() for row in rows]
            assert_same_rows(self.db.execute(f'FROM "{name}"').fetchall(), wanted, name)
            assert self.db.execute(f'FROM "{name} n"').fetchall() == [(len(wanted),)]

    def again(self, path: Path) -> None:
        """Goes on with what is there after a crash, or an opening."""
        if path == self.path:
            self.db.close()
            self.db = ivm.connect(path)
            return
        left, self.path = self.db, image(self.path, path)
        self.db = ivm.connect(self.path)
        left.close()


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("size", [1, 9])
def test_rows_are_made_when_theirs_come_and_go_with_them(
    tmp_path: Path, seed: int, size: int
) -> None:
    random = Random(f"{seed} {size}")
    stream = Stream(tmp_path / "s.duckdb", random, random.sample(list(VIEWS), 6))
    for number in range(60 if size == 1 else 30):
        stream.transaction(size)
        chance = random.random()
        if chance < 0.3:
            stream.check()
        elif chance < 0.36:
            stream.again(stream.path)
        elif chance < 0.42:
            stream.again(tmp_path / f"{number}.duckdb")
        elif chance < 0.48:
            stream.refresh(random.choice(list(stream.made)))
        elif chance < 0.52:
            stream.db.execute(f'SELECT median(1) FROM "{random.choice(list(stream.made))}"')
    stream.check()
    assert all(row["ok"] for row in verdicts(stream.db))
    stream.db.close()


@pytest.mark.parametrize("seed", seeds(4))
def test_of_equal_rows_as_many_stay_as_there_are(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), tmp_path / "s.duckdb"
    db = ivm.connect(path)
    db.execute("CREATE TABLE log (k INTEGER, x INTEGER)")
    db.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, s INTEGER)")
    for name, side in {"inner": "JOIN", "left": "LEFT JOIN"}.items():
        query = f"SELECT l.*, s FROM log l {side} p AS OF ARRIVAL ON p.id = l.k"
        db.execute(f'CREATE MATERIALIZED VIEW "{name}" AS {query}')
    copies, names = Counter[Row](), dict[int, int]()
    found = dict[Row, set[int | None]]()
    for number in range(80):
        row = random.choice([None, 0, 1, 2]), random.randrange(2)
        way = random.randrange(6)
        if way < 3:
            count = random.randrange(1, 4)
            with db.transaction():
                for _ in range(count):
                    db.execute("INSERT INTO log VALUES (?, ?)", [*row])
            copies[row] += count
            found.setdefault(row, set()).add(None if row[0] is None else names.get(row[0]))
        elif way == 3:
            db.execute("DELETE FROM log WHERE k IS NOT DISTINCT FROM ? AND x = ?", [*row])
            copies[row] = 0
            found[row] = set()
        elif way == 4:
            one = "SELECT rowid FROM log WHERE k IS NOT DISTINCT FROM ? AND x = ? LIMIT 1"
            db.execute(f"DELETE FROM log WHERE rowid IN ({one})", [*row])
            copies[row] = max(copies[row] - 1, 0)
        else:
            names[random.randrange(3)] = number
            for each in names.items():
                db.execute("INSERT OR REPLACE INTO p VALUES (?, ?)", [*each])
        if random.random() < 0.1:
            left, path = db, image(path, tmp_path / f"{number}.duckdb")
            db = ivm.connect(path)
            left.close()
        made = rows(db, 'FROM "left"')
        assert Counter([row[:2] for row in made]) == +copies
        assert all(row[2] in found[row[:2]] for row in made)
        matched = Counter([row for row in made if row[2] is not None])
        inner = Counter(rows(db, 'FROM "inner"'))
        assert all(row[2] in found[row[:2]] for row in inner)
        assert Counter([row[:2] for row in inner.elements()]) <= +copies
        assert inner == matched or None in set().union(*found.values())
    assert all(row["ok"] for row in verdicts(db))
    db.close()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city VARCHAR)")
        db.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, person INTEGER, page VARCHAR)")
        db.execute("CREATE TABLE log (person INTEGER, page VARCHAR)")
        db.execute("INSERT INTO people VALUES (1, 'Oslo'), (2, 'Rome')")
        yield db


SEEN = "SELECT v.id, p.city FROM visits v LEFT JOIN people p AS OF ARRIVAL ON p.id = v.person"


def rows(db: ivm.Database, query: str = "FROM seen ORDER BY ALL") -> list[Row]:
    return [tuple(row) for row in db.execute(query).fetchall()]


def test_who_brings_both_in_one_transaction_finds_both(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW seen AS {SEEN}")
    with db.transaction():
        db.execute("INSERT INTO visits VALUES (1, 3, 'a')")
        db.execute("INSERT INTO people VALUES (3, 'Bern')")
        db.execute("UPDATE people SET city = 'Bonn' WHERE id = 3")
    assert rows(db) == [(1, "Bonn")]
    db.execute("UPDATE people SET city = 'Wien'")
    db.execute("UPDATE visits SET page = 'b'")  # the view does not read it
    assert rows(db) == [(1, "Bonn")]
    db.execute("UPDATE visits SET person = 2")
    assert rows(db) == [(1, "Wien")]


def test_a_changefeed_has_each_row_once_and_its_end(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW seen AS {SEEN}")
    with db.subscribe("seen") as feed:
        db.execute("INSERT INTO visits VALUES (1, 1, 'a'), (2, 2, 'b')")
        db.execute("UPDATE people SET city = 'Bonn'")
        db.execute("DELETE FROM visits WHERE id = 1")
        told = list[Row]()
        while (change := feed.poll(0)) is not None:
            told += zip(*[column.to_pylist() for column in change[1].columns], strict=True)
    assert sorted(told) == [(1, "Oslo", -1), (1, "Oslo", 1), (2, "Rome", 1)]


def test_it_is_shown_exported_and_explained_as_it_was_written(
    db: ivm.Database, tmp_path: Path
) -> None:
    query = f"{SEEN.replace('JOIN people p AS', 'JOIN people p  as')}\n-- what was known then"
    db.execute(f"CREATE MATERIALIZED VIEW seen AS {query}")
    db.execute("INSERT INTO visits VALUES (1, 1, 'a'), (2, 2, 'b')")
    db.execute("UPDATE people SET city = 'Bonn'")
    (view,) = db.views()
    assert " people p AS OF ARRIVAL ON p.id = v.person" in view.sql
    assert "fixed at arrival" in str(rows(db, "EXPLAIN MATERIALIZED VIEW seen"))
    (verdict,) = verdicts(db)
    assert verdict["ok"]
    assert "the tables tell something else now" in str(verdict["left_open"])
    db.execute(f"EXPORT DATABASE '{tmp_path / 'copy'}'")
    with ivm.connect(tmp_path / "b.duckdb") as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'copy'}'")
        assert rows(other) == [(1, "Oslo"), (2, "Rome")]
        other.execute("DELETE FROM visits WHERE id = 1")
        other.execute("INSERT INTO visits VALUES (3, 1, 'c')")
        assert rows(other) == [(2, "Rome"), (3, "Bonn")]
        assert other.views()[0].sql == view.sql


def test_what_is_kept_is_not_computed_again(db: ivm.Database, tmp_path: Path) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW seen AS SELECT v.id, 10 // city::INTEGER AS n FROM visits v"
        " JOIN people p AS OF ARRIVAL ON p.id = v.person"
    )
    db.execute("UPDATE people SET city = '5'")
    db.execute("INSERT INTO visits VALUES (1, 1, 'a')")
    db.execute("UPDATE people SET city = 'none'")
    db.execute("REFRESH MATERIALIZED VIEW seen")
    db.execute(f"EXPORT DATABASE '{tmp_path / 'copy'}'")
    with ivm.connect() as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'copy'}'")
        assert rows(other) == rows(db) == [(1, 2)]


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("DOUBLE", ["0.0", "-0.0"]),
        ("INTERVAL", ["1 month", "30 days"]),
        ("DOUBLE[]", ["[0.0]", "[-0.0]"]),
    ],
)
def test_of_rows_equal_but_for_their_bits_each_goes_itself(
    db: ivm.Database, type: str, values: list[str]
) -> None:
    db.execute(f"CREATE TABLE v (k {type}, x INTEGER)")
    db.execute(
        "CREATE MATERIALIZED VIEW seen AS SELECT v.*, p.city FROM v LEFT JOIN people p"
        " AS OF ARRIVAL ON p.id = v.x"
    )
    for gone in ("rowid = 1", "true"):
        for value in values:
            db.execute(f"INSERT INTO v VALUES (CAST(? AS {type}), 1)", [value])
        db.execute(f"DELETE FROM v WHERE {gone}")
        found = [[str(k) for k, *_ in rows(db, f"FROM {name}")] for name in ("seen", "v")]
        assert found[0] == found[1]
        assert (
            db.execute("SELECT count(*) FROM seen").fetchall()
            == db.execute("SELECT count(*) FROM v").fetchall()
        )


def test_ddl_keeps_what_was_found(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW seen AS {SEEN}")
    db.execute("INSERT INTO visits VALUES (1, 1, 'a'), (2, 2, 'b')")
    db.execute("UPDATE people SET city = 'Bonn'")
    db.execute("ALTER TABLE visits ADD COLUMN more INTEGER")
    db.execute("ALTER TABLE people ADD COLUMN more INTEGER")
    assert rows(db) == [(1, "Oslo"), (2, "Rome")]
    db.execute("DELETE FROM visits WHERE id = 1")
    db.execute("INSERT INTO visits VALUES (5, 1, 'e', 5)")
    assert rows(db) == [(2, "Rome"), (5, "Bonn")]


def test_rows_final_by_a_watermark_come_of_rows_that_arrived(db: ivm.Database) -> None:
    db.execute(
        "CREATE TABLE clicks (id INTEGER PRIMARY KEY, ts TIMESTAMP, person INTEGER,"
        " WATERMARK FOR ts AS ts)"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW known AS SELECT c.id, c.ts, p.city FROM clicks c"
        " JOIN people p AS OF ARRIVAL ON p.id = c.person"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW hourly AS SELECT window_end, city, count(*) AS n"
        " FROM tumble(known, ts, INTERVAL '1 hour') GROUP BY ALL EMIT ON WINDOW CLOSE"
    )
    db.execute("INSERT INTO clicks VALUES (1, '2026-03-01 10:00', 1), (2, '2026-03-01 10:20', 2)")
    db.execute("UPDATE people SET city = 'Bonn'")
    db.execute("INSERT INTO clicks VALUES (3, '2026-03-01 10:40', 1), (4, '2026-03-01 11:00', 1)")
    assert rows(db, "SELECT city, n FROM hourly ORDER BY ALL") == [
        ("Bonn", 1), ("Oslo", 1), ("Rome", 1)
    ]  # fmt: skip


@pytest.mark.parametrize("clause", ["arrival", "final"])
def test_what_another_program_breaks_is_mended_as_it_was(tmp_path: Path, clause: str) -> None:
    path = tmp_path / "a.duckdb"
    query = SEEN
    if clause == "final":
        query = f"{SEEN.replace(' AS OF ARRIVAL', '')} EMIT ON WINDOW CLOSE".replace("v.id", "v.ts")
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city VARCHAR)")
        db.execute(
            "CREATE TABLE visits (id INTEGER PRIMARY KEY, person INTEGER, ts TIMESTAMP,"
            " WATERMARK FOR ts AS ts)"
        )
        db.execute(f"CREATE MATERIALIZED VIEW seen AS {query}")
        written = db.views()[0].sql
    for statement in ("DROP TABLE people", "CREATE TABLE people (id INTEGER, city VARCHAR)"):
        with duckdb.connect(str(path)) as other:
            other.execute(statement)
        with ivm.connect(path) as db:
            assert db.views()[0].sql == written
    with ivm.connect(path) as db:
        db.execute("REFRESH MATERIALIZED VIEW seen")
        assert db.views()[0].sql == written
        db.execute("INSERT INTO people VALUES (1, 'Oslo')")
        db.execute("INSERT INTO visits VALUES (1, 1, '2026-03-01')")
        db.execute("UPDATE people SET city = 'Bonn'")
        db.execute("INSERT INTO visits VALUES (2, 1, '2026-03-02')")
        cities = [city for _, city in rows(db)]
        assert cities == (["Oslo", "Bonn"] if clause == "arrival" else ["Bonn"])


def test_what_is_recomputed_when_it_is_read_is_not_joined_for_good(db: ivm.Database) -> None:
    db.execute("CREATE TABLE t (ts TIMESTAMP, person INTEGER, WATERMARK FOR ts AS ts)")
    db.execute("CREATE MATERIALIZED VIEW r AS SELECT id, list(city) OVER () AS all FROM people")
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT id FROM r")
    joined = SEEN.replace("people p", "{} p").replace("p.city", "p.id AS other")
    final = "SELECT ts, p.id FROM t JOIN {} p ON p.id = person EMIT ON WINDOW CLOSE"
    for query in (joined, final):
        for name in ("r", "above"):
            with pytest.raises(UnsupportedError, match="'r' is recomputed"):
                db.execute(f"CREATE MATERIALIZED VIEW seen AS {query.format(name)}")


BAD = [
    ("SELECT p.city FROM visits v JOIN people p AS OF ARRIVAL ON p.id = v.person", "add id to"),
    ("SELECT page, p.* FROM log v JOIN people p AS OF ARRIVAL ON p.id = v.person", "add person"),
    ("SELECT v.* FROM log v JOIN people p AS OF ARRIVAL ON p.id > v.person", "several may be made"),
    ("SELECT v.* FROM hop(log, '2026-03-01'::TIMESTAMP, '1 hour', '2 hours') v JOIN people p"
     " AS OF ARRIVAL ON p.id = v.person", "several may be made"),
    (f"{SEEN} JOIN people q ON q.id = v.person", "all joins"),
    (f"{SEEN} EMIT ON WINDOW CLOSE", "beside EMIT"),
    (SEEN.replace("LEFT", "RIGHT"), "RIGHT JOIN beside"),
    (SEEN.replace("LEFT", "SEMI"), "SEMI JOIN beside"),
    (SEEN.replace("FROM visits v", "FROM log, visits v"), "a comma beside"),
    (SEEN.replace("people p", "visits p").replace("p.city", "p.page"), "more than once"),
    (f"{SEEN} ORDER BY v.id LIMIT 3", "in a view above"),
    (f"SELECT DISTINCT {SEEN.removeprefix('SELECT')}", "in a view above"),
    (f"SELECT row_number() OVER (), {SEEN.removeprefix('SELECT')}", "in a view above"),
    ("SELECT city, count(*) FROM visits v JOIN people p AS OF ARRIVAL ON p.id = v.person"
     " GROUP BY city", "in a view above"),
    (f"{SEEN} UNION ALL {SEEN}", "view of its own"),
    (f"SELECT id FROM ({SEEN})", "before the ON or USING"),
    ("SELECT v.id FROM visits v WHERE page AS OF ARRIVAL", "before the ON or USING"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "says"), some(BAD, 6))
def test_what_is_not_made_row_by_row_is_refused(db: ivm.Database, query: str, says: str) -> None:
    with pytest.raises((SqlError, UnsupportedError), match=says):
        db.execute(f"CREATE MATERIALIZED VIEW seen AS {query}")
    assert db.views() == []


def test_only_a_materialized_view_has_it(db: ivm.Database) -> None:
    for statement in (SEEN, f"CREATE VIEW seen AS {SEEN}"):
        with pytest.raises(IvmError, match="CREATE MATERIALIZED VIEW"):
            db.execute(statement)
