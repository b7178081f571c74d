"""The survey of a batch: the keys and schemas of its lines, and what of them is remembered.

Law: a batch is decoded as its own survey says. The survey of batches before it says the same if it
has all keys and schemas of the batch, for further keys are those of columns that were not sent: so
a batch is surveyed only if the statement finds a line that is unknown.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.connect_schema import encodings
from ivm.cdc.formats.events import UnlikeLinesError
from ivm.cdc.formats.json_statement import LINES, NO_SCHEMA, Envelope, Survey, json_path
from ivm.cdc.formats.line_reader import LineReader
from ivm.storage.identifiers import fold
from ivm.storage.values.column import Indexes
from ivm.storage.warehouse.tables.table_info import TableInfo

_MOST = 1_000  # keys and schemas that a survey of several batches has


def survey(reader: LineReader, lines: pa.Array, info: TableInfo, envelope: Envelope) -> Survey:
    """The survey of a batch.

    Raises:
        UnlikeLinesError: a column has keys of two spellings, or two encodings.
    """
    found = reader.table(_query(envelope), lines, None)
    shapes = [_shape(*each) for each in zip(*map(pa.ChunkedArray.to_pylist, found), strict=True)]
    names, schemas = (frozenset[str]().union(*each) for each in zip(_NOTHING, *shapes, strict=True))
    return _survey(names, schemas, info, envelope)


_Shape: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The keys of a line's rows, and its schema."""
_NOTHING: _Shape = frozenset(), frozenset()


def _shape(listed: Iterable[Sequence[str] | None] | None, schema: str | None) -> _Shape:
    names = frozenset(name for keys in listed or () for name in keys or ())
    return names, frozenset([schema or NO_SCHEMA]) if schema or names else frozenset()


def extended(known: Survey | None, new: Survey, info: TableInfo, envelope: Envelope) -> Survey:
    """The survey of a batch and of the batches before it, or of the batch if they do not agree."""
    if known is None or len(known.names) + len(known.schemas) > _MOST:
        return new
    names, schemas = known.names | new.names, known.schemas | new.schemas
    try:
        return _survey(names, schemas, info, envelope)
    except UnlikeLinesError:
        return new


def groups(
    reader: LineReader, lines: pa.Array, info: TableInfo, envelope: Envelope
) -> tuple[list[Indexes], dict[int, str]]:
    """Lines that cannot be read in one way, in groups of which each can.

    Returns:
        The numbers of the lines of each group, at least one group; and the lines that cannot be
        read at all, each with the reason.
    """
    shapes = reader.table(_shapes(envelope), lines, None)["shape"].combine_chunks()
    encoded = shapes.dictionary_encode()
    places, reasons = _placed(encoded.dictionary.to_pylist(), info, envelope)
    codes = encoded.indices.fill_null(len(places)).to_numpy()
    group = np.array([*places, 0])[codes]  # what is no JSON goes with any
    bad = (group < 0).nonzero()[0]
    found = [(group == number).nonzero()[0] for number in range(max([0, *places]) + 1)]
    return found, {int(line): reasons[int(codes[line])] for line in bad}


def _placed(
    shapes: Sequence[str], info: TableInfo, envelope: Envelope
) -> tuple[list[int], dict[int, str]]:
    """The group of each shape: the first with which it agrees; -1 if it does not with itself."""
    known: list[_Shape] = []
    places: list[int] = []
    reasons: dict[int, str] = {}
    for number, text in enumerate(shapes):
        names, schemas = _shape(**json.loads(text))
        try:
            _survey(names, schemas, info, envelope)
        except UnlikeLinesError as error:
            places.append(-1)
            reasons[number] = str(error)
            continue
        for place, (others, other_schemas) in enumerate(known):
            both = names | others, schemas | other_schemas
            with contextlib.suppress(UnlikeLinesError):
                _survey(*both, info, envelope)
                known[place] = both
                places.append(place)
                break
        else:
            places.append(len(known))
            known.append((names, schemas))
    return places, reasons


def _survey(
    names: frozenset[str], schemas: frozenset[str], info: TableInfo, envelope: Envelope
) -> Survey:
    told = sorted(schemas - {NO_SCHEMA})
    written = encodings(told, envelope.after[-1]) if told else {}
    if NO_SCHEMA in schemas and written:
        raise UnlikeLinesError("it has no schema, and others have one")
    return Survey(names, schemas, _spelling(names, info), {**envelope.encodings, **written})


def _query(envelope: Envelope) -> str:
    keys, schema = _keys_and_schema(envelope)
    return (
        f"SELECT DISTINCT {keys} AS keys, {schema} AS schema FROM {LINES}"
        " WHERE system.main.json_valid(raw)"
    )


def _shapes(envelope: Envelope) -> str:
    keys, schema = _keys_and_schema(envelope, "CASE WHEN system.main.json_valid(raw) THEN raw END")
    shape = f"system.main.json_object('listed', {keys}, 'schema', {schema})"
    shape = f"CASE WHEN system.main.json_valid(raw) THEN CAST({shape} AS VARCHAR) END"
    return f"SELECT {shape} AS shape FROM {LINES}"


def _keys_and_schema(envelope: Envelope, line: str = "raw") -> tuple[str, str]:
    """SQL of the keys of the row and of the row before, and of the schema."""
    paths = [envelope.after, *([envelope.before] if envelope.before else [])]
    schema = "CAST(NULL AS VARCHAR)"
    if envelope.schema:
        schema = f"system.main.json_extract_string({line}, {json_path(envelope.schema)})"
    return f"system.main.json_keys({line}, [{', '.join(map(json_path, paths))}])", schema


def _spelling(keys: Iterable[str], info: TableInfo) -> dict[str, str]:
    """The keys of the table's columns by their folded names."""
    columns = {fold(name) for name, _ in info.schema}
    spelled: dict[str, str] = {}
    for key in sorted(keys):
        if fold(key) in columns and spelled.setdefault(fold(key), key) != key:
            raise UnlikeLinesError(
                f"it has two keys for one column: {spelled[fold(key)]!r} and {key!r}"
            )
    return spelled
