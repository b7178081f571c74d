"""From an expression tree to an operand, by one rule for each kind of node.

Invariant: a rule names every argument of the node that it understands. A node in which another
argument is set is not on the list: a modifier that a later version of the parser adds can never be
ignored silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.scalar.operands.constants import Binder, column_index, fold, is_constant, sql_of
from ivm.sql.scalar.operands.kernel import NotListedError, Operand, constant
from ivm.storage.values.types import ColumnType

Cast = Callable[["ExpressionCompiler", Operand, ColumnType], Operand]


@dataclass(frozen=True)
class Rule:
    """Compiles one kind of node.

    Attributes:
        compile: makes the operand of a node, or raises NotListedError.
        arguments: names of the node's arguments that `compile` understands.
        flags: further arguments, with the values in which they change nothing: ``{"safe": True}``.
    """

    compile: Callable[[ExpressionCompiler, exp.Expr], Operand]
    arguments: frozenset[str]
    flags: Mapping[str, object]

    def understands(self, node: exp.Expr) -> bool:
        for name, value in node.args.items():
            if value in (None, False, []) or name in self.arguments:
                continue
            if name not in self.flags or self.flags[name] != value:
                return False
        return True


def rule(
    compile: Callable[[ExpressionCompiler, exp.Expr], Operand], *arguments: str, **flags: object
) -> Rule:
    """Makes a `Rule`; `flags` are keyword arguments."""
    return Rule(compile, frozenset(arguments), flags)


def arguments(call: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call: of a function that sqlglot knows, up to two, or of another one."""
    if isinstance(call, exp.Anonymous):
        return list(call.expressions)
    return [call.args[name] for name in ("this", "expression") if call.args.get(name) is not None]


Rules = Mapping[type[exp.Expr], Rule]
FunctionRules = Mapping[str, Callable[["ExpressionCompiler", exp.Expr], Operand]]


class ExpressionCompiler:
    """Compiles subexpressions of one tree over inputs of the given types.

    Attributes:
        binder: finds the types of subexpressions.
        inexact: set when a float operation occurs, for which numpy's warnings are disabled.
    """

    def __init__(
        self, types: Sequence[ColumnType], rules: Rules, functions: FunctionRules, cast: Cast
    ) -> None:
        self.binder = Binder(types)
        self.inexact = False
        self._rules = rules
        self._functions = functions
        self._cast = cast

    def type(self, expr: exp.Expr) -> ColumnType:
        return self.binder.type(expr)

    def operand(self, expr: exp.Expr) -> Operand:
        """Compiles a subexpression.

        Raises:
            NotListedError: a construct in it has no kernel.
        """
        if isinstance(expr, exp.Paren):
            return self.operand(expr.this)
        if isinstance(expr, exp.Column):
            return self._column(expr)
        type = self.type(expr)
        if type.is_float:
            self.inexact = True
        if is_constant(expr):
            return constant(fold(expr, type), type)
        if expr.find(exp.Column) is None:
            raise NotListedError(f"{sql_of(expr)}: not the same for ever")
        return self._apply(expr)

    def cast_to(self, expr: exp.Expr, type: ColumnType) -> Operand:
        """Compiles `expr`, cast to `type` as DuckDB casts implicitly."""
        if self.type(expr).sql != type.sql and is_constant(expr):
            return constant(fold(f"CAST({sql_of(expr)} AS {type.sql})", type), type)
        return self.cast(self.operand(expr), type)

    def cast(self, operand: Operand, type: ColumnType) -> Operand:
        """Casts an operand, unless it has the type."""
        return operand if operand.type.sql == type.sql else self._cast(self, operand, type)

    def compared(self, sides: Sequence[exp.Expr]) -> list[Operand]:
        """Compiles the sides of a comparison, cast to the type in which DuckDB compares them."""
        type = self.binder.common(sides)
        return [self.cast_to(side, type) for side in sides]

    def _column(self, expr: exp.Expr) -> Operand:
        index = column_index(expr)
        return Operand(self.binder.types[index], lambda columns, count: columns[index])

    def _apply(self, expr: exp.Expr) -> Operand:
        if isinstance(expr, exp.Anonymous):
            function = self._functions.get(expr.name.lower())
            if function is None:
                raise NotListedError(f"{expr.name.lower()}()")
            return function(self, expr)
        rule = self._rules.get(type(expr))
        if rule is None or not rule.understands(expr):
            raise NotListedError(f"{type(expr).__name__}: {sql_of(expr)}")
        return rule.compile(self, expr)
