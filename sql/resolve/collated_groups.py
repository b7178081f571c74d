"""Groups by a collation, and texts that are shown with one: only by a view's outermost SELECT.

Law: GROUP BY x COLLATE c groups by f(x) (see `collations`) and shows one of the texts of each
group; which one DuckDB leaves open, here it is the first in the order of bytes. A collation that
a text has in the result says nothing, as a view's own columns have none; below, it would.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.parse.collations import comparison_key
from ivm.sql.plan.built_in import ours
from ivm.sql.plan.expressions import structure
from ivm.storage.identifiers import fold

_PLAIN = (exp.Column, exp.Collate)


def shown_without_collations(tree: exp.Expr, names: Sequence[str]) -> exp.Expr:
    """The tree of a whole query without the collations of its groups and of its result.

    Args:
        names: of the result's columns.
    """
    if isinstance(tree, exp.Select) and tree.find(exp.Collate):
        items = tree.expressions
        stars = [star for item in items for star in item.find_all(exp.Star, exp.Columns)]
        if all(isinstance(star.parent, exp.Count) for star in stars):  # so places are the result's
            _Shown(tree, names).rewrite()
    return tree


class _Shown:
    """The outermost SELECT; what it does not know stays as it is, and is refused later."""

    def __init__(self, select: exp.Select, names: Sequence[str]) -> None:
        self._select = select
        self._names = names
        self._items = [_bare(item) for item in select.expressions]
        self._told: set[object] = set()  # the terms that are grouped by

    def rewrite(self) -> None:
        collated = [c for c in self._items if isinstance(c, exp.Collate)]
        if any(comparison_key(c) is None for c in collated) or not self._as_groups(bool(collated)):
            return
        if not any(self._is_read(item) for item in collated) and self._tell_groups():
            self._tell_order()

    def _as_groups(self, collated: bool) -> bool:
        """Write DISTINCT texts as groups; False if there is no way."""
        distinct, group = [self._select.args.get(part) for part in ("distinct", "group")]
        if distinct is None or not collated:
            return True
        plain = all(isinstance(item, _PLAIN) for item in self._items)
        if not plain or group is not None or distinct.args.get("on"):
            return False
        self._select.set("distinct", None)
        self._select.set("group", exp.Group(expressions=[item.copy() for item in self._items]))
        return True

    def _keys(self, clause: str) -> list[exp.Expr]:
        part = self._select.args.get(clause)
        return [] if part is None else [_key(node) for node in part.expressions]

    def _is_read(self, item: exp.Collate) -> bool:
        """Whether the alias may stand, as more than a bare key, where the collation tells."""
        alias = item.parent
        if not isinstance(alias, exp.Alias):
            return False
        name, own = fold(alias.alias), _is_own(item, alias)
        parts = ("having", "qualify", "windows", "order") if own else tuple(self._select.args)
        keys = [*self._keys("group"), *self._keys("order")]
        return any(
            fold(column.name) == name and not any(column is key for key in keys)
            for part in parts
            for node in _nodes(self._select.args.get(part))
            for column in node.find_all(exp.Column)
        )

    def _item_of(self, key: exp.Expr, *, own: bool) -> exp.Expr:
        """The item that a key names, or the key; `own`: also by the name of the item's column."""
        if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(self._items):
            return self._items[int(key.name) - 1]
        if isinstance(key, exp.Column) and not key.table:
            for item in self._items:
                alias = item.parent
                if isinstance(alias, exp.Alias) and fold(alias.alias) == fold(key.name):
                    return item if own or not _is_own(item, alias) else key
        return key

    def _tell_groups(self) -> bool:
        """Group by what tells texts apart, and show one of them; False if it is not clear."""
        found = [(key, self._item_of(key, own=False)) for key in self._keys("group")]
        named = [item for _, item in found if isinstance(item, exp.Collate)]
        rest = [item for _, item in found if not isinstance(item, exp.Collate)]
        # An alias gives way to a column of its name, by which then something else is grouped.
        read = {fold(column.name) for item in named for column in item.find_all(exp.Column)}
        if any(fold(c.name) in read for item in rest for c in item.find_all(exp.Column)):
            return False
        terms = [comparison_key(item) for item in named]
        if any(term is None for term in terms):
            return False
        self._told = {structure(item) for item in named}
        for key, item in found:
            if isinstance(item, exp.Collate):
                key.replace(comparison_key(item))
        return True

    def _tell_order(self) -> None:
        """Order by what tells texts apart where a key names one, and let none have a collation."""
        for key in self._keys("order"):
            item = self._item_of(key, own=True)
            if item is not key and isinstance(item, exp.Collate):
                key.replace(comparison_key(item))
        for name, item in zip(self._names, self._items, strict=True):
            if isinstance(item, exp.Collate):
                text = item.this
                shown = _first(text) if structure(item) in self._told else text.copy()
                named = isinstance(item.parent, exp.Alias)
                item.replace(shown if named else exp.alias_(shown, name, quoted=True))


def _bare(item: exp.Expr) -> exp.Expr:
    return (item.this if isinstance(item, exp.Alias) else item).unnest()


def _key(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Ordered) else node


def _nodes(part: object) -> list[exp.Expr]:
    found = part if isinstance(part, list) else [part]
    return [node for node in found if isinstance(node, exp.Expr)]


def _is_own(item: exp.Expr, alias: exp.Alias) -> bool:
    """Whether the alias of a collated column is the column's own name."""
    column = item.this if isinstance(item, exp.Collate) else item
    return isinstance(column, exp.Column) and fold(column.name) == fold(alias.alias)


def _first(text: exp.Expr) -> exp.Expr:
    """The first of the texts, in the order that completes those which are left open: of bytes."""
    return ours(exp.First(this=text.copy()))
