"""The functions that every role may call: they compute with arguments, and read rows of tables.

Law: a function is on the list or is refused; the list is of an empty DuckDB, so no extension and no
Python function is on it. Functions whose value is fixed by their arguments are on it, but for those
named here; of the others, and of table functions, each was looked at.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from ivm.sql.plan.known_functions import computes, own_functions

_UNCHECKED = frozenset(
    ("=", "!=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from")
)
"""As functions, in quotes, they take types that differ, by which DuckDB breaks."""
_INTERNAL = "__internal_"
_OF_THE_SESSION = frozenset(
    (
        *("current_connection_id", "current_database", "current_date", "current_localtime"),
        *("current_localtimestamp", "current_query"),
        *("current_query_id", "current_schema", "current_schemas", "current_transaction_id"),
        *("currval", "error", "gen_random_uuid", "get_current_time", "get_current_timestamp"),
        *("getvariable", "in_search_path", "now", "random", "setseed", "today"),
        *("transaction_timestamp", "txid_current", "uuid", "uuidv4", "uuidv7"),
    )
)
"""They tell the time, or something of the session, or something random."""
_UNLISTED = frozenset(("unnest",))
"""DuckDB has it as a scalar function, too, but lists it not as one."""
_WRITING = frozenset(("nextval",))
_TABLES = frozenset(
    (
        *("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"),
        *("duckdb_columns", "duckdb_constraints", "duckdb_databases", "duckdb_dependencies"),
        *("duckdb_functions", "duckdb_indexes", "duckdb_keywords", "duckdb_schemas"),
        *("duckdb_sequences", "duckdb_tables", "duckdb_types", "duckdb_views"),
        *("icu_calendar_names", "pg_timezone_names", "pragma_collations", "pragma_version"),
    )
)


class Functions(NamedTuple):
    """Folded names of functions.

    Attributes:
        scalars: scalar, aggregate and window functions.
        writing: those besides, for who may change rows.
        tables: table functions.
    """

    scalars: frozenset[str]
    writing: frozenset[str]
    tables: frozenset[str]


@functools.cache
def allowed() -> Functions:
    """The functions that roles other than admins may call."""
    listed = own_functions()
    computing = {n for n in listed if computes(n) and not n.startswith(_INTERNAL)}
    scalars = (computing - _UNCHECKED) | (listed & _OF_THE_SESSION) | _UNLISTED
    return Functions(frozenset(scalars), _WRITING & listed, _TABLES)
