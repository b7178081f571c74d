"""Expands calls of the user's macros.

Law: a call means the macro's definition with the arguments, as written, in place of the parameters.
DuckDB does not show default arguments: a scalar call that omits one stays a call, which DuckDB
evaluates; any other call that omits one has no plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ivm.sql.parse.function_list import FunctionList, Macro
from ivm.sql.parse.methods import is_caught, is_marked, with_parameters
from ivm.sql.parse.query import parse_query
from ivm.sql.plan.expressions import closed
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.statements.text.stored_text import bare_lambdas
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import Cursor


class Macros:
    """The macros that a query may call.

    Args:
        cursor: parses their definitions.
        functions: the list of them.
        internal: names of the built-in macros to expand too.
        hiding: names of the user's macros that hide a built-in function.
    """

    def __init__(
        self,
        cursor: Cursor,
        functions: FunctionList,
        internal: frozenset[str],
        hiding: frozenset[str] = frozenset(),
    ) -> None:
        self._cursor = cursor
        self._hiding = hiding
        self._known: dict[str, list[Macro]] = {}
        for macro in functions.macros:
            if macro.on_search_path and (not macro.internal or macro.name in internal):
                self._known.setdefault(macro.name, []).append(macro)

    def has_scalar(self, name: str) -> bool:
        """Returns whether a scalar macro has that name."""
        return any(not macro.table for macro in self._known.get(name, ()))

    def has_table(self, name: str) -> bool:
        """Returns whether a table macro has that name."""
        return any(macro.table for macro in self._known.get(name, ()))

    def expanded(self, name: str, arguments: list[exp.Expr]) -> exp.Expr | None:
        """Expands a scalar call to an unbound expression; None if it is to stay a call.

        Raises:
            NotIncremental: the macro cannot be expanded.
        """
        known = [m for m in self._known.get(name, ()) if not m.table]
        if not known:
            return None
        macro = _chosen(known, len(arguments))
        given = _assigned(macro, arguments)
        body = _body(self._parsed(macro.query))
        if len(given) < len(macro.parameters):
            if body.find(exp.Query, exp.AggFunc, exp.Window):
                raise NotIncremental(f"the macro {name}() with an argument left out")
            if any(isinstance(a, (exp.PropertyEQ, exp.Kwarg)) for a in arguments):
                raise NotIncremental(f"the macro {name}() with named arguments and one left out")
            if name in self._hiding:
                raise NotIncremental(f"the macro {name}() with an argument left out")
            return None
        return exp.Paren(this=_substituted(body, given, name))

    def table(self, name: str, arguments: list[exp.Expr]) -> exp.Expr:
        """Expands a call of a table macro to an unbound query.

        Raises:
            NotIncremental: the macro cannot be expanded.
        """
        macro = _chosen([m for m in self._known[name] if m.table], len(arguments))
        given = _assigned(macro, arguments)
        if len(given) < len(macro.parameters):
            raise NotIncremental(f"the table macro {name}() with an argument left out")
        return _substituted(self._parsed(macro.query), given, name)

    def _parsed(self, query: str) -> exp.Expr:
        return parse_query(bare_lambdas(query), self._cursor, self._hiding)


def _chosen(known: list[Macro], count: int) -> Macro:
    """The overload for `count` arguments: the first with enough parameters."""
    fitting = [m for m in known if len(m.parameters) >= count]
    if not fitting or len({len(m.parameters) for m in known}) < len(known):
        raise NotIncremental(f"the macro {known[0].name}(), which has several definitions")
    if fitting[0].typed:
        raise NotIncremental(f"the macro {known[0].name}(), whose parameters have types")
    if len(known) > 1 and len(fitting[0].parameters) > count:
        raise NotIncremental(f"the macro {known[0].name}() with an argument left out")
    return fitting[0]


def _assigned(macro: Macro, arguments: list[exp.Expr]) -> dict[str, exp.Expr]:
    """Folded parameter name → argument."""
    given: dict[str, exp.Expr] = {}
    for index, argument in enumerate(arguments):
        if isinstance(argument, (exp.PropertyEQ, exp.Kwarg)):
            given[fold(argument.this.name)] = argument.expression
        else:
            given[macro.parameters[index]] = argument
    return given


def _body(query: exp.Expr) -> exp.Expr:
    """The definition's only item; the caller's columns do not hide its lambdas' parameters."""
    only = query.expressions[0]
    assert isinstance(only, exp.Expr)
    return with_parameters(only)


def _substituted(body: exp.Expr, given: Mapping[str, exp.Expr], name: str) -> exp.Expr:
    """Copies the body with arguments for parameters."""
    columns = any(argument.find(exp.Column) for argument in given.values())
    if columns and (isinstance(body, exp.Query) or body.find(exp.Query)):
        # A name of the caller's could be resolved to a column of the macro's tables.
        raise NotIncremental(f"the macro {name}(), which reads tables, with columns as arguments")

    def swap(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and not is_marked(node):
            argument = given.get(fold(node.name))
            if argument is not None and is_caught(argument, node):
                # DuckDB's fault `fields_of_parameters`
                raise NotIncremental(f"the macro {name}(), in a lambda with an argument's name")
            return node if argument is None else closed(argument)
        return node

    return body.copy().transform(swap, copy=False)
