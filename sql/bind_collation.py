"""Comparisons and orders by a collation, as those of what the collation makes of a text.

Law: DuckDB compares x COLLATE c with y as f(x) with f(y), where f drops what c does not tell apart;
so does ORDER BY x COLLATE c. Between x COLLATE c and what may be no text it may compare otherwise:
only literals and terms with a collation are read. Anywhere else COLLATE stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

_FUNCTIONS: dict[str, tuple[str, ...]] = {  # from the inside out
    "nocase": ("lower",),
    "noaccent": ("strip_accents",),
    "nfc": ("nfc_normalize",),
    "nocase.noaccent": ("strip_accents", "lower"),
    "noaccent.nocase": ("strip_accents", "lower"),
    "c": (),
    "posix": (),
}
_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip


def without_collations(tree: exp.Expression) -> exp.Expression:
    """The tree with functions for collations where that says the same."""
    for node in list(tree.find_all(exp.Ordered, exp.In, exp.Between, *_COMPARISONS)):
        operands = _operands(node)
        collated = [operand for operand in operands if isinstance(operand, exp.Collate)]
        names = {_name(operand) for operand in collated}
        plain = all(operand in collated or operand.is_string for operand in operands)
        functions = _FUNCTIONS.get(names.pop()) if len(names) == 1 and plain else None
        if functions is None or any(c.this.unnest().is_number for c in collated):
            continue
        for operand in operands:
            operand.replace(_applied(operand, functions))
    return tree


def _operands(node: exp.Expr) -> Sequence[exp.Expr]:
    """What is compared; nothing, if it is a subquery's rows or a column of the result."""
    if isinstance(node, exp.Ordered):
        return [] if _names_result(node) else [node.this]
    if isinstance(node, exp.In):
        return [node.this, *node.expressions] if node.expressions else []
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    return [node.this, node.expression]


def _names_result(key: exp.Ordered) -> bool:
    """Whether a key may mean an alias, which hides a column here but not in a function's call."""
    query = key.parent.parent if key.parent is not None else None
    if isinstance(query, exp.SetOperation):
        return True
    items = query.expressions if isinstance(query, exp.Select) else []
    aliases = {item.alias.lower() for item in items if isinstance(item, exp.Alias)}
    return any(column.name.lower() in aliases for column in key.this.find_all(exp.Column))


def _name(node: exp.Collate) -> str:
    return ".".join([part.name for part in _parts(node.expression)]).lower()


def _parts(node: exp.Expr) -> Sequence[exp.Expr]:
    return node.parts if isinstance(node, exp.Column) else [node]


def _applied(operand: exp.Expr, functions: Sequence[str]) -> exp.Expr:
    found = operand.this if isinstance(operand, exp.Collate) else operand
    for name in functions:
        found = exp.Anonymous(this=name, expressions=[found.copy()])
    return found
