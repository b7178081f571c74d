"""Terms common to all branches of an OR, factored out of it so that joins can take keys from them.

Law: a ∧ b ∨ a ∧ c = a ∧ (b ∨ c) and a ∨ a ∧ c = a, with NULLs too. Where an OR is true, one of its
branches is, and every term of that branch; so the OR of one term of each branch is implied.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ivm.sql.plan.expressions import conjunction, conjuncts, index_of, structure
from ivm.storage.values.types import ColumnType

Terms = list[exp.Expr]

# No value of a string or integer column fails in a comparison with constants of its type: so these
# terms may be tested also for rows that have no partner.
_SAFE = (
    exp.Identifier, exp.Paren, exp.And, exp.Or, exp.Not, exp.In, exp.Between,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE,
)  # fmt: skip


def factored_conjuncts(predicate: exp.Expr | None) -> Terms:
    """The terms of a conjunction, with the terms common to all branches of an OR factored out."""
    return [part for term in conjuncts(predicate) for part in _factored(term)]


def implied(term: exp.Expr, types: Mapping[int, ColumnType]) -> Terms:
    """The condition over the given columns alone that an OR implies, as a list of at most one.

    Args:
        term: an OR over these and other columns; nothing is implied by any other term.
        types: of the columns, by position.
    """
    branches = _branches(term)
    if len(branches) < 2:
        return []
    parts = []
    for branch in branches:
        part = conjunction(t for t in branch if is_safe(t, types))
        if part is None:
            return []
        parts.append(part)
    return [_disjunction(parts)]


def _factored(term: exp.Expr) -> Terms:
    branches = _branches(term)
    if len(branches) < 2:
        return [term]
    known = [{structure(t) for t in branch} for branch in branches]
    shared = set.intersection(*known)
    if not shared:
        return [term]
    first = {structure(t): t for t in reversed(branches[0]) if structure(t) in shared}
    common = [t for key, t in reversed(first.items())]
    rests = [conjunction(t for t in b if structure(t) not in shared) for b in branches]
    left = [rest for rest in rests if rest is not None]
    return common if len(left) < len(rests) else [*common, _disjunction(left)]


def _branches(term: exp.Expr) -> list[Terms]:
    """The branches of an OR, each as its terms."""
    bare = term.unnest()
    if isinstance(bare, exp.Or):
        return [branch for side in bare.iter_expressions() for branch in _branches(side)]
    return [conjuncts(term)]


def _disjunction(parts: Terms) -> exp.Expr:
    whole: exp.Expr = exp.Paren(this=parts[0])
    for part in parts[1:]:
        whole = exp.Or(this=whole, expression=exp.Paren(this=part))
    return whole


def is_safe(term: exp.Expr, types: Mapping[int, ColumnType]) -> bool:
    """Returns whether no value makes the term fail.

    It compares columns of one family of types, all given, with such constants.
    """
    families = {_family(node, types) for node in term.walk() if not isinstance(node, _SAFE)}
    return families in ({"string"}, {"integer"})


def _family(node: exp.Expr, types: Mapping[int, ColumnType]) -> str | None:
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else "integer" if node.is_int else None
    type = types.get(index_of(node)) if isinstance(node, exp.Column) else None
    if type is None:
        return None
    return "string" if type.sql == "VARCHAR" else "integer" if type.is_integer else None
