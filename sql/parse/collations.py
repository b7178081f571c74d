"""Rewrites comparisons, orders and groups by a collation to functions of the strings.

Law: DuckDB compares x COLLATE c with y as f(x) with f(y), where f maps the strings that c does not
distinguish to one string, or to the sort key of a language; so do ORDER BY x COLLATE c, PARTITION
BY, DISTINCT ON and count(DISTINCT …).
Limit: DuckDB may compare x COLLATE c differently with values that are not strings, so only literals
and terms with a collation are rewritten. Any other COLLATE stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.plan.built_in import call
from ivm.storage.identifiers import fold

_FUNCTIONS: dict[str, tuple[str, ...]] = {  # innermost first
    "nocase": ("lower",),
    "noaccent": ("strip_accents",),
    "nfc": ("nfc_normalize",),
    "nocase.noaccent": ("strip_accents", "lower"),
    "noaccent.nocase": ("strip_accents", "lower"),
    "c": (),
    "posix": (),
}
_LANGUAGE = re.compile(r"[a-z]{2,3}(_[a-z]{2})?")
_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip


def without_collations(tree: exp.Expr) -> exp.Expr:
    """Replaces collations by functions where the meaning is the same; the tree is changed."""
    for node in list(tree.find_all(exp.Ordered, exp.In, exp.Between, *_COMPARISONS)):
        operands = _operands(node)
        collated = [operand for operand in operands if isinstance(operand, exp.Collate)]
        names = {_name(operand) for operand in collated}
        plain = all(operand in collated or operand.is_string for operand in operands)
        known = [c for c in collated if comparison_key(c) is not None]
        if not plain or len(names) != 1 or len(known) < len(collated):
            continue
        for operand in operands:
            operand.replace(_applied(operand, collated[0]))
    for node in list(tree.find_all(exp.Collate)):
        term = comparison_key(node) if _only_distinguishes(node) else None
        if term is not None:
            node.replace(term)
    return tree


def comparison_key(node: exp.Collate) -> exp.Expr | None:
    """An expression that compares as the string does by its collation; None if none is known."""
    inner = node.this.unnest()
    if inner.is_number or inner.find(exp.Collate):
        return None
    name = _name(node)
    known = name in _FUNCTIONS or (_LANGUAGE.fullmatch(name) and name != "as")
    return _applied(node, node) if known else None


def _only_distinguishes(node: exp.Collate) -> bool:
    """Returns whether the strings are only distinguished there, and none of them is shown."""
    above = node.parent
    if isinstance(above, exp.Window):
        return node.arg_key == "partition_by"
    if isinstance(above, exp.Tuple) and above.arg_key == "on":
        above = above.parent
    if not isinstance(above, exp.Distinct):
        return False
    return node.arg_key == "on" or isinstance(node.parent, exp.Tuple) or _is_count(above)


def _is_count(distinct: exp.Distinct) -> bool:
    return isinstance(distinct.parent, exp.Count) and len(distinct.expressions) == 1


def _operands(node: exp.Expr) -> Sequence[exp.Expr]:
    """The operands compared; none if they are a subquery's rows or a column of the result."""
    if isinstance(node, exp.Ordered):
        return [] if _names_result(node) else [node.this]
    if isinstance(node, exp.In):
        return [node.this, *node.expressions] if node.expressions else []
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    return [node.this, node.expression]


def _names_result(key: exp.Ordered) -> bool:
    """Returns whether an ORDER BY key may mean an alias; in a function's call it would not."""
    query = key.parent.parent if key.parent is not None else None
    if isinstance(query, exp.SetOperation):
        return True
    items = query.expressions if isinstance(query, exp.Select) else []
    aliases = {fold(item.alias) for item in items if isinstance(item, exp.Alias)}
    return any(fold(column.name) in aliases for column in key.this.find_all(exp.Column))


def _name(node: exp.Collate) -> str:
    return ".".join([part.name for part in _parts(node.expression)]).lower()


def _parts(node: exp.Expr) -> Sequence[exp.Expr]:
    return node.parts if isinstance(node, exp.Column) else [node]


def _applied(operand: exp.Expr, collation: exp.Collate) -> exp.Expr:
    """The operand with the collation's functions applied, and without a COLLATE of its own."""
    found = operand.this if isinstance(operand, exp.Collate) else operand
    name = _name(collation)
    if name not in _FUNCTIONS:
        key = [found.copy(), exp.Literal.string(name)]
        return call("icu_sort_key", *key)
    for function in _FUNCTIONS[name]:
        found = call(function, found)
    return found
