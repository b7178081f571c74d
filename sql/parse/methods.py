"""Rewrites method calls, `x.f(y)`, as plain calls.

Law: DuckDB reads `x.f(y)` as f(x, y). sqlglot turns each column left of a dot or an arrow before a
call into bare names, as if they were parts of the function's name; here they become columns again.
Deviation of DuckDB: a column of the FROM clause hides a lambda's parameter only where a field of it
precedes a method, or, before DuckDB 2.0.1, its bare name does. Such a name becomes a marked column,
and the binder, which knows the FROM clause, decides. Other names of parameters stay bare names. A
call after the name of a schema or database is a function of that schema or database, if it has one.
"""

from __future__ import annotations

import functools
from typing import Any

from sqlglot import exp

from ivm.sql.plan.built_in import FACTS
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.statements.text.duckdb_tree import nodes
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

_ARROWS = (exp.JSONExtract, exp.JSONExtractScalar)
_NAMED = (exp.Column, exp.Alias, exp.Dot, exp.Lambda, exp.Window)  # names in them are no values
_KEYED = (exp.PropertyEQ, exp.Kwarg)
_MARK = "parameter"
_SCHEMAS = """
SELECT schema_name FROM system.main.duckdb_schemas()
UNION SELECT database_name FROM system.main.duckdb_databases()
"""


def refuse_schema_calls(parsed: Any, cursor: Cursor) -> None:
    """Refuses a call that may be a method of a column or a function of a schema of that name.

    Args:
        parsed: DuckDB's syntax tree.

    Raises:
        NotIncremental: names the schema or database.
    """
    named = {fold(node["schema"]) for node in nodes(parsed) if _is_behind_name(node)}
    known = {fold(name) for (name,) in rows(cursor, _SCHEMAS)} if named else set()
    for name in sorted(named & known):
        raise NotIncremental(f"a call behind {name}, which is a schema or database")


def without_methods(tree: exp.Expr) -> exp.Expr:
    """Replaces methods by plain calls, innermost first; the tree is changed."""
    found: list[exp.Expr] = list(tree.find_all(exp.Dot, *_ARROWS, bfs=False))
    for node in reversed(found):
        if not isinstance(node.expression, exp.Func):
            continue
        call, parameters = node.expression, _parameters(node)
        if not isinstance(node, exp.Dot):
            node.set("this", _with_columns(node.this, parameters))
        elif isinstance(call, exp.Anonymous):  # as sqlglot reads all calls behind a dot
            left = _receiver(node.this, parameters)
            node.replace(exp.Anonymous(this=call.this, expressions=[left, *call.expressions]))
    return tree


def _is_behind_name(node: dict[str, Any]) -> bool:
    return "function_name" in node and bool(node.get("schema"))


def is_marked(node: exp.Expr) -> bool:
    """Returns whether a column means a lambda's parameter unless the FROM clause has the name."""
    return _MARK in node.meta


def is_caught(tree: exp.Expr, target: exp.Expr) -> bool:
    """Returns whether a column of the tree would be a lambda's parameter in the target's stead."""
    parameters = _parameters(target)
    names = (column.parts[0].name for column in tree.find_all(exp.Column) if parameters)
    return any(fold(name) in parameters for name in names)


def parameter(node: exp.Column) -> exp.Expr:
    """The enclosing lambda's parameter, or a field of it, that a marked name means."""
    first, *fields = node.parts
    found: exp.Expr = exp.to_identifier(first.name)
    for name in fields:
        found = exp.Dot(this=found, expression=exp.to_identifier(name.name, quoted=True))
    return found


def path(node: exp.Expr) -> list[exp.Identifier]:
    """The bare names of an expression `a.b.c`; none if it is anything else."""
    if isinstance(node, exp.Identifier):
        return [node]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        left = path(node.this)
        return [*left, node.expression] if left else []
    return []


def with_parameters(tree: exp.Expr) -> exp.Expr:
    """Replaces marked names by parameters, outside of queries in the tree, which is changed: there
    no FROM clause hides them."""

    def is_query(node: exp.Expr) -> bool:
        return isinstance(node, exp.Query)

    for node in list(tree.walk(prune=is_query)):
        if isinstance(node, exp.Column) and is_marked(node):
            node.replace(parameter(node))
    return tree


def _parameters(node: exp.Expr) -> frozenset[str]:
    """The names of the lambda parameters that are in scope at a node."""
    found: set[str] = set()
    below, above = node, node.parent
    while isinstance(above, exp.Expr):
        if isinstance(above, exp.Lambda):
            found.update(fold(p.name) for p in above.expressions)
        elif isinstance(above, exp.Comprehension) and below.arg_key != "iterator":
            found.add(fold(above.args["expression"].name))
        below, above = above, above.parent
    return frozenset(found)


def _receiver(node: exp.Expr, parameters: frozenset[str]) -> exp.Expr:
    """The left operand of a method, with columns for its bare names, and a mark on a column that
    may be a parameter."""
    names = path(node)
    may_be_column = len(names) > 1 or (len(names) == 1 and _columns_hide_parameters())
    if not may_be_column or fold(names[0].name) not in parameters:
        return _with_columns(node, parameters)
    found = _with_columns(node, frozenset())
    for column in found.find_all(exp.Column):
        column.meta[_MARK] = True
    return found


@functools.cache
def _columns_hide_parameters() -> bool:
    """Returns whether the DuckDB at hand takes a bare name before a method for a column first."""
    query = "SELECT list_transform(['own'], lambda x: x.upper()) = ['OWN'] FROM (SELECT '' AS x)"
    with FACTS.borrow() as facts:
        return rows(facts, query) == [(False,)]


def _with_columns(node: exp.Expr, parameters: frozenset[str]) -> exp.Expr:
    """Copies an expression, with columns for its bare names."""
    if isinstance(node, exp.Identifier):
        return node.copy() if fold(node.name) in parameters else exp.Column(this=node.copy())
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        table, name = node.this, node.expression
        if isinstance(table, exp.Identifier) and fold(table.name) not in parameters:
            return exp.Column(this=name.copy(), table=table.copy())
    if isinstance(node, exp.Lambda):
        parameters |= {fold(parameter.name) for parameter in node.expressions}
    found = node.copy()
    for part, value in node.args.items():
        values = value if isinstance(value, list) else [value]
        if any(isinstance(v, exp.Expr) and _is_value(node, part, v) for v in values):
            images = [_with_columns(v, parameters) for v in values]
            found.set(part, images if isinstance(value, list) else images[0])
    return found


def _is_value(parent: exp.Expr, part: str, node: exp.Expr) -> bool:
    """Returns whether a part of an expression is an expression itself, not a name or a type."""
    if isinstance(parent, exp.Lambda):
        return part == "this"
    if isinstance(parent, _KEYED) and part == "this":
        return False
    names = isinstance(parent, _NAMED) and isinstance(node, exp.Identifier)
    return not names and not isinstance(node, exp.DataType)
