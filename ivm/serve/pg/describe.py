"""The types of a statement's parameters and columns, without running it.

DuckDB binds a parameter only with its value. Where the client leaves a type open, it is that of the
column that the parameter is compared with, assigned or inserted to, or of a cast; else text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import sqlglot
from sqlglot import exp

from ivm.serve.pg import types
from ivm.serve.pg.types import duckdb_type, is_json, pg_type
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.placeholders import filled, placeholders
from ivm.storage.identifiers import fold, literal, quote
from ivm.storage.warehouse.duck import rows

T = TypeVar("T")
Columns = list[tuple[str, str]]
"""Names and DuckDB's types."""

_MOST_KNOWN = 2048
_MARK = "_ivm_parameter_"
READS = frozenset(("select", "with", "from", "values", "table"))
"""The kinds of queries that DuckDB describes."""
_COMPARED = (exp.Binary, exp.In, exp.Between)
_CALLED = {"INT": "INTEGER", "INT4": "INTEGER", "INT8": "BIGINT", "TEXT": "VARCHAR"}


class KnownParameters:
    """Remembers the types of statements' parameters, for all sessions of a server.

    Clients that prepare nothing for later ask for them with every statement. Any thread calls it.
    """

    def __init__(self) -> None:
        self._meaning: Hashable = None
        self._known: dict[Hashable, Any] = {}

    def types(
        self, session: Session, statement: st.Statement, given: Sequence[int]
    ) -> tuple[int, ...]:
        """See `parameter_types`."""
        key = statement.text, tuple(given)
        return self._remembered(session, key, lambda: parameter_types(session, statement, given))

    def nested(self, session: Session, statement: st.Statement) -> Mapping[str, str]:
        """See `nested_types`."""
        return self._remembered(session, statement.text, lambda: nested_types(session, statement))

    def _remembered(self, session: Session, key: Hashable, asked: Callable[[], T]) -> T:
        meaning = session.engine.meaning()
        if meaning is None or session.sees_more():
            return asked()
        if meaning != self._meaning or len(self._known) >= _MOST_KNOWN:
            self._meaning, self._known = meaning, {}
        known = self._known  # another thread may put another one in its place meanwhile
        found: T | None = known.get(key)
        if found is None:
            found = asked()
            if meaning == session.engine.meaning():
                known[key] = found
        return found


def parameter_types(
    session: Session, statement: st.Statement, given: Sequence[int]
) -> tuple[int, ...]:
    """The OIDs of a statement's parameters.

    Args:
        session: whose names the statement uses.
        statement: the statement.
        given: what the client gave, 0 for what it leaves open.
    """
    names = {name for name, _, _ in placeholders(statement.text)}
    count = max([int(name) for name in names if name.isdigit()], default=0)
    oids = list(given[:count]) + [0] * (count - len(given))
    if 0 in oids:
        found = _inferred(session, statement)
        oids = [oid or pg_type(found.get(i, "VARCHAR")).oid for i, oid in enumerate(oids, 1)]
    return tuple([types.TEXT if oid == types.UNKNOWN else oid for oid in oids])


def result_columns(
    session: Session, statement: st.Statement, oids: Sequence[int]
) -> Columns | None:
    """The columns of a statement's result; None if it has none.

    Raises:
        duckdb.Error: it does not bind.
    """
    session.release()
    if isinstance(statement, st.Dml):
        return _returned(session, statement, oids)
    if isinstance(statement, st.Query) and statement.kind in READS:
        text = filled(statement.text, lambda name: _null(oids, name))
        return [(name, type) for name, type, *_ in rows(session.cursor, f"DESCRIBE {text}")]
    return None


def _null(oids: Sequence[int], name: str) -> str:
    oid = oids[int(name) - 1] if name.isdigit() and int(name) <= len(oids) else 0
    return f"CAST(NULL AS {duckdb_type(oid) or 'VARCHAR'})"


