"""The statement that decodes JSON lines as events of a table.

Contract: the statement never fails on a line, and its rows are in the order of the lines. It tells
of each line whether it is sound, that is, applied as it stands; whatever else there is to know of
the others, `json_doubts` asks of them alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE
from ivm.cdc.formats.json_values import PLAIN, Encoding, value, wire_type
from ivm.cdc.formats.placeholders import may_have_one
from ivm.storage.identifiers import fold, literal, quote
from ivm.storage.warehouse.tables.table_info import TableInfo

LINES = "_ivm_lines"
"""The relation of the lines: `raw VARCHAR`."""
TRUNCATE = 3
"""The operation of a line that empties the table; `Events` has none for it."""
IGNORED = -1
"""The operation of a line that is no change."""
NO_SCHEMA = ""
"""Among the schemas of a survey: of a row that has none."""
SOUND, DOUBTFUL, UNKNOWN = 0, 1, 2
"""Verdicts on a line; one that is unknown has a key or a schema that the survey does not have."""

_NO_OPERATION = -2
_CONTROLS = r"E'\t\n\x0B\f\r'"  # blank as spaces are, for which alone DuckDB looks
_EXACT = {"_ivm_exact": "DECIMAL(1,0)"}  # beside a DECIMAL, numbers in JSON keep all their digits
_SIMPLE = re.compile(r"[\w -]+")  # keys that mean themselves in a JSON path, in quotes


@dataclass(frozen=True)
class Envelope:
    """Where a line has the parts of an event.

    Attributes:
        after: the keys that lead to the row; () if the line itself is the row.
        before: the keys that lead to the row before an update or of a delete, None if the format
            has none; a value that is missing there is that of `after`.
        operation: the keys that lead to the operation, None if every line is an insert.
        operations: INSERT, UPDATE, DELETE, TRUNCATE or IGNORED by its name in the format.
        encoding: of the values, where no schema tells it.
        encodings: of columns by their folded names, where a schema that is known tells them.
        schema: the keys that lead to Kafka Connect's schema of the line, None if it has none.
        version: the name of the version column, whose value before a delete is read too.
        missing: the operation of a line that has none, None if it must have one.
        origin: the keys that lead to the parts of the name of the event's table; () if the format
            does not tell it.
        tables: those upstream whose events are meant; () for the one of the first event.
        transaction: the keys of which the first that a line has tells the event's transaction, or
            at least the time of its statement; () if the format tells neither.
        messages: SQL of whether `text`, which has no operation, is a message that is no change.
        whole_inserts: what an insert lacks is NULL, if the column is not ours alone.
        old_is_partial: at `before` is what an update has changed alone, and nothing of a delete.
    """

    after: tuple[str, ...]
    before: tuple[str, ...] | None
    operation: tuple[str, ...] | None
    operations: Mapping[str, int]
    encoding: Encoding = PLAIN
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    schema: tuple[str, ...] | None = None
    version: str = ""
    missing: int | None = None
    origin: tuple[tuple[str, ...], ...] = ()
    tables: tuple[str, ...] = ()
    transaction: tuple[tuple[str, ...], ...] = ()
    messages: str = "FALSE"
    whole_inserts: bool = False
    old_is_partial: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The key that leads to the operation, and those beside it that lead to rows."""
        if self.operation is None or self.operation[:-1] == self.after:
            return ()
        rows = [path[-1] for path in (self.after, self.before) if path is not None]
        return (self.operation[-1], *rows)

    @property
    def told_transaction(self) -> tuple[tuple[str, ...], ...]:
        """See `transaction`; it is asked for only with the rows before."""
        return self.transaction if self.before is None else ()

    @property
    def place(self) -> tuple[str, ...]:
        """The keys that lead to the place of the change upstream; () if the format has none."""
        return self.origin[0][:-1] if self.origin else ()

    def may_lack(self, info: TableInfo, column: int) -> tuple[int, ...]:
        """The operations without a value of a column that leave the one that is stored.

        A column with a default is ours alone where upstream has it not.
        """
        whole = self.whole_inserts and column not in info.defaults
        return (UPDATE,) if whole else (INSERT, UPDATE)

    def of_before(self, before: tuple[str, ...] | None = None) -> Envelope:
        """That of the same lines read as inserts of the rows before.

        Args:
            before: the keys that lead to these, if others.
        """
        operations = {n: INSERT for n, code in self.operations.items() if code in (UPDATE, DELETE)}
        read = replace(self, after=before or self.before or (), before=None, operations=operations)
        return replace(read, origin=(), whole_inserts=False)


