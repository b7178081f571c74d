"""The relations that each kind of statement reads, which are brought up to date before it runs.

Contract: every relation that a statement reads is up to date, whether it is named directly or read
through a plain view, a macro, or SQL in a string. A kind that is not listed here reads everything.
"""

from __future__ import annotations

from enum import Enum

from ivm.sql.statements import parse as st


class Reads(Enum):
    """The tables and views that a statement reads."""

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
"""All other kinds read everything: EXPORT, COPY FROM DATABASE, CALL, PRAGMA, EXPLAIN EXECUTE, and
those of later versions. PREPARE reads nothing, and EXECUTE reads what its statement reads."""


def read_by_kind(statement: st.Statement) -> Reads:
    """The relations that statements of this kind read."""
    if isinstance(statement, st.Ddl):
        kind = f"{statement.action} {statement.target}"
        return _KINDS.get(kind) or _KINDS.get(statement.action, Reads.EVERYTHING)
    if isinstance(statement, st.CreateView | st.AdvanceWatermark):
        return Reads.NAMED
    if isinstance(statement, st.Query | st.Dml | st.Other):
        return _KINDS.get(statement.kind, Reads.EVERYTHING)
    return Reads.EVERYTHING
