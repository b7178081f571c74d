"""The option `metadata` of sources: which columns of ours get facts of an event.

Law: the option is pairs `column = fact`, parted by commas. A column is a name as in SQL, and has
one fact. A fact is one of its kind's, in any case, or `header:` and a name as the header has it;
either may stand in double quotes. A column must be able to hold every value of its fact, but for a
text, which is cast to the column's type as an event's value is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import duckdb
import pyarrow as pa

from ivm.cdc.sources.definition import DefinitionError, near
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold, quote
from ivm.storage.scratch import Scratch
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.tables.table_info import TableInfo

TIME, COUNT, SMALL = pa.timestamp("us"), pa.int64(), pa.int32()
TEXT, BYTES = pa.large_string(), pa.large_binary()
"""The types of facts: a time in UTC, integers, a text, and bytes that should be one."""
HEADER = "header:"
"""Among the facts of a kind: it has headers."""
SAME_FOR_A_ROW = frozenset(("topic", "path"))
"""The facts that all events of a row have in common, so that a key may have them."""

Facts = Mapping[str, pa.DataType]
"""The types of a kind's facts by name."""

_NATURAL = {
    TIME: "TIMESTAMP WITH TIME ZONE",
    COUNT: "BIGINT",
    SMALL: "INTEGER",
    TEXT: "VARCHAR",
    BYTES: "VARCHAR",
}
_GREATEST = {
    TIME: "TIMESTAMP '2026-11-28 12:34:56.789123'",
    COUNT: "9223372036854775807::BIGINT",
    SMALL: "2147483647::INTEGER",
}
_NAME = r'(?:"(?:[^"]|"")+"|[^\s",=:]+)'
_PAIR = re.compile(rf'\s*({_NAME})\s*=\s*((?:[^",]|"(?:[^"]|"")*")*?)\s*(,|$)')
_scratch = Scratch()


@dataclass(frozen=True)
class Metadata:
    """What the option says.

    Attributes:
        columns: the fact of each column, by its name as it is written.
        appends: whether no event changes or deletes a row.
    """

    columns: Mapping[str, str]
    appends: bool

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of its facts, each once."""
        return tuple(sorted({*self.columns.values()}))

    def facts_in(self, info: TableInfo) -> dict[int, str]:
        """The facts of a table's columns by their positions, as far as it has them."""
        own = {fold(column): fact for column, fact in self.columns.items()}
        names = enumerate([fold(name) for name, _ in info.schema])
        return {i: own[name] for i, name in names if name in own}

    def natural_types(self, facts: Facts) -> dict[str, str]:
        """SQL of the types with which the columns are made where they are lacking."""
        return {name: _NATURAL[type_of(facts, fact)] for name, fact in self.columns.items()}

    def demand(self, info: TableInfo, facts: Facts) -> None:
        """Refuses a table that cannot have the facts.

        Raises:
            InputError: it lacks a column, one cannot hold its fact, or rows would not be found.
        """
        for column, fact in self.columns.items():
            position = info.position(column)
            alter, type = f"ALTER TABLE {info.name}", type_of(facts, fact)
            if position is None:
                raise InputError(
                    f"metadata gives the {fact} to column {column!r}, which table {info.name!r} "
                    f"lacks: {alter} ADD COLUMN {quote(column)} {_NATURAL[type]}, or name another"
                )
            own = info.schema[position][1]
            if not holds(own, type):
                raise InputError(
                    f"column {column!r} of table {info.name!r} is {own.sql}, which does not hold "
                    f"every {fact}: {alter} ALTER COLUMN {quote(column)} TYPE {_NATURAL[type]}"
                )
        if self.columns and not self.appends:
            self._demand_found(info)

    def _demand_found(self, info: TableInfo) -> None:
        """Refuses a table whose rows are found by facts of the events that wrote them."""
        if not info.primary_key:
            raise InputError(
                f"table {info.name!r} has no primary key, so an event that changes a row finds it "
                "by all columns, and metadata is other in each event: give it a primary key, or "
                "use a format whose events are new rows alone (json appends)"
            )
        facts = self.facts_in(info)
        for i in info.primary_key:
            if i in facts and facts[i] not in SAME_FOR_A_ROW:
                raise InputError(
                    f"column {info.schema[i][0]!r} is of the primary key of table {info.name!r}, "
                    f"and the {facts[i]} of an event that changes a row is another than that of "
                    "the one that made it: leave the column out of the key or of metadata, or use "
                    "a format whose events are new rows alone (json appends)"
                )
        if all(i in facts for i in info.primary_key):
            raise InputError(
                f"the primary key of table {info.name!r} has columns of metadata alone: no event "
                "tells which row it is of"
            )


@runtime_checkable
class TellsFacts(Protocol):
    """A definition of a source whose events have facts."""

    @property
    def facts(self) -> Facts:
        """Of the kind."""

    def told(self) -> Metadata:
        """What its option `metadata` says."""

    def tables_of(self, into: str | None) -> list[str]:
        """The names of our tables, as a user would write them.

        Args:
            into: our table, if INTO names one.
        """


def parse_metadata(text: str, facts: Facts, *, appends: bool) -> Metadata:
    """Reads the option.

    Args:
        text: its value.
        facts: of the kind.
        appends: see `Metadata`.

    Raises:
        DefinitionError: it means nothing.
    """
    columns: dict[str, str] = {}
    at = 0
    while text.strip() and (not at or text[at - 1] == ","):
        found = _PAIR.match(text, at)
        if found is None:
            like = f"seen = {next(iter(facts))}"
            reason = f"metadata is a list of columns and their facts, as {like!r}, not {text!r}"
            raise DefinitionError(reason, "metadata")
        column, fact = _bare(found[1]), _fact(found[2], facts)
        if fold(column) in map(fold, columns):
            reason = f"metadata gives two facts to column {column!r}: it can have one"
            raise DefinitionError(reason, "metadata")
        columns[column] = fact
        at = found.end()
    return Metadata(columns, appends)


def type_of(facts: Facts, fact: str) -> pa.DataType:
    """The type of a fact, which may be a header."""
    return facts[fact] if fact in facts else facts[HEADER]


@lru_cache(maxsize=256)
def holds(type: ColumnType, fact: pa.DataType) -> bool:
    """Whether a column's type has every value of a fact; of a text that is known by its value."""
    if fact not in _GREATEST:
        return True
    if "TIME ZONE" in type.sql:
        return fact == TIME and type.sql == _NATURAL[TIME]
    value = _GREATEST[fact]
    back = f"TRY_CAST(TRY_CAST({value} AS {type.sql}) AS {value.partition('::')[2] or 'TIMESTAMP'})"
    try:
        with _scratch.borrow() as cursor:
            ((found,),) = cursor.sql(f"SELECT {back} = {value}").fetchall()
    except duckdb.Error:  # there is no such cast
        return False
    return found is True


def _bare(name: str) -> str:
    """A name without its quotes."""
    return name[1:-1].replace('""', '"') if name[:1] == '"' else name


def _fact(text: str, facts: Facts) -> str:
    bare = _bare(text.strip())
    if HEADER in facts and bare.lower().startswith(HEADER):
        name = _bare(bare[len(HEADER) :].strip())
        if name:
            return HEADER + name
    fact = " ".join(bare.lower().split())
    if fact in facts and fact != HEADER:
        return fact
    known = [name + "NAME" * (name == HEADER) for name in facts]
    raise DefinitionError(f"there is no fact {bare!r}{near(fact, known)}", "metadata")
