"""What a client's text asks for: statements of the database, and those that only PostgreSQL knows.

Law: the database gets a statement exactly as the client wrote it, but for bytes, see
`bytea_literals`. What stands here instead is what drivers send for themselves: settings, BEGIN with
an isolation level, COPY over the connection, and statements without a meaning here that are
answered with nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ivm.serve.pg.catalog.catalog_words import asks_catalog
from ivm.serve.pg.catalog.session_settings import OWN_SETTINGS
from ivm.serve.pg.statements import cursors
from ivm.serve.pg.statements.copy_syntax import CopyRows, copy_rows, unquoted_value
from ivm.serve.pg.values.bytea_literals import with_bytes
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import tokens
from ivm.storage.errors import IvmError, SqlError, UnsupportedError
from ivm.storage.identifiers import WORD_CHARACTER

Modes: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values of settings of a transaction."""

_LONG = 1 << 14
_SHORT = 1 << 10
_BLANKS = "; \t\r\n"
_NUMBER = re.compile(r"(?<![\w.$])\d+(?![\w.])")
_MARKED = re.compile(r"['\"`$]|--|/\*|[^\x00-\x7f]")


@dataclass(frozen=True)
class Sql:
    """A statement of the database."""

    text: str
    offset: int
    statement: st.Statement


@dataclass(frozen=True)
class CatalogQuery:
    """A query about the catalog, as PostgreSQL has it."""

    text: str
    offset: int


@dataclass(frozen=True)
class Setting:
    """SET, RESET or SHOW of a setting; `value` is None for RESET and SHOW, `name` of RESET ALL.

    Attributes:
        verb: "SET", "RESET" or "SHOW".
        local: until the transaction's end.
    """

    text: str
    offset: int
    verb: str
    name: str | None
    value: str | None = None
    local: bool = False


@dataclass(frozen=True)
class Begin:
    """BEGIN; `modes` are what it says, as settings."""

    text: str
    offset: int
    modes: Modes = ()


@dataclass(frozen=True)
class SetModes:
    """SET TRANSACTION, or the same for later transactions, as settings."""

    text: str
    offset: int
    modes: Modes


@dataclass(frozen=True)
class Nothing:
    """A statement without a meaning here, answered with its tag."""

    text: str
    offset: int
    tag: str


@dataclass(frozen=True)
class Savepoint:
    """SAVEPOINT, RELEASE or ROLLBACK TO; `verb` is the first word."""

    text: str
    offset: int
    verb: str
    name: str


@dataclass(frozen=True)
class Declare:
    """DECLARE of a cursor for a query."""

    text: str
    offset: int
    name: str
    holds: bool
    query: Sql | CatalogQuery


Action: TypeAlias = (
    Savepoint
    | Sql
    | CatalogQuery
    | Setting
    | Begin
    | SetModes
    | CopyRows
    | Nothing
    | Declare
    | cursors.Fetch
    | cursors.Close
)

