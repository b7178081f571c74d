"""The types of parameters by their places in a statement.

Law: a parameter has the type of its places where they are certain and agree: of the column that it
is inserted to or that is set to it, of the cast around it, of the bare column, the cast or the
number that it is compared with or calculated with. Everywhere else it is a text, which DuckDB casts
as the place demands: a type that is guessed would alter values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeGuard

import sqlglot
from sqlglot import exp

from ivm.serve.pg.values.scopes import Scopes
from ivm.serve.pg.values.types import (
    ARRAYS,
    DATE,
    ELEMENTS,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    is_json,
    pg_type,
)
from ivm.session.session import Session
from ivm.sql.statements.text.placeholders import filled
from ivm.storage.identifiers import fold

Kind: TypeAlias = int | str
"""An OID, or DuckDB's type of a nested value, which travels as json."""

_MARK = "_ivm_parameter_"
_EXACT = (INT2, INT4, INT8, NUMERIC)  # each holds the values of those before
_NUMBERS = frozenset((*_EXACT, FLOAT4, FLOAT8))
_MOMENTS = frozenset((DATE, TIMESTAMP, TIMESTAMPTZ))
"""DuckDB takes a text from which one is subtracted for another one, and no text from one."""
_COMPARED = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between),
)
_CALCULATED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_ANY_TYPE = (exp.Is, exp.Select, exp.Alias)
"""Places that say nothing of a type."""


def types_by_place(session: Session, text: str) -> dict[int, int]:
    """The OIDs of a statement's parameters by their numbers, where it tells them."""
    found = _kinds(session, text)
    return {i: pg_type(kind).oid if isinstance(kind, str) else kind for i, kind in found.items()}


def nested_types(session: Session, text: str) -> dict[str, str]:
    """DuckDB's types of parameters that travel as json but are values that are nested, by name."""
    found = _kinds(session, text)
    return {str(number): kind for number, kind in found.items() if isinstance(kind, str)}


def _kinds(session: Session, text: str) -> dict[int, Kind]:
    try:  # with marks, as sqlglot reads `$1,$2` as a text in dollars
        tree = sqlglot.parse_one(filled(text, marked), read="duckdb")
    except sqlglot.errors.SqlglotError:
        return {}
    session.release()
    places = _Places(Scopes(session, tree))
    found: dict[int, list[Kind]] = {}
    for node in tree.find_all(exp.Column):
        type = places.type_at(node) if is_marked(node) else None
        if type is not None:
            found.setdefault(int(node.name.removeprefix(_MARK)), []).append(type)
    return {number: _agreed(kinds) for number, kinds in found.items()}


def marked(name: str) -> str:
    """A column's name that stands for a parameter."""
    return f"{_MARK}{name}"


def is_marked(node: exp.Expr) -> bool:
    """Returns whether a node stands for a parameter with a number."""
    number = node.name.removeprefix(_MARK)
    return isinstance(node, exp.Column) and node.name != number and number.isdigit()


