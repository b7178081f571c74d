"""SQL text to a syntax tree that says exactly what the text says.

Law: a tree is used only if the SQL written from it parses, in DuckDB, to the same syntax tree as
the user's text (function and type synonyms taken as equal). sqlglot respells some constructs; where
its usual reading changes the meaning, a reading that leaves all function names alone is tried.
"""

from __future__ import annotations

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from ivm.sql.parse.canonical_tree import canonical
from ivm.sql.parse.collations import without_collations
from ivm.sql.parse.dialect import Read, Verbatim, Written
from ivm.sql.parse.duckdb_tree import syntax_tree
from ivm.sql.parse.hiding_macros import refuse_unseen
from ivm.sql.parse.methods import refuse_places, without_methods
from ivm.sql.plan.built_in import synonyms
from ivm.sql.plan.expressions import balanced, text
from ivm.sql.plan.nodes import NotIncremental
from ivm.storage.warehouse.duck import Cursor

_PASSING: dict[object, type[exp.Expr]] = {
    exp.First: exp.FirstValue, "first": exp.FirstValue, "first_value": exp.FirstValue,
    exp.Last: exp.LastValue, "last": exp.LastValue, "last_value": exp.LastValue,
    "nth_value": exp.NthValue, "lag": exp.Lag, "lead": exp.Lead,
}  # fmt: skip


def parse_query(sql: str, cursor: Cursor, hiding: frozenset[str] = frozenset()) -> exp.Expr:
    """The faithful syntax tree of a SELECT (or VALUES, FROM, set operation), in plain terms.

    Args:
        sql: one query that DuckDB accepts.
        cursor: answers with DuckDB's own parse.
        hiding: names of macros that hide built-in functions.

    Raises:
        NotIncremental: sqlglot cannot say this query exactly.
    """
    names = _synonyms_beside(hiding)
    parsed = syntax_tree(sql, cursor)
    if parsed is None:
        raise NotIncremental("a query that DuckDB does not serialize")
    wanted = canonical(parsed, names)
    for dialect in (Read, Verbatim):
        try:
            tree = _passing_nulls(sqlglot.parse_one(sql, dialect=dialect))
            written = tree.sql(dialect=Written, unsupported_level=ErrorLevel.IGNORE, comments=False)
        except (SqlglotError, ValueError):  # of a path that sqlglot reads, but cannot write
            continue
        if not isinstance(tree, exp.Expr):
            continue
        if canonical(syntax_tree(written, cursor), names) == wanted:
            tree = balanced(without_collations(without_methods(tree)))
            refuse_places(parsed, cursor)
            refuse_unseen(tree, parsed, hiding)
            return tree
    raise NotIncremental("a construct that the planner cannot read back exactly")


def _passing_nulls(tree: exp.Expr) -> exp.Expr:
    """The tree in which IGNORE NULLS stands where sqlglot writes it back, around window functions.

    FIRST and LAST over a window are FIRST_VALUE and LAST_VALUE to DuckDB.
    """
    for word in list(tree.find_all(exp.IgnoreNulls)):
        inside = isinstance(word.parent, (exp.First, exp.Last, exp.Anonymous))
        call, whole = (word.parent, word.parent) if inside else (word.this, word)
        if not isinstance(call, exp.Expr) or not isinstance(whole, exp.Expr):
            continue
        around = whole.parent.parent if isinstance(whole.parent, exp.Filter) else whole.parent
        kind = _PASSING.get(type(call)) or _PASSING.get(call.name.lower())
        if kind is None or not isinstance(around, exp.Window):
            continue
        if inside:
            word.replace(word.this)
        given = call.expressions if isinstance(call, exp.Anonymous) else [call.this]
        parts = dict(zip(kind.arg_types, given, strict=False))
        whole.replace(exp.IgnoreNulls(this=kind(**parts)))
    return tree


def verbatim(expr: exp.Expr) -> exp.Expr:
    """The expression with every function as its plain name and arguments."""
    tree = sqlglot.parse_one(text(expr), dialect=Verbatim)
    assert isinstance(tree, exp.Expr)
    for call in list(tree.find_all(exp.Anonymous)):
        call.set("expressions", _arguments(call.expressions))
    return tree


def _arguments(listed: list[exp.Expr]) -> list[exp.Expr]:
    """The arguments one by one: DISTINCT is of the first, and sqlglot would write a tuple."""
    order = listed[0] if listed else None
    distinct = order.this if isinstance(order, exp.Order) else order
    if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
        return listed
    first, *others = distinct.expressions
    found = [exp.Distinct(expressions=[first]), *others, *listed[1:]]
    if isinstance(order, exp.Order):
        found[-1] = exp.Order(this=found[-1], expressions=order.expressions)
    return found


def _synonyms_beside(hiding: frozenset[str]) -> dict[str, str]:
    """The synonyms that still are some beside macros with such names."""
    known = synonyms()
    return {n: chief for n, chief in known.items() if not {n, chief} & hiding} if hiding else known
