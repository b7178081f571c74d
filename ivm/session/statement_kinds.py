"""What each kind of statement reads, and so what is brought up to date before it runs.

Law: every kind of DuckDB's is listed here; one that is not reads everything. Whatever way the
words take to a relation (a plain view, a macro, temporary or not, text that is run), it is fresh.
"""

from __future__ import annotations

from enum import Enum

from ivm.sql.statements import parse as st


class Reads(Enum):
    """Which tables and views a statement reads."""

    NOTHING = "none"
    NAMED = "those its text names, through views, macros and triggers too"
    EVERYTHING = "maybe all"


_NAMED = (
    # SELECT and what DuckDB makes of it
    *("select", "from", "with", "values", "table", "describe", "desc", "show", "summarize"),
    *("pivot", "unpivot", "pivot_wider", "pivot_longer"),
    # EXPLAIN (of a query; ANALYZE runs it), COPY … TO
    *("explain", "copy"),
    # INSERT, UPDATE, DELETE, MERGE_INTO, and their like inside of another statement
    *("insert", "update", "delete", "merge", "truncate", "other"),
    # CREATE … AS, and a default or USING expression of ALTER, which may call a macro
    *("create table", "create type", "alter table"),
    # VARIABLE_SET
    "set variable",
)
_NOTHING = (
    # CREATE, DROP and ALTER of what holds no rows, or whose rows DuckDB's tables have
    *("create view", "create macro", "create schema", "create sequence", "create secret"),
    *("create index", "create trigger", "drop", "alter", "comment"),
    # SET, ATTACH, DETACH, LOAD (also INSTALL), UPDATE_EXTENSIONS
    *("set", "reset", "attach", "detach", "load", "install", "update extensions"),
    # VACUUM, ANALYZE, CHECKPOINT: of tables, which are flushed before
    *("vacuum", "analyze", "checkpoint", "force"),
    # IMPORT DATABASE
    "import",
)
_KINDS = {**dict.fromkeys(_NAMED, Reads.NAMED), **dict.fromkeys(_NOTHING, Reads.NOTHING)}
"""The rest reads everything: EXPORT, COPY FROM DATABASE, CALL, PRAGMA, EXECUTE by EXPLAIN, and
what DuckDB may yet learn. PREPARE reads nothing, and EXECUTE what its statement does."""


def read_by_kind(statement: st.Statement) -> Reads:
    """What statements of this kind read."""
    if isinstance(statement, st.Ddl):
        kind = f"{statement.action} {statement.target}"
        return _KINDS.get(kind) or _KINDS.get(statement.action, Reads.EVERYTHING)
    if isinstance(statement, st.CreateView):
        return Reads.NAMED
    if isinstance(statement, st.Query | st.Dml | st.Other):
        return _KINDS.get(statement.kind, Reads.EVERYTHING)
    return Reads.EVERYTHING
