"""One database of ours and plain DuckDB beside it: the same statements, then the same content.

What ours keeps as materialized views, the other one has as plain views of the same text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

import ivm
from ivm.errors import IvmError, UnsupportedError

SETUP = [
    "CREATE TYPE mood AS ENUM ('low', 'high')",
    "CREATE SCHEMA s1",
    "CREATE TABLE t(id INT, a INT, b INT, c INT, d DOUBLE, e VARCHAR DEFAULT 'low')",
    "CREATE TABLE k(id INT PRIMARY KEY, v INT, w VARCHAR)",
    "CREATE TABLE s1.u(a INT, b INT)",
    "CREATE TABLE spare(a INT, b INT)",
    "CREATE MACRO m(x) AS x + 1",
    "CREATE MACRO tm(n) AS TABLE SELECT a, b FROM t WHERE a < n",
    "CREATE VIEW pv AS SELECT a, b FROM t WHERE b > 0",
    "CREATE VIEW pw AS SELECT a, count(*) AS n FROM pv GROUP BY a",
    "INSERT INTO t SELECT i, i % 4, i - 3, i, i / 2, 'low' FROM range(9) r(i)",
    "INSERT INTO k SELECT i, 10 * i, 'w' || i FROM range(5) r(i)",
    "INSERT INTO s1.u VALUES (1, 1), (2, 2)",
]

VIEWS = {
    "linear": "SELECT a, b FROM t WHERE b > 0",
    "grouped": "SELECT a, count(*) AS n, sum(b) AS s FROM t GROUP BY a",
    "total": "SELECT sum(b) AS s, max(a) AS m FROM t",
    "joined": "SELECT t.a, t.b, k.v FROM t LEFT JOIN k ON t.a = k.id",
    "keyed": "SELECT id, v FROM k",
    "doubled": "SELECT a, sum(d) AS s FROM t GROUP BY a",
    "ranked": "SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b, id) AS r FROM t",
    "recomputed": "SELECT mad(b) AS x FROM t",
    "over_recomputed": "SELECT a, x FROM t, recomputed",
    "through_view": "SELECT n, count(*) AS c FROM pw GROUP BY n",
    "through_macro": "SELECT m(a) AS ma, b FROM t",
    "through_table_macro": "SELECT sum(b) AS s FROM tm(3)",
    "over_grouped": "SELECT n, count(*) AS c FROM grouped GROUP BY n",
    "of_schema": "SELECT u.a, t.b FROM s1.u JOIN t ON u.a = t.a",
    "typed": "SELECT e::mood AS e, count(*) AS n FROM t GROUP BY ALL",
}

_NAMES = """
SELECT if(schema_name = 'main', '', schema_name || '.') || table_name AS name FROM duckdb_tables()
UNION ALL
SELECT view_name FROM duckdb_views() WHERE NOT internal AND view_name NOT IN ('pv', 'pw', 'px')
ORDER BY name
"""
# What DuckDB cannot do behind its own UPDATE; ours may have kept the change in memory until then.
# And what it does not do while there are indexes, which ours drops and makes again.
_UNABLE = re.compile("Cannot create index with outstanding updates|entries that depend on it")
_MATERIALIZED = re.compile(r"\bMATERIALIZED VIEW\b")


class Twins:
    """Both databases.

    Args:
        path: of our file.
    """

    def __init__(self, path: Path, views: Iterable[str] = VIEWS) -> None:
        self.path = path
        self.ours = ivm.connect(path)
        self.plain = duckdb.connect()
        self.refused: list[str] = []
        for statement in SETUP:
            self._both(statement)
        for name in views:
            self._both(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        self.feeds = {name: self.ours.subscribe(name) for name in views}
        self.followed = {name: self._rows(f"FROM {name}") for name in views}

    def _both(self, statement: str) -> None:
        self.ours.execute(statement)
        self.plain.execute(_MATERIALIZED.sub("VIEW", statement))

    def transaction(self, statements: Sequence[str], end: str = "COMMIT") -> bool:
        """Run statements as one transaction; whether it was let through."""
        error = self._ours(statements, end)
        message = self._plain(statements, end if error is None else "ROLLBACK")
        told = f"{statements} {end}: ours {error!r}, DuckDB {message!r}"
        if error is None and message is not None and _UNABLE.search(message):
            self._one_by_one(statements if end == "COMMIT" else ())
        elif error is None:
            assert message is None, told
        else:
            refused = isinstance(error, UnsupportedError)
            assert message is not None or refused, told
            assert "syntax error" not in str(error), told
            self.refused += [str(error)] if refused else []
        return error is None

    def _ours(self, statements: Sequence[str], end: str) -> IvmError | None:
        self.ours.execute("BEGIN")
        try:
            for statement in (*statements, end):
                self.ours.execute(statement)
        except IvmError as error:
            if self.ours._session().transaction is not None:
                self.ours.execute("ROLLBACK")
            return error
        return None

    def _plain(self, statements: Sequence[str], end: str) -> str | None:
        self.plain.execute("BEGIN")
        message = None
        try:
            for statement in statements:
                if statement.startswith("SELECT"):
                    continue
                self.plain.execute(_MATERIALIZED.sub("VIEW", statement)).fetchall()
        except duckdb.Error as error:
            message, end = str(error), "ROLLBACK"
        self.plain.execute(end)
        return message

    def _one_by_one(self, statements: Sequence[str]) -> None:
        for statement in statements:
            if statement.startswith("SELECT"):
                continue
            try:
                self.plain.execute(_MATERIALIZED.sub("VIEW", statement)).fetchall()
            except duckdb.DependencyException:
                indexes = self.plain.execute("SELECT index_name, sql FROM duckdb_indexes()")
                for name, _ in (found := indexes.fetchall()):
                    self.plain.execute(f"DROP INDEX {name}")
                for again in (statement, *[sql for _, sql in found]):
                    self.plain.execute(again)

    def _rows(self, query: str) -> Counter[tuple[object, ...]]:
        return Counter(self.ours.execute(query).fetchall())

    def compare(self, told: object = "") -> None:
        """Tables, views, VERIFY and the feeds agree with plain DuckDB."""
        self._compare_names(told)
        for table in self.ours.tables():
            expected = Counter(self.plain.execute(f"FROM {table.name}").fetchall())
            assert self._rows(f"FROM {table.name}") == expected, (told, table.name)
        for view in self.ours.views():
            expected = Counter(self.plain.execute(view.sql).fetchall())
            found = self._rows(f"FROM {view.name}")
            assert found == expected, (told, view.name, found - expected, expected - found)
            self._follow(view.name, expected, told)

    def _compare_names(self, told: object) -> None:
        """There is what there is in plain DuckDB, where materialized views are plain ones."""
        names = sorted(
            [*(t.name for t in self.ours.tables()), *(v.name for v in self.ours.views())]
        )
        assert names == [name for (name,) in self.plain.execute(_NAMES).fetchall()], told

    def _follow(self, name: str, expected: Counter[tuple[object, ...]], told: object) -> None:
        feed = self.feeds.get(name)
        if feed is None or feed._closed:
            self.feeds[name] = self.ours.subscribe(name)
            self.followed[name] = Counter(expected)
            return
        rows = self.followed[name]
        while (item := feed.poll(timeout=0)) is not None:
            for *row, weight in (tuple(r.values()) for r in item[1].to_pylist()):
                rows[tuple(row)] += weight
        assert +rows == expected, (told, f"feed of {name}", +rows - expected, expected - rows)
        assert -rows == Counter(), (told, f"feed of {name}", rows)

    def reopen(self) -> None:
        """Close our database and open it again."""
        self.ours.close()
        self.ours = ivm.connect(self.path)
        self.feeds.clear()

    def close(self) -> None:
        self.ours.close()
        self.plain.close()
