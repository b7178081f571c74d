"""Defaults that are evaluated for each row: sequences, the time, random values.

Law: the SQL written here has the value that DuckDB's own INSERT would give, whichever schema the
session looks in: functions are named with their schema, sequences with their whole path. A default
that is not certain to have such SQL leaves its table to DuckDB.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ivm.ingest.local_time import tells_now
from ivm.ingest.values.python_values import python_column
from ivm.sql.resolve.clock import TELLERS, WORDS
from ivm.sql.statements.text.duckdb_tree import nodes, syntax_tree
from ivm.storage.identifiers import fold, literal, path_of, quote, split_name
from ivm.storage.values.column import Column, FixedColumn, column_from_arrow
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, table
from ivm.storage.warehouse.tables.table_info import TableInfo

_SEQUENCE = "nextval"
_RANDOM = frozenset(["random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"])
_HELPERS = frozenset(
    [
        *("||", "+", "-", "*", "/", "//", "%", "concat", "lower", "upper", "replace", "lpad"),
        *("rpad", "left", "right", "substr", "substring", "date_trunc", "floor", "ceil", "round"),
        *("trunc", "abs", "epoch", "epoch_ms", "epoch_us", "strftime", "year", "month", "day"),
        *("to_days", "to_hours", "to_minutes", "to_seconds", "to_months", "to_years", "to_weeks"),
    ]
)  # fmt: skip
_TYPES = frozenset(
    [
        *("date", "time", "timestamp", "timestamptz", "timestamp with time zone", "datetime"),
        *("varchar", "text", "string", "integer", "int", "int4", "bigint", "int8", "hugeint"),
        *("smallint", "tinyint", "double", "float", "uuid", "decimal", "numeric"),
    ]
)  # fmt: skip
_MICROSECONDS = "system.main.epoch_us({})"
_READ = {
    **dict.fromkeys(["TINYINT", "SMALLINT", "INTEGER", "BIGINT"], "{}"),
    **dict.fromkeys(["DOUBLE", "VARCHAR", "UUID", "DATE"], "{}"),
    **dict.fromkeys(["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"], _MICROSECONDS),
}
"""How few values are read as Python's, in half the time of Arrow's."""
_FEW = 64
_ROUGHLY_A_TELLER = re.compile(rf"\b({'|'.join(map(re.escape, [*TELLERS, *WORDS]))})\b", re.I)


@dataclass(frozen=True)
class EvaluatedDefault:
    """A default as SQL that may run anywhere.

    Attributes:
        sql: of its column's type.
        type: of the column.
        draws: it advances a sequence.
        tells: it tells the time.
        is_now: it is what `LocalTime.now` tells.
    """

    sql: str
    type: ColumnType
    draws: bool
    tells: bool
    is_now: bool


def evaluated_default(
    info: TableInfo, position: int, cursor: Cursor, macros: Collection[str]
) -> EvaluatedDefault | None:
    """A column's default as SQL; None if DuckDB's INSERT must evaluate it.

    Args:
        info: the table.
        position: of the column.
        cursor: sees the sequences.
        macros: names of the user's functions and macros, in small letters.
    """
    text = info.defaults[position]
    tree = syntax_tree(f"SELECT {text}", cursor)
    if tree is None:
        return None
    (expression,) = tree["statements"][0]["node"]["select_list"]
    tree["statements"][0]["node"]["select_list"] = [_with_calls(expression, cursor)]
    found = list(nodes(tree["statements"][0]["node"]["select_list"]))
    calls = [node for node in found if "function_name" in node]
    names = {fold(str(node["function_name"])) for node in calls}
    draws, tells = _SEQUENCE in names, not names.isdisjoint(TELLERS)
    operators = any(node["is_operator"] for node in calls)
    if not names <= _HELPERS | _RANDOM | TELLERS.keys() | {_SEQUENCE} or names & set(macros):
        return None
    if not (draws or tells or names & _RANDOM) or (operators and not draws) or (draws and tells):
        return None  # an operator has no schema: looking for it would begin to read the database
    if not all(_is_plain(node) for node in found if "class" in node):
        return None
    (expression,), type = tree["statements"][0]["node"]["select_list"], info.schema[position][1]
    is_now = tells_now(fold(str(expression.get("function_name", ""))), type)
    for node in calls:
        if fold(str(node["function_name"])) == _SEQUENCE and not _name_sequence(node, info, cursor):
            return None
        _name(node)
    written = rows(cursor, f"SELECT system.main.json_deserialize_sql({literal(json.dumps(tree))})")
    value = str(written[0][0]).removeprefix("SELECT ")
    return EvaluatedDefault(f"CAST({value} AS {type.sql})", type, draws, tells, is_now)


def of_one_time(defaults: Mapping[int, EvaluatedDefault]) -> list[int]:
    """The positions of defaults that `LocalTime` tells.

    All that tell the time, or none: if DuckDB must evaluate one, it tells that of the others too.
    """
    telling = {i: default for i, default in defaults.items() if default.tells}
    return list(telling) if all(default.is_now for default in telling.values()) else []


def tells_time(defaults: Mapping[int, str]) -> bool:
    """Returns whether defaults of a table may tell the time."""
    return any(_ROUGHLY_A_TELLER.search(text) for text in defaults.values())


def values_of(defaults: Sequence[EvaluatedDefault], count: int, cursor: Cursor) -> list[Column]:
    """The values of defaults for a number of rows, by one statement.

    Raises:
        duckdb.Error: as DuckDB's INSERT raises it.
    """
    source = "" if count == 1 else f" FROM system.main.range({count})"
    if count <= _FEW and all(default.type.sql in _READ for default in defaults):
        terms = [_READ[default.type.sql].format(default.sql) for default in defaults]
        read = zip(*rows(cursor, f"SELECT {', '.join(terms)}{source}"), strict=True)
        return [_column(values, one.type) for values, one in zip(read, defaults, strict=True)]
    listed = ", ".join([f"{default.sql} AS d{i}" for i, default in enumerate(defaults)])
    found = table(cursor, f"SELECT {listed}{source}")
    pairs = zip(found.columns, defaults, strict=True)
    return [column_from_arrow(values, default.type) for values, default in pairs]


def _column(values: Sequence[Any], type: ColumnType) -> Column:
    if type.is_date_or_timestamp and type.sql != "DATE":
        return FixedColumn(np.array(values, np.int64))
    column = python_column(values, type)
    assert column is not None
    return column


def _with_calls(expression: Any, cursor: Cursor) -> Any:
    """The expression with calls in the place of words such as current_date."""
    if isinstance(expression, list):
        return [_with_calls(part, cursor) for part in expression]
    if not isinstance(expression, dict):
        return expression
    names = expression.get("column_names")
    if isinstance(names, list) and len(names) == 1 and fold(str(names[0])) in WORDS:
        return _call(WORDS[fold(str(names[0]))], cursor)
    return {key: _with_calls(part, cursor) for key, part in expression.items()}


def _call(name: str, cursor: Cursor) -> dict[str, Any]:
    tree = syntax_tree(f"SELECT {name}()", cursor)
    assert tree is not None
    found: dict[str, Any] = tree["statements"][0]["node"]["select_list"][0]
    return copy.deepcopy(found)


def _is_plain(node: Mapping[str, Any]) -> bool:
    """Returns whether a node is a call, a constant, or a cast to one of DuckDB's own types."""
    kind = node["class"]
    if kind == "TYPE":
        return fold(str(node["type_name"])) in _TYPES and not node["schema"]
    return kind in ("FUNCTION", "CAST", "CONSTANT")


