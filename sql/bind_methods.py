"""Methods, `x.f(y)`, as the calls that they are.

Law: DuckDB reads `x.f(y)` as f(x, y). sqlglot turns each column to the left of a call behind a dot
or an arrow into bare names, as if they were parts of the function's own name; here they are columns
again. To DuckDB the parameter of a lambda is hidden by a column before a method, and nowhere else,
so that alone is left to `parameter_of`.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.columns import ancestors

_ARROWS = (exp.JSONExtract, exp.JSONExtractScalar)
_NAMED = (exp.Column, exp.Alias, exp.Dot, exp.Lambda, exp.Window)  # names in them are no values
_KEYED = (exp.PropertyEQ, exp.Kwarg)


def without_methods(tree: exp.Expression) -> exp.Expression:
    """The tree with plain calls for methods (it is changed), innermost first."""
    found: list[exp.Expression] = list(tree.find_all(exp.Dot, *_ARROWS, bfs=False))
    for node in reversed(found):
        if not isinstance(node.expression, exp.Func):
            continue
        call = node.expression
        if not isinstance(node, exp.Dot):
            node.set("this", _with_columns(node.this, _parameters(node)))
        elif isinstance(call, exp.Anonymous):  # as sqlglot reads all calls behind a dot
            left = _with_columns(node.this, frozenset())
            node.replace(exp.Anonymous(this=call.this, expressions=[left, *call.expressions]))
    return tree


def parameter_of(node: exp.Column) -> exp.Expression | None:
    """The parameter of a lambda around, or a field of it, that the name of no column means."""
    first, *fields = node.parts
    if first.name.lower() not in _parameters(node):
        return None
    found: exp.Expression = exp.to_identifier(first.name)
    for name in fields:
        found = exp.Dot(this=found, expression=exp.to_identifier(name.name, quoted=True))
    return found


def _parameters(node: exp.Expression) -> frozenset[str]:
    around = [above for above in ancestors(node) if isinstance(above, exp.Lambda)]
    return frozenset(p.name.lower() for above in around for p in above.expressions)


def _with_columns(node: exp.Expression, parameters: frozenset[str]) -> exp.Expression:
    """A copy of an expression with columns for its bare names."""
    if isinstance(node, exp.Identifier):
        return node.copy() if node.name.lower() in parameters else exp.Column(this=node.copy())
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        table, name = node.this, node.expression
        if isinstance(table, exp.Identifier) and table.name.lower() not in parameters:
            return exp.Column(this=name.copy(), table=table.copy())
    if isinstance(node, exp.Lambda):
        parameters |= {parameter.name.lower() for parameter in node.expressions}
    found = node.copy()
    for part, value in node.args.items():
        values = value if isinstance(value, list) else [value]
        if any(isinstance(v, exp.Expression) and _is_value(node, part, v) for v in values):
            images = [_with_columns(v, parameters) for v in values]
            found.set(part, images if isinstance(value, list) else images[0])
    return found


def _is_value(parent: exp.Expression, part: str, node: exp.Expression) -> bool:
    """Whether a part of an expression is one itself, and not a name or a type."""
    if isinstance(parent, exp.Lambda):
        return part == "this"
    if isinstance(parent, _KEYED) and part == "this":
        return False
    names = isinstance(parent, _NAMED) and isinstance(node, exp.Identifier)
    return not names and not isinstance(node, exp.DataType)
