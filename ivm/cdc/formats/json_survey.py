"""The survey of a batch: the keys and schemas of its lines, and what of them is remembered.

Law: a batch is decoded as its own survey says. The survey of batches before it says the same if it
has all keys and schemas of the batch, for further keys are those of columns that were not sent: so
a batch is surveyed only if the statement finds a line that is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from ivm.cdc.formats.connect_schema import encodings
from ivm.cdc.formats.json_statement import LINES, Envelope, Survey, json_path
from ivm.cdc.formats.line_reader import LineReader
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.table_info import TableInfo

_MOST = 1_000  # keys and schemas that a survey of several batches has


def survey(reader: LineReader, lines: pa.Array, info: TableInfo, envelope: Envelope) -> Survey:
    """The survey of a batch.

    Raises:
        InputError: a column has keys of two spellings, or two encodings.
    """
    found = reader.table(_query(envelope), lines, None)
    rows = [keys for row in found["keys"].to_pylist() for keys in row or () if keys]
    schemas = {text for text in found["schema"].to_pylist() if text}
    names = frozenset(name for row in rows for name in row)
    return _survey(names, frozenset(schemas), info, envelope)


def extended(known: Survey | None, new: Survey, info: TableInfo, envelope: Envelope) -> Survey:
    """The survey of a batch and of the batches before it, or of the batch if they do not agree."""
    if known is None or len(known.names) + len(known.schemas) > _MOST:
        return new
    names, schemas = known.names | new.names, known.schemas | new.schemas
    try:
        return _survey(names, schemas, info, envelope)
    except InputError:
        return new


def _survey(
    names: frozenset[str], schemas: frozenset[str], info: TableInfo, envelope: Envelope
) -> Survey:
    written = encodings(sorted(schemas), envelope.after[-1]) if schemas else {}
    return Survey(names, schemas, _spelling(names, info), written)


def _query(envelope: Envelope) -> str:
    paths = [envelope.after, *([envelope.before] if envelope.before else [])]
    listed = f"system.main.json_keys(raw, [{', '.join(map(json_path, paths))}])"
    schema = "NULL"
    if envelope.schema:
        schema = f"system.main.json_extract_string(raw, {json_path(envelope.schema)})"
    return (
        f"SELECT DISTINCT {listed} AS keys, {schema} AS schema FROM {LINES}"
        " WHERE system.main.json_valid(raw)"
    )


def _spelling(keys: Iterable[str], info: TableInfo) -> dict[str, str]:
    """The keys of the table's columns by their folded names."""
    columns = {fold(name) for name, _ in info.schema}
    spelled: dict[str, str] = {}
    for key in sorted(keys):
        if fold(key) in columns and spelled.setdefault(fold(key), key) != key:
            raise InputError(
                f"the events have two keys for one column of table {info.name!r}: "
                f"{spelled[fold(key)]!r} and {key!r}; ingest them in batches of one spelling"
            )
    return spelled