def _name(node: dict[str, Any], *schema: str) -> None:
    """Names a call's function with its schema."""
    if not node["is_operator"]:
        node["catalog"], node["schema"] = "system", "main"
        node["qualified_name"] = {"path": ["system", "main", node["function_name"]]}


def _name_sequence(node: dict[str, Any], info: TableInfo, cursor: Cursor) -> bool:
    """Writes the whole path of the sequence that a call of nextval() advances, if it is known.

    DuckDB looks for it in the table's schema, then in main.
    """
    arguments = [argument["expression"] for argument in node["arguments"]]
    if len(arguments) != 1 or (arguments[0].get("literal") or {}).get("kind") != "STRING":
        return False
    database, (schema, *deeper) = split_name(info.qualified)[0], path_of(info.name)[:-1]
    *given, name = split_name(arguments[0]["literal"]["text"])
    if deeper or (len(given) == 2 and fold(given.pop(0)) != fold(database)) or len(given) > 1:
        return False
    known = rows(
        cursor,
        "SELECT schema_name, sequence_name FROM system.main.duckdb_sequences()"
        " WHERE database_name = ? AND NOT temporary",
        [database],
    )
    for wanted in given or (schema, "main"):
        for path in known:
            if [*map(fold, path)] == [fold(wanted), fold(name)]:
                full = ".".join([quote(part) for part in (database, *path)])
                arguments[0]["literal"]["text"] = full
                return True
    return False