_MODES = (
    r"(?P<modes>(?:[\s,]+(?:ISOLATION\s+LEVEL\s+(?:SERIALIZABLE|REPEATABLE\s+READ|READ\s+COMMITTED"
    r"|READ\s+UNCOMMITTED)|READ\s+ONLY|READ\s+WRITE|(?:NOT\s+)?DEFERRABLE))*)\s*"
)
_MODE_SETTINGS = {
    "SERIALIZABLE": ("isolation", "serializable"),
    "REPEATABLE READ": ("isolation", "repeatable read"),
    "READ COMMITTED": ("isolation", "read committed"),
    "READ UNCOMMITTED": ("isolation", "read uncommitted"),
    "READ ONLY": ("read_only", "on"),
    "READ WRITE": ("read_only", "off"),
}
_BEGIN = re.compile(
    rf"(?:BEGIN(?:\s+(?:WORK|TRANSACTION))?|START\s+TRANSACTION){_MODES}", re.IGNORECASE
)
_SET = re.compile(
    r"SET\s+(?:(?P<scope>SESSION|LOCAL)\s+)?(?:(?P<zone>TIME\s+ZONE)|(?P<names>NAMES)|"
    r'(?P<name>"?[\w.]+"?)\s*(?:=|\sTO\s))\s*(?P<value>.*)',
    re.IGNORECASE | re.DOTALL,
)
_SET_MODES = re.compile(
    rf"SET\s+(?P<later>SESSION\s+CHARACTERISTICS\s+AS\s+)?TRANSACTION\b{_MODES}", re.IGNORECASE
)
_RESET = re.compile(r'RESET\s+(?:(?P<zone>TIME\s+ZONE)|(?P<name>"?[\w.]+"?))\s*', re.IGNORECASE)
_SHOW = re.compile(
    r"SHOW\s+(?:(?P<zone>TIME\s+ZONE)|(?P<level>TRANSACTION\s+ISOLATION\s+LEVEL)|"
    r'(?P<name>"?[\w.]+"?))\s*',
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"(?P<tag>DISCARD\s+(?:ALL|PLANS|SEQUENCES|TEMP(?:ORARY)?)|UNLISTEN|DEALLOCATE\s+ALL)"
    r"\b.*",
    re.IGNORECASE | re.DOTALL,
)
_SAVEPOINT = re.compile(
    r"(?P<verb>SAVEPOINT|RELEASE(?:\s+SAVEPOINT)?|ROLLBACK(?:\s+(?:WORK|TRANSACTION))?\s+TO"
    r'(?:\s+SAVEPOINT)?)\s+(?P<name>"[^"]+"|'
    rf"{WORD_CHARACTER}+)",
    re.IGNORECASE,
)
_REFUSED = {
    "LISTEN": "there is no LISTEN: follow a view by a changefeed",
    "NOTIFY": "there is no NOTIFY: follow a view by a changefeed",
    "GRANT": "what a user may do is decided by the user's role",
    "REVOKE": "what a user may do is decided by the user's role",
}


def actions_of(text: str) -> tuple[Action, ...]:
    """What a text asks for, statement by statement.

    Raises:
        SqlError: it does not parse.
        UnsupportedError: a statement of PostgreSQL's that has no meaning here.
    """
    if len(text) < _SHORT and _MARKED.search(text) is None:
        shape = _NUMBER.sub("0", text)
        if shape != text and isinstance(found := _one_query(shape), Sql):
            whole = text.strip(_BLANKS)
            return (Sql(whole, found.offset, replace(found.statement, text=whole)),)
    return _cached(text) if len(text) < _LONG else tuple(_actions(text))


@functools.lru_cache(maxsize=512)
def _one_query(shape: str) -> Action | None:
    """What a text with zeros for its integers asks for, if that is one query, else None.

    The integers decide neither whether a query parses nor what kind it is of.
    """
    try:
        actions = _cached(shape)
    except IvmError:
        return None
    if len(actions) != 1 or not isinstance(actions[0], Sql):
        return None
    statement = actions[0].statement
    is_query = isinstance(statement, st.Query) and statement.kind in ("select", "from", "with")
    whole = is_query and statement.text == shape.strip(_BLANKS)
    return actions[0] if whole else None


@functools.lru_cache(maxsize=2048)
def _cached(text: str) -> tuple[Action, ...]:
    return tuple(_actions(text))


def _actions(text: str) -> Iterator[Action]:
    for piece, offset in _pieces(with_bytes(text)):
        yield from _of(piece, offset)


def _pieces(text: str) -> Iterator[tuple[str, int]]:
    """The statements of a text with their offsets."""
    if ";" not in text.rstrip(_BLANKS) and not text.lstrip().startswith(("-", "/")):
        whole = text.strip(_BLANKS)
        if whole:
            yield whole, text.index(whole)
        return
    first: int | None = None
    end = 0
    for token in tokens(text):
        if token.word != ";":
            first, end = token.start if first is None else first, token.end
        elif first is not None:
            yield text[first:end], first
            first = None
    if first is not None:
        yield text[first:end], first


