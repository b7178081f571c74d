"""The schemas with which messages come, where their format has them.

Contract: a batch has messages of one schema for each table, so that the table can follow before
they are decoded. In a topic of several partitions messages of an old schema may come after those of
a new one; there a column that a schema lacks is not taken for one that was dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Message

from ivm.cdc.formats.connect_schema import upstream_columns
from ivm.cdc.formats.events import UnlikeLinesError
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.cdc.sources.source import Upstream

_HEAD = re.compile(r'\s*\{\s*"schema"\s*:\s*')


@dataclass(frozen=True)
class _Schema:
    """A schema.

    Attributes:
        prefix: with which its messages begin.
        upstream: the columns that it tells of; None if it does not tell of a row.
    """

    prefix: bytes
    upstream: Upstream | None


class Schemas:
    """The latest schema of each table.

    Args:
        tables: by topic.
        envelope: of the format.
    """

    def __init__(self, tables: Mapping[str, str], envelope: Envelope) -> None:
        self._tables = tables
        self._envelope = envelope
        self._known: dict[str, _Schema] = {}

    def upstream(self, table: str, complete: bool) -> Upstream | None:
        """What the messages of the last run tell of a table."""
        found = self._known.get(table)
        if found is None or found.upstream is None:
            return None
        return Upstream(found.upstream.columns, found.upstream.key, complete)

    def run(self, messages: Sequence[Message]) -> int:
        """How many of the first messages have one schema for each table."""
        if self._envelope.schema is None:
            return len(messages)
        begun: set[str] = set()
        for i, message in enumerate(messages):
            table, value = self._tables[message.topic()], message.value()
            known = self._known.get(table)
            if value is None or (known and table in begun and value.startswith(known.prefix)):
                continue
            found = known if known and value.startswith(known.prefix) else self._read(message)
            if found is None:  # it is refused later, whatever comes before and after it
                continue
            if table in begun:
                return i
            begun.add(table)
            self._known[table] = found
        return len(messages)

    def _read(self, message: Message) -> _Schema | None:
        try:
            text = message.value().decode()
            head = _HEAD.match(text)
            if head is None:
                return None
            schema, end = json.JSONDecoder().raw_decode(text, head.end())
            columns: tuple[UpstreamColumn, ...] = ()
            if schema is not None:
                columns = upstream_columns(json.dumps(schema), self._envelope.after[-1])
        except (ValueError, RecursionError, UnlikeLinesError):
            return None
        upstream = Upstream(columns, _key(message.key(), {each.name for each in columns}))
        return _Schema(text[:end].encode(), upstream if columns else None)


def _key(key: bytes | None, columns: set[str]) -> tuple[str, ...] | None:
    """The names of the key's columns, if the message's key tells them."""
    try:
        found = json.loads(key or b"null")
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
        found = found["payload"]
    return tuple(found) if isinstance(found, dict) and columns >= found.keys() != set() else None
