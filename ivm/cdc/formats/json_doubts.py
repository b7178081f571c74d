"""The statement that asks of doubtful lines why they are refused, and which values were not sent.

A line is parsed once more here, to tell values that are null from those that were not sent or do
not fit. So only the lines on which `json_statement` has doubts come here.
"""

from __future__ import annotations

from ivm.cdc.formats.json_statement import (
    UNAVAILABLE,
    Envelope,
    Survey,
    TypedLines,
    all_null,
    some_null,
)
from ivm.cdc.formats.json_values import hint
from ivm.cdc.formats.texts import NO_UTF8
from ivm.storage.identifiers import literal
from ivm.storage.warehouse.table_info import TableInfo

_BARE = f"system.main.replace(raw, '{NO_UTF8}', '')"
_IS_BINARY = f"system.main.starts_with({_BARE}, system.main.chr(0))"
_BINARY = (
    "it is not JSON: it begins with a zero byte, as what is written with a schema registry does "
    "(Avro, Protobuf). Have it written as plain JSON (Kafka Connect's JsonConverter)"
)


def doubts(info: TableInfo, envelope: Envelope, survey: Survey) -> str:
    """A query over `LINES`, see `json_statement.statement`.

    Returns:
        SQL; its columns are `refused`, the reason or NULL, and of each column i with a key whether
        its value was not sent `u<i>`.
    """
    return _Doubts(info, envelope, survey).text()


class _Doubts(TypedLines):
    def text(self) -> str:
        """The whole statement."""
        parts = [f"{self._refused()} AS refused"]
        parts += [f"{self._unsent(i)} AS u{i}" for i in self.keys]
        after = f"CASE WHEN op IN (0, 1, 2) AND ({some_null('a', self.keys)}) THEN "
        after += self._map(self._envelope.after) + " END AS m"
        return (
            f"{self._typed()}, seen AS (SELECT *, {after}, {self._before_map()} FROM typed)"
            f" SELECT {', '.join(parts)} FROM seen"
        )

    def _unsent(self, i: int) -> str:
        sent = f"system.main.map_contains(m, {literal(self.keys[i])})"
        unsent = f"coalesce(a{i} IS NULL AND op IN (0, 1) AND NOT {sent}, FALSE)"
        return f"({unsent} OR {self._unavailable(i)})"

    def _unavailable(self, i: int) -> str:
        raw = f"CAST(m[{literal(self.keys[i])}] AS VARCHAR)"
        found = f"(a{i} IS NULL AND coalesce(system.main.contains({raw}, '{UNAVAILABLE}'), FALSE))"
        if not self._types[i].is_string:
            return found
        return f"({found} OR {self._is_placeholder(i)})"

    def _refused(self) -> str:
        after, operation = ".".join(self._envelope.after), ".".join(self._envelope.operation or ())
        no_row = f"op IN (0, 1) AND m IS NULL AND {all_null('a', self.keys)}"
        reasons = [
            "op = -1 THEN NULL",
            f"e IS NULL AND {_IS_BINARY} THEN {literal(_BINARY)}",
            "e IS NULL THEN 'it is not JSON'",
            f"op IS NULL THEN 'its operation ({operation}) is unknown or missing'",
            f"{no_row} THEN 'it has no row ({after or 'line'})'",
            f"{self._lacks_old()}",
            f"op IN (0, 1) AND m IS NOT NULL THEN {self._misfits()}",
        ]
        return f"CASE {' '.join(f'WHEN {reason}' for reason in reasons)} END"

    def _misfits(self) -> str:
        """The values that do not fit their columns, else NULL."""
        each = ", ".join(["'; '", *[self._misfit(i) for i in self.keys], "NULL"])
        return f"system.main.nullif(system.main.concat_ws({each}), '')"

    def _lacks_old(self) -> str:
        """Where a line does not tell which row it changes."""
        if self._key:
            lacking = " OR ".join(f"{self._column(i)} IS NULL" for i in self._key)
            return f"op = 2 AND ({lacking}) THEN 'the key of the deleted row is missing'"
        none = f"w IS NULL AND {all_null('b', self._old)}"
        neither = f"{none} AND m IS NULL AND {all_null('a', self.keys)}"
        lacking = f"(op = 1 AND {none}) OR (op = 2 AND {neither})"
        return f"{lacking} THEN 'the row before is missing, and the table has no key'"

    def _misfit(self, i: int) -> str:
        raw = f"CAST(m[{literal(self.keys[i])}] AS VARCHAR)"
        wrong = f"a{i} IS NULL AND {raw} IS NOT NULL AND NOT {self._unavailable(i)}"
        head = literal(f"{self.keys[i]} is no {self._types[i].sql}: ")
        tail = hint(raw, self._types[i], self._encodings[i])
        said = f"{head} || system.main.left({raw}, 80) || coalesce({tail}, '')"
        return f"CASE WHEN {wrong} THEN {said} END"
