"""The options of sources and sinks, and what their values may be, for completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from ivm.cdc.formats.envelopes import VALUES
from ivm.cdc.kinds import KINDS
from ivm.cdc.sinks.encode import FORMATS
from ivm.cdc.sinks.kinds import KINDS as SINK_KINDS
from ivm.cdc.sources.kafka.start_option import WORDS as STARTS
from ivm.cdc.sources.source import Limits

_VALUES = {
    "SOURCE": {**VALUES, "start": STARTS},
    "SINK": {"format": tuple(FORMATS)},
}


def options(
    of: tuple[str, ...], sources: Mapping[str, str], sinks: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yields the options that can still be given, those first that are needed, with their types.

    Args:
        of: see `ivm.shell.editing.expected_streams`.
        sources: their kinds by name.
        sinks: their kinds by name.
    """
    left = {n: f for n, f in _fields(of, sources, sinks).items() if n not in of[3:]}
    for name in sorted(left, key=lambda name: left[name].default is not MISSING):
        yield name, _described(left[name])


def values(
    of: tuple[str, ...], sources: Mapping[str, str], sinks: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yields the values that an option can have, as SQL, where they are few."""
    field = _fields(of, sources, sinks).get(of[3])
    if field is None:
        return
    if str(field.type) == "bool":
        yield from (("TRUE", ""), ("FALSE", ""))
    for value in field.metadata.get("values", _VALUES[of[0]].get(of[3], ())):
        yield f"'{value}'", ""


def _fields(
    of: tuple[str, ...], sources: Mapping[str, str], sinks: Mapping[str, str]
) -> dict[str, Field[Any]]:
    what, kind, name = of[:3]
    known, named = (KINDS, sources) if what == "SOURCE" else (SINK_KINDS, sinks)
    definition: Any = known.get(kind or named.get(name.lower(), ""))
    if definition is None:
        return {}
    own_first = sorted(fields(definition), key=lambda field: field.name in _COMMON)
    return {f.name: f for f in own_first if not str(f.type).startswith("Mapping")}


_COMMON = {field.name for field in fields(Limits)}
_TYPES = {"str": "text", "int": "an integer", "float": "a number", "bool": "TRUE or FALSE"}


def _described(field: Field[Any]) -> str:
    type = _TYPES.get(str(field.type).split(" ")[0], "text")
    if field.default is MISSING:
        return f"{type}, needed"
    default = str(field.default).upper() if isinstance(field.default, bool) else field.default
    return type if default in (None, "") else f"{type}, else {default}"
