"""Scalar expressions: names become positions, and some spellings their plain form.

Law: a column of the FROM clause hides an alias of the SELECT list (DuckDB's rule everywhere but in
ORDER BY); an alias means its expression.

Law: the plain form of a spelling (a comprehension, ANY over a list, IN a list, bytes) has, in every
row, the value that DuckDB gives the expression as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from ivm.sql.bind.grouping import is_window_function
from ivm.sql.bind.unnest import bound_unnest
from ivm.sql.parse.methods import is_marked, parameter, path, with_parameters
from ivm.sql.plan.built_in import call, is_ours
from ivm.sql.plan.expressions import closed, text
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.resolve.clock import AGE, TELLERS, WORDS, Told, aged_from, is_word
from ivm.sql.resolve.columns_calls import bare, bind_position
from ivm.sql.resolve.context import OuterNames
from ivm.sql.resolve.functions import Functions
from ivm.sql.resolve.scope import Scope, is_no_field
from ivm.sql.subqueries.compared_types import check_element
from ivm.sql.subqueries.nested import Nesting, holds_mark
from ivm.storage.identifiers import fold
from ivm.storage.values.types import ColumnType

Aliases = Mapping[str, exp.Expr]
"""Folded alias → its bound expression."""

_PARTS = 4  # of a column's name: database, schema, table, column


def bind_scalar(
    node: exp.Expr,
    scope: Scope,
    functions: Functions,
    aliases: Aliases | None = None,
    is_hidden: Callable[[exp.Column], bool] | None = None,
    nesting: Nesting | None = None,
) -> exp.Expr:
    """A bound copy of an expression; aggregates and window functions stay as nodes in it.

    Args:
        aliases: for names that are no columns of the scope.
        is_hidden: returns whether a column is hidden by an alias of its name.
        nesting: binds nested queries and names of outer queries; None refuses them.

    Raises:
        NotIncremental: an unknown name, or a refused construct.
    """
    return _Binder(scope, functions, aliases or {}, is_hidden or _never_hidden, nesting).bound(node)


@dataclass(frozen=True)
class _Binder:
    scope: Scope
    functions: Functions
    aliases: Aliases
    is_hidden: Callable[[exp.Column], bool]
    nesting: Nesting | None

    def bound(self, node: exp.Expr) -> exp.Expr:
        tree = node.copy()
        if self.nesting is None:
            return tree.transform(self._swap, copy=False)
        tree, nested = self.nesting.extracted(tree)
        tree = tree.transform(self._swap, copy=False)
        return self.nesting.completed(tree, nested, self.scope, self.aliases)

    def _swap(self, node: exp.Expr) -> exp.Expr:
        outer = self._outer
        if outer is not None and self._is_of_outer(node):
            return self._outer_aggregate(node, outer)
        unnest = bound_unnest(node, self.bound)
        if unnest is not None:
            return unnest
        if isinstance(node, exp.PositionalColumn):
            return bind_position(node, self.scope)
        self._check_quantified(node)
        plain = desugared(node) or self.functions.expanded(node) or self._packed(node)
        if plain is not None:
            return self.bound(plain)
        told = self._told(node)
        if told is not None:
            return told
        self.functions.check(node)
        if isinstance(node, exp.Star) and not _is_counted(node):
            raise NotIncremental("a star inside an expression")
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Lambda):
            self._check_lambda(node)
        return node

    @property
    def _outer(self) -> OuterNames | None:
        return None if self.nesting is None else self.nesting.context.outer

    # Names

    def _column(self, node: exp.Column) -> exp.Expr:
        if isinstance(node.this, exp.Star):
            raise NotIncremental("a star inside an expression")
        if is_marked(node):
            return self._of_from(node) or parameter(node)
        alias = self._alias(node)
        if alias is not None and self.is_hidden(node):
            return closed(alias)
        found = self._own(node)
        if found is None and alias is not None:
            return closed(alias)
        found = found or self.scope.row(node)
        if found is None and self._outer is not None:
            found = self._outer.resolve(node)
            if found is not None and is_word(node):  # DuckDB takes the function
                raise NotIncremental(f"the name {node.sql()}, of a column of an outer query")
        if found is None and is_word(node):
            return self._time(TELLERS[WORDS[fold(node.name)]])
        if found is None:
            raise NotIncremental(f"the name {node.sql()}, which is no column of this FROM clause")
        return found

    def _told(self, node: exp.Expr) -> exp.Expr | None:
        """The value of a call that tells the time; None for any other node."""
        if not isinstance(node, exp.Anonymous) or is_ours(node):
            return None
        name = fold(node.name)
        if name in TELLERS and not node.expressions:
            return self._time(TELLERS[name])
        if name != AGE or len(node.expressions) != 1 or self.nesting is None:
            return None
        (since,) = node.expressions  # bound already, or its columns are
        bound = self.bound(since)
        (type,) = self.nesting.context.types([bound], self.nesting.plan)
        told = aged_from(type.sql)
        if told is None or holds_mark(bound):
            raise NotIncremental(f"age() of one argument of type {type}")
        return call(AGE, self._time(told), bound)

    def _check_quantified(self, node: exp.Expr) -> None:
        """Refuses `x = ANY(list)` whose types `=` compares in another way."""
        source = _listed(node)
        if source is not None:
            element = call("list_extract", source.copy(), exp.Literal.number(1))
            check_element(self._type(node.this), self._type(element))

    def _type(self, node: exp.Expr) -> ColumnType:
        if self.nesting is None:
            raise NotIncremental("ANY or ALL of a list in this place")
        try:
            return self.nesting.context.types([self.bound(node)], self.nesting.plan)[0]
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:  # of a part of an aggregate's value, or of a subquery's
            raise NotIncremental(f"ANY or ALL of a list beside {text(node)}") from error

    def _time(self, told: Told) -> exp.Expr:
        if self.nesting is None:
            raise NotIncremental("a function of the time in this place")
        return self.nesting.told(told)

    def _alias(self, node: exp.Column) -> exp.Expr | None:
        """The expression of the alias `name` or `alias.name`; None if there is none."""
        named = fold(node.table) in ("", "alias")
        return self.aliases.get(fold(node.name)) if named else None

    def _of_from(self, node: exp.Column) -> exp.Expr | None:
        """The column, or the row as a struct, that the FROM clause has under a name."""
        return self._own(node) or self.scope.row(node)

    def _own(self, node: exp.Column) -> exp.Expr | None:
        """The column, or the field of one, that the FROM clause has under a name.

        What would be a field of a column without fields is a column of an outer query's.
        """
        found = self.scope.resolve(node)
        if self._outer is None or self.nesting is None:
            return found
        return None if is_no_field(found, self.nesting.plan) else found

    def _check_lambda(self, node: exp.Lambda) -> None:
        """Refuses a parameter that is named as a position, `c0`, since it would capture columns.

        Refuses also a field of a parameter that may be a column: DuckDB's fault
        `fields_of_parameters`.
        """
        names = {fold(parameter.name) for parameter in node.expressions}
        for name in names:
            if name[:1] == "c" and name[1:].isdigit():
                raise NotIncremental(f"a lambda parameter named {name}")
        for parts in _paths(node.this):
            if fold(parts[0]) in names and self._may_be_column(parts):
                raise NotIncremental(f"{'.'.join(parts)}, of a lambda's parameter and of a column")

    def _may_be_column(self, parts: list[str]) -> bool:
        """Returns whether names with dots may mean a column; schemas may precede its table."""
        tails = [parts[start:] for start in range(len(parts) - 1)]
        return any(self.scope.resolve(exp.column(*reversed(tail))) for tail in tails)

    # Structs whose fields columns name

    def _packed(self, node: exp.Expr) -> exp.Expr | None:
        """struct_pack(a, b) with the field names that DuckDB takes from columns.

        None if all fields have names.

        Raises:
            NotIncremental: DuckDB makes up a name, or takes one that is not known here.
        """
        called = isinstance(node, exp.Anonymous) and node.name.lower() == "struct_pack"
        if not (called or isinstance(node, exp.Struct)) or all(map(_has_name, node.expressions)):
            return None
        fields = [e if _has_name(e) else self._field(bare(e)) for e in node.expressions]
        return exp.Anonymous(this="struct_pack", expressions=fields)

    def _field(self, node: exp.Expr) -> exp.Expr:
        found: exp.Expr | None = None
        if isinstance(node, exp.PositionalColumn):
            found = bind_position(node, self.scope)
        elif isinstance(node, exp.Column) and (node.table or fold(node.name) not in self.aliases):
            found = self.scope.resolve(node)
        name = self.scope.own_name(found) if isinstance(found, exp.Column) else None
        if name is None:
            raise NotIncremental("struct_pack() with a field that has no plain name")
        return exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=node.copy())

    # Aggregates of an outer query

    def _is_of_outer(self, node: exp.Expr) -> bool:
        """Returns whether an aggregate is of an outer query: it reads no columns of this one."""
        if not self.functions.is_aggregate(node) or is_window_function(node):
            return False
        names = [n for n in node.find_all(exp.Column) if not self._is_parameter(n)]
        names = [n for n in names if self._is_own(n) or not is_word(n)]
        if not names or any(self._is_own(name) for name in names):
            return False
        if holds_mark(node):
            raise NotIncremental("an aggregate of a subquery and of an outer query's columns")
        return True

    def _is_parameter(self, node: exp.Column) -> bool:
        return is_marked(node) and self._of_from(node) is None

    def _is_own(self, node: exp.Column) -> bool:
        named = not node.table and fold(node.name) in self.aliases
        return named or self._of_from(node) is not None

    def _outer_aggregate(self, node: exp.Expr, outer: OuterNames) -> exp.Expr:
        """The parameter for an aggregate of the outer query."""
        assert self.nesting is not None
        around = Nesting(outer.context, outer.plan, self.nesting.bind)
        binder = _Binder(outer.scope, self.functions, outer.aliases, _never_hidden, around)
        return outer.parameter(binder.bound(with_parameters(node)))


def _never_hidden(_: exp.Column) -> bool:
    return False


def _has_name(field: exp.Expr) -> bool:
    return isinstance(field, (exp.PropertyEQ, exp.Kwarg))


def _is_counted(star: exp.Expr) -> bool:
    call = star.parent
    return isinstance(call, exp.Count) or (
        isinstance(call, exp.Anonymous) and call.name.lower() == "count"
    )


def _paths(tree: exp.Expr) -> Iterator[list[str]]:
    """The names of every expression with dots, as many as a column may have."""
    for node in tree.find_all(exp.Dot):
        names = [part.name for part in path(node)]
        if len(names) > 1:
            yield names[:_PARTS]


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_ITEM = "_item"


def desugared(node: exp.Expr) -> exp.Expr | None:
    """The plain form of a node, unbound; None if the node has no other one."""
    if isinstance(node, exp.Array) and len(node.expressions) == 1:
        (only,) = node.expressions
        return _comprehension(only) if isinstance(only, exp.Comprehension) else None
    if isinstance(node, _COMPARISONS):
        return _quantified(node)
    if isinstance(node, exp.In) and node.args.get("field") is not None:
        return call("contains", node.args["field"], node.this)
    if isinstance(node, exp.HexString):
        return _bytes(node.name)
    return None


def _comprehension(node: exp.Comprehension) -> exp.Expr | None:
    """The plain form of `[f(x) for x in l if p(x)]`: the list filtered, then mapped."""
    item = exp.to_identifier(node.args["expression"].name)
    if node.args.get("position") is not None:
        return None
    source = node.args["iterator"]
    condition = node.args.get("condition")
    if condition is not None:
        source = call("list_filter", source, _lambda(condition, item))
    return call("list_transform", source, _lambda(node.this, item))


def _lambda(body: exp.Expr, name: exp.Identifier) -> exp.Expr:
    """A lambda over a body that has the parameter as a column."""

    def swap(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or is_marked(part):
            return part
        return parameter(part) if fold(part.parts[0].name) == fold(name.name) else part

    return exp.Lambda(this=body.copy().transform(swap, copy=False), expressions=[name])


def _quantified(node: exp.Expr) -> exp.Expr | None:
    """The plain form of `x = ANY(list)`: TRUE if an element is equal, else NULL if one may be.

    For any comparison: ANY looks for TRUE first and ALL for FALSE, both then for NULL.
    """
    source = _listed(node)
    if source is None:
        return None
    is_any = isinstance(node.expression, exp.Any)
    item = exp.to_identifier(_ITEM)
    compared = type(node)(this=node.this.copy(), expression=item.copy())
    found = call("list_transform", source, exp.Lambda(this=compared, expressions=[item]))
    open_ = exp.Lambda(this=exp.Is(this=item.copy(), expression=exp.null()), expressions=[item])
    some = exp.GT(
        this=call("len", call("list_filter", found, open_)), expression=exp.Literal.number(0)
    )
    decides = exp.Boolean(this=is_any)
    return exp.Case(
        ifs=[
            exp.If(this=call("list_contains", found, decides), true=decides.copy()),
            exp.If(this=some, true=exp.null()),
        ],
        default=exp.Boolean(this=not is_any),
    )


def _listed(node: exp.Expr) -> exp.Expr | None:
    """The list that a comparison with ANY or ALL looks through; None for any other node."""
    right = node.expression if isinstance(node, _COMPARISONS) else None
    if isinstance(right, exp.Anonymous) and right.name.upper() == "ALL":
        source = right.expressions[0]
    elif isinstance(right, (exp.Any, exp.All)):
        source = right.this.unnest()
    else:
        return None
    return None if isinstance(source, (exp.Query, exp.Subquery)) else source


def _bytes(digits: str) -> exp.Expr:
    """The plain form of x'A0FF': '\\xA0\\xFF'::BLOB."""
    pairs = [digits[i : i + 2] for i in range(0, len(digits), 2)]
    written = exp.Literal.string("".join(f"\\x{pair}" for pair in pairs))
    return exp.Cast(this=written, to=exp.DataType(this=exp.DType.USERDEFINED, kind="BLOB"))
