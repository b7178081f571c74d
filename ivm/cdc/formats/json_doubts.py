"""The statement that asks of doubtful lines why they are refused, and which values were not sent.

A line is parsed once more here, to tell values that are null from those that were not sent or do
not fit. So only the lines on which `json_statement` has doubts come here.

Law: a value was not sent if its key is missing, unless the row before an update has the key, or the
format has whole rows in inserts: then it is NULL, which some upstreams leave out. A message that is
known and no change is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.cdc.formats.json_statement import (
    Envelope,
    Survey,
    TypedLines,
    all_null,
    some_null,
    texts,
)
from ivm.cdc.formats.json_values import hint
from ivm.cdc.formats.placeholders import has_one, is_one, may_have_one
from ivm.cdc.formats.texts import NO_UTF8
from ivm.storage.identifiers import literal
from ivm.storage.warehouse.tables.table_info import TableInfo

_BARE = f"system.main.replace(raw, '{NO_UTF8}', '')"
_IS_BINARY = f"system.main.starts_with({_BARE}, system.main.chr(0))"
_BINARY = (
    "it is not JSON: it begins with a zero byte, as what is written with a schema registry does "
    "(Avro, Protobuf). Have it written as plain JSON (Kafka Connect's JsonConverter)"
)


def doubts(info: TableInfo, envelope: Envelope, survey: Survey) -> str:
    """A query over `LINES`, see `json_statement.statement`.

    Returns:
        SQL; its columns are `ignored`, whether the line is a message that is no change, `refused`,
        the reason or NULL, and of each column i with a key whether its value was not sent `u<i>`,
        since it has not changed `p<i>`.
    """
    return _Doubts(info, envelope, survey).text()


class _Doubts(TypedLines):
    def text(self) -> str:
        """The whole statement."""
        parts = [f"ignored, CASE WHEN NOT ignored THEN {self._refused()} END AS refused"]
        parts += [f"({self._unsent(i)} OR p{i}) AS u{i}" for i in self.keys]
        parts += [f"p{i}" for i in self.keys]
        after = f"CASE WHEN op IN (0, 1, 2) AND ({some_null('a', self.keys)} OR "
        after += f"{may_have_one(self._types)}) THEN {self._map(self._envelope.after)} END AS m"
        ignored = f"coalesce(op IS NULL AND ({self._envelope.messages}), FALSE) AS ignored"
        seen = f"{after}, {self._before_map()}, {self._listed()}, {ignored}"
        # As columns of their own, since DuckDB would compute what is written twice twice.
        raw = [f"CAST(m[{literal(key)}] AS VARCHAR) AS r{i}" for i, key in self.keys.items()]
        sent = ", ".join(["*", *raw, f"{self._twice()} AS twice"])
        told = ", ".join(["*", *[f"{is_one(f'r{i}')} AS p{i}" for i in self.keys]])
        return (
            f"{self._typed()}, seen AS (SELECT *, {seen} FROM typed),"
            f" sent AS (SELECT {sent} FROM seen), told AS (SELECT {told} FROM sent)"
            f" SELECT {', '.join(parts)} FROM told"
        )

    def _unsent(self, i: int) -> str:
        sent = f"system.main.map_contains(m, {literal(self.keys[i])})"
        may = ", ".join(map(str, self._envelope.may_lack(self._info, i)))
        unsent = f"coalesce(a{i} IS NULL AND op IN ({may}) AND NOT {sent}, FALSE)"
        if self._envelope.before:
            was = f"system.main.list_contains(listed[2], {literal(self.keys[i])})"
            unsent += f" AND NOT (op = 1 AND coalesce({was}, FALSE))"
        return f"({unsent})"

    def _refused(self) -> str:
        after, operation = ".".join(self._envelope.after), ".".join(self._envelope.operation or ())
        no_row = f"op IN (0, 1) AND m IS NULL AND {all_null('a', self.keys)}"
        reasons = [
            "op = -1 THEN NULL",
            f"e IS NULL AND {_IS_BINARY} THEN {literal(_BINARY)}",
            "e IS NULL THEN 'it is not JSON'",
            "twice IS NOT NULL THEN 'it has the key ' || twice || ' twice'",
            f"op IS NULL THEN 'its operation ({operation}) is unknown or missing'",
            f"{no_row} THEN 'it has no row ({after or 'line'})'",
            f"{self._lacks_old()}",
            f"op IN (0, 1) AND m IS NOT NULL THEN {self._misfits()}",
        ]
        return f"CASE {' '.join(f'WHEN {reason}' for reason in reasons)} END"

    def _twice(self) -> str:
        """The first key that counts and comes twice in its object, else NULL."""
        rows, operation = 2 if self._envelope.before else 1, self._envelope.operation or ()
        count = [*self.keys.values(), *operation[len(self._envelope.after) :][:1]]
        looks = [_twice(f"listed[{n}]", count) for n in range(1, rows + 1)]
        if self._envelope.parts:
            looks.append(_twice(f"listed[{rows + 1}]", self._envelope.parts))
        return f"coalesce({', '.join(looks)})"

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
        raw = f"r{i}"
        part = literal(f"{self.keys[i]} has a part that was not sent, since it has not changed: ")
        wrong = f"a{i} IS NULL AND {raw} IS NOT NULL"
        head = literal(f"{self.keys[i]} is no {self._types[i].sql}: ")
        tail, said = hint(raw, self._types[i], self._encodings[i]), f"system.main.left({raw}, 80)"
        return (
            f"CASE WHEN p{i} THEN NULL WHEN {has_one(raw)} THEN {part} || {said}"
            f" WHEN {wrong} THEN {head} || {said} || coalesce({tail}, '') END"
        )


def _twice(listed: str, count: Sequence[str]) -> str:
    """The first of some keys that is twice in a list, else NULL."""
    again = f"system.main.len(system.main.list_filter({listed}, lambda other: other = key)) > 1"
    counts = f"system.main.list_contains({texts(count)}, key)"
    return f"system.main.list_filter({listed}, lambda key: {counts} AND {again})[1]"
