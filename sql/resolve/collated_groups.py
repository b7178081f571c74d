"""Rewrites groups by a collation, and collated result columns, in a view's outermost SELECT.

Law: GROUP BY x COLLATE c groups by f(x) (see `collations`) and shows one of the strings of each
group. DuckDB leaves open which one; here it is the first in byte order. The collation of a result
column has no effect, since a view's columns have none; in a nested query it would.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.parse.collations import comparison_key
from ivm.sql.plan.built_in import ours
from ivm.sql.plan.expressions import nodes_of, structure
from ivm.storage.identifiers import fold

_PLAIN = (exp.Column, exp.Collate)


def shown_without_collations(tree: exp.Expr, names: Sequence[str]) -> exp.Expr:
    """Removes the collations of a query's groups and of its result; the tree is changed.

    Args:
        tree: the whole query of a view.
        names: the names of the result's columns.
    """
    if isinstance(tree, exp.Select) and tree.find(exp.Collate):
        items = tree.expressions
        stars = [star for item in items for star in item.find_all(exp.Star, exp.Columns)]
        if all(isinstance(star.parent, exp.Count) for star in stars):  # so each item is one column
            _Shown(tree, names).rewrite()
    return tree


class _Shown:
    """Rewrites the outermost SELECT; a COLLATE that it leaves is refused later."""

    def __init__(self, select: exp.Select, names: Sequence[str]) -> None:
        self._select = select
        self._names = names
        self._items = [_bare(item) for item in select.expressions]
        self._grouped: set[object] = set()  # structures of the collated terms in GROUP BY

    def rewrite(self) -> None:
        collated = [c for c in self._items if isinstance(c, exp.Collate)]
        if any(comparison_key(c) is None for c in collated) or not self._as_groups(bool(collated)):
            return
        if not any(self._is_read(item) for item in collated) and self._rewrite_groups():
            self._rewrite_order()

    def _as_groups(self, collated: bool) -> bool:
        """Rewrites DISTINCT with collated items to GROUP BY; False if that is not possible."""
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
        """Returns whether the item's alias may be read, other than as a bare key, where its
        collation would have an effect."""
        alias = item.parent
        if not isinstance(alias, exp.Alias):
            return False
        name, own = fold(alias.alias), _is_own(item, alias)
        parts = ("having", "qualify", "windows", "order") if own else tuple(self._select.args)
        keys = [*self._keys("group"), *self._keys("order")]
        return any(
            fold(column.name) == name and not any(column is key for key in keys)
            for part in parts
            for node in nodes_of(self._select.args.get(part))
            for column in node.find_all(exp.Column)
        )

    def _item_of(self, key: exp.Expr, *, own: bool) -> exp.Expr:
        """The item that a key names, else the key itself.

        Args:
            own: whether an alias that is the name of the item's own column names the item.
        """
        if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(self._items):
            return self._items[int(key.name) - 1]
        if isinstance(key, exp.Column) and not key.table:
            for item in self._items:
                alias = item.parent
                if isinstance(alias, exp.Alias) and fold(alias.alias) == fold(key.name):
                    return item if own or not _is_own(item, alias) else key
        return key

    def _rewrite_groups(self) -> bool:
        """Groups by comparison keys in place of collated terms; False if a key is ambiguous."""
        found = [(key, self._item_of(key, own=False)) for key in self._keys("group")]
        named = [item for _, item in found if isinstance(item, exp.Collate)]
        rest = [item for _, item in found if not isinstance(item, exp.Collate)]
        # In GROUP BY a column hides an alias of its name; such a key would group by the column.
        read = {fold(column.name) for item in named for column in item.find_all(exp.Column)}
        if any(fold(c.name) in read for item in rest for c in item.find_all(exp.Column)):
            return False
        terms = [comparison_key(item) for item in named]
        if any(term is None for term in terms):
            return False
        self._grouped = {structure(item) for item in named}
        for key, item in found:
            if isinstance(item, exp.Collate):
                key.replace(comparison_key(item))
        return True

    def _rewrite_order(self) -> None:
        """Orders by comparison keys in place of collated items, and removes the collations."""
        for key in self._keys("order"):
            item = self._item_of(key, own=True)
            if item is not key and isinstance(item, exp.Collate):
                key.replace(comparison_key(item))
        for name, item in zip(self._names, self._items, strict=True):
            if isinstance(item, exp.Collate):
                text = item.this
                shown = _first(text) if structure(item) in self._grouped else text.copy()
                named = isinstance(item.parent, exp.Alias)
                item.replace(shown if named else exp.alias_(shown, name, quoted=True))


def _bare(item: exp.Expr) -> exp.Expr:
    return (item.this if isinstance(item, exp.Alias) else item).unnest()


def _key(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Ordered) else node


def _is_own(item: exp.Expr, alias: exp.Alias) -> bool:
    """Returns whether the alias of a collated column is the column's own name."""
    column = item.this if isinstance(item, exp.Collate) else item
    return isinstance(column, exp.Column) and fold(column.name) == fold(alias.alias)


def _first(text: exp.Expr) -> exp.Expr:
    """Makes FIRST of the strings, whose order is later completed by all columns: in byte order."""
    return ours(exp.First(this=text.copy()))
