"""The items of a query's select list: their names by DuckDB's own tree, their texts by its tokens.

Law: of items with one name an alias comes before a column, and the last alias before the others,
as ORDER BY takes them. What a star replaces or renames is an item without an expression.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ivm.sql.statements.text.tokens import Token, split, top_level
from ivm.storage.identifiers import fold, literal
from ivm.storage.scratch import Scratch
from ivm.storage.warehouse.duckdb.duck import rows

_ENDS = frozenset(
    ["FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "UNION", "INTERSECT", "EXCEPT"]
)
_scratch = Scratch.of()
_Told = Mapping[str, Any]


class Item(NamedTuple):
    """An item of a select list.

    Attributes:
        name: folded; None if no name can mean it.
        value: the tokens of its expression; () of a column that a star renames or replaces.
        number: its place in the result, from 1; None if it is not known.
        is_alias: it has a name of its own.
    """

    name: str | None
    value: Sequence[Token]
    number: int | None
    is_alias: bool = False


class SelectList(NamedTuple):
    """The items, as far as they are known.

    Attributes:
        items: from left to right, a star being one; none of a query that does not begin with
            SELECT.
        is_open: COLUMNS(…) in an expression may give columns of any name.
    """

    items: Sequence[Item] = ()
    is_open: bool = False

    def named(self, name: str) -> Item | None:
        """The item that a name means in ORDER BY, which may also be one of the FROM clause."""
        found = [item for item in self.items if item.name == fold(name)]
        aliases = [item for item in found if item.is_alias]
        return next(iter(aliases[-1:] or found), None)

    def numbered(self, number: int) -> Item:
        """The item at a place."""
        found = (item for item in self.items if item.number == number)
        return next(found, Item(None, (), number))


def select_list(query: str, head: Sequence[Token]) -> SelectList:
    """Reads the select list of a query, the first one of several.

    Args:
        query: as DuckDB reads it.
        head: its tokens.
    """
    parts, told = _parts(head), _told(query)
    if len(parts) != len(told):
        return SelectList()
    items, is_open = list[Item](), False
    number: int | None = 1
    for part, each in zip(parts, told, strict=True):
        if any(node["class"] == "STAR" for node in _nodes(each)):
            number, is_plain = None, each["class"] == "STAR" and not each["alias"]
            is_open = is_open or not is_plain
            renamed = map(fold, _renamed(each)) if is_plain else ()
            items += [Item(name, (), None) for name in (None, *renamed)]
        elif each["alias"]:
            items.append(Item(fold(each["alias"]), _value(part), number, is_alias=True))
        else:
            columns = each.get("column_names", ())
            items.append(Item(fold(columns[-1]) if columns else None, part, number))
        number = None if number is None else number + 1
    return SelectList(items, is_open)


def _parts(head: Sequence[Token]) -> list[Sequence[Token]]:
    """The tokens of each item; none of a query that does not begin with SELECT."""
    top = top_level(head)
    start = next((i for i in top if head[i].word in ("SELECT", "FROM", "VALUES")), None)
    if start is None or head[start].word != "SELECT":
        return []
    start += 2 if head[start + 1].word in ("DISTINCT", "ALL") else 1
    if [token.word for token in head[start : start + 1]] == ["ON"]:
        start = next(i for i in top if i > start and head[i].word == ")") + 1
    end = next((i for i in top if i >= start and head[i].word in _ENDS), len(head))
    return [part for part in split(head[start:end]) if part]


def _told(query: str) -> Sequence[_Told]:
    """DuckDB's own items; none where it cannot serialize the query."""
    with _scratch.borrow() as cursor:
        call = f"system.main.json_serialize_sql({literal(query)})"
        tree = json.loads(rows(cursor, f"SELECT {call}")[0][0])
    if tree["error"]:
        return ()
    node = tree["statements"][0]["node"]
    while "select_list" not in node and node.get("children", node.get("left")):
        node = node.get("left") or node["children"][0]
    return tuple(node.get("select_list", ()))


def _renamed(star: _Told) -> Iterator[str]:
    yield from (each["key"] for each in star["replace_list"])
    yield from (each["value"] for each in star["rename_list"])


def _nodes(tree: Any) -> Iterator[_Told]:
    """The expressions in one."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _value(part: Sequence[Token]) -> Sequence[Token]:
    """The expression of an item that has an alias."""
    if [token.word for token in part[1:2]] == [":"]:
        return part[2:]
    return part[:-2] if part[-2].word == "AS" else part[:-1]
