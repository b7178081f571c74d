"""The types of parameters that cannot be texts, by DuckDB's binder.

Law: where a text does not bind, a parameter has the type of the value beside it, which the error
tells, or else the one type of a few in which it binds. If several do, it stays a text, and the
client writes a cast.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from ivm.serve.bound_words import binding_error
from ivm.serve.pg.values.types import (
    ARRAYS,
    INT4,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    duckdb_type,
    pg_type,
)
from ivm.session.session import Session
from ivm.sql.statements.text.placeholders import filled

_BESIDE = re.compile(
    r"(?:values of type|types of) (?:VARCHAR and (?:type )?(.+?)|(.+?) and (?:type )?VARCHAR)"
    r"(?: in | - )"
)
_NUMBERS = (NUMERIC, INT4)
"""The first one takes any number; the second one binds where a count is wanted."""
_OTHERS = (INTERVAL, TIMESTAMP, ARRAYS[INT4], ARRAYS[TEXT])
_MOST = 64  # parameters that are looked at one by one


def bound_types(
    session: Session, text: str, oids: Sequence[int], left: Collection[int]
) -> dict[int, int]:
    """The OIDs of those parameters that cannot be texts, by their numbers.

    Args:
        session: whose names the statement uses.
        text: a query, or a change.
        oids: the types of all parameters.
        left: the numbers of those that are texts for want of a better type.
    """
    known = {i: oid for i, oid in enumerate(oids, 1) if i not in left}
    binder = _Binder(session, text, known)
    if len(left) > _MOST or not binder.error(dict.fromkeys(left, TEXT)) or binder.error({}):
        return {}  # else it is in error whatever the types are
    return {number: binder.taken(number) for number in left}


class _Binder:
    """Tells with which types a statement binds.

    Args:
        session: whose names it uses.
        text: the statement.
        known: the OIDs of parameters that have one, by their numbers.
    """

    def __init__(self, session: Session, text: str, known: Mapping[int, int]) -> None:
        self._session = session
        self._text = text
        self._known = known

    def error(self, given: Mapping[int, int]) -> str:
        """Why it does not bind with such types, if the rest is NULL; "" if it does."""
        types = {**self._known, **given}
        text = filled(self._text, lambda name: _null(types, name))
        return str(binding_error(self._session, text) or "")

    def taken(self, number: int) -> int:
        """The type of a parameter."""
        error = self.error({number: TEXT})
        beside = _BESIDE.search(error)
        told = [] if beside is None else [pg_type(beside[1] or beside[2]).oid]
        if not error or self._binding(number, told):
            return (*told, TEXT)[0]
        found = self._binding(number, _NUMBERS)[:1] + self._binding(number, _OTHERS)
        return found[0] if len(found) == 1 else TEXT

    def _binding(self, number: int, oids: Iterable[int]) -> list[int]:
        return [oid for oid in oids if not self.error({number: oid})]


def _null(types: Mapping[int, int], name: str) -> str:
    oid = types.get(int(name)) if name.isdigit() else None
    return "NULL" if oid is None else f"CAST(NULL AS {duckdb_type(oid) or 'VARCHAR'})"
