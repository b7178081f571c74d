"""The tables upstream whose events go into a table of ours.

Law: an event that names its table is applied only if that table is meant: one of those that the
source names, else the one of the first event of the source for our table, which is noted in
`_ivm.origins` with it. So a stream in which several tables come cannot mix their rows. An event
that names no table is of the one that is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np

from ivm.cdc.formats.events import Decoded
from ivm.cdc.records import Records
from ivm.storage.values.column import Indexes


def told_apart(
    records: Records, tables: Sequence[str], ours: str, found: Decoded
) -> tuple[Decoded, dict[int, str]]:
    """The events of the tables that are meant, and why those of others are refused.

    Args:
        records: of the source.
        tables: that are meant, as the source names them; none for the one of the first event.
        ours: the canonical name of our table.
        found: the events of a batch.
    """
    if found.origins is None:
        return found, {}
    codes = found.origins.dictionary_encode()
    names: list[str] = codes.dictionary.to_pylist()
    meant, why = tables, "tables names"
    if not tables:
        known = records.origin(ours)
        if known is None:
            known = _first(found, codes.indices.fill_null(-1).to_numpy(), names)
            if known is None:
                return found, {}
            records.come_from(ours, known)
        meant, why = [known], "the events before it are of"
    bad = [i for i, name in enumerate(names) if not any(_is_meant(name, each) for each in meant)]
    if not bad:
        return found, {}
    at = codes.indices.fill_null(-1).to_numpy()
    lines = np.isin(at, bad).nonzero()[0].tolist()
    said = f"but {why} {', '.join(meant)}; tables says which are meant"
    reasons = {line: f"it is of table {names[at[line]]}, {said}" for line in lines}
    return _without(found, lines), reasons


def _first(found: Decoded, codes: Indexes, names: Sequence[str]) -> str | None:
    """The name of the table of the first event that names one."""
    lines = np.sort(np.concatenate([found.lines, np.array(found.truncates, np.int64)]))
    told = codes[lines[lines >= 0]]
    told = told[told >= 0]
    return names[int(told[0])] if len(told) else None


def _is_meant(name: str, pattern: str) -> bool:
    """Whether a name, with its database and schema, is one that may be without them."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}")


def _without(found: Decoded, lines: Sequence[int]) -> Decoded:
    left = (~np.isin(found.lines, lines)).nonzero()[0]
    others = {*lines}
    return replace(
        found,
        events=found.events.take(left),
        lines=found.lines[left],
        refused={line: why for line, why in found.refused.items() if line not in others},
        truncates=[line for line in found.truncates if line not in others],
    )
