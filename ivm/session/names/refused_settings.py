"""Statements that would change the meaning of the views' queries, or settings the database needs.

Invariant: a view's query has one meaning for as long as the view exists, in every session. Settings
on which the meaning of a query depends keep DuckDB's defaults; views have the time zone of the
database (see `ViewTimeZone`), and a session may have another one for itself. Settings for how
DuckDB returns rows, commits and writes the file are the database's own, on all of its cursors.
"""

from __future__ import annotations

from ivm.sql.statements import parse as st
from ivm.sql.statements.text.spelling import string_value
from ivm.sql.statements.text.tokens import is_string, kept_tokens
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold

_DIALECT = "write the query in DuckDB's own SQL"
_WAYS_OUT = {
    "active_grammar_extensions": _DIALECT,
    "allow_parser_override_extension": _DIALECT,
    "calendar": "write dates in the Gregorian calendar",
    "current_dialect": _DIALECT,
    "default_collation": "declare the column with COLLATE, or write COLLATE in the query",
    "default_null_order": "write NULLS FIRST or NULLS LAST",
    "null_order": "write NULLS FIRST or NULLS LAST",
    "default_order": "write DESC",
    "dialect_compatibility_mode": _DIALECT,
    "disable_timestamptz_casts": "leave out the casts",
    "error_on_division_by_zero": "write TRY(a / b) or a / nullif(b, 0)",
    "ieee_floating_point_ops": "write TRY(a / b) or a / nullif(b, 0)",
    "integer_division": "write // for it",
    "lambda_syntax": "write lambda x: …",
    "legacy_disable_null_type": "cast NULL to the type you want",
    "old_implicit_casting": "write the casts",
    "order_by_non_integer_literal": "leave the literal out of ORDER BY",
    "preserve_identifier_case": "write the names as you want them, with AS in the select list",
    "regex_match_operator_semantics": "write regexp_matches() or regexp_full_match()",
    "scalar_subquery_error_on_multiple_rows": "write any_value() or LIMIT 1 in the subquery",
    "schema": "write the schema before the name",
    "search_path": "write the schema before the name",
    "table_function_identifier_conversion": "write the texts in quotes",
}

_ROWS = "by it DuckDB hands over the rows that views follow"
_FILE = "the database writes the file by itself, and replays its log after a crash"
_ENDS = "by it the database knows what an error has undone"
_ALL = "it would also stop the statements that keep the tables and views"
_OWN = {
    "arrow_large_buffer_size": _ROWS,
    "arrow_lossless_conversion": _ROWS,
    "arrow_output_list_view": _ROWS,
    "arrow_output_version": _ROWS,
    "preserve_insertion_order": _ROWS,
    "produce_arrow_string_view": _ROWS,
    "auto_checkpoint_skip_wal_threshold": _FILE,
    "checkpoint_threshold": _FILE,
    "enable_checkpoint_on_shutdown": _FILE,
    "force_checkpoint": f"{_FILE}: write CHECKPOINT",
    "fsync_mode": _FILE,
    "storage_compatibility_version": "it would change how queries are read, too: COPY FROM "
    "DATABASE to one attached with STORAGE_VERSION writes a file for an older DuckDB",
    "wal_autocheckpoint": _FILE,
    "wal_autocheckpoint_entries": _FILE,
    "current_transaction_invalidation_policy": _ENDS,
    "default_transaction_invalidation_policy": _ENDS,
    "disabled_filesystems": f"{_ALL}: SET enable_external_access = false keeps queries from files",
    "max_execution_time": f"{_ALL}: interrupt the query from another thread",
    "max_expression_depth": _ALL,
    "lock_configuration": "the database changes settings of its own as it works: set "
    "enable_external_access, allowed_paths and the like for good, which DuckDB keeps by itself",
}
"""Settings that cannot be changed, not even by RESET, and why."""


def refuse_meaning(statement: st.Ddl) -> None:
    """Refuses a USE, SET, PRAGMA or ATTACH after which names or queries would mean something else.

    Raises:
        UnsupportedError: the statement is one; the message says what to write instead.
    """
    if statement.action == "use":
        raise UnsupportedError(
            "USE would change what names mean under the views: write the schema before the name",
            statement.offset,
        )
    if statement.action == "attach":
        _refuse_our_name(statement)
    if statement.action not in ("set", "reset", "pragma") or statement.name is None:
        return
    name = statement.name[-1]
    _refuse_own(name, statement)
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


def _refuse_own(name: str, statement: st.Ddl) -> None:
    why = _OWN.get(name.lower())
    if why is not None and statement.target != "variable":
        raise UnsupportedError(f"{name} cannot be set: {why}", statement.offset)


def _refuse_our_name(statement: st.Ddl) -> None:
    """Refuses to attach a database as _ivm: names resolve to databases before schemas, so that it
    would hide our records."""
    path = next((t.text for t in kept_tokens(statement.text) if is_string(t)), None)
    file = "" if path is None else string_value(path).replace("\\", "/").rsplit("/", 1)[-1]
    stem = file.split(".")[0]
    name = statement.name[-1] if statement.name is not None else stem
    if fold(name) == "_ivm":
        raise UnsupportedError(
            "a database cannot be attached as _ivm, which is the schema of the database's own "
            "records: give it another name with AS",
            statement.offset,
        )
