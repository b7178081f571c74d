"""Events that are rows in columns of any types, decoded by one DuckDB statement a batch.

Law: a value is what DuckDB's cast to the column's type gives; a row with a value that does not fit
is refused with its reason, and the others are decoded as if it was not there. Columns are matched
without regard to case; what a row has no column for was not sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import duckdb
import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import DELETE, INSERT, Decoded, Events
from ivm.cdc.formats.json_statement import IGNORED
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold, literal
from ivm.storage.values.column import Mask, column_from_arrow
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.carried import may_be_unfit, only_carried, why_unfit
from ivm.storage.warehouse.duckdb.duck import Cursor, table
from ivm.storage.warehouse.tables.table_info import TableInfo

_ROWS = "_ivm_rows"
_OPERATION = "op"


def rows_type(row: pa.StructType) -> pa.StructType:
    """The type of rows before they are decoded.

    Args:
        row: the columns as they are.

    Returns:
        A struct of `row`; `refused`, the reason why there is none, and `raw`, its text then; and
        `unsent`, the names of columns that it does not have, in lower case. Where row and reason
        are NULL, there is no event.
    """
    texts = [(name, pa.large_string()) for name in ("refused", "raw")]
    return pa.struct([("row", row), *texts, ("unsent", pa.list_(pa.string()))])


def decode_rows(
    cursor: Cursor, rows: pa.StructArray, info: TableInfo, operations: Mapping[str, int] | None
) -> Decoded:
    """Decodes rows as events of one table.

    Args:
        cursor: runs the statement; it must be in no transaction that an error could abort.
        rows: see `rows_type`.
        info: the table.
        operations: by their names in column `op`; None if every row is an insert.

    Raises:
        InputError: there are two columns for one of the table's.
    """
    row = rows.field("row")
    given = {f"f{j}": child for j, child in enumerate(row.flatten())}
    own = {name: rows.field(name) for name in ("refused", "unsent")}
    numbers = np.arange(len(rows))
    names = _positions(row.type, info)
    cursor.register(_ROWS, pa.table({"number": numbers, "sent": row.is_valid(), **own, **given}))
    try:
        found = table(cursor, _Statement(info, names, operations).text())
    except BaseException:  # a failed statement aborts the transaction, and the name goes with it
        with contextlib.suppress(duckdb.TransactionException):
            cursor.unregister(_ROWS)
        raise
    cursor.unregister(_ROWS)
    return _decoded(found, info)


def _positions(row: pa.StructType, info: TableInfo) -> dict[str, int]:
    """Where the columns are by their folded names."""
    columns = {_OPERATION, *[fold(name) for name, _ in info.schema]}
    names: dict[str, int] = {}
    for position, field in enumerate(row):
        if names.setdefault(fold(field.name), position) != position and fold(field.name) in columns:
            raise InputError(f"the rows have two columns {field.name!r}: rename one of them")
    return names


class _Statement:
    """Contract: as that of `json_statement.statement`, over rows in columns."""

    def __init__(
        self, info: TableInfo, names: Mapping[str, int], operations: Mapping[str, int] | None
    ) -> None:
        self._info = info
        self._operations = operations
        self._operation = names.get(_OPERATION)
        found = {i: names.get(fold(name)) for i, (name, _) in enumerate(info.schema)}
        if operations is not None:  # the column of the operation is no column of the table
            found = {i: None if j == self._operation else j for i, j in found.items()}
        self._given = {i: f"f{j}" for i, j in found.items() if j is not None}

    def text(self) -> str:
        casts = [f"{_carried(self._given[i], self._type(i))} AS c{i}" for i in self._given]
        own = [f"CAST(NULL AS {self._type(i).sql}) AS c{i}" for i in self._lacking()]
        typed = ", ".join(["*", f"{self._code()} AS op", *casts, *own])
        columns = [f"c{i}, {self._unsent(i)} AS u{i}" for i in range(len(self._info.schema))]
        return (
            f"WITH typed AS (SELECT {typed} FROM {_ROWS})"
            f" SELECT {', '.join(['number, op', f'{self._refused()} AS refused', *columns])}"
            " FROM typed ORDER BY number"
        )

    def _type(self, i: int) -> ColumnType:
        return self._info.schema[i][1]

    def _lacking(self) -> list[int]:
        return [i for i in range(len(self._info.schema)) if i not in self._given]

    def _code(self) -> str:
        code = "0"
        if self._operations is not None:
            cases = [f"WHEN {literal(name)} THEN {n}" for name, n in self._operations.items()]
            given = "NULL" if self._operation is None else f"CAST(f{self._operation} AS VARCHAR)"
            code = f"CASE {given} {' '.join(cases)} END"
        return (
            f"CAST(CASE WHEN sent THEN {code} WHEN refused IS NULL THEN {IGNORED} END AS TINYINT)"
        )

    def _unsent(self, i: int) -> str:
        if i not in self._given:
            return "coalesce(op IN (0, 1), FALSE)"
        name = literal(fold(self._info.schema[i][0]))
        return f"coalesce(op IN (0, 1) AND system.main.list_contains(unsent, {name}), FALSE)"

    def _refused(self) -> str:
        misfits = ", ".join(["'; '", *[self._misfit(i) for i in self._given], "NULL"])
        return (
            f"CASE WHEN refused IS NOT NULL THEN refused WHEN op = {IGNORED} THEN NULL"
            f" WHEN op IS NULL THEN 'its operation ({_OPERATION}) is unknown or missing'"
            f" {self._lacks_old()} WHEN op IN (0, 1)"
            f" THEN system.main.nullif(system.main.concat_ws({misfits}), '') END"
        )

    def _lacks_old(self) -> str:
        """Where a row does not tell which one it changes."""
        if key := self._info.primary_key:
            lacking = " OR ".join(f"c{i} IS NULL" for i in key)
            return f"WHEN op = 2 AND ({lacking}) THEN 'the key of the deleted row is missing'"
        none = " AND ".join([f"{given} IS NULL" for given in self._given.values()]) or "TRUE"
        return (
            f"WHEN op = 1 OR (op = 2 AND {none})"
            " THEN 'the row before is missing, and the table has no key'"
        )

    def _misfit(self, i: int) -> str:
        given, (name, type) = self._given[i], self._info.schema[i]
        head = literal(f"{name} is no {type.sql}: ")
        said = f"{head} || system.main.left(CAST({given} AS VARCHAR), 80)"
        if may_be_unfit(type.sql):
            why = literal(f" ({why_unfit(type.sql)})")
            said += f" || CASE WHEN {_cast(given, type)} IS NULL THEN '' ELSE {why} END"
        return f"CASE WHEN c{i} IS NULL AND {given} IS NOT NULL THEN {said} END"


def _carried(given: str, type: ColumnType) -> str:
    return only_carried(_cast(given, type), type.sql)


def _cast(given: str, type: ColumnType) -> str:
    if type.base in ("LIST", "STRUCT", "MAP", "UNION"):  # TRY_CAST makes NULL of their parts alone
        return f"TRY(CAST({given} AS {type.sql}))"
    return f"TRY_CAST({given} AS {type.sql})"


def _decoded(found: pa.Table, info: TableInfo) -> Decoded:
    operations, numbers = found["op"].to_numpy(), found["number"].to_numpy()
    bad = found["refused"].is_valid().to_numpy()
    reasons = found["refused"].filter(pa.array(bad)).to_pylist()
    changes = (~bad & (operations >= INSERT) & (operations <= DELETE)).nonzero()[0]
    rows = found if len(changes) == len(found) else found.take(pa.array(changes))
    unknown = {i: _mask(rows[f"u{i}"]) for i in range(len(info.schema))}
    events = Events(
        operations[changes].astype(np.uint8),
        {i: column_from_arrow(rows[f"c{i}"], type) for i, (_, type) in enumerate(info.schema)},
        {i: mask for i, mask in unknown.items() if mask.any()},
    )
    ignored = int((~bad & (operations == IGNORED)).sum())
    refused = dict(zip(numbers[bad].tolist(), reasons, strict=True))
    return Decoded(events, numbers[changes], refused, [], ignored)


def _mask(column: pa.ChunkedArray) -> Mask:
    return np.asarray(column.to_numpy(), np.bool_)  # DuckDB exports bytes
