"""DuckDB's own functions: their names, and calls of them that no macro of the user's can hide.

Law: a macro hides the built-in function of its name from every call without a schema, so every call
that we write names the schema. In a bound plan each call of a built-in name is DuckDB's own: the
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
from ivm.storage.warehouse.duck import rows

PLACE = "system.main."
_OURS = "built in"
_QUOTED_OR_PLACE = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|\bsystem\.(?:main|pg_catalog)\."""
)
PEERS_ALIKE = frozenset(["rank", "dense_rank", "rank_dense", "percent_rank", "cume_dist"])
"""The window functions that have one value for rows with equal keys."""

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
FACTS = Scratch()
"""Asked about functions and types: it has none but DuckDB's own."""

Node = TypeVar("Node", bound=exp.Expr)


@functools.cache
def places() -> Mapping[str, str]:
    """The functions and macros that come with DuckDB: folded name → what stands before it."""
    query = (
        "SELECT DISTINCT function_name, schema_name FROM duckdb_functions()"
        " WHERE internal ORDER BY schema_name DESC"  # main comes last, and stands
    )
    with FACTS.borrow() as scratch:
        return {fold(name): f"system.{schema}." for name, schema in rows(scratch, query)}


def qualified(name: str) -> str:
    """How a function of a plan is called; one that is none of DuckDB's keeps its bare name."""
    return places().get(fold(name), "") + name


def without_places(sql: str) -> str:
    """SQL of ours, for people: functions without what stands before their names."""
    return _QUOTED_OR_PLACE.sub(lambda found: found[1] or "", sql)


@functools.cache
def synonyms() -> dict[str, str]:
    """The chief name of each built-in function and type that has several."""
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
        return dict([*rows(scratch, functions), *named])


def chief_name(name: str) -> str:
    """The chief name of a function, in lower case as the name given; its own if there is none."""
    known = synonyms()
    while name in known:
        name = known[name]
    return name


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call that means DuckDB's own function, in a tree in which the user's may stand too."""
    made = exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])
    return ours(made)


def ours(node: Node) -> Node:
    """The node, a call that means DuckDB's own function."""
    node.meta[_OURS] = True
    return node


def is_ours(node: exp.Expr) -> bool:
    """Whether the node was given to `ours`."""
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
    """Writes the names of functions in full."""

    def func(
        self,
        name: str,
        *args: object,
        prefix: str = "(",
        suffix: str = ")",
        normalize: bool = True,
    ) -> str:
        written = super().func(name, *args, prefix=prefix, suffix=suffix, normalize=normalize)
        return places().get(fold(name), "") + written


def duck_text(expr: exp.Expr) -> str:
    """A bound expression as DuckDB is to read it."""
    return _Writer(**WRITTEN).generate(expr)
