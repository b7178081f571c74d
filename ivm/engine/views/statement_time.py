"""DuckDB's answer to a view's own text at the time of the clock's last tick.

Law: inside `told` the functions that tell the time are temporary macros of the same names, which
DuckDB binds before its own, also in plain views and macros. They have the tick's time as a literal,
and what DuckDB itself makes of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb

from ivm.catalog.version import View
from ivm.sql.resolve.clock import AGE, CLOCK, TELLERS
from ivm.storage.errors import CorruptionError
from ivm.storage.identifiers import literal
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run

_TYPES = {
    "now": "now",
    "local": "CAST(now AS TIMESTAMP)",
    "today": "CAST(now AS DATE)",
}
_AGE = """(since TIMESTAMP) AS system.main.age(system.main.make_timestamp(
    system.main.epoch_us({now}) // 86400000000 * 86400000000), since),
(since TIMESTAMPTZ) AS system.main.age(CAST(CAST({now} AS DATE) AS TIMESTAMPTZ), since),
(a, b) AS system.main.age(a, b)"""


@contextlib.contextmanager
def told(cursor: Cursor, view: View) -> Iterator[None]:
    """Lets the cursor's statements tell the time of the view's last tick.

    Args:
        cursor: in the view time zone; sees the clock's row.
        view: whose text is to be evaluated.
    """
    if view.tick is None:
        yield
        return
    found = rows(cursor, f"SELECT CAST(now AS VARCHAR) FROM {CLOCK} WHERE tick = $1", [view.tick])
    if not found:
        raise CorruptionError(
            f"{CLOCK} has no time for {view.name!r}: another program has deleted it; restore a "
            "copy of the file"
        )
    now = f"CAST({literal(found[0][0])} AS TIMESTAMPTZ)"
    for name in view.time_functions:
        run(cursor, f'CREATE OR REPLACE TEMP MACRO "{name}"{_body(name, now)}')
    try:
        yield
    finally:
        with contextlib.suppress(duckdb.TransactionException):  # aborted: they end with it
            for name in view.time_functions:
                run(cursor, f'DROP MACRO IF EXISTS temp.main."{name}"')


def _body(name: str, now: str) -> str:
    if name == AGE:
        return _AGE.format(now=now)
    teller = TELLERS[name]
    value = _TYPES[teller.column].replace("now", now)
    return f"() AS {value if teller.type is None else f'CAST({value} AS {teller.type})'}"