def _of(text: str, offset: int) -> Iterator[Action]:
    word = re.match(r"\w*", text)
    verb = word[0].upper() if word else ""
    own = _OWN.get(verb)
    found = own(text, offset) if own is not None else None
    if found is not None:
        yield found
    elif verb in _REFUSED:
        raise UnsupportedError(f"{verb}: {_REFUSED[verb]}", offset)
    elif verb in ("SELECT", "WITH", "VALUES", "TABLE") and asks_catalog(text):
        yield CatalogQuery(text, offset)
    else:
        for statement in _parsed(text, offset):
            yield Sql(text, offset, statement)


def _parsed(text: str, offset: int) -> tuple[st.Statement, ...]:
    """Statements of the database; the place of an error is one in the client's text."""
    try:
        return st.parse(text)
    except SqlError as error:
        if error.position is not None:
            error.position += offset
        raise


def _begin(text: str, offset: int) -> Action | None:
    found = _BEGIN.fullmatch(text)
    if found is None:
        return None
    return Begin(text, offset, _modes(found["modes"], "transaction_"))


def _modes(text: str, prefix: str) -> Modes:
    words = " ".join(text.upper().split())
    return tuple(
        [(prefix + n, value) for mode, (n, value) in _MODE_SETTINGS.items() if mode in words]
    )


def _set(text: str, offset: int) -> Action | None:
    modes = _SET_MODES.fullmatch(text)
    if modes is not None:
        prefix = "default_transaction_" if modes["later"] else "transaction_"
        return SetModes(text, offset, _modes(modes["modes"], prefix))
    found = _SET.fullmatch(text)
    if found is None:
        return None
    name = "timezone" if found["zone"] else "client_encoding" if found["names"] else found["name"]
    name = name.strip('"').lower()
    if name not in OWN_SETTINGS and "." not in name:
        return None
    local = (found["scope"] or "").upper() == "LOCAL"
    return Setting(text, offset, "SET", name, unquoted_value(found["value"]), local)


def _reset(text: str, offset: int) -> Action | None:
    found = _RESET.fullmatch(text)
    if found is None:
        return None
    name = "timezone" if found["zone"] else found["name"].strip('"').lower()
    if name == "all":
        return Setting(text, offset, "RESET", None)
    return Setting(text, offset, "RESET", name) if name in OWN_SETTINGS else None


def _show(text: str, offset: int) -> Action | None:
    found = _SHOW.fullmatch(text)
    if found is None:
        return None
    name = "timezone" if found["zone"] else "transaction_isolation" if found["level"] else None
    name = name or found["name"].strip('"').lower()
    return Setting(text, offset, "SHOW", name) if name in OWN_SETTINGS else None


def _savepoint(text: str, offset: int) -> Action | None:
    found = _SAVEPOINT.fullmatch(text)
    if found is None:
        return None
    return Savepoint(text, offset, found["verb"].split()[0].upper(), found["name"].strip('"'))


def _declare(text: str, offset: int) -> Action:
    found = cursors.declared(text)
    place = offset + found.place
    query, *more = _of(found.query, place)
    is_query = isinstance(query, CatalogQuery) or (
        isinstance(query, Sql) and isinstance(query.statement, st.Query)
    )
    if more or not is_query:
        raise SqlError("syntax error: a cursor is declared for one query", place)
    assert isinstance(query, Sql | CatalogQuery)
    return Declare(text, offset, found.name, found.holds, query)


def _nothing(text: str, offset: int) -> Action | None:
    found = _NOTHING.fullmatch(text)
    return None if found is None else Nothing(text, offset, " ".join(found["tag"].upper().split()))


_OWN = {
    "BEGIN": _begin,
    "START": _begin,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DISCARD": _nothing,
    "UNLISTEN": _nothing,
    "DECLARE": _declare,
    "FETCH": cursors.fetch,
    "MOVE": cursors.fetch,
    "CLOSE": cursors.close,
    "DEALLOCATE": _nothing,
    "COPY": copy_rows,
    "SAVEPOINT": _savepoint,
    "RELEASE": _savepoint,
    "ROLLBACK": _savepoint,
}


def changes(action: Action) -> bool:
    """Returns whether an action changes something."""
    return isinstance(action, Sql) and not isinstance(
        action.statement, st.Query | st.TransactionControl
    )