class _Places:
    """The places of one statement's parameters.

    Args:
        scopes: of the statement.
    """

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._known: dict[int, Kind] = {}

    def type_at(self, node: exp.Expr) -> Kind | None:
        """The type that a parameter has by its place; None where any type will do."""
        node, parent = _outside(node)
        if isinstance(parent, exp.Select) and isinstance(parent.parent, exp.Insert):
            return self._inserted(parent, node)
        if isinstance(parent, _ANY_TYPE):
            return None
        if isinstance(parent, exp.TryCast) or node.find_ancestor(exp.Try) is not None:
            return TEXT  # what cannot be cast is NULL there
        if isinstance(parent, exp.Cast):
            return self._cast(parent)
        if isinstance(parent, exp.Limit | exp.Offset):
            return INT8
        if isinstance(parent, exp.Tuple):
            beside = _row_beside(parent)
            return self._inserted(parent, node) if beside is None else self._paired(beside, node)
        if _is_assignment(parent):
            return self._set(parent)
        if isinstance(parent, _CALCULATED):
            found = self._compared(parent)
            is_moment = isinstance(parent, exp.Sub) and found in _MOMENTS
            return found if is_moment else _number(found)
        return self._beside(node, parent)

    def _beside(self, node: exp.Expr, parent: exp.Expr | None) -> Kind:
        """The type of what is compared with the other side."""
        if isinstance(parent, exp.In) and node.arg_key == "field":  # a list, or a text in a text
            found = self._compared(parent)
            return found if found == TEXT else _list_of(found)
        if isinstance(parent, _COMPARED):
            return self._compared(parent)
        if parent is None or _quantified(parent) is None:
            return TEXT
        node, parent = _outside(parent)
        return _list_of(self._beside(node, parent))

    def _paired(self, beside: exp.Tuple, node: exp.Expr) -> Kind:
        """The type of the value in the same place of the row that a row is compared with."""
        other = beside.expressions[node.index or 0]
        return TEXT if is_marked(_inside(other)) else self._side(other)

    def _compared(self, parent: exp.Expr) -> Kind:
        """The type of all that is compared, but for parameters; a list may have thousands."""
        found = self._known.get(id(parent))
        if found is None:
            sides = [each for each in parent.iter_expressions() if not is_marked(_inside(each))]
            found = self._known[id(parent)] = _agreed(map(self._side, sides))
        return found

    def _side(self, node: exp.Expr) -> Kind:
        """The type of one side of a comparison."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return _kind(self._scopes.column(node))
        if isinstance(node, exp.Cast):
            return self._cast(node)
        values = _quantified(node)
        if values is not None:
            listed = self._side(values)
            return ELEMENTS.get(listed, TEXT) if isinstance(listed, int) else TEXT
        if isinstance(node, _CALCULATED):
            return self._calculated(node)
        return _literal(node.this if isinstance(node, exp.Neg) else node)

    def _calculated(self, node: exp.Expr) -> Kind:
        found = _number(self._compared(node))
        return FLOAT8 if isinstance(node, exp.Div) and found in _EXACT else found

    def _cast(self, node: exp.Cast) -> Kind:
        return _kind(self._scopes.type(node.to))

    def _set(self, parent: exp.EQ) -> Kind:
        """The type of the column that a change sets: its name means one of the target alone."""
        change = parent.find_ancestor(exp.Update, exp.Insert)
        if change is not None and isinstance(change.parent, exp.When):
            change = change.find_ancestor(exp.Merge)
        columns = {} if change is None else self._scopes.target(change)
        return _kind(columns.get(fold(parent.this.name)))

    def _inserted(self, row: exp.Tuple | exp.Select, node: exp.Expr) -> Kind:
        """The type of the column that gets a value of VALUES, or of a select list."""
        insert = row.parent.parent if isinstance(row.parent, exp.Values) else row.parent
        if not isinstance(insert, exp.Insert) or insert.args.get("by_name"):
            return TEXT
        columns = self._scopes.target(insert)
        names = list(columns)
        if isinstance(insert.this, exp.Schema):
            names = [fold(each.name) for each in insert.this.expressions]
        if len(names) != len(row.expressions):  # some are generated, and get no values
            return TEXT
        return _kind(columns.get(names[node.index or 0]))


def _row_beside(row: exp.Tuple) -> exp.Tuple | None:
    """The row that a row of as many values is compared with, as in `(a, b) > ($1, $2)`."""
    parent = row.parent
    if not isinstance(parent, _COMPARED):
        return None
    other = parent.args.get("expression") if row.arg_key == "this" else parent.this
    same = isinstance(other, exp.Tuple) and len(other.expressions) == len(row.expressions)
    return other if same else None


def _outside(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """A node with the parentheses and signs around it, and what that is part of."""
    while isinstance(node.parent, exp.Paren | exp.Neg):
        node = node.parent
    return node, node.parent


def _inside(node: exp.Expr) -> exp.Expr:
    """What parentheses, signs and quantifiers stand around."""
    while True:
        inner = node.this if isinstance(node, exp.Paren | exp.Neg) else _quantified(node)
        if inner is None:
            return node
        node = inner


def _is_assignment(node: exp.Expr | None) -> TypeGuard[exp.EQ]:
    if not isinstance(node, exp.EQ) or node.arg_key != "expressions":
        return False
    return isinstance(node.parent, exp.Update | exp.OnConflict)


def _quantified(node: exp.Expr | None) -> exp.Expr | None:
    """What ANY, SOME or ALL takes the values of."""
    if isinstance(node, exp.Any):
        return node.this  # type: ignore[no-any-return]
    if isinstance(node, exp.Anonymous) and node.name.upper() in ("ALL", "SOME"):
        return node.expressions[0]  # type: ignore[no-any-return]
    return None


def _literal(node: exp.Expr) -> int:
    """The type of an exact number; texts have that of what they are compared with."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return TEXT
    if node.is_int:
        return INT8
    return NUMERIC if node.name.replace(".", "", 1).isdigit() else TEXT


def _number(kind: Kind) -> int:
    """The type if it is one of numbers: DuckDB calculates with texts, too, as with intervals."""
    return kind if isinstance(kind, int) and kind in _NUMBERS else TEXT


def _list_of(kind: Kind) -> int:
    return ARRAYS.get(kind, TEXT) if isinstance(kind, int) else TEXT


def _kind(type: str | None) -> Kind:
    if type is None:
        return TEXT
    return type if is_json(type) else pg_type(type).oid


def _agreed(kinds: Iterable[Kind]) -> Kind:
    """The type that all have, or the widest of exact numbers; else that of texts."""
    distinct = set(kinds)
    if distinct and distinct.issubset(_EXACT):
        return max(distinct, key=_EXACT.index)
    return distinct.pop() if len(distinct) == 1 else TEXT
