"""Random statements of a session that does everything: DDL, DML, transactions, names of all kinds.

Law: what exists is read from plain DuckDB, so that most statements are valid and some are not; no
answer depends on an order or a sum's rounding, so that two databases must agree on each.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ivm.storage.identifiers import quote
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

HOME = "shop"
"""The name of the database under test."""
AWAY = "arch"
"""The name of the attached one."""

TYPES = {
    "INTEGER": ["0", "1", "2", "-3", "40", "NULL"],
    "BIGINT": ["0", "5", "-7", "3000000000", "NULL"],
    "VARCHAR": ["'a'", "'b'", "''", "'Ä'", "'7'", "NULL"],
    "DECIMAL(8,2)": ["0.5", "-1.25", "10", "NULL"],
    "DATE": ["DATE '2024-01-31'", "DATE '1969-07-20'", "NULL"],
    "BOOLEAN": ["true", "false", "NULL"],
}
_NAMES = ["t", "u", "k", "Order", "x.y"]
_VIEWS = ["v1", "v2", "v3", "v4", "v5"]
_COLUMNS = ["c0", "c1", "c2", "c3", "c4"]
_LISTED = """
    SELECT database_name, schema_name, table_name, temporary, has_primary_key FROM duckdb_tables()
    WHERE NOT internal ORDER BY ALL
"""
_TEMPORARY = """
    SELECT 1 FROM duckdb_tables() WHERE temporary
    UNION ALL SELECT 1 FROM duckdb_views() WHERE temporary AND NOT internal
    UNION ALL SELECT 1 FROM duckdb_functions() WHERE database_name = 'temp' AND NOT internal
"""
_COLUMNS_OF = """
    SELECT column_name, data_type FROM duckdb_columns()
    WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index
