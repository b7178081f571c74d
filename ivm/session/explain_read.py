"""EXPLAIN of a query: DuckDB's plan, and whether the query is answered from memory."""

from __future__ import annotations

import pyarrow as pa

from ivm.session.query import SELECTS, query
from ivm.session.result import Result
from ivm.session.session import Params, Session
from ivm.sql.statements import parse as st

KEY = "read_from"
"""What stands before the way that the query is read, where DuckDB has `physical_plan`."""


def explain(session: Session, statement: st.Query, params: Params) -> Result:
    """Runs EXPLAIN of a query; one row more than DuckDB's says how it is read, and why."""
    result, explained = query(session, statement, params), statement.explained
    if explained is None or explained.kind not in SELECTS:
        return result
    plan, way = result.arrow(), session.way_of(explained.text, params)
    row = pa.Table.from_arrays([pa.array([KEY]), pa.array([way])], names=plan.column_names)
    return Result.of_table(pa.concat_tables([plan, row.cast(plan.schema)]), result.types)
