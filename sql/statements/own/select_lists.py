"""The items of a query's select list: their names by DuckDB's own tree, their texts by its tokens.

Law: in ORDER BY a name means the last alias of that name, and a star's column has one where it is
renamed or replaced; of a set operation it means the first column of the result that has the name. A
list whose columns are not told by its text (COLUMNS, unnest of a struct) is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ivm.sql.statements.text.duckdb_tree import nodes, read_or_error
from ivm.sql.statements.text.tokens import Token, split, top_level
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold
from ivm.storage.scratch import Scratch

_ENDS = frozenset(
    ["FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "UNION", "INTERSECT", "EXCEPT"]
)
_scratch = Scratch.of()
_Told = Mapping[str, Any]


class Item(NamedTuple):
    """An item of a select list.

    Attributes:
        name: folded, by which ORDER BY may mean it; None if it has none.
        value: the tokens of its expression; () if they are not known.
        number: its place in the result, from 1; None if it is not known.
        column: folded, of an item that is nothing but a column; DuckDB may take the name for an
            alias, if it is written in other letters than the table's.
        is_of_star: it is a star, or what one renames or replaces.
    """

    name: str | None
    value: Sequence[Token]
    number: int | None
    column: str | None = None
    is_of_star: bool = False


class SelectList(NamedTuple):
    """The items, as far as they are known.

    Attributes:
        items: from left to right, a star being one; none of a query that is no SELECT.
        is_open: they may be other columns, with other names.
        is_written: the tokens of all items are known.
        is_set: the result is that of a set operation.
    """

    items: Sequence[Item] = ()
    is_open: bool = True
    is_written: bool = False
    is_set: bool = False

    def named(self, name: str) -> Item | None:
        """The item that a name means in ORDER BY, which may also be one of the FROM clause."""
        found = [item for item in self.items if item.name == fold(name)]
        return found[0 if self.is_set else -1] if found else None

    def is_ambiguous(self, name: str) -> bool:
        """Returns whether a column of the name stands behind an alias of it."""
        meant = [fold(name) in (item.name, item.column) for item in self.items]
        last = [item for item, means in zip(self.items, meant, strict=True) if means][-1:]
        return self.named(name) is not None and bool(last and last[0].column)

    def numbered(self, number: int) -> Item:
        """The item at a place."""
        found = (item for item in self.items if item.number == number)
        return next(found, Item(None, (), number))


def select_list(query: str, head: Sequence[Token]) -> SelectList:
    """Reads the select list of a query, the first one of several.

    Args:
        query: as DuckDB reads it.
        head: its tokens.

    Raises:
        SqlError: it does not parse.
    """
    told, is_set = _told(query)
    if told is None:
        return SelectList()
    parts = _parts(head)
    is_written = len(parts) == len(told)
    items, is_open = list[Item](), False
    number: int | None = 1
    for each, part in zip(told, parts if is_written else [()] * len(told), strict=True):
        inner = _expressions(each)
        unnests = any(node.get("function_name") == "unnest" for node in inner)
        if unnests or any(node["class"] == "STAR" for node in inner):
            number = None
            is_open = is_open or unnests or bool(each["alias"]) or not _is_star(each)
            renamed = [fold(name) for name in _renamed(each)] if _is_star(each) else []
            items += [Item(name, (), None, is_of_star=True) for name in (None, *renamed)]
            continue
        columns = [] if each["alias"] or is_set else each.get("column_names", [])
        column = fold(columns[-1]) if columns else None
        items.append(Item(_name(each, is_set), _value(part, each["alias"]), number, column))
        number = None if number is None else number + 1
    return SelectList(items, is_open, is_written, is_set)


def _name(told: _Told, is_set: bool) -> str | None:
    """The name by which ORDER BY may mean an item, beside what it means in the FROM clause."""
    columns = told.get("column_names", ()) if is_set else ()
    name = told["alias"] or (columns[-1] if columns else "")
    return fold(name) if name else None


def _is_star(told: _Told) -> bool:
    return told["class"] == "STAR" and not told["columns"]


def _parts(head: Sequence[Token]) -> list[Sequence[Token]]:
    """The tokens of each item; none of a query that does not begin with SELECT."""
    top = top_level(head)
    start = next((i for i in top if head[i].word in ("SELECT", "FROM", "VALUES")), None)
    if start is None or head[start].word != "SELECT":
        return []
    words = [token.word for token in head[start + 1 : start + 3]]
    start += 2 if words[:1] in (["DISTINCT"], ["ALL"]) else 1
    if words == ["DISTINCT", "ON"]:
        start = next((i for i in top if i > start and head[i].word == ")"), len(head)) + 1
    end = next((i for i in top if i >= start and head[i].word in _ENDS), len(head))
    return [part for part in split(head[start:end]) if part]


def _told(query: str) -> tuple[Sequence[_Told] | None, bool]:
    """DuckDB's own items, None where it cannot serialize them; and whether of a set operation."""
    with _scratch.borrow() as cursor:
        tree, error = read_or_error(query, cursor)
    if error and tree["error_type"] == "parser":
        raise SqlError(error)
    if error:
        return None, False
    node, is_set = tree["statements"][0]["node"], False
    while "select_list" not in node and (node.get("left") or node.get("children")):
        node, is_set = node.get("left") or node["children"][0], True
    return node.get("select_list"), is_set


def _renamed(star: _Told) -> Iterator[str]:
    yield from (each["key"] for each in star["replace_list"])
    yield from (each["value"] for each in star["rename_list"])


def _expressions(tree: Any) -> list[_Told]:
    """The expressions in one, itself included."""
    return [node for node in nodes(tree) if "class" in node]


def _value(part: Sequence[Token], alias: str) -> Sequence[Token]:
    """The expression of an item."""
    if not alias or not part:
        return part
    if [token.word for token in part[1:2]] == [":"]:
        return part[2:]
    return part[:-2] if part[-2].word == "AS" else part[:-1]
