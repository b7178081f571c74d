"""Statements that would change what the views' queries mean are refused.

Law: a view's query has one meaning for as long as the view exists, in every session. Settings that
the text of a query depends on keep DuckDB's defaults; the time zone is the database's own (see
`HomeZone`), and a session may have another one for itself alone.
"""

from __future__ import annotations

from ivm.sql import statements as st
from ivm.storage.errors import UnsupportedError

_WAYS_OUT = {
    "calendar": "write dates in the Gregorian calendar",
    "default_collation": "declare the column with COLLATE, or write COLLATE in the query",
    "default_null_order": "write NULLS FIRST or NULLS LAST",
    "null_order": "write NULLS FIRST or NULLS LAST",
    "default_order": "write DESC",
    "disable_timestamptz_casts": "leave out the casts",
    "error_on_division_by_zero": "write TRY(a / b) or a / nullif(b, 0)",
    "ieee_floating_point_ops": "write TRY(a / b) or a / nullif(b, 0)",
    "integer_division": "write // for it",
    "legacy_disable_null_type": "cast NULL to the type you want",
    "order_by_non_integer_literal": "leave the literal out of ORDER BY",
    "regex_match_operator_semantics": "write regexp_matches() or regexp_full_match()",
    "scalar_subquery_error_on_multiple_rows": "write any_value() or LIMIT 1 in the subquery",
    "schema": "write the schema before the name",
    "search_path": "write the schema before the name",
}


def refuse_meaning(statement: st.Ddl) -> None:
    """Refuse a USE, SET or PRAGMA after which a view's query could mean something else.

    Raises:
        UnsupportedError: with what to write instead.
    """
    if statement.action == "use":
        raise UnsupportedError(
            "USE would change what names mean under the views: write the schema before the name",
            statement.offset,
        )
    if statement.action not in ("set", "reset", "pragma") or statement.name is None:
        return
    name = statement.name[-1]
    if statement.target == "global" and name.lower() in ("timezone", "time"):
        raise UnsupportedError(
            "SET GLOBAL TimeZone would change what the views' queries mean: the time zone of a "
            "database is fixed when it is created. SET TimeZone changes it for your session alone",
            statement.offset,
        )
    way_out = _WAYS_OUT.get(name.lower())
    if way_out is not None and statement.action != "reset" and statement.target != "variable":
        raise UnsupportedError(
            f"the setting {name} would change what the views' queries mean: {way_out}",
            statement.offset,
        )
