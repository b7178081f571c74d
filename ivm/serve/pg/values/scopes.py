"""What the names of columns and types in a statement mean, as far as that is certain.

Law: a column's type is that of the table or view that DuckDB finds under the relation's name, or
the one that a CTE or a subquery selects, if the column's name can mean no other column of another
type: neither one that is computed, or of a function, whose types nobody knows here, nor one that
the select list names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import duckdb
from sqlglot import exp

from ivm.session.session import Session
from ivm.storage.identifiers import fold, quote

_SCOPES = (exp.Select, exp.Update, exp.Delete, exp.Merge, exp.Insert)
_CLOSED = (exp.CTE, exp.SetOperation, exp.Lambda, exp.Comprehension, exp.Pivot)
_SEVERAL = (exp.Columns, exp.Explode, exp.Unnest)
"""What may be several columns, whatever its name."""
_COLUMNS_FIRST = frozenset(("where", "from_", "joins"))
"""Clauses in which a relation's column hides a name of the select list."""


class Relation(NamedTuple):
    """A relation of a statement.

    Attributes:
        paths: the folded qualifiers that mean it.
        columns: the types by folded names, in order, None where nobody knows it; None if nobody
            knows the names.
    """

    paths: frozenset[tuple[str, ...]]
    columns: Mapping[str, str | None] | None


class Scopes:
    """The relations of one statement.

    Args:
        session: whose names the statement uses; its cursor is free.
        tree: the statement.
    """

    def __init__(self, session: Session, tree: exp.Expr) -> None:
        self._cursor = session.cursor
        self._ctes: dict[str, list[exp.CTE]] = {}
        for cte in tree.find_all(exp.CTE):
            self._ctes.setdefault(fold(cte.alias), []).append(cte)
        self._known: dict[int, list[Relation]] = {}

    def type(self, written: exp.DataType) -> str | None:
        """DuckDB's spelling of a type."""
        try:
            return str(self._cursor.sqltype(written.sql("duckdb")))
        except duckdb.ProgrammingError:
            return None

    def column(self, node: exp.Column) -> str | None:
        """The type of the column that a name means; None if that is not certain."""
        *qualifier, name = [fold(part.name) for part in node.parts]
        for scope, clause in _scopes(node):
            found = self._found(scope, tuple(qualifier), name)
            is_alias = not qualifier and name in _aliases(scope)
            if is_alias and (not found or clause not in _COLUMNS_FIRST):
                return None
            if found:
                return found.pop() if len(found) == 1 else None
        return None

    def _found(self, scope: exp.Expr, qualifier: tuple[str, ...], name: str) -> set[str | None]:
        """The types that a name may have here; None stands for what nobody knows."""
        relations = self._relations(scope)
        meant = [each for each in relations if not qualifier or qualifier in each.paths]
        found = {type for each in meant for type in _types(each, name)}
        if not found and any(_has_fields(each, qualifier) for each in relations):
            return {None}
        return found

    def target(self, change: exp.Expr) -> Mapping[str, str | None]:
        """The columns of the table that is changed, in order; none if nobody knows them."""
        return self._relations(change)[0].columns or {}

    def _relations(self, scope: exp.Expr) -> list[Relation]:
        """The relations that a query or a change names itself; the target of a change is first."""
        found = self._known.get(id(scope))
        if found is None:
            found = self._known[id(scope)] = [self._relation(item) for item in _items(scope)]
        return found

    def _relation(self, item: exp.Expr) -> Relation:
        parts = [fold(part.name) for part in item.parts] if isinstance(item, exp.Table) else []
        paths = {tuple(parts[i:]) for i in range(len(parts))}
        if item.alias:
            paths = {(fold(item.alias),)}
        if isinstance(item.parent, exp.Insert | exp.Schema):
            paths |= {("excluded",)}
        return Relation(frozenset(paths), self._columns(item))

    def _columns(self, item: exp.Expr) -> Mapping[str, str | None] | None:
        if not isinstance(item, exp.Table | exp.Subquery):
            return None
        if item.args.get("pivots") or item.alias_column_names:
            return None
        if isinstance(item, exp.Subquery):
            return self._selected(item.this)
        names = [part.name for part in item.parts if isinstance(part, exp.Identifier)]
        if len(names) < len(item.parts):
            return None
        if len(names) == 1 and (ctes := self._ctes.get(fold(names[0]))):
            return self._selected(ctes[0].this) if _is_the_one(ctes, item) else None
        if "." in names[-1]:  # perhaps a file, whose columns change unseen
            return None
        try:
            found = self._cursor.table(".".join(map(quote, names)))  # it ends no transaction
        except duckdb.ProgrammingError:
            return None
        return dict(zip(map(fold, found.columns), map(str, found.types), strict=True))

    def _selected(self, query: exp.Expr) -> Mapping[str, str | None] | None:
        """The columns of a query that selects each by itself."""
        if not isinstance(query, exp.Select):
            return None
        found: dict[str, str | None] = {}
        for each in query.expressions:
            name, value = fold(each.alias_or_name), each.unalias()
            if not name or name in found or each.is_star or value.find(*_SEVERAL):
                return None
            is_column, is_cast = isinstance(value, exp.Column), type(value) is exp.Cast
            known = self.column(value) if is_column else self.type(value.to) if is_cast else None
            found[name] = known
        return found


def _is_the_one(ctes: Sequence[exp.CTE], item: exp.Table) -> bool:
    """Returns whether a relation is the only CTE of its name, with the names that it selects."""
    cte, around, parent = ctes[0], set[int](), item.parent
    while parent is not None:
        around.add(id(parent))
        parent = parent.parent
    clause = cte.parent
    if len(ctes) > 1 or cte.alias_column_names or clause is None or clause.args.get("recursive"):
        return False
    return id(cte) not in around and id(clause.parent) in around


def _scopes(node: exp.Expr) -> Iterator[tuple[exp.Expr, str | None]]:
    """The queries and changes whose relations a name may mean, from inside, each with its clause
    that the name is in."""
    inner, parent = node, node.parent
    while parent is not None and not isinstance(parent, _CLOSED):
        if isinstance(parent, exp.Insert) and inner.arg_key == "expression":
            return
        if isinstance(parent, _SCOPES):
            yield parent, inner.arg_key
        inner, parent = parent, parent.parent


def _items(scope: exp.Expr) -> Iterator[exp.Expr]:
    """What stands in FROM, in joins, and as the target of a change."""
    for clause in ("this", "from_", "using", "joins"):
        found = scope.args.get(clause)
        for item in found if isinstance(found, list) else [found]:
            if isinstance(item, exp.From | exp.Join | exp.Schema):
                item = item.this
            if isinstance(item, exp.Expression):
                yield item
            if isinstance(item, exp.Table):
                yield from (join.this for join in item.args.get("joins") or ())


def _aliases(scope: exp.Expr) -> set[str]:
    if not isinstance(scope, exp.Select):
        return set()
    return {fold(each.alias) for each in scope.expressions if isinstance(each, exp.Alias)}


def _has_fields(relation: Relation, qualifier: tuple[str, ...]) -> bool:
    """Returns whether a qualifier may mean a struct of a relation."""
    in_it = bool(qualifier) and bool(_types(relation, qualifier[0]))
    return in_it or qualifier[:1] in relation.paths


def _types(relation: Relation, name: str) -> list[str | None]:
    """The type of a relation's column; none if it has none of the name."""
    if relation.columns is None:
        return [None]
    return [relation.columns[name]] if name in relation.columns else []
