"""What tells a table, its columns and its publication from others that have had their names.

Law: a column is its number (`pg_attribute.attnum`, which is never given twice), a publication and
its entry for a table are their oids, and a row of the catalog that has its `xmin` was not touched.
So what two looks have alike was so all the time between them; what they do not is a reason to copy
the table anew, or it is followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple


class Attribute(NamedTuple):
    """A column, or what is left of one.

    Attributes:
        number: its number, from 1 without gaps.
        name: as PostgreSQL stores it; empty if it is not published (dropped, or generated).
        type: oid of its type.
        modifier: of its type, -1 if it has none.
        written: who wrote its row of the catalog last; empty if that is not known.
        default: oid of its default, 0 if it has none.
        has_before: the catalog has the value of rows that are older than the column.
    """

    number: int
    name: str
    type: int
    modifier: int
    written: str
    default: int
    has_before: bool

    @property
    def named(self) -> tuple[int, str, int, int]:
        """What a look must find again for the column to be the same."""
        return self.number, self.name, self.type, self.modifier


@dataclass(frozen=True)
class Identity:
    """A table at one time.

    Attributes:
        columns: all that it ever had, by number.
        parts: the labels of enums and the fields of composites among its types, by their oids.
        files: of its rows, by the oid of the table or partition; another one was written anew.
        publication: which it is, and who wrote its row last; empty if it was not asked for.
        entries: through which it publishes the table.
        is_logged: the table's changes are in the server's log.
    """

    columns: tuple[Attribute, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    publication: str = ""
    entries: tuple[str, ...] = ()
    is_logged: bool = True

    @property
    def text(self) -> str:
        """From which `identity` makes it again."""
        rest = [self.parts, self.files, self.publication, self.entries]
        return json.dumps([self.columns, *rest], ensure_ascii=False, separators=(",", ":"))

    @property
    def published(self) -> dict[str, Attribute]:
        """The columns that are published, by name."""
        return {column.name: column for column in self.columns if column.name}

    def has_columns_of(self, other: Identity) -> bool:
        """Whether both have the same columns."""
        return [c.named for c in self.columns] == [c.named for c in other.columns]

    def is_rewritten(self, since: Identity) -> bool:
        """Whether rows were written anew since another look; new partitions have none of before."""
        return any(self.files.get(table, file) != file for table, file in since.files.items())


def identity(text: str) -> Identity:
    """The identity that such a text tells."""
    columns, parts, files, publication, entries = json.loads(text)
    made = tuple([Attribute(*column) for column in columns])
    return Identity(made, parts, files, publication, tuple(entries))


def missed(before: Identity, now: Identity) -> str | None:
    """Why changes between two looks may have been missed, as the end of a sentence about a table.

    Types are not compared, see `retyped`.
    """
    if not now.is_logged:
        return "is UNLOGGED, so that its changes are not sent"
    if before.publication and not set(before.entries) & set(now.entries):
        return "was taken out of the publication, so that changes of it may be missing"
    if before.publication != now.publication and before.publication:
        return "is of a publication that was altered, so that changes of it may be missing"
    for name, column in now.published.items():
        known = before.published.get(name)
        if known is not None and known.number != column.number:
            return f"has another column {name!r} than before: its values are those of another one"
    for old, new in zip(before.columns, now.columns, strict=False):
        if new.name and not old.name:
            return (
                f"has a column {new.name!r} that was generated before, of values that are not sent"
            )
    for part, text in before.parts.items():
        if now.parts.get(part, text) != text:
            return f"has a type that was altered ({text!r} is {now.parts[part]!r} now)"
    return _rewritten(before, now)


def retyped(before: Identity, now: Identity) -> list[tuple[Attribute, Attribute]]:
    """The columns whose types are others than before, as they were and are."""
    pairs = zip(before.columns, now.columns, strict=False)
    return [
        (old, new)
        for old, new in pairs
        if old.name and new.name and (old.type, old.modifier) != (new.type, new.modifier)
    ]


def _rewritten(before: Identity, now: Identity) -> str | None:
    """Why a column of the same type may have other values: ALTER … TYPE twice, or with USING.

    A rewrite for another reason also touches a column, if it has the value of older rows.
    """
    if not now.is_rewritten(before):
        return None
    for old, new in zip(before.columns, now.columns, strict=False):
        is_same = old.name and new.name and old[:4] == new[:4]
        is_clear = old.has_before and not new.has_before and old.default == new.default
        if is_same and old.written and old.written != new.written and not is_clear:
            return f"was written anew, and its column {new.name!r} was altered"
    return None


def numbers(before: Identity, now: Identity, names: Sequence[str]) -> list[list[int]]:
    """Which columns a table may have had at a time between two looks; more than one is a doubt.

    Args:
        before: the look before.
        now: the one after.
        names: of the columns that it had then, in the order of their numbers.
    """
    sure, maybe, known = [], [], {column.number: column for column in before.columns}
    for column in now.columns:
        old = known.get(column.number)
        if old is not None and old.written == column.written and old.written:
            sure += [column.number] if old.name else []
        elif column.name and (old is None or old.name):
            sure.append(column.number)
        elif column.name or old is None or old.name:
            maybe.append(column.number)
    found = {
        chosen
        for last in range(len(before.columns), len(now.columns) + 1)
        for chosen in _chosen(
            [n for n in sure if n <= last], [n for n in maybe if n <= last], len(names)
        )
        if _may_have(before, now, chosen, names)
    }
    return [list(chosen) for chosen in sorted(found)]


_MOST = 12  # columns that may have been there or not, of which all choices are tried


def _chosen(sure: list[int], maybe: list[int], count: int) -> list[tuple[int, ...]]:
    lacking = count - len(sure)
    if lacking < 0 or len(maybe) > _MOST:
        return []
    return [tuple(sorted([*sure, *some])) for some in combinations(maybe, lacking)]


def _may_have(before: Identity, now: Identity, chosen: Sequence[int], names: Sequence[str]) -> bool:
    """Whether columns that nobody has touched have the names."""
    for number, name in zip(chosen, names, strict=True):
        if number <= len(before.columns):
            old, new = before.columns[number - 1], now.columns[number - 1]
            if old.written and old.written == new.written and old.name != name:
                return False
    return True


def seen(
    before: Identity, now: Identity, chosen: Sequence[int], sent: Sequence[tuple[str, int, int]]
) -> Identity:
    """A table as the stream has shown it between two looks.

    Args:
        before: the look before.
        now: the one after.
        chosen: the numbers of the columns.
        sent: names, types and modifiers of them.
    """
    shown = dict(zip(chosen, sent, strict=True))
    last = max([len(before.columns), *chosen])
    columns = tuple([_at(column, shown.get(column.number)) for column in now.columns[:last]])
    found = replace(before, columns=columns, parts={**now.parts, **before.parts})
    return before if found.has_columns_of(before) else found


def _at(now: Attribute, sent: tuple[str, int, int] | None) -> Attribute:
    name, type, modifier = sent or ("", 0, -1)
    column = now._replace(name=name, type=type, modifier=modifier)
    is_now = column.named == now.named if sent else not now.name
    return column if is_now else column._replace(written="")
