"""The table writer for tables without a fast path: SQL that DuckDB runs and that is captured.

Contract: that of `TableWriter`; DuckDB checks every constraint, and computes generated columns.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.first_per_key import last_of_each
from ivm.session.dml import run_in_duckdb
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import ConstraintError, InputError
from ivm.storage.identifiers import quote
from ivm.storage.values.column import Column
from ivm.storage.values.zset import Weights, ZSet, ones
from ivm.storage.warehouse.duckdb.duck import registered
from ivm.storage.warehouse.tables.table_info import TableInfo

_GIVEN = "_ivm_given"  # the name under which the rows are registered with the cursor


class DuckWriter:
    """Writes by SQL on the session's cursor.

    Args:
        session: runs the SQL.
        transaction: the session's; it gets the captured changes.
        info: the table.
    """

    def __init__(self, session: Session, transaction: Transaction, info: TableInfo) -> None:
        self._session = session
        self._transaction = transaction
        self._info = info

    def insert(self, given: dict[int, Column], count: int) -> None:
        """See `TableWriter`."""
        self._run(self._inserting, given, count)

    def upsert(self, given: dict[int, Column], count: int) -> None:
        """See `TableWriter`."""
        info = self._info
        if not info.primary_key or not set(info.primary_key) <= set(given):
            raise InputError(f"upsert into {info.name!r} needs a primary key and all its columns")
        key = ", ".join(quote(info.schema[i][0]) for i in info.primary_key)
        rest = [quote(info.schema[i][0]) for i in given if i not in info.primary_key]
        sets = ", ".join(f"{name} = excluded.{name}" for name in rest)
        action = f"UPDATE SET {sets}" if rest else "NOTHING"
        keys = [given[i] for i in info.primary_key]
        last = last_of_each(keys, [info.schema[i][1] for i in info.primary_key])
        part = {i: column.take(last) for i, column in given.items()}
        self._run(f"{self._inserting} ON CONFLICT ({key}) DO {action}", part, len(last))

    def delete(self, given: dict[int, Column], count: int) -> None:
        """See `TableWriter`."""
        info = self._info
        wanted = set(info.primary_key or set(range(len(info.schema))) - set(info.generated))
        if not wanted <= set(given) or (info.primary_key and len(given) > len(wanted)):
            listed = ", ".join(info.schema[i][0] for i in sorted(wanted))
            raise InputError(f"delete from {info.name!r} takes exactly the columns {listed}")
        if info.position("rowid") is not None:  # DuckDB's fault `hidden_row_ids`
            raise InputError(
                f"delete from {info.name!r} cannot tell its rows apart, since its column rowid "
                "hides DuckDB's own; write a DELETE in SQL"
            )
        changed = self._run(_deleting(info, given), given, count)
        if changed < count:
            raise ConstraintError(
                f"cannot delete {count} rows of table {info.name!r}: {count - changed} of them are "
                "not stored (as often); nothing was changed"
            )

    def apply(self, given: dict[int, Column], weights: Weights) -> None:
        """See `TableWriter`."""
        info = self._info
        missing = set(range(len(info.schema))) - set(info.generated) - set(given)
        if missing:
            names = ", ".join(info.schema[i][0] for i in sorted(missing))
            raise InputError(f"apply to {info.name!r} needs every column; missing: {names}")
        keys = {i: given[i] for i in info.primary_key or given}
        for sign, write, columns in ((-1, self.delete, keys), (1, self.insert, given)):
            chosen = np.repeat(np.arange(len(weights)), np.maximum(weights * sign, 0))
            if len(chosen):
                write({i: column.take(chosen) for i, column in columns.items()}, len(chosen))

    @property
    def _inserting(self) -> str:
        return f"INSERT INTO {self._info.qualified} BY NAME FROM {_GIVEN}"

    def _run(self, sql: str, given: dict[int, Column], count: int) -> int:
        """Runs a statement that reads the rows as relation `_GIVEN`; the number of rows changed."""
        session, info = self._session, self._info
        (statement,) = st.parse(sql)
        assert isinstance(statement, st.Dml)
        rows = ZSet(tuple(given.values()), ones(count)), tuple(info.schema[i] for i in given)
        self._transaction.begin_in_duckdb()  # so that an error takes the name back with it
        with registered(session.cursor, {_GIVEN: rows}):
            return run_in_duckdb(session, self._transaction, statement, info, None).rowcount


def _deleting(info: TableInfo, given: Iterable[int]) -> str:
    """Writes the DELETE in which each row of `_GIVEN` removes one row that equals it in the given
    columns: of n equal ones, n stored rows with the smallest row ids."""
    names = [quote(info.schema[i][0]) for i in given]
    same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM g.{name}" for name in names)
    each = ", ".join(f"g.{name}" for name in names)
    listed = ", ".join(names)
    counted = f"SELECT {listed}, system.main.count(*) AS n FROM {_GIVEN} GROUP BY {listed}"
    found = (
        f"SELECT t.rowid AS row, g.n,"
        f" system.main.row_number() OVER (PARTITION BY {each} ORDER BY t.rowid) AS i"
        f" FROM {info.qualified} AS t JOIN ({counted}) AS g ON {same}"
    )
    chosen = f"SELECT row AS __ivm_row FROM ({found}) WHERE i <= n"
    this = "t.rowid IS NOT DISTINCT FROM d.__ivm_row"  # DuckDB's fault `row_ids_by_equality`
    return f"DELETE FROM {info.qualified} AS t USING ({chosen}) AS d WHERE {this}"