"""


class Relation(NamedTuple):
    """A table or view, and what it has."""

    database: str
    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]
    keyed: bool = False


class Maker:
    """Statements one after the other.

    Args:
        random: what is drawn from.
        cursor: of the session's twin in plain DuckDB; what it sees is what can be named.
    """

    def __init__(self, random: Random, cursor: Cursor) -> None:
        self._random = random
        self._cursor = cursor

    def statement(self) -> str:
        """The next one outside of BEGIN and COMMIT."""
        kinds = [
            (12, self._insert), (6, self._insert_select), (8, self._update), (5, self._delete),
            (2, self._merge), (1, self._upsert), (1, self._truncate), (8, self._select),
            (3, self._create_table), (2, self._create_as), (5, self._alter), (1, self._drop_table),
            (2, self._view), (6, self._materialized), (1, self._drop_view), (2, self._macro),
            (1, self._index), (2, self._temporary), (1, self._schema), (1, self._use),
            (2, self._wrong), (1, self._variable), (1, self._prepared), (1, self._comment),
        ]  # fmt: skip
        (make,) = self._random.choices([f for _, f in kinds], [n for n, _ in kinds])
        return make()

    def query(self) -> str:
        """A SELECT whose answer is one multiset."""
        relation = self._readable()
        if relation is None:
            return "SELECT 1 AS one"
        a, numbers = self._column(relation), self._numbers(relation)
        n = self._random.choice(numbers) if numbers else "1"
        named, other = self._spelt(relation), self._readable() or relation
        match self._random.randrange(9):
            case 0:
                return f"SELECT * FROM {named}"
            case 1:
                return f"SELECT {a} AS a, count(*) AS n, sum({n}) AS s FROM {named} GROUP BY {a}"
            case 2:
                return f"SELECT count(*) AS n, sum({n}) AS s, min({a}) AS m FROM {named}"
            case 3:
                on = f"l.{a}::VARCHAR IS NOT DISTINCT FROM r.{self._column(other)}::VARCHAR"
                kind = self._random.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
                return (
                    f"SELECT l.{a} AS a, r.* FROM {named} l {kind} {self._spelt(other)} r ON {on}"
                )
            case 4:
                return f"SELECT DISTINCT {a} AS a FROM {named} WHERE {n} > {self._small()}"
            case 5:
                return f"SELECT m(1) AS one, {a} AS a FROM {named}"
            case 6:
                return f"SELECT mad({n}) AS m, current_database() AS d FROM {named}"
            case 7:
                inner = f"SELECT {self._column(other)}::VARCHAR FROM {self._spelt(other)}"
                return f"SELECT {a} AS a FROM {named} WHERE {a}::VARCHAR IN ({inner})"
            case _:
                return f"SELECT {a} AS a, rank() OVER (ORDER BY {n}) AS r FROM {named}"

    # -- what there is

    def tables(self) -> list[Relation]:
        """All tables that the session can change."""
        return [
            Relation(d, s, t, self._columns(d, s, t), keyed)
            for d, s, t, _, keyed in rows(self._cursor, _LISTED)
        ]

    def _columns(self, database: str, schema: str, name: str) -> tuple[tuple[str, str], ...]:
        found = self._cursor.execute(_COLUMNS_OF, [database, schema, name]).fetchall()
        return tuple((str(column), str(type)) for column, type in found)

    def _views(self) -> list[Relation]:
        listed = rows(
            self._cursor,
            "SELECT database_name, schema_name, view_name FROM duckdb_views()"
            " WHERE NOT internal ORDER BY ALL",
        )
        return [Relation(d, s, v, self._columns(d, s, v)) for d, s, v in listed]

    def _table(self) -> Relation | None:
        found = [t for t in self.tables() if t.columns]
        return self._random.choice(found) if found else None

    def _readable(self) -> Relation | None:
        views = [] if self._sees_more() else self._views()
        found = [r for r in (*self.tables(), *views) if r.columns]
        return self._random.choice(found) if found else None

    def _sees_more(self) -> bool:
        """Plain views, unlike materialized ones, read what is temporary instead of their own."""
        return bool(rows(self._cursor, _TEMPORARY))

    def _column(self, relation: Relation) -> str:
        return quote(self._random.choice(relation.columns)[0])

    def _numbers(self, relation: Relation) -> list[str]:
        return [quote(n) for n, t in relation.columns if t in ("INTEGER", "BIGINT")]

    def _small(self) -> str:
        return str(self._random.randrange(-3, 5))

    def _spelt(self, relation: Relation) -> str:
        """One of the ways to name it; sometimes one that means another relation."""
        database, schema, name = (self._cased(part) for part in relation[:3])
        ways = [f"{database}.{schema}.{name}", f"{database}.{schema}.{name}"]
        if relation.schema == "main":
            ways += [f"{database}.{name}", f"{database}.{name}"]
            ways += [name] * 6 if relation.database in (HOME, "temp") else []
        if relation.database == HOME:
            ways += [f"{schema}.{name}"] * 2
        return self._random.choice(ways)

    def _cased(self, name: str) -> str:
        simple = name.isidentifier() and name.lower() != "order"
        cased = self._random.choice([name, name, name.upper(), name.lower()])
        return cased if simple and self._random.random() < 0.7 else quote(cased)

    def _literals(self, types: list[str]) -> str:
        drawn = [self._random.choice(TYPES.get(t, ["NULL"])) for t in types]
        return f"({', '.join(drawn)})"

    # -- changes of rows

    def _insert(self) -> str:
        table = self._table()
        if table is None:
            return self._create_table()
        chosen = [c for c in table.columns if self._random.random() < 0.85] or list(table.columns)
        if self._random.random() < 0.5:
            chosen = list(table.columns)
        names = ", ".join(quote(n) for n, _ in chosen)
        values = ", ".join(
            self._literals([t for _, t in chosen]) for _ in range(self._random.choice([1, 1, 1, 3]))
        )
        listed = (
            "" if chosen == list(table.columns) and self._random.random() < 0.5 else f"({names})"
        )
        end = self._random.choice(["", "", "", f" RETURNING {names}"])
        return f"INSERT INTO {self._spelt(table)}{listed} VALUES {values}{end}"

    def _insert_select(self) -> str:
        table, source = self._table(), self._readable()
        if table is None or source is None:
            return self._create_table()
        picked = [
            f"TRY_CAST({self._column(source)}::VARCHAR AS {type})" for _, type in table.columns
        ]
        where = self._random.choice(["", f" WHERE {self._column(source)} IS NOT NULL"])
        query = f"SELECT {', '.join(picked)} FROM {self._spelt(source)}{where}"
        return f"INSERT INTO {self._spelt(table)} {query}"

    def _where(self, table: Relation) -> str:
        name, type = self._random.choice(table.columns)
        value = self._random.choice(TYPES.get(type, ["NULL"]))
        sign = self._random.choice(["=", "=", "<>", ">", "IS NOT DISTINCT FROM"])
        return f"{quote(name)} {sign} {value}"

    def _update(self) -> str:
        table = self._table()
        if table is None:
            return self._create_table()
        name, type = self._random.choice(table.columns)
        value = self._random.choice(TYPES.get(type, ["NULL"]))
        if type in ("INTEGER", "BIGINT") and self._random.random() < 0.5:
            value = f"{quote(name)} + {self._small()}"
        where = self._random.choice(
            ["", f" WHERE {self._where(table)}", f" WHERE {self._where(table)}"]
        )
        other = self._readable()
        if other is not None and self._random.random() < 0.2:
            inner = f"SELECT {self._column(other)}::VARCHAR FROM {self._spelt(other)}"
            where = f" WHERE {self._column(table)}::VARCHAR IN ({inner})"
        end = self._random.choice(["", "", " RETURNING *"])
        return f"UPDATE {self._spelt(table)} SET {quote(name)} = {value}{where}{end}"

    def _delete(self) -> str:
        table = self._table()
        if table is None:
            return self._create_table()
        end = self._random.choice(["", "", " RETURNING *"])
        return f"DELETE FROM {self._spelt(table)} WHERE {self._where(table)}{end}"

    def _merge(self) -> str:
        table = self._table()
        if table is None:
            return self._create_table()
        (key, type), (name, other) = table.columns[0], self._random.choice(table.columns)
        value = self._random.choice(TYPES.get(other, ["NULL"]))
        source = f"(SELECT {self._random.choice(TYPES.get(type, ['NULL']))}::{type} AS s)"
        then = self._random.choice([f"UPDATE SET {quote(name)} = {value}", "DELETE", "DO NOTHING"])
        return (
            f"MERGE INTO {self._spelt(table)} AS tt USING {source} AS ss ON tt.{quote(key)} = ss.s"
            f" WHEN MATCHED THEN {then}"
            f" WHEN NOT MATCHED THEN INSERT ({quote(key)}) VALUES (ss.s)"
        )

    def _upsert(self) -> str:
        keyed = [t for t in self.tables() if t.keyed]
        if not keyed:
            return self._insert()
        table = self._random.choice(keyed)
        values = self._literals([t for _, t in table.columns])
        way = self._random.choice(["OR REPLACE", "OR IGNORE"])
        return f"INSERT {way} INTO {self._spelt(table)} VALUES {values}"

    def _truncate(self) -> str:
        table = self._table()
        return "SELECT 1" if table is None else f"TRUNCATE {self._spelt(table)}"

    # -- what else there is

    def _select(self) -> str:
        return self.query()

    def _place(self) -> str:
        """A name for something new."""
        name = self._cased(self._random.choice(_NAMES))
        where = [
            "",
            "",
            "",
            "",
            "s1.",
            "main.",
            f"{HOME}.",
            f"{HOME}.main.",
            f"{AWAY}.",
            f"{AWAY}.main.",
        ]
        return self._random.choice(where) + name

    def _create_table(self) -> str:
        count = self._random.randrange(1, 5)
        columns = [f"{c} {self._random.choice(list(TYPES))}" for c in _COLUMNS[:count]]
        if self._random.random() < 0.4:
            columns[0] = "c0 INTEGER PRIMARY KEY"
        if self._random.random() < 0.2:
            columns[-1] += self._random.choice([" NOT NULL", " DEFAULT NULL"])
        if self._random.random() < 0.2:
            columns.append("CHECK (c0::VARCHAR <> '40')")
        head = self._random.choice(
            ["CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE"]
        )
        return f"{head} {self._place()} ({', '.join(columns)})"

    def _create_as(self) -> str:
        head = self._random.choice(["CREATE TABLE", "CREATE OR REPLACE TABLE", "CREATE TEMP TABLE"])
        place = self._cased(self._random.choice(_NAMES)) if "TEMP" in head else self._place()
        source = self._readable()
        if source is None:
            return self._create_table()
        return f"{head} {place} AS SELECT * FROM {self._spelt(source)}"

    def _alter(self) -> str:
        table = self._table()
        if table is None:
            return self._create_table()
        column, type = self._random.choice(table.columns)
        other = self._random.choice(list(TYPES))
        cast = f"TRY_CAST({quote(column)}::VARCHAR AS {other})"
        what = [
            f"ADD COLUMN {self._random.choice(_COLUMNS)} {other}",
            f"ADD COLUMN {self._random.choice(_COLUMNS)} INTEGER DEFAULT 7",
            f"DROP COLUMN {quote(column)}",
            f"RENAME COLUMN {quote(column)} TO {self._random.choice(_COLUMNS)}",
            f"ALTER {quote(column)} TYPE {other} USING {cast}",
            f"ALTER {quote(column)} TYPE {type}",
            f"ALTER {quote(column)} SET DEFAULT {self._random.choice(TYPES.get(type, ['NULL']))}",
            f"ALTER {quote(column)} SET NOT NULL",
            f"ALTER {quote(column)} DROP NOT NULL",
            f"RENAME TO {self._cased(self._random.choice(_NAMES))}",
        ]
        return f"ALTER TABLE {self._spelt(table)} {self._random.choice(what)}"

    def _drop_table(self) -> str:
        table = self._table()
        if table is None:
            return self._create_table()
        return f"DROP TABLE {self._spelt(table)}"

    def _view(self) -> str:
        head = self._random.choice(["CREATE VIEW", "CREATE OR REPLACE VIEW", "CREATE TEMP VIEW"])
        return f"{head} {self._random.choice(['p1', 'p2', 'P3'])} AS {self.query()}"

    def _materialized(self) -> str:
        head = self._random.choice(["CREATE", "CREATE", "CREATE OR REPLACE"])
        name, query = self._random.choice(_VIEWS), self.query()
        while name in query.lower():  # we refuse a view of itself, DuckDB to read it
            query = self.query()
        return f"{head} MATERIALIZED VIEW {name} AS {query}"

    def _drop_view(self) -> str:
        kind, names = self._random.choice([("MATERIALIZED VIEW", _VIEWS), ("VIEW", ["p1", "p2"])])
        return f"DROP {kind} {self._random.choice(names)}"

    def _macro(self) -> str:
        body = self._random.choice(["x + 1", "x * 10", "x::VARCHAR || '!'"])
        return f"CREATE OR REPLACE {self._random.choice(['', '', 'TEMP '])}MACRO m(x) AS {body}"

    def _index(self) -> str:
        table = self._table()
        if table is None:
            return self._create_table()
        if self._random.random() < 0.3:
            return f"DROP INDEX {self._random.choice(['i1', 'i2'])}"
        kind, name = self._random.choice(["", "UNIQUE "]), self._random.choice(["i1", "i2"])
        return f"CREATE {kind}INDEX {name} ON {self._spelt(table)} ({self._column(table)})"

    def _temporary(self) -> str:
        name = self._cased(self._random.choice(_NAMES))
        if self._random.random() < 0.4:
            return f"DROP TABLE IF EXISTS temp.{name}"
        return f"CREATE TEMP TABLE {name} (c0 INTEGER, c1 VARCHAR)"

    def _schema(self) -> str:
        return self._random.choice(["CREATE SCHEMA IF NOT EXISTS s1", "DROP SCHEMA IF EXISTS s1"])

    def _use(self) -> str:
        return self._random.choice(
            [f"USE {HOME}", "USE main", f"USE {HOME}.s1", f"USE {HOME}.main"]
        )

    def _variable(self) -> str:
        source = self._readable()
        if source is None:
            return "SET VARIABLE z = 3"
        return f"SET VARIABLE z = (SELECT count(*) FROM {self._spelt(source)})"

    def _prepared(self) -> str:
        source = self._readable()
        if source is None or self._random.random() < 0.5:
            return "EXECUTE p1"
        return (
            f"PREPARE p1 AS SELECT count(*) AS n, getvariable('z') AS z FROM {self._spelt(source)}"
        )

    def _comment(self) -> str:
        table = self._table()
        return "SELECT 2" if table is None else f"COMMENT ON TABLE {self._spelt(table)} IS 'told'"

    def _wrong(self) -> str:
        table = self._table()
        if table is None:
            return "SELEC 1"
        named, column = self._spelt(table), self._column(table)
        return self._random.choice(
            [
                f"SELECT nope FROM {named}",
                f"INSERT INTO {named} SELECT 'x'::INTEGER FROM range(3)",
                f"UPDATE {named} SET nope = 1",
                "SELEC 1",
                "FROM nowhere",
                f"SELECT {column}::VARCHAR::DATE FROM {named}",
                f"SELECT error('told') FROM {named}",
                f"INSERT INTO {named} VALUES (1, 2, 3, 4, 5, 6, 7, 8)",
                f"DELETE FROM {named} WHERE error('told') IS NULL",
            ]
        )
