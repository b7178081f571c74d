"""DuckDB's own functions: their names, and calls of them that no user's macro can hide.

Invariant: every call that we write names the schema, because a macro hides the built-in function of
its name from calls without one. In a bound plan each call of a built-in name is DuckDB's own: the
user's macros have been expanded, or there is no plan.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TypeVar

from sqlglot import exp

from ivm.sql.plan.expressions import WRITTEN, Writer, text
from ivm.storage.identifiers import fold
from ivm.storage.scratch import Scratch
from ivm.storage.warehouse.duckdb.duck import rows

MAIN = "system.main."
"""The schema of most built-in functions, as it is written before their names."""

_OURS = "built in"
_QUOTED_OR_SCHEMA = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|\bsystem\.(?:main|pg_catalog)\."""
)
PEERS_ALIKE = frozenset(["rank", "dense_rank", "rank_dense", "percent_rank", "cume_dist"])
"""The window functions that have one value for all peers."""

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
FACTS = Scratch.of()
"""An empty database, for questions about DuckDB's own functions and types."""

Node = TypeVar("Node", bound=exp.Expr)


@functools.cache
def schema_prefixes() -> Mapping[str, str]:
    """The schemas of DuckDB's own functions and macros: folded name → `system.schema.`"""
    query = (
        "SELECT DISTINCT function_name, schema_name FROM duckdb_functions()"
        " WHERE internal ORDER BY schema_name DESC"  # main comes last, and wins
    )
    with FACTS.borrow() as scratch:
        return {fold(name): f"system.{schema}." for name, schema in rows(scratch, query)}


def qualified(name: str) -> str:
    """A function's name with its schema; a function that is not DuckDB's keeps its bare name."""
    return schema_prefixes().get(fold(name), "") + name


def without_schemas(sql: str) -> str:
    """Removes the schemas of built-in functions from SQL of ours, for EXPLAIN."""
    return _QUOTED_OR_SCHEMA.sub(lambda found: found[1] or "", sql)


_UNLISTED = {
    "datediff": "date_diff",
    "datepart": "date_part",
    "datesub": "date_sub",
    "datetrunc": "date_trunc",
}
"""Aliases of which DuckDB's catalog does not say so."""


@functools.cache
def synonyms() -> dict[str, str]:
    """Each built-in alias → the name it is an alias of; those of types begin with `type `."""
    functions = (
        "SELECT DISTINCT lower(function_name), lower(alias_of) FROM duckdb_functions()"
        " WHERE internal AND alias_of <> ''"
    )
    types = (
        "SELECT DISTINCT lower(type_name), lower(logical_type) FROM duckdb_types()"
        " WHERE internal AND type_name <> 'JSON' AND lower(type_name) <> lower(logical_type)"
    )
    with FACTS.borrow() as scratch:
        named = [(f"type {name}", chief) for name, chief in rows(scratch, types)]
        return _UNLISTED | dict([*rows(scratch, functions), *named])


def chief_name(name: str) -> str:
    """The name that a function's name is an alias of, or the name itself; both in lower case."""
    known = synonyms()
    while name in known:
        name = known[name]
    return name


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Makes a call of DuckDB's own function, for a tree that may also call the user's functions."""
    made = exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])
    return ours(made)


def ours(node: Node) -> Node:
    """Marks a call as one of DuckDB's own function, and returns it."""
    node.meta[_OURS] = True
    return node


def is_ours(node: exp.Expr) -> bool:
    """Returns whether the node was marked by `ours`."""
    return _OURS in node.meta


def call_name(node: exp.Expr) -> str:
    """DuckDB's name of a call in lower case; empty for syntax such as CASE."""
    if isinstance(node, exp.Anonymous):
        return fold(node.name)
    if isinstance(node, exp.Connector):  # a call to sqlglot, whose text may begin with a real one
        return ""
    found = _CALL.match(text(node))
    return fold(found[1]) if found else ""


class _Writer(Writer):
    """Writes the names of built-in functions with their schemas."""

    def func(
        self,
        name: str,
        *args: object,
        prefix: str = "(",
        suffix: str = ")",
        normalize: bool = True,
    ) -> str:
        written = super().func(name, *args, prefix=prefix, suffix=suffix, normalize=normalize)
        return schema_prefixes().get(fold(name), "") + written


def duck_text(expr: exp.Expr) -> str:
    """Renders a bound expression as SQL for DuckDB, not for people."""
    return _Writer(**WRITTEN).generate(expr)
