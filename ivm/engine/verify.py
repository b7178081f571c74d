"""VERIFY: a view's rows against the answer of its query, as the user wrote it, both ways.

Invariant: they are equal as multisets; doubles, also those in lists and structs, may differ by 1e-9
relative, since DuckDB rounds a sum at every addition and the view's sums are exact.
A query that leaves an order open has several right answers. Then the rows agree with DuckDB's
answer in the columns that the query fixes (`ivm.sql.plan.fixed_columns`), and in all columns with
the plan's, whose orders are complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.engine.views import fillings
from ivm.engine.views.arrival_views import orphans
from ivm.engine.views.difference import bare
from ivm.engine.views.final_views import answer
from ivm.engine.views.statement_time import told
from ivm.sql.plan.fixed_columns import FixedPart, Parts, fixed_parts, fixes_all
from ivm.sql.plan.nodes import Arrived, Emit
from ivm.sql.resolve.fixed_columns import text_parts
from ivm.sql.statements.own.watermark_calls import WATERMARKS
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, table, temporary

TOLERANCE = 1e-9
_ANSWER = "_ivm_answer"


@dataclass(frozen=True)
class Verdict:
    """The result of VERIFY for one view.

    Attributes:
        rows: the number of the view's rows.
        missing: the number of rows of the answer that the view lacks.
        extra: the number of rows of the view that the answer lacks.
        left_open: the part of the answer that the query does not fix, in words; "" if it fixes all.
    """

    rows: int
    missing: int
    extra: int
    left_open: str

    @property
    def ok(self) -> bool:
        return self.missing == 0 and self.extra == 0


def verify_view(engine: Engine, cursor: Cursor, view: View) -> Verdict:
    """Compares a view with its query, as the cursor sees both."""
    stored = f"FROM {engine.catalog.qualified[view.name]}"
    count = int(rows(cursor, f"SELECT system.main.count(*) {stored}")[0][0])
    if isinstance(view.plan, Arrived):
        return _at_arrival(engine, cursor, view, view.plan, count)
    fixed = _fixed(view, cursor)
    left_open = "" if fixed is None else _fixed_text(fixed, view.schema)
    query = answer(view, view.plan) if isinstance(view.plan, Emit) else view.query
    with engine.warehouse.zone.on(cursor), told(cursor, view):
        missing, extra = compare(cursor, stored, query, view.schema, fixed)
        if fixed is not None and view.plan is not None and not missing and not extra:
            ours = fillings.answer(view)
            missing, extra = compare(cursor, stored, ours, view.schema)
    if isinstance(view.plan, Emit) and (missing or extra) and _outlives(engine, view, view.plan):
        kept = f"final as they were: {extra} rows, where the tables tell of {missing} others now"
        return Verdict(count, 0, 0, "; ".join(filter(None, [left_open, kept])))
    return Verdict(count, missing, extra, left_open)


def _at_arrival(engine: Engine, cursor: Cursor, view: View, plan: Arrived, count: int) -> Verdict:
    """The verdict on rows that were made once: each is of a row that is there."""
    table = engine.catalog.qualified[view.name]
    lost = int(rows(cursor, orphans(plan, table))[0][0])
    with engine.warehouse.zone.on(cursor), told(cursor, view):
        others, _ = compare(cursor, f"FROM {table}", view.query, view.schema)
    found = f"what rows found when they came: of {others} the tables tell something else now"
    return Verdict(count, 0, lost, found if others else "")


def _outlives(engine: Engine, view: View, plan: Emit) -> bool:
    """Returns whether final rows may differ from what the tables tell now.

    Late rows came, or were changed; rows are removed by their age; or the view looks at what may
    change at any time: other tables, or a watermark itself.
    """
    marks, rules = engine.watermarks.known, engine.retention.rules
    if view.bases - {*plan.tables, WATERMARKS} or '_ivm."watermark ' in view.query:
        return True
    return any(t in rules or (t in marks and marks[t].late_rows > 0) for t in plan.tables)


def _fixed(view: View, cursor: Cursor) -> Parts | None:
    """The parts of the answer that the query fixes; None if it fixes all."""
    if view.plan is not None:
        parts = fixed_parts(view.plan)
        return None if any(fixes_all(part, view.plan) for part in parts) else parts
    return text_parts(view.query, cursor)


def _fixed_text(fixed: Parts, schema: Schema) -> str:
    """The part of the answer that is not fixed, in words."""
    if not fixed:
        return "which rows, and how many"
    known = frozenset[int]().union(*[part.exact for part in fixed])
    shuffled = frozenset[int]().union(*[part.shuffled for part in fixed]) - known
    others = [n for i, (n, _) in enumerate(schema) if i not in known | shuffled]
    listed = [f"the values of {', '.join(others)}"] if others else []
    listed += [f"the order within {schema[i][0]}" for i in sorted(shuffled)]
    if len(fixed) > 1:
        listed.append("which of the tied rows get which values")
    return "; ".join(listed)


def compare(
    cursor: Cursor, stored: str, query: str, schema: Schema, fixed: Parts | None = None
) -> tuple[int, int]:
    """Counts the rows (missing, extra) of a stored relation against a query of the same columns.

    The query runs once: DuckDB's parallel sums of DOUBLE differ in the last bits from run to run.

    Args:
        cursor: sees both.
        stored: a SELECT of the relation's rows.
        query: the query.
        schema: the columns of both.
        fixed: the parts of the columns in which the rows must agree if they are not all equal.
    """
    names = ", ".join(f"c{i}" for i in range(len(schema)))
    columns = ", ".join(f"{bare(f'c{i}', t)} AS c{i}" for i, (_, t) in enumerate(schema))
    answer = f"SELECT {columns} FROM ({query}) AS q({names})"
    with temporary(cursor, _ANSWER, f"AS {answer}") as held:
        old, new = f"FROM ({stored}) AS q({names})", f"FROM {held}"
        found = _compare(cursor, old, new, schema)
        if found == (0, 0) or fixed is None:
            return found
        parts = [_compare_part(cursor, old, new, schema, part) for part in fixed]
        return max(parts, key=sum, default=(0, 0))


def compare_answers(cursor: Cursor, stored: str, answer: str, schema: Schema) -> tuple[int, int]:
    """Counts as `compare` does, for a query whose answer is the same every time."""
    names = ", ".join(f"c{i}" for i in range(len(schema)))
    columns = ", ".join(f"{bare(f'c{i}', t)} AS c{i}" for i, (_, t) in enumerate(schema))
    wanted = f"FROM (SELECT {columns} FROM ({answer}) AS q({names}))"
    return _compare(cursor, f"FROM ({stored}) AS q({names})", wanted, schema)


def _compare_part(
    cursor: Cursor, old: str, new: str, schema: Schema, part: FixedPart
) -> tuple[int, int]:
    """Counts the rows (missing, extra) in the columns that a part fixes."""
    columns = sorted(part.exact | part.shuffled)
    values = [_sorted(i, schema[i][1]) if i in part.shuffled else f"c{i}" for i in columns]
    listed = ", ".join(f"{value} AS c{i}" for i, value in enumerate([*values, "true"]))
    chosen = [*(schema[i] for i in columns), ("", type_of("BOOLEAN"))]
    return _compare(cursor, f"SELECT {listed} {old}", f"SELECT {listed} {new}", chosen)


def _sorted(index: int, type: ColumnType) -> str:
    """Writes a list, or a string as the list of its characters, sorted."""
    items = f"system.main.string_split(c{index}, '')" if type.is_string else f"c{index}"
    return f"system.main.list_sort({items})"


def _compare(
    cursor: Cursor, old: str, new: str, schema: Sequence[tuple[str, ColumnType]]
) -> tuple[int, int]:
    if not any(_has_floats(type) for _, type in schema):
        return _count(cursor, new, old), _count(cursor, old, new)
    order = _order(schema)
    missing = table(cursor, f"FROM ({new} EXCEPT ALL {old}) ORDER BY {order}")
    extra = table(cursor, f"FROM ({old} EXCEPT ALL {new}) ORDER BY {order}")
    if missing.num_rows == extra.num_rows and _close(missing, extra, schema):
        return 0, 0
    return missing.num_rows, extra.num_rows


def _count(cursor: Cursor, left: str, right: str) -> int:
    return int(rows(cursor, f"SELECT system.main.count(*) FROM ({left} EXCEPT ALL {right})")[0][0])


def _order(schema: Sequence[tuple[str, ColumnType]]) -> str:
    """Writes an ORDER BY, exact columns first: rows that differ by rounding get the same rank."""
    floats = [i for i, (_, type) in enumerate(schema) if _has_floats(type)]
    return ", ".join(f"c{i}" for i in sorted(range(len(schema)), key=lambda i: (i in floats, i)))


def _has_floats(type: ColumnType) -> bool:
    """Returns whether values of the type are doubles or contain some."""
    return any(word in type.sql for word in ("DOUBLE", "FLOAT"))


def _close(missing: pa.Table, extra: pa.Table, schema: Sequence[tuple[str, ColumnType]]) -> bool:
    """Returns whether rows of the same rank agree, doubles within the tolerance."""
    for (_, type), left, right in zip(schema, missing.columns, extra.columns, strict=True):
        if not _has_floats(type):
            if not left.equals(right):
                return False
        elif type.is_float:
            if not _close_numbers(left, right):
                return False
        elif not all(map(_close_values, left.to_pylist(), right.to_pylist())):
            return False
    return True


def _close_numbers(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    if left.is_null().to_pylist() != right.is_null().to_pylist():
        return False
    a = left.to_numpy(zero_copy_only=False).astype(np.float64)
    b = right.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.allclose(a, b, rtol=TOLERANCE, atol=1e-12, equal_nan=True)


def _close_values(left: Any, right: Any) -> bool:
    """Returns whether two values agree, doubles inside them within the tolerance."""
    if isinstance(left, float) and isinstance(right, float):
        return np.allclose(left, right, rtol=TOLERANCE, atol=1e-12, equal_nan=True)
    if isinstance(left, dict) and isinstance(right, dict):
        return _close_values(list(left.items()), list(right.items()))
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_close_values, left, right))
    return bool(left == right)
