"""Expression trees over columns by position, written ``c<i>``.

Contract: no function here but `balanced` changes a tree that it is given; plans share their trees.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sqlglot import ErrorLevel, exp
from sqlglot.generators.duckdb import DuckDBGenerator

from ivm.storage.values.types import ColumnType

_MANY = 32  # terms; longer chains become balanced trees, since Python's recursion is limited
# Known functions are no atoms: sqlglot writes some of them with operators.
_ATOMS = (exp.Column, exp.Literal, exp.Paren, exp.Cast, exp.Null, exp.Boolean, exp.Anonymous)


def column(index: int, table: str | None = None) -> exp.Column:
    """Makes a reference to the input column at position `index`, qualified by `table` if given."""
    return exp.column(f"c{index}", table=table)


def index_of(node: exp.Column) -> int:
    """The position that a column reference names."""
    return int(node.name[1:])


WRITTEN: Mapping[str, Any] = {
    "dialect": "duckdb", "unsupported_level": ErrorLevel.IGNORE, "comments": False
}  # fmt: skip


class Writer(DuckDBGenerator):
    """Writes functions in capitals, except names that capitals would change for DuckDB, and names
    in a PIVOT with their tables."""

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        kind: written for kind, written in DuckDBGenerator.TRANSFORMS.items() if kind != exp.Pivot
    }

    def normalize_func(self, name: str) -> str:
        return str(super().normalize_func(name)) if name.isascii() else name


def text(expr: exp.Expr) -> str:
    """Renders the expression as SQL without schemas (see `duck_text`); also its structural key."""
    return Writer(**WRITTEN).generate(expr)


def used(expr: exp.Expr) -> set[int]:
    """Positions of the columns in the tree."""
    return {index_of(node) for node in expr.find_all(exp.Column)}


def position(expr: exp.Expr) -> int | None:
    """The position of a bare column; None for any other expression."""
    return index_of(expr) if isinstance(expr, exp.Column) else None


def replace(expr: exp.Expr, image: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
    """Copies the tree with each column replaced by its image, parenthesised where needed."""

    def swap(node: exp.Expr) -> exp.Expr:
        return closed(image(node)) if isinstance(node, exp.Column) else node

    return expr.copy().transform(swap, copy=False)


def remap(expr: exp.Expr, moved: Callable[[int], int]) -> exp.Expr:
    """Copies the tree with each column at its new position."""
    return replace(expr, lambda node: column(moved(index_of(node))))


def closed(expr: exp.Expr) -> exp.Expr:
    """Copies the expression, in parentheses unless it needs none in any context."""
    return expr.copy() if isinstance(expr, _ATOMS) else exp.Paren(this=expr.copy())


def cast(expr: exp.Expr, type: ColumnType) -> exp.Expr:
    """Makes `CAST(expr AS type)`; an expression that is a cast to the type already stays."""
    if isinstance(expr, exp.Cast) and text(expr.to) == text(data_type(type)):
        return expr
    return exp.Cast(this=expr.copy(), to=data_type(type))


def data_type(type: ColumnType) -> exp.DataType:
    """Makes a type node that renders exactly as DuckDB spells the type."""
    return exp.DataType(this=exp.DType.USERDEFINED, kind=type.sql)


def nodes_of(argument: object) -> list[exp.Expr]:
    """The nodes in one argument of a node, which holds them alone or in a list."""
    values = argument if isinstance(argument, list) else [argument]
    return [value for value in values if isinstance(value, exp.Expr)]


def conjuncts(predicate: exp.Expr | None) -> list[exp.Expr]:
    """The terms of a conjunction, in order; none for None."""
    if predicate is None:
        return []
    if isinstance(predicate, exp.Paren):
        return conjuncts(predicate.this)
    if isinstance(predicate, exp.And):
        return conjuncts(predicate.this) + conjuncts(predicate.expression)
    return [predicate]


def conjunction(terms: Iterable[exp.Expr]) -> exp.Expr | None:
    """Joins copies of the terms by AND; None if there are none."""
    parts = [exp.Paren(this=t.copy()) if isinstance(t, exp.Or) else t.copy() for t in terms]
    return joined(exp.And, parts) if parts else None


def joined(kind: type[exp.Connector], terms: Sequence[exp.Expr]) -> exp.Expr:
    """Joins the terms by AND or OR, many of them as a balanced tree."""
    if len(terms) > _MANY:
        half = len(terms) // 2
        terms = [joined(kind, terms[:half]), joined(kind, terms[half:])]
    chain = terms[0]
    for term in terms[1:]:
        made = kind(this=chain, expression=term)
        assert isinstance(made, exp.Expr)
        chain = made
    return chain


def balanced(tree: exp.Expr) -> exp.Expr:
    """Balances long chains of AND or OR; the tree is changed."""
    tops = [n for n in tree.find_all(exp.And, exp.Or) if not isinstance(n.parent, type(n))]
    for top in tops:
        terms = list(top.flatten(unnest=False))
        if len(terms) > _MANY:
            kind = type(top)
            made = joined(kind, [t for t in terms if isinstance(t, exp.Expr)])
            top.replace(made)
    return tree


def compared(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Makes a comparison of two expressions, parenthesised where needed."""
    made = kind(this=closed(left), expression=closed(right))
    assert isinstance(made, exp.Expr)
    return made


def structure(node: object) -> Hashable:
    """A key of a tree, equal for trees that differ at most in parentheses."""
    if isinstance(node, exp.Paren):
        return structure(node.this)
    if isinstance(node, exp.Expr):
        parts = [(k, structure(v)) for k, v in sorted(node.args.items()) if v or v == 0]
        return (type(node).__name__, *parts)
    if isinstance(node, list):
        return tuple(structure(part) for part in node)
    return str(node)


class Expressions:
    """A list of expressions to which each further one is added once, by its structure.

    Attributes:
        exprs: the expressions given, repetitions included, then those added.
    """

    def __init__(self, given: Sequence[exp.Expr]) -> None:
        self.exprs = list(given)
        self._positions = {structure(e): i for i, e in reversed(list(enumerate(given)))}

    def position_of(self, expr: exp.Expr) -> int:
        """The position of the expression in the list, to which it is added if it is not there."""
        key = structure(expr)
        if key not in self._positions:
            self._positions[key] = len(self.exprs)
            self.exprs.append(expr)
        return self._positions[key]


def ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes above a node, innermost first."""
    above = node.parent
    while isinstance(above, exp.Expr):
        yield above
        above = above.parent
