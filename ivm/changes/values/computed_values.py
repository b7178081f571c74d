"""Values that have no kernel, computed by DuckDB over the rows that a change meets.

Law: the session's cursor computes them, outside of any transaction of DuckDB's, so its time zone
holds and its time is told; `now()` alone needs no statement, see `local_time`. An expression has
one value a row, reads and changes nothing else, and has the same value however often it is
computed: of DuckDB's own functions it calls scalar ones that depend on their arguments alone, or
tell the time.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence

from ivm.ingest.fetched_rows import fetched_rows, may_be_exact
from ivm.ingest.transaction_time import TransactionTime
from ivm.sql.plan.built_in import FACTS
from ivm.sql.plan.known_functions import is_fixed
from ivm.sql.resolve.clock import TELLERS, may_tell_time, times_told
from ivm.sql.scalar.operands.constants import Fallback
from ivm.sql.statements.text.duckdb_tree import nodes, syntax_tree
from ivm.storage.identifiers import fold
from ivm.storage.interrupts import interruptible
from ivm.storage.values.column import Column
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import Cursor, evaluate, rows

_CLASSES = frozenset(
    [
        *("FUNCTION", "CAST", "TYPE", "CONSTANT", "COLUMN_REF", "COMPARISON", "CONJUNCTION"),
        *("OPERATOR", "CASE", "BETWEEN"),
    ]
)
"""Not subqueries, windows, stars, lambdas and collations."""
_TEXT_OF = "alias"  # tells how its argument is written


class ComputedValues:
    """Computes values for one statement.

    Args:
        cursor: the session's.
        time: of its transaction.
        text: of the statement.
    """

    def __init__(self, cursor: Cursor, time: TransactionTime, text: str) -> None:
        self._cursor, self._time, self._text = cursor, time, text

    def takes(self, text: str) -> bool:
        """Returns whether an expression, which calls no macro of the user's, can be computed."""
        return _is_scalar(text) and not (self._time.begun and may_tell_time(text))

    def column(
        self,
        expression: Fallback,
        columns: Sequence[Column],
        count: int,
        *,
        kept: bool,
        is_now: bool,
    ) -> Column | None:
        """An expression's value for each row, or one value if it reads no column.

        Args:
            expression: over the columns.
            columns: of the rows.
            count: of them, not 0.
            kept: whether the values are, and not only computed to see whether that fails.
            is_now: as the function of this name says of the expression.

        Returns:
            None if it would tell another time than the statement has told before.

        Raises:
            EvaluationError, duckdb.Error: DuckDB fails on these rows.
        """
        with interruptible(self._cursor):
            if kept and may_tell_time(expression.text) and not self._tell():
                return None
            local = self._time.local if is_now else None
            if local is not None:
                return local.now([expression.output], 1)[0]
            if expression.reads:
                return expression.column(columns, count, self)
            return self._value(f"SELECT {expression.text} AS v", expression.output)

    def _tell(self) -> bool:
        return self._time.tell(often=times_told(self._text) > 1)

    def _value(self, sql: str, output: ColumnType) -> Column:
        if may_be_exact(output):
            read = fetched_rows(rows(self._cursor, sql), [output])
            if read is not None:
                return read.columns[0]
        return evaluate(self._cursor, sql, {}, (("v", output),)).columns[0]

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Cursor]:
        """The cursor; see `Lender`."""
        yield self._cursor


@functools.lru_cache(maxsize=512)
def _is_scalar(text: str) -> bool:
    """Returns whether an expression has one value for each row, of that and the time alone."""
    with FACTS.borrow() as facts:
        tree = syntax_tree(f"SELECT {text}", facts)
    if tree is None:
        return False
    found = list(nodes(tree["statements"][0]["node"]["select_list"]))
    if not {node["class"] for node in found if "class" in node} <= _CLASSES:
        return False
    calls = {fold(node["function_name"]) for node in found if "function_name" in node}
    return _TEXT_OF not in calls and all(n in TELLERS or is_fixed(n) for n in calls)
