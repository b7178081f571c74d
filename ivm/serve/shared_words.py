"""Which views, macros and tables of a database ask in their own texts who the user is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from ivm.engine.engine import Engine
from ivm.sql.statements.tokens import is_name, tokens, unquoted
from ivm.storage.identifiers import fold, path_of
from ivm.storage.warehouse.duck import rows

_WORDS = frozenset(("current_user", "session_user", "current_role"))
_SPELLED = re.compile("current_user|session_user|current_role", re.IGNORECASE)
_VIEWS = "SELECT view_name, sql FROM system.main.duckdb_views() WHERE NOT internal"


class Asking(NamedTuple):
    """The folded names of what asks.

    Attributes:
        definitions: plain views and macros, with those that use them.
        tables: tables with such a default.
    """

    definitions: frozenset[str]
    tables: frozenset[str]


def asking(engine: Engine) -> Asking:
    """What asks who the user is, as a statement of any user would use it."""
    with contextlib.closing(engine.warehouse.cursor()) as cursor:
        texts = [(fold(name), text) for name, text in rows(cursor, _VIEWS)]
    macros = engine.definitions.functions.macros
    texts += [(macro.name, macro.definition) for macro in macros if not macro.internal]
    tables = engine.catalog.tables.items()
    defaults = [(fold(path_of(n)[-1]), text) for n, i in tables for text in i.defaults.values()]
    found = frozenset(name for name, text in defaults if _asks(text))
    return Asking(_with_users(texts), found)


def _with_users(texts: list[tuple[str, str]]) -> frozenset[str]:
    names = {name for name, text in texts if _asks(text)}
    more = names
    while more:
        more = {name for name, text in texts if name not in names and _names(text, more)}
        names |= more
    return frozenset(names)


def _asks(text: str) -> bool:
    return _SPELLED.search(text) is not None and _names(text, _WORDS)


def _names(text: str, names: Iterable[str]) -> bool:
    return not {fold(unquoted(t)) for t in tokens(text) if is_name(t)}.isdisjoint(names)