def _returned(session: Session, statement: st.Dml, oids: Sequence[int]) -> Columns | None:
    returned = getattr(statement, "returned", "")
    if not statement.returning or statement.table is None:
        return None
    if not returned:
        returned = statement.text[statement.text.upper().rindex("RETURNING") + 9 :]
    table = ".".join(map(quote, statement.table))
    text = filled(f"SELECT {returned} FROM {table}", lambda name: _null(oids, name))
    return [(name, type) for name, type, *_ in rows(session.cursor, f"DESCRIBE {text}")]


def _inferred(session: Session, statement: st.Statement) -> dict[int, str]:
    """DuckDB's types of parameters by their numbers, where the statement tells them."""
    text = filled(statement.text, marked)  # sqlglot reads `$1,$2` as a text in dollars
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return {}
    columns = _column_types(session, tree)
    found: dict[int, str] = {}
    for node in tree.find_all(exp.Column):
        if is_marked(node):
            type = _type_at(node, columns)
            if type is not None:
                found.setdefault(int(node.name.removeprefix(_MARK)), type)
    return found


def marked(name: str) -> str:
    """A column's name that stands for a parameter."""
    return f"{_MARK}{name}"


def is_marked(node: exp.Column) -> bool:
    """Returns whether a column stands for a parameter with a number."""
    return node.name.startswith(_MARK) and node.name.removeprefix(_MARK).isdigit()


def _column_types(session: Session, tree: exp.Expr) -> Mapping[str, str]:
    """The types of the columns of all relations that a statement names, by folded name."""
    names = {fold(table.name) for table in tree.find_all(exp.Table) if table.name}
    if not names:
        return {}
    session.release()
    listed = ", ".join(map(literal, sorted(names)))
    found = rows(
        session.cursor,
        "SELECT column_name, data_type, table_name, column_index FROM "
        f"system.main.duckdb_columns() WHERE lower(table_name) IN ({listed}) "
        "ORDER BY table_name, column_index",
    )
    types = {fold(name): type for name, type, _, _ in found}
    types.update({f"{fold(table)}#{index}": type for _, type, table, index in found})
    return types


def _type_at(node: exp.Expr, columns: Mapping[str, str]) -> str | None:
    """The type that a parameter has by its place."""
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Neg):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Cast):
        name = parent.to.sql("duckdb")
        return _CALLED.get(name, name)
    if isinstance(parent, exp.Limit | exp.Offset):
        return "BIGINT"
    if isinstance(parent, exp.Like | exp.ILike | exp.Concat | exp.DPipe):
        return "VARCHAR"
    if isinstance(parent, _COMPARED):
        others = [e for e in parent.iter_expressions() if e is not node]
        return _type_of(others, columns)
    if isinstance(parent, exp.Tuple) and isinstance(parent.parent, exp.Values):
        return _inserted(parent.parent, parent.expressions.index(node), columns)
    return None


def _type_of(nodes: Iterable[exp.Expr], columns: Mapping[str, str]) -> str | None:
    for node in nodes:
        for column in node.find_all(exp.Column):
            if fold(column.name) in columns:
                return columns[fold(column.name)]
        if isinstance(node, exp.Cast):
            name = node.to.sql("duckdb")
            return _CALLED.get(name, name)
        if isinstance(node, exp.Literal) and not node.is_string:
            return "INTEGER" if node.is_int else "DOUBLE"
    return None


def _inserted(values: exp.Values, at: int, columns: Mapping[str, str]) -> str | None:
    insert = values.parent
    if not isinstance(insert, exp.Insert):
        return None
    target = insert.this
    if isinstance(target, exp.Schema):
        names = [fold(each.name) for each in target.expressions]
        return columns.get(names[at]) if at < len(names) else None
    return columns.get(f"{fold(target.name)}#{at + 1}")


def nested_types(session: Session, statement: st.Statement) -> dict[str, str]:
    """DuckDB's types of parameters that travel as json but are values that are nested, by name."""
    found = _inferred(session, statement)
    return {str(number): type for number, type in found.items() if is_json(type)}