def json_path(keys: Sequence[str]) -> str:
    """Keys as a literal of DuckDB's JSON paths."""
    return literal("$" + "".join(f".{json.dumps(key, ensure_ascii=False)}" for key in keys))


@dataclass(frozen=True)
class Survey:
    """What the lines of some batches have in common.

    Attributes:
        names: all keys of their rows.
        schemas: the different schemas of the lines with rows, as JSON.
        keys: the spelling of the columns' keys by their folded names.
        encodings: by the folded names of columns, of those of which the schemas tell.
    """

    names: frozenset[str]
    schemas: frozenset[str]
    keys: Mapping[str, str]
    encodings: Mapping[str, Encoding]


def statement(info: TableInfo, envelope: Envelope, survey: Survey) -> str:
    """A query over `LINES`.

    Args:
        info: the table.
        envelope: of the format.
        survey: of these lines, or of lines before them.

    Returns:
        SQL; its columns are `op`, `verdict`, `origin` (the name of the event's table, if the format
        has it), `transaction` (where rows before are read, see `Envelope`), of each column i of the
        table the value `c<i>`, and the value before the change `o<i>` where the format has one and
        the column is needed to find the row. Where a line is unknown, only its verdict has a
        meaning.
    """
    return _Statement(info, envelope, survey).text()


