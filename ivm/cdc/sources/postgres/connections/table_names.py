"""The names of upstream tables as the option `tables` writes them, and those of our tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ivm.storage.errors import InputError
from ivm.storage.identifiers import canonical_name, fold, quote

_PART = r'(?:"(?:[^"]|"")+"|[^\s",.]+)'
_NAME = re.compile(rf"\s*({_PART})(?:\s*\.\s*({_PART}))?\s*(?:,|$)")


class TableName(NamedTuple):
    """A table upstream, its names as PostgreSQL stores them."""

    schema: str
    name: str

    @property
    def sql(self) -> str:
        """The name in PostgreSQL's SQL."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    @property
    def ours(self) -> str:
        """The name of our table, in DuckDB's SQL: schema public is our main."""
        return quote(self.name) if self.schema == "public" else self.sql

    @property
    def canonical(self) -> str:
        """The canonical name of our table, see `identifiers`."""
        schema = "main" if self.schema == "public" else self.schema
        return canonical_name((schema, self.name))


def table_names(text: str) -> list[TableName]:
    """The tables of a list such as `public.orders, shop."Odd, name"`; public may be left out.

    Raises:
        InputError: it is no such list, or two of the tables would be one of ours.
    """
    found, at = [], 0
    while at < len(text):
        match = _NAME.match(text, at)
        if match is None:
            raise InputError(
                f"the option 'tables' lists tables as PostgreSQL writes their names, schema.table "
                f"and commas between them; this is none: {text[at:]!r}"
            )
        first, second = match.groups()
        parts = ("public", first) if second is None else (first, second)
        found.append(TableName(*map(_stored, parts)))
        at = match.end()
    if not found:
        raise InputError("the option 'tables' names no table")
    _demand_apart(found)
    return found


def _demand_apart(names: Iterable[TableName]) -> None:
    known: dict[str, TableName] = {}
    for name in names:
        other = known.setdefault(fold(name.canonical), name)
        if other == name and other is not name:
            raise InputError(f"the option 'tables' names {name.ours} twice")
        if other != name:
            raise InputError(
                f"the tables {other.sql} and {name.sql} of the option 'tables' would be one table "
                "here: let another source follow one of them, CREATE SOURCE … INTO table …"
            )


def listed(names: Iterable[TableName]) -> str:
    """The option's text for these tables."""
    return ", ".join(name.sql for name in names)


def _stored(part: str) -> str:
    """A name without quotes is in lower case, as PostgreSQL folds it."""
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()
