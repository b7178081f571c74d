"""Parses SQL to a syntax tree of exactly the text's meaning.

Law: canonical(DuckDB's tree of the SQL written from our tree) = canonical(DuckDB's tree of the
user's text); otherwise the query has no plan. sqlglot respells some constructs; where its usual
reading changes the meaning, a second one that keeps all function names as written is tried.
"""

from __future__ import annotations

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from ivm.sql.parse.canonical_tree import canonical
from ivm.sql.parse.collations import without_collations
from ivm.sql.parse.dialect import Read, Verbatim, Written
from ivm.sql.parse.hiding_macros import refuse_unseen
from ivm.sql.parse.methods import refuse_schema_calls, without_methods
from ivm.sql.plan.built_in import synonyms
from ivm.sql.plan.expressions import balanced, text
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.statements.text.duckdb_tree import syntax_tree
from ivm.storage.warehouse.duckdb.duck import Cursor

_TAKING_IGNORE_NULLS: dict[object, type[exp.Expr]] = {
    exp.First: exp.FirstValue, "first": exp.FirstValue, "first_value": exp.FirstValue,
    exp.Last: exp.LastValue, "last": exp.LastValue, "last_value": exp.LastValue,
    "nth_value": exp.NthValue, "lag": exp.Lag, "lead": exp.Lead,
}  # fmt: skip
_OPERANDS = (exp.Condition, exp.Query)  # what has a value; others are parts of a call's syntax


def parse_query(sql: str, cursor: Cursor, hiding: frozenset[str] = frozenset()) -> exp.Expr:
    """Parses a SELECT (or VALUES, FROM, set operation), without collations and methods in the tree.

    Args:
        sql: one query that DuckDB accepts.
        cursor: parses it by DuckDB, for comparison.
        hiding: names of macros that hide built-in functions.

    Raises:
        NotIncremental: sqlglot cannot express this query exactly.
    """
    names = _synonyms_without(hiding)
    parsed = syntax_tree(sql, cursor)
    if parsed is None:
        raise NotIncremental("a query that DuckDB does not serialize")
    wanted = canonical(parsed, names)
    for dialect in (Read, Verbatim):
        try:
            tree = _with_ignore_nulls_outside(sqlglot.parse_one(sql, dialect=dialect))
            written = tree.sql(dialect=Written, unsupported_level=ErrorLevel.IGNORE, comments=False)
        except (SqlglotError, ValueError):  # ValueError: a JSON path that sqlglot cannot write
            continue
        if not isinstance(tree, exp.Expr):
            continue
        if canonical(syntax_tree(written, cursor), names) == wanted:
            tree = balanced(without_collations(without_methods(tree)))
            refuse_schema_calls(parsed, cursor)
            refuse_unseen(tree, parsed, hiding)
            return tree
    raise NotIncremental("a construct that the planner cannot read back exactly")


def _with_ignore_nulls_outside(tree: exp.Expr) -> exp.Expr:
    """Moves IGNORE NULLS around the calls of window functions, where sqlglot writes it back.

    FIRST and LAST over a window are FIRST_VALUE and LAST_VALUE to DuckDB.
    """
    for word in list(tree.find_all(exp.IgnoreNulls)):
        inside = isinstance(word.parent, (exp.First, exp.Last, exp.Anonymous))
        call, outer = (word.parent, word.parent) if inside else (word.this, word)
        if not isinstance(call, exp.Expr) or not isinstance(outer, exp.Expr):
            continue
        window = outer.parent.parent if isinstance(outer.parent, exp.Filter) else outer.parent
        kind = _TAKING_IGNORE_NULLS.get(type(call)) or _TAKING_IGNORE_NULLS.get(call.name.lower())
        if kind is None or not isinstance(window, exp.Window):
            continue
        if inside:
            word.replace(word.this)
        given = call.expressions if isinstance(call, exp.Anonymous) else [call.this]
        parts = dict(zip(kind.arg_types, given, strict=False))
        outer.replace(exp.IgnoreNulls(this=kind(**parts)))
    return tree


def verbatim(expr: exp.Expr) -> exp.Expr:
    """Reads a call anew, as its plain name and its arguments; these stay the trees that they are.

    Args:
        expr: a call, perhaps with FILTER, WITHIN GROUP or IGNORE NULLS around it.
    """
    bare, operands = _apart(expr)
    tree = sqlglot.parse_one(text(bare), dialect=Verbatim)
    assert isinstance(tree, exp.Expr)
    for call in list(tree.find_all(exp.Anonymous)):
        call.set("expressions", _arguments(call.expressions))
    for name in list(tree.find_all(exp.Column)):
        if name.name in operands:
            name.replace(operands[name.name].copy())
    return tree


def _apart(expr: exp.Expr) -> tuple[exp.Expr, dict[str, exp.Expr]]:
    """The expression with a column in place of each operand of its call, and these by name."""
    bare = expr.copy()
    call = bare.find(exp.Func, bfs=False)
    operands: dict[str, exp.Expr] = {}

    def swap(node: exp.Expr) -> exp.Expr:
        if node is call or isinstance(node, exp.Literal) or not isinstance(node, _OPERANDS):
            return node
        operands[name := f"c{len(operands)}"] = node
        return exp.column(name)

    return bare.transform(swap, copy=False), operands


def _arguments(listed: list[exp.Expr]) -> list[exp.Expr]:
    """Binds DISTINCT to the first argument alone: sqlglot would write it with a tuple."""
    order = listed[0] if listed else None
    distinct = order.this if isinstance(order, exp.Order) else order
    if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
        return listed
    first, *others = distinct.expressions
    found = [exp.Distinct(expressions=[first]), *others, *listed[1:]]
    if isinstance(order, exp.Order):
        found[-1] = exp.Order(this=found[-1], expressions=order.expressions)
    return found


def _synonyms_without(hiding: frozenset[str]) -> dict[str, str]:
    """The synonyms but those that a macro hides: its name no longer means the same function."""
    known = synonyms()
    return {n: chief for n, chief in known.items() if not {n, chief} & hiding} if hiding else known