class TypedLines:
    """Lines with their values as columns, in SQL.

    `typed` has of each line `raw`, `text` and `e` (NULL if it is no JSON), `op` (NULL if there is
    none), and of each column i with a key the values `a<i>` in the row and `b<i>` in that before.

    Attributes:
        keys: by the position of the column.
    """

    def __init__(self, info: TableInfo, envelope: Envelope, survey: Survey) -> None:
        self._info = info
        self._envelope = envelope
        names = [fold(name) for name, _ in info.schema]
        self._types = [type for _, type in info.schema]
        self._encodings = [survey.encodings.get(name, envelope.encoding) for name in names]
        found = {i: survey.keys[name] for i, name in enumerate(names) if name in survey.keys}
        # In the row itself, the key of the operation is no column's.
        self.keys = {i: k for i, k in found.items() if (*envelope.after, k) != envelope.operation}
        self._key = info.primary_key
        found_by = info.primary_key or tuple(range(len(info.schema)))
        if fold(envelope.version) in names:
            found_by = tuple(dict.fromkeys((*found_by, names.index(fold(envelope.version)))))
        self._old = [i for i in found_by if i in self.keys] if envelope.before else []

    def _typed(self) -> str:
        typed = [f"raw, text, e, {self._operation()} AS op"]
        typed += [f"{self._value(self._envelope.after, i)} AS a{i}" for i in self.keys]
        typed += [f"{self._value(self._envelope.before or (), i)} AS b{i}" for i in self._old]
        return (
            "WITH valid AS (SELECT raw, CASE WHEN system.main.json_valid(raw) THEN raw END AS text"
            f" FROM {LINES}), parsed AS (SELECT *, {self._read(self._spec())} AS e FROM valid),"
            f" typed AS (SELECT {', '.join(typed)} FROM parsed)"
        )

    def _spec(self) -> object:
        """The shape of a line, as `from_json` takes it."""
        row = {key: wire_type(self._types[i], self._encodings[i]) for i, key in self.keys.items()}
        spec: Any = _nested(self._envelope.after, row or "JSON")
        if any(type.sql == "JSON" for type in self._types):
            spec = _merged(spec, _EXACT)
        if self._envelope.before:
            old = {self.keys[i]: row[self.keys[i]] for i in self._old}
            spec = _merged(spec, _nested(self._envelope.before, old or "JSON"))
        if self._envelope.operation:
            spec = _merged(spec, _nested(self._envelope.operation, "VARCHAR"))
        for path in (*self._envelope.origin, *self._envelope.told_transaction):
            spec = _merged(spec, _nested(path, "VARCHAR"))
        return spec

    def _operation(self) -> str:
        if self._envelope.operation is None:
            code = "CASE WHEN e IS NULL THEN NULL ELSE 0 END"
        else:
            cases = [f"WHEN {literal(n)} THEN {c}" for n, c in self._envelope.operations.items()]
            given = fields("e", self._envelope.operation)
            code = f"CASE {given} {' '.join(cases)} END"
            if self._envelope.missing is not None:
                absent = f"e IS NOT NULL AND {given} IS NULL"
                code = f"CASE WHEN {absent} THEN {self._envelope.missing} ELSE {code} END"
        short = "system.main.strlen(raw) < 16"  # AND would trim every line, and copy it for that
        bare = f"system.main.trim(system.main.translate(raw, {_CONTROLS}, '     '))"
        nothing = f"CASE WHEN {short} THEN {bare} IN ('', 'null') ELSE FALSE END"
        blank = f"raw IS NULL OR {nothing}"
        return f"CAST(CASE WHEN {blank} THEN {IGNORED} ELSE {code} END AS TINYINT)"

    def _value(self, path: Sequence[str], i: int) -> str:
        keys, type = (*path, self.keys[i]), self._types[i]
        spec = literal(json.dumps(_nested(keys, type.sql), ensure_ascii=False))
        typed = fields(f"TRY(system.main.from_json_strict(text, {spec}))", keys)
        return value(fields("e", keys), type, self._encodings[i], typed)

    def _column(self, i: int) -> str:
        if i not in self.keys:
            return f"CAST(NULL AS {self._types[i].sql})"
        deleted = f"CASE WHEN op = 2 THEN coalesce(b{i}, a{i}) ELSE a{i} END"
        return deleted if i in self._old else f"a{i}"

    def _listed(self) -> str:
        """The keys of the row, of the row before, and of the event, where these are others."""
        paths = [path for path in (self._envelope.after, self._envelope.before) if path is not None]
        if self._envelope.parts and self._envelope.operation:
            paths.append(self._envelope.operation[:-1])
        # The one call: DuckDB would compute each of several for every line, also within a CASE.
        return f"system.main.json_keys(text, [{', '.join(map(json_path, paths))}]) AS listed"

    def _before_map(self) -> str:
        """The row before as a map of JSON `w`, where a value of it is NULL."""
        if not self._envelope.before:
            return "NULL::MAP(VARCHAR, JSON) AS w"
        needed = f"op IN (1, 2) AND ({some_null('b', self._old)})"
        return f"CASE WHEN {needed} THEN {self._map(self._envelope.before)} END AS w"

    def _map(self, path: Sequence[str]) -> str:
        """A row as a map of JSON; of a key that comes twice the first counts, as it does in `e`."""
        read = fields(f"({self._read(_nested(path, 'MAP(VARCHAR, JSON)'))})", path)
        return f"coalesce({read}, {_first_of_each(json_path(path))})"

    def _read(self, spec: object) -> str:
        return f"system.main.from_json(text, {literal(json.dumps(spec, ensure_ascii=False))})"


