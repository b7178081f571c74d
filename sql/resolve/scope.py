"""The names that a FROM clause makes visible, and the positions of their columns.

Law: lookup ignores case and follows DuckDB: a qualified name is a table's column first and a
struct's field second; a column merged by USING is visible once, at the left column's position, and
hides columns of its name in other tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from ivm.sql.plan.expressions import column, index_of
from ivm.sql.plan.nodes import NotIncremental, Plan
from ivm.storage.identifiers import fold


@dataclass(frozen=True)
class Relation:
    """One item of a FROM clause.

    Attributes:
        qualifiers: its qualified name, outermost part first: (database, schema, table) or the alias
            alone.
        columns: (name, position in the joined plan), in order.
        hidden: further names of columns, which stars do not expand to.
    """

    qualifiers: tuple[str, ...]
    columns: tuple[tuple[str, int], ...]
    hidden: tuple[tuple[str, int], ...] = ()

    def answers(self, qualifier: tuple[str, ...]) -> bool:
        """Returns whether a written qualifier (one to three names) means this relation."""
        tail = self.qualifiers[-len(qualifier) :]
        return [fold(n) for n in tail] == [fold(n) for n in qualifier]

    def find(self, name: str) -> int | None:
        """The position of the column with a name, hidden ones included; None if there is none."""
        for known, index in (*self.columns, *self.hidden):
            if fold(known) == fold(name):
                return index
        return None

    def moved(self, by: int) -> Relation:
        """Returns the relation with its columns `by` positions to the right."""
        columns, hidden = (
            tuple((n, i + by) for n, i in part) for part in (self.columns, self.hidden)
        )
        return Relation(self.qualifiers, columns, hidden)


@dataclass
class Scope:
    """All relations of a FROM clause.

    Attributes:
        merged: positions of the right columns that a USING or NATURAL join merges with left ones.
        kept: positions of the left columns that these are merged with.
        shown_at: of merged left columns that may be missing (RIGHT and FULL JOIN): position → the
            position of the column that an unqualified name shows.
    """

    relations: list[Relation] = field(default_factory=list)
    merged: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    shown_at: dict[int, int] = field(default_factory=dict)

    def resolve(self, node: exp.Column) -> exp.Expr | None:
        """Binds a reference to a column or a field of one; None if no column has the name.

        Raises:
            NotIncremental: the name is ambiguous here.
        """
        parts = [part.name for part in node.parts]
        for split in range(len(parts) - 1, -1, -1):
            found = self._find(tuple(parts[:split]), parts[split])
            if found is not None:
                return _fields(column(found), parts[split + 1 :])
        return None

    def _find(self, qualifier: tuple[str, ...], name: str) -> int | None:
        if qualifier:
            positions = [r.find(name) for r in self.relations if r.answers(qualifier)]
        else:
            positions = [r.find(name) for r in self.relations]
        found = [p for p in positions if p is not None]
        if not qualifier:
            found = [p for p in found if p not in self.merged]
            found = [p for p in found if p in self.kept] or found
        if len(found) > 1:
            raise NotIncremental(f"the name {name} is ambiguous")
        if not found:
            return None
        return found[0] if qualifier else self._position_shown(found[0])

    def _position_shown(self, index: int) -> int:
        while index in self.shown_at:
            index = self.shown_at[index]
        return index

    def row(self, node: exp.Column) -> exp.Expr | None:
        """The row of the relation that an unqualified name names, as a struct; None if there is
        not exactly one such relation, or its columns' names are not unique."""
        found = [r for r in self.relations if r.answers((node.name,))]
        if node.table or len(found) != 1 or not found[0].columns:
            return None
        names = [fold(name) for name, _ in found[0].columns]
        if len(set(names)) < len(names):
            return None
        fields = [
            exp.PropertyEQ(this=exp.to_identifier(n, quoted=True), expression=column(i))
            for n, i in found[0].columns
        ]
        return exp.Anonymous(this="struct_pack", expressions=fields)

    def own_name(self, found: exp.Column) -> str | None:
        """The name of a bound column in the FROM clause; None if it has none, or DuckDB made it."""
        position = index_of(found)
        names = [n for r in self.relations for n, i in r.columns if i == position]
        return names[0] if len(names) == 1 and not isinstance(names[0], MadeUp) else None

    def visible(self, name: str) -> int | None:
        """The position of the column with an unqualified name, None if there is none."""
        return self._find((), name)

    def star(self, qualifier: str | None) -> list[tuple[str, int]]:
        """The columns that `*` or `qualifier.*` expands to."""
        if qualifier is None:
            every = [c for r in self.relations for c in r.columns]
            return [(n, self._position_shown(i)) for n, i in every if i not in self.merged]
        found = [r for r in self.relations if r.answers((qualifier,))]
        if len(found) != 1:
            raise NotIncremental(f"{qualifier}.*: no single table of that name")
        return list(found[0].columns)


_WITH_FIELDS = ("STRUCT", "UNION", "MAP", "JSON", "VARIANT", "GEOMETRY")


def is_no_field(found: exp.Expr | None, plan: Plan) -> bool:
    """Returns whether a name is bound to a field of a column whose type has none."""
    if not isinstance(found, exp.Dot):
        return False
    held = next(found.find_all(exp.Column))
    type = plan.schema[index_of(held)][1]
    return type.base not in _WITH_FIELDS


def _fields(expr: exp.Expr, names: list[str]) -> exp.Expr:
    """Makes `expr.name`, a field of a struct, a union, a map, JSON or a VARIANT."""
    for name in names:
        expr = exp.Dot(this=exp.Paren(this=expr), expression=exp.to_identifier(name, quoted=True))
    return expr


class MadeUp(str):
    """A name that DuckDB makes of an expression's text; our SQL of it may get another name."""

    __slots__ = ()


@dataclass(frozen=True)
class Bound:
    """A bound query: its plan and the names of its columns."""

    plan: Plan
    names: tuple[str, ...]
