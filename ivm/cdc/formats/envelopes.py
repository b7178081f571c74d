"""The formats of JSON events by their names in SQL and Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from ivm.cdc.formats.debezium import DEBEZIUM, WITH_SCHEMA
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.formats.maxwell import MAXWELL
from ivm.cdc.formats.plain import APPENDS, CHANGES, UPSERTS
from ivm.storage.errors import InputError

T = TypeVar("T")

FORMATS = {
    "debezium": DEBEZIUM,
    "debezium with schema": WITH_SCHEMA,
    "maxwell": MAXWELL,
    "json": CHANGES,
    "json appends": APPENDS,
    "json upserts": UPSERTS,
}
_DIGITS = {"ms": 3, "us": 6, "ns": 9}
_DECIMALS = {"text": False, "base64": True}

VALUES = {"format": tuple(FORMATS), "times": tuple(_DIGITS), "decimals": tuple(_DECIMALS)}
"""What each option of a source may be that tells about the format of its events."""


def envelope_of(
    format: str,
    times: str | None = None,
    decimals: str | None = None,
    version: str = "",
    tables: str = "",
) -> Envelope:
    """The envelope of a format, see `Database.ingest`.

    Raises:
        InputError: there is no such format or encoding, or its events name no tables.
    """
    envelope = replace(_named(FORMATS, "format", format), version=version)
    if tables:
        if not envelope.origin:
            raise InputError(f"events of format {format!r} do not name their tables")
        envelope = replace(envelope, tables=tuple([name.strip() for name in tables.split(",")]))
    if times is None and decimals is None:
        return envelope
    if envelope.schema:
        raise InputError("the events' schema tells how times and decimals are written")
    encoding = envelope.encoding
    if times is not None:
        encoding = replace(encoding, digits=_named(_DIGITS, "unit of times", times))
    if decimals is not None:
        encoding = replace(encoding, base64=_named(_DECIMALS, "form of decimals", decimals))
    return replace(envelope, encoding=encoding)


def _named(known: Mapping[str, T], what: str, name: str) -> T:
    if name not in known:
        raise InputError(f"there is no {what} {name!r}; there are: {', '.join(known)}")
    return known[name]
