"""Which views, macros and tables of a database ask in their own texts who the user is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ivm.engine.engine import Engine
from ivm.engine.view_reads import views_and_macros
from ivm.sql.statements.tokens import is_name, tokens, unquoted
from ivm.storage.identifiers import fold, path_of

_WORDS = frozenset(("current_user", "session_user", "current_role"))
_SPELLED = re.compile("current_user|session_user|current_role", re.IGNORECASE)


class Asking(NamedTuple):
    """The folded names of what asks.

    Attributes:
        definitions: plain views and macros, with those that use them.
        tables: tables with such a default.
    """

    definitions: frozenset[str]
    tables: frozenset[str]


_known: WeakKeyDictionary[Engine, tuple[int, Asking]] = WeakKeyDictionary()


def asking(engine: Engine) -> Asking:
    """What asks who the user is, of what is committed."""
    generation = engine.definitions.relations.generation
    then, found = _known.get(engine, (-1, None))
    if found is None or then != generation:
        found = _asking(engine)
        _known[engine] = generation, found
    return found


def _asking(engine: Engine) -> Asking:
    with contextlib.closing(engine.warehouse.cursor()) as cursor:
        texts = views_and_macros(cursor, engine.definitions.functions)
    texts = [(fold(name), text) for name, text in texts]
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
