"""How far the first copy is, and which tables there are, kept among a source's positions.

Law: until the copy is complete no place of the stream is kept, so a source that is opened before
copies anew. All tables that were begun are emptied then, since one that upstream has emptied
meanwhile has no row that could tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from secrets import token_hex

from ivm.cdc.sources.debezium.records import TableName
from ivm.cdc.sources.source import Position, SourceError
from ivm.storage.identifiers import quote

STREAM = "copy"
_HOME = ("", "public", "dbo")  # schemas that are our main


@dataclass(frozen=True)
class Copy:
    """What the detail of the position says.

    Attributes:
        captured: the properties that say which tables and columns there are.
        token: a part of the names of what the source leaves upstream.
        done: whether the copy is complete.
        tables: the upstream table of each of ours that has got events.
    """

    captured: Mapping[str, str]
    token: str = field(default_factory=lambda: token_hex(5))
    done: bool = False
    tables: Mapping[str, TableName] = field(default_factory=dict)

    @staticmethod
    def of(positions: Mapping[str, Position]) -> Copy | None:
        """As it was committed; None if the source begins."""
        if STREAM not in positions:
            return None
        found = json.loads(positions[STREAM].detail)
        tables = {ours: TableName(*name) for ours, name in found["tables"].items()}
        return Copy(found["captured"], found["token"], found["done"], tables)

    def demand(self, captured: Mapping[str, str]) -> None:
        """Refuses to capture other tables or columns than when the source began.

        Raises:
            SourceError: the properties are others.
        """
        if self.captured != captured:
            raise SourceError(
                "other tables or columns are captured than when the source began, whose rows were "
                f"not copied: set {_written(self.captured)} again, or drop the source and "
                "create it again, which copies all tables anew"
            )

    @property
    def detail(self) -> str:
        """As a text."""
        return json.dumps(vars(self), ensure_ascii=False)

    def finished(self) -> Copy:
        """The same, complete."""
        return replace(self, done=True)

    def with_table(self, name: TableName, into: str | None) -> tuple[str, Copy]:
        """The table of ours for one upstream, and the copy that has it.

        Raises:
            SourceError: another upstream table goes there.
        """
        ours = _ours(name) if into is None else into
        known = self.tables.get(ours)
        if known is None:
            return ours, replace(self, tables={**self.tables, ours: name})
        if known != name:
            both = " and ".join(".".join(filter(None, each)) for each in (known, name))
            raise SourceError(
                f"both {both} would go into table {ours}: let table.include.list name one of them, "
                "and create a source for the other INTO another table"
            )
        return ours, self


def _ours(name: TableName) -> str:
    """The name of our table, in SQL. MySQL's databases are no schemas here."""
    table = quote(name.table)
    return table if name.schema in _HOME else f"{quote(name.schema)}.{table}"


def _written(captured: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' '{value}'" for name, value in captured.items()) or "none of them"
