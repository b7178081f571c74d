"""The effect of a captured statement and its result for the user; statements run unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ivm.changes.read.change_text import ChangeText
from ivm.ingest.parameters import Params
from ivm.sql.statements.nodes.nodes import Dml
from ivm.storage.identifiers import fold, quote
from ivm.storage.interrupts import begin_statement
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, empty, from_arrow
from ivm.storage.warehouse.duckdb.arrow_streams import copying
from ivm.storage.warehouse.duckdb.carried import carried
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.tables.table_info import TableInfo

Change = tuple[ZSet, ZSet]
"""Rows removed and rows added, all columns, positive weights."""


@dataclass(frozen=True)
class Captured:
    """One statement's effect.

    Attributes:
        changes: canonical table name to the rows removed and added; unchanged tables are absent.
        count: rows changed as DuckDB counts them; -1 where DuckDB returns rows, or counts none.
        returned: the rows that DuckDB returns (RETURNING, or a query around a change), or None.
        types: DuckDB type names of the returned columns.
    """

    changes: Mapping[str, Change]
    count: int = -1
    returned: pa.Table | None = None
    types: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows that a plain change (not a query around one) has changed."""
        return self.count if self.returned is None else len(self.returned)

    def with_changes(self, changes: Mapping[str, Change]) -> Captured:
        """The same result with these changes; tables without a changed row are left out."""
        real = {name: c for name, c in changes.items() if len(c[0]) or len(c[1])}
        count = self.count
        if count < 0 and self.returned is None:
            count = sum([max(len(removed), len(added)) for removed, added in real.values()])
        return replace(self, changes=real, count=count)


def run_verbatim(cursor: Cursor, statement: Dml, params: Params) -> Captured:
    """Runs the statement unchanged, without capturing its changes."""
    shows_rows = statement.returning or statement.kind == "other"
    return run_shown(cursor, statement.text, params, shows_rows)


def run_shown(cursor: Cursor, sql: str, params: Params, shows_rows: bool) -> Captured:
    """Runs a change and reads DuckDB's answer: rows, or the count of changed rows."""
    begin_statement()
    cursor.execute(sql, params)  # a relation would rename columns of one name
    if not shows_rows:
        told = cursor.fetchall()  # nothing of several statements, which DuckDB makes of a PIVOT
        return Captured({}, count=int(told[0][0]) if told else -1)
    described = cursor.description or []
    types = tuple([str(column[1]) for column in described])
    with copying():
        shown: pa.Table = cursor.to_arrow_table()
    named = shown.rename_columns([column[0] for column in described])
    return Captured({}, returned=named, types=types)


def run_returning(
    cursor: Cursor, statement: Dml, params: Params, table: TableInfo
) -> tuple[Captured, ZSet]:
    """Runs an INSERT or DELETE with all columns of the table appended to its RETURNING clause.

    Returns:
        The result for the user, and the changed rows with all the table's columns.
    """
    sql, shows_rows = statement.text, statement.returning
    listed = ", ".join(f"{quote(n)} AS __ivm_row_{i}" for i, (n, _) in enumerate(table.schema))
    begin_statement()
    between = " RETURNING" if not shows_rows else "" if sql.endswith(",") else ","
    relation = cursor.sql(f"{sql}{between} {listed}", params=params)
    types = [str(t) for t in relation.types]
    found = carried(relation).to_arrow_table()
    width = found.num_columns - len(table.schema)
    if shows_rows and not width:  # `* EXCLUDE (all)`: DuckDB refuses the list without ours in it
        run(cursor, f"EXPLAIN {sql}", params)
    row = pa.Table.from_arrays(found.columns[width:], [n for n, _ in table.schema])
    rows = from_arrow(row, table.schema)
    if not shows_rows:
        return Captured({}, count=len(rows)), rows
    shown = found.select(range(width))  # with what their fields say of the types
    if _may_be_renamed(shown.column_names):
        shown = shown.rename_columns(_names(cursor, statement, table))
    return Captured({}, returned=shown, types=tuple(types[:width])), rows


def _may_be_renamed(names: Sequence[str]) -> bool:
    """Returns whether columns may have had one name: a relation numbers the later ones."""
    seen: set[str] = set()
    for name in map(fold, names):
        stem, _, number = name.rpartition("_")
        if stem in seen and number.isdigit():
            return True
        seen.add(name)
    return False


def _names(cursor: Cursor, statement: Dml, table: TableInfo) -> list[str]:
    """The names of what RETURNING lists, by a change of no row: no relation has them."""
    written = ChangeText(statement.text, None)  # RETURNING may name no parameters
    listed = written.piece(written.clauses.returning)
    name = table.qualified + (f" AS {quote(statement.alias)}" if statement.alias else "")
    column = next(quote(n) for i, (n, _) in enumerate(table.schema) if i not in table.generated)
    upserts = " ON CONFLICT DO NOTHING" if statement.on_conflict or statement.or_action else ""
    change = f"INSERT INTO {name} ({column}) SELECT NULL WHERE false{upserts}"  # shows the alias
    if statement.kind == "delete":
        change = f"DELETE FROM {name} WHERE false"
    cursor.execute(f"{change} {listed}")
    cursor.complete()
    return [column[0] for column in cursor.description or []]


def net(removed: ZSet, added: ZSet, schema: Schema) -> Change:
    """The rows removed and added without those that are in both."""
    types = [t for _, t in schema]
    difference = consolidate(add([removed.negate(), added]), types)
    weights = difference.weights
    return difference.filter(weights < 0).negate(), difference.filter(weights > 0)


def nothing(schema: Schema) -> ZSet:
    """The empty Z-set of a schema's columns."""
    return empty([t for _, t in schema])
