"""EXPLAIN of a query: DuckDB's plan, and whether the query is answered from memory."""

from __future__ import annotations

import pyarrow as pa

from ivm.ingest.parameters import Params
from ivm.session.queries.query import SELECTS, query
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st

READ_FROM, CHANGED_BY = WAYS = ("read_from", "changed_by")
"""What stands before the way that a query or a change takes, where DuckDB has `physical_plan`."""


def explain(session: Session, statement: st.Query, params: Params) -> Result:
    """Runs EXPLAIN of a query; one row more than DuckDB's says how it is read, and why."""
    result, explained = query(session, statement, params), statement.explained
    if not isinstance(explained, st.Query) or explained.kind not in SELECTS:
        return result
    return with_way(result, READ_FROM, session.way_of(explained.text, params))


def with_way(result: Result, key: str, way: str) -> Result:
    """The rows of DuckDB's EXPLAIN, and one more with a key and a text of our own."""
    plan = result.arrow()
    row = pa.Table.from_arrays([pa.array([key]), pa.array([way])], names=plan.column_names)
    return Result.of_table(pa.concat_tables([plan, row.cast(plan.schema)]), result.types)
