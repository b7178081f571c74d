"""Fields of structs, elements of lists at a constant place, and their lengths, from Arrow's arrays.

Law: places count from 1, negative ones from the end; what is at no place is NULL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.operands.constants import sql_of
from ivm.sql.scalar.operands.kernel import NotListedError, Operand, by_arrow
from ivm.sql.scalar.operands.rules import ExpressionCompiler, FunctionRules, Rules, arguments, rule
from ivm.sql.scalar.strings import string
from ivm.sql.scalar.strings.string import constant_integer
from ivm.storage.identifiers import fold
from ivm.storage.values.types import ColumnType


def _field(operand: Operand, name: str, output: ColumnType) -> Operand:
    if operand.type.base != "STRUCT":  # a VARIANT is a struct of its own in Arrow
        raise NotListedError(f"a field of {operand.type}")
    if output.base == "UNION":
        raise NotListedError("a field that is a UNION")  # Arrow's struct_field ends the process
    names = [fold(field.name) for field in operand.type.memory]
    if names.count(fold(name)) != 1:
        raise NotListedError(f"the field {name} of {operand.type}")
    place = [names.index(fold(name))]
    return by_arrow(operand, output, lambda array: pc.struct_field(array, place))


def _dot(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    if not isinstance(node.expression, exp.Identifier):
        raise NotListedError(f"Dot: {sql_of(node)}")
    return _field(compiler.operand(node.this), node.expression.name, compiler.type(node))


def _extract(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    nested, place = arguments(node)
    return _at(compiler, nested, place, compiler.type(node))


def _bracket(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    if len(node.expressions) != 1 or node.args.get("offset") != 1:
        raise NotListedError("Bracket: of places that count from 0")
    return _at(compiler, node.this, node.expressions[0], compiler.type(node))


def _at(
    compiler: ExpressionCompiler, nested: exp.Expr, place: exp.Expr, output: ColumnType
) -> Operand:
    operand = compiler.operand(nested)
    if isinstance(place, exp.Literal) and place.is_string:
        return _field(operand, place.name, output)
    if not pa.types.is_list(operand.type.memory) or isinstance(place, exp.Slice):
        raise NotListedError(f"Bracket: an element of {operand.type}")
    if not compiler.type(place).is_integer:
        raise NotListedError(f"Bracket: a place that is a {compiler.type(place)}")
    at = constant_integer(place)
    return by_arrow(operand, output, lambda array: _element(array, at))


def _element(array: pa.Array, place: int) -> pa.Array:
    offsets = np.asarray(array.offsets, np.int64)
    first, last = offsets[:-1], offsets[1:]
    places = first + place - 1 if place > 0 else last + place
    missing = (places < first) | (places >= last)
    if array.null_count:
        missing |= np.asarray(array.is_null())
    return array.values.take(pa.array(places, mask=missing))


def _length(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand, output = compiler.operand(node.this), compiler.type(node)
    if not pa.types.is_list(operand.type.memory):
        return string.length(compiler, node)
    return by_arrow(operand, output, lambda array: pc.list_value_length(array).cast(output.arrow))


RULES: Rules = {
    exp.Dot: rule(_dot, "this", "expression"),
    exp.StructExtract: rule(_extract, "this", "expression"),
    exp.Bracket: rule(_bracket, "this", "expressions", offset=1),
    exp.Length: rule(_length, "this"),
    exp.ArraySize: rule(_length, "this"),
}
FUNCTIONS: FunctionRules = dict.fromkeys(
    ["list_extract", "list_element", "array_extract"], _extract
)