class _Statement(TypedLines):
    def __init__(self, info: TableInfo, envelope: Envelope, survey: Survey) -> None:
        super().__init__(info, envelope, survey)
        self._survey = survey
        # Of a NULL in another column it is asked elsewhere what it means.
        self._told = [i for i, key in self.keys.items() if _SIMPLE.fullmatch(key)]

    def text(self) -> str:
        """The whole statement."""
        parts = [f"coalesce(op, {_NO_OPERATION}) AS op, {self._verdict()} AS verdict"]
        if self._envelope.origin:
            parts.append(f"{self._origin()} AS origin")
        if self._envelope.told_transaction:
            told = [fields("e", path) for path in self._envelope.told_transaction]
            parts.append(f"coalesce({', '.join(told)}) AS transaction")
        parts += [f"{self._column(i)} AS c{i}" for i in range(len(self._types))]
        old = self._key if self._key and self._envelope.before else self._old
        parts += [f"{self._before(i)} AS o{i}" for i in dict.fromkeys((*old, *self._old))]
        seen = f"{self._kinds()}, {self._listed()}{self._keyless_before()}"
        return (
            f"{self._typed()}, seen AS (SELECT *, {seen} FROM typed)"
            f" SELECT {', '.join(parts)} FROM seen"
        )

    def _kinds(self) -> str:
        """The kinds of the JSON values in the row, where one of our values is NULL."""
        paths = [json_path((*self._envelope.after, self.keys[i])) for i in self._told]
        if not paths:
            return "NULL AS kinds"
        needed = f"op IN (0, 1) AND ({some_null('a', self._told)})"
        kinds = f"system.main.json_type(text, [{', '.join(paths)}])"
        return f"CASE WHEN {needed} THEN {kinds} END AS kinds"

    def _keyless_before(self) -> str:
        return "" if self._key else f", {self._before_map()}"

    def _before(self, i: int) -> str:
        """The value before an update; one that is missing there has not changed."""
        if i not in self._old:
            return self._column(i)
        if self._key:  # of which no value is NULL
            return f"CASE WHEN op = 1 THEN coalesce(b{i}, a{i}) ELSE a{i} END"
        was_null = f"coalesce(system.main.map_contains(w, {literal(self.keys[i])}), FALSE)"
        return f"CASE WHEN op = 1 AND ({was_null} OR b{i} IS NOT NULL) THEN b{i} ELSE a{i} END"

    def _origin(self) -> str:
        """The name of the event's table, with what is known of its database and schema."""
        parts = [fields("e", path) for path in self._envelope.origin]
        name = f"system.main.concat_ws('.', {', '.join(parts)})"
        return f"CASE WHEN {parts[-1]} IS NOT NULL THEN {name} END"

    def _verdict(self) -> str:
        sound = (
            f"op IN ({IGNORED}, {TRUNCATE}) OR (op = 2 AND {self._deletable()}) OR (op IN (0, 1)"
            f" AND {self._writable()})"
        )
        doubtful = f"CASE WHEN {sound} THEN {SOUND} ELSE {DOUBTFUL} END"
        placeholder = f"CASE WHEN {may_have_one(self._types)} THEN {DOUBTFUL} ELSE {SOUND} END"
        looks = [self._schema(), self._keys(), self._parts(), placeholder, doubtful]
        return (
            f"CAST(CASE WHEN op = {IGNORED} AND e IS NULL THEN {SOUND} WHEN e IS NULL THEN "
            f"{DOUBTFUL} ELSE system.main.greatest({', '.join(looks)}) END AS TINYINT)"
        )

    def _deletable(self) -> str:
        if self._key:
            return " AND ".join([f"{self._column(i)} IS NOT NULL" for i in self._key])
        nothing = [all_null("a", self.keys), all_null("b", self._old)]
        return f"NOT ({' AND '.join(nothing)})"

    def _writable(self) -> str:
        """Whether all values of a row are there, or are null."""
        kinds = {i: f"kinds[{n}] = 'NULL'" for n, i in enumerate(self._told, 1)}
        sent = [f"(a{i} IS NOT NULL OR {kinds.get(i, 'FALSE')})" for i in self.keys]
        whole = f"CASE WHEN {some_null('a', self.keys)} THEN {' AND '.join(sent) or 'FALSE'}"
        parts = [f"{whole} ELSE TRUE END"]
        if not self._key:
            parts.append(f"(op = 0 OR NOT ({all_null('b', self._old)}))")
        return " AND ".join(parts)

    def _keys(self) -> str:
        """The verdict on the keys of the rows: has the survey all, does one come twice?"""
        names = texts(sorted(self._survey.names))
        rows = [f"listed[{n}]" for n in range(1, 3 if self._envelope.before else 2)]
        has_all = f"system.main.list_has_all({names}, system.main.flatten(listed[:{len(rows)}]))"
        twice = [f"system.main.list_unique({row}) < system.main.len({row})" for row in rows]
        return (
            f"CASE WHEN {self._usual()} THEN {SOUND} WHEN NOT {has_all} THEN {UNKNOWN}"
            f" WHEN {' OR '.join(twice)} THEN {DOUBTFUL} ELSE {SOUND} END"
        )

    def _parts(self) -> str:
        """The verdict on the keys that lead to the rows and the operation: do they come once?"""
        parts, rows = self._envelope.parts, 2 if self._envelope.before else 1
        if not (parts and self._envelope.operation):
            return str(SOUND)
        found = f"system.main.list_filter(listed[{rows + 1}], lambda key: key IN {parts})"
        there = [f"listed[{n}] IS NOT NULL" for n in range(1, rows + 1)]
        there.append(f"{fields('e', self._envelope.operation)} IS NOT NULL")
        once = " + ".join([f"CAST({each} AS BIGINT)" for each in there])
        return f"CASE WHEN system.main.len({found}) > {once} THEN {DOUBTFUL} ELSE {SOUND} END"

    def _schema(self) -> str:
        """The verdict on the schema: has the survey it?"""
        if not self._envelope.schema:
            return str(SOUND)
        schema = f"system.main.json_extract_string(text, {json_path(self._envelope.schema)})"
        told = [f"{schema} = {literal(text)}" for text in self._survey.schemas if text]
        none = f"{schema} IS NULL"
        if NO_SCHEMA not in self._survey.schemas:
            lists = range(1, 3 if self._envelope.before else 2)
            none += "".join([f" AND coalesce(system.main.len(listed[{i}]), 0) = 0" for i in lists])
        known = f"coalesce({' OR '.join([none, *told])}, FALSE)"
        return f"CASE WHEN {known} THEN {SOUND} ELSE {UNKNOWN} END"

    def _usual(self) -> str:
        """Whether a row has the key of each column once and no others, as the row before has.

        That is seen from the number of its keys, and costs far less than to look them up.
        """
        count, inner = str(len(self.keys)), self._envelope.operation
        if inner is not None and inner[:-1] == self._envelope.after:
            count = f"CASE WHEN {fields('e', inner)} IS NULL THEN {count} ELSE {count} + 1 END"
        kinds = {i: f" OR kinds[{n}] IS NOT NULL" for n, i in enumerate(self._told, 1)}
        each = [f"(a{i} IS NOT NULL{kinds.get(i, '')})" for i in self.keys]
        null, there = some_null("a", self.keys), " AND ".join(each) or "TRUE"
        usual = f"op IN (0, 1) AND system.main.len(listed[1]) = {count}"
        usual += f" AND CASE WHEN {null} THEN {there} ELSE TRUE END"
        if self._envelope.before is None:
            return usual
        none = "coalesce(system.main.len(listed[2]), 0) = 0"
        return f"{usual} AND CASE WHEN {none} THEN TRUE ELSE listed[2] = listed[1] END"


