"""The names a FROM clause brings into sight, and where their columns stand.

Law: lookup is case-insensitive and DuckDB's: a qualified name is a table's column first and a
struct's field second; a column merged by USING is seen once, at its left place.
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
        qualifiers: the names it answers to, outermost first, e.g. (database, schema, table) or the
            alias alone.
        columns: (name, position in the joined plan), in order.
        hidden: further names of columns, which no star shows.
    """

    qualifiers: tuple[str, ...]
    columns: tuple[tuple[str, int], ...]
    hidden: tuple[tuple[str, int], ...] = ()

    def answers(self, qualifier: tuple[str, ...]) -> bool:
        """Whether a written qualifier (one to three names) means this relation."""
        tail = self.qualifiers[-len(qualifier) :]
        return [fold(n) for n in tail] == [fold(n) for n in qualifier]

    def find(self, name: str) -> int | None:
        for known, index in (*self.columns, *self.hidden):
            if fold(known) == fold(name):
                return index
        return None

    def moved(self, by: int) -> Relation:
        columns, hidden = (
            tuple((n, i + by) for n, i in part) for part in (self.columns, self.hidden)
        )
        return Relation(self.qualifiers, columns, hidden)


@dataclass
class Scope:
    """All relations of a FROM clause.

    Attributes:
        merged: positions of columns that a USING or NATURAL join hides behind their left twin.
        stands: what an unqualified name shows in place of a left twin that may be missing, as in a
            RIGHT or FULL JOIN.
    """

    relations: list[Relation] = field(default_factory=list)
    merged: set[int] = field(default_factory=set)
    stands: dict[int, int] = field(default_factory=dict)

    def resolve(self, node: exp.Column) -> exp.Expr | None:
        """The bound column (or struct field) of a reference; None if there is none.

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
            places = [r.find(name) for r in self.relations if r.answers(qualifier)]
        else:
            places = [r.find(name) for r in self.relations]
        found = [p for p in places if p is not None]
        if not qualifier:
            found = [p for p in found if p not in self.merged]
        if len(found) > 1:
            raise NotIncremental(f"the name {name} is ambiguous")
        if not found:
            return None
        return found[0] if qualifier else self._shown(found[0])

    def _shown(self, index: int) -> int:
        while index in self.stands:
            index = self.stands[index]
        return index

    def row(self, node: exp.Column) -> exp.Expr | None:
        """The whole row of the one relation that an unqualified name names, as a struct."""
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
        """What the FROM clause calls a bound column; None if it has no name of its own there."""
        place = index_of(found)
        names = [n for r in self.relations for n, i in r.columns if i == place]
        return names[0] if len(names) == 1 and not isinstance(names[0], MadeUp) else None

    def visible(self, name: str) -> int | None:
        """The position of an unqualified name, None if there is none."""
        return self._find((), name)

    def star(self, qualifier: str | None) -> list[tuple[str, int]]:
        """The columns that `*` or `qualifier.*` stands for."""
        if qualifier is None:
            every = [c for r in self.relations for c in r.columns]
            return [(n, self._shown(i)) for n, i in every if i not in self.merged]
        found = [r for r in self.relations if r.answers((qualifier,))]
        if len(found) != 1:
            raise NotIncremental(f"{qualifier}.*: no single table of that name")
        return list(found[0].columns)


def _fields(expr: exp.Expr, names: list[str]) -> exp.Expr:
    """What `expr.name` gives: of a struct, a union, a map, JSON or a VARIANT."""
    for name in names:
        expr = exp.Dot(this=exp.Paren(this=expr), expression=exp.to_identifier(name, quoted=True))
    return expr


class MadeUp(str):
    """A name DuckDB makes up from the text of an expression; respelled, it may differ."""

    __slots__ = ()


@dataclass(frozen=True)
class Bound:
    """A bound query: its plan and the names of its columns."""

    plan: Plan
    names: tuple[str, ...]
