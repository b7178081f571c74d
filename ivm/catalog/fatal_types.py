"""Types on which DuckDB ends the process: DuckDB's fault `arrays_in_tuples`.

A TUPLE (`ROW(…)` without names) that holds an ARRAY of fixed length, at any depth, can be stored
and shown. DuckDB ends the process, or refuses all further work, where such values are joined,
grouped or compared, as deletions and VERIFY do.
Invariant: no table or view has a column of such a type.
"""

from __future__ import annotations

import re

from ivm.storage.errors import UnsupportedError
from ivm.storage.values.types import Schema

_FATAL = re.compile(r"TUPLE\(.*\[\d+\]", re.DOTALL)


def refuse_fatal_types(what: str, schema: Schema) -> None:
    """Refuses a relation with a column that DuckDB cannot work with.

    Args:
        what: the relation, for people.
        schema: its columns.

    Raises:
        UnsupportedError: naming the column.
    """
    for name, type in schema:
        if _FATAL.search(type.sql):
            raise UnsupportedError(
                f"{what} with the column {name!r} of type {type}: DuckDB fails on ARRAYs inside of "
                "a ROW whose fields have no names: write a struct, {'a': …}, or lists"
            )
