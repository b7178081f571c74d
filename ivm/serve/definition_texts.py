"""What the views, macros and defaults of a database have in their own texts.

A statement that uses one of them does not show it: that it asks who the user is, or that it reads
what changes without a commit, as files do.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ivm.catalog.version import CatalogVersion, Meaning
from ivm.engine.engine import Engine
from ivm.engine.views.view_reads import NamedText, views_and_macros
from ivm.serve.from_clauses import means_by_catalog
from ivm.sql.statements.text.tokens import is_name, kept_tokens, unquoted
from ivm.storage.identifiers import fold, path_of

_WORDS = frozenset(("current_user", "session_user", "current_role"))
_SPELLED = re.compile("current_user|session_user|current_role", re.IGNORECASE)


class Texts(NamedTuple):
    """Folded names by what stands in the texts.

    Attributes:
        asking: plain views and macros that ask who the user is, with those that use them.
        asking_tables: tables with such a default.
        changing: plain views and macros whose columns may be others without a commit, with those
            that use them; and the other databases.
    """

    asking: frozenset[str]
    asking_tables: frozenset[str]
    changing: frozenset[str]


_known: WeakKeyDictionary[Engine, tuple[Meaning, Texts]] = WeakKeyDictionary()


def texts_of(engine: Engine) -> Texts:
    """What stands in the texts, of what is committed."""
    now = Meaning(engine.definitions.relations.generation, engine.catalog.version)
    then, found = _known.get(engine, (None, None))
    if found is None or then != now:
        found = _read(engine, now.version)
        _known[engine] = now, found
    return found


def _read(engine: Engine, version: CatalogVersion) -> Texts:
    with contextlib.closing(engine.warehouse.cursor()) as cursor:
        texts = views_and_macros(cursor, engine.definitions.functions)
    texts = [(fold(name), text) for name, text in texts]
    tables = version.tables.items()
    defaults = [(fold(path_of(n)[-1]), text) for n, i in tables for text in i.defaults.values()]
    others = version.names.others
    changing = _with_users(texts, lambda t: not means_by_catalog(t) or names_any(t, others))
    found = frozenset(name for name, text in defaults if _asks(text))
    return Texts(_with_users(texts, _asks), found, changing | others)


def _with_users(texts: Sequence[NamedText], has: Callable[[str], bool]) -> frozenset[str]:
    """The names of the texts that have something, and of those that name one of these."""
    names = more = frozenset(name for name, text in texts if has(text))
    while more:
        rest = [(name, text) for name, text in texts if name not in names]
        more = frozenset(name for name, text in rest if names_any(text, more))
        names |= more
    return names


def _asks(text: str) -> bool:
    return _SPELLED.search(text) is not None and names_any(text, _WORDS)


def names_any(text: str, names: Iterable[str]) -> bool:
    """Returns whether a word of a text may be one of these folded names."""
    return not {fold(unquoted(t)) for t in kept_tokens(text) if is_name(t)}.isdisjoint(names)