def texts(texts: Iterable[str]) -> str:
    """SQL of a list of texts."""
    return f"CAST([{', '.join(map(literal, texts))}] AS VARCHAR[])"


def _first_of_each(path: str) -> str:
    """SQL of an object as a map of JSON, with the first value of each key; NULL if it is none."""
    keys = f"system.main.json_keys(text, {path})"
    values = f"system.main.json_extract(text, {path} || '.*')"
    sent = "system.main.nullif(CAST(v AS VARCHAR), 'null')"
    values = f"system.main.list_transform({values}, lambda v: {sent})"
    first = f"lambda entry, place: system.main.list_position({keys}, entry[1]) = place"
    entries = f"system.main.list_filter(system.main.list_zip({keys}, {values}), {first})"
    made = f"CAST(system.main.map_from_entries({entries}) AS MAP(VARCHAR, JSON))"
    return f"CASE system.main.json_type(text, {path}) WHEN 'OBJECT' THEN {made} END"


def some_null(prefix: str, columns: Iterable[int]) -> str:
    """SQL of whether one of some columns is NULL, or there are none."""
    return " OR ".join([f"{prefix}{i} IS NULL" for i in columns]) or "TRUE"


def all_null(prefix: str, columns: Iterable[int]) -> str:
    """SQL of whether all of some columns are NULL."""
    return " AND ".join([f"{prefix}{i} IS NULL" for i in columns]) or "TRUE"


def fields(base: str, keys: Sequence[str]) -> str:
    """SQL of a field of a struct."""
    return ".".join([base, *[quote(key) for key in keys]])


def _nested(keys: Sequence[str], inner: object) -> Any:
    for key in reversed(keys):
        inner = {key: inner}
    return inner


def _merged(one: Any, other: Any) -> Any:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return other if isinstance(other, dict) else one  # a row without columns may be the line
    both = {key: _merged(one[key], other[key]) for key in one if key in other}
    return {**other, **one, **both}
