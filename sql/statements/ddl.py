"""Reads the heads of CREATE, DROP, ALTER, COMMENT and of the statements about the session.

Contract: a field that the head does not determine stays empty, never guessed; DuckDB reports its
own syntax errors.
"""

from __future__ import annotations

from ivm.sql.statements.nodes.nodes import Ddl, Name
from ivm.sql.statements.text.tokens import Reader, StringForNameError, is_name
from ivm.storage.errors import SqlError

_TEMPORARY = frozenset(("TEMP", "TEMPORARY"))
_QUALIFIERS = _TEMPORARY | frozenset(
    ("LOCAL", "GLOBAL", "PERSISTENT", "UNIQUE", "RECURSIVE", "SECURE", "UNLOGGED")
)
_TARGETS = {"FUNCTION": "macro"}


def _qualifiers(reader: Reader) -> bool:
    """Skips the words between the verb and the target, and returns whether one is TEMPORARY."""
    temporary = False
    while reader.peek() in _QUALIFIERS:
        temporary = temporary or reader.peek() in _TEMPORARY
        reader.at += 1
    return temporary


def _target(reader: Reader) -> str:
    word = reader.peek()
    reader.at += 1
    if word == "MACRO" or word == "FUNCTION":
        reader.accept("TABLE")
    return _TARGETS.get(word, word.lower())


def _optional_name(reader: Reader) -> tuple[Name, ...]:
    if reader.peek() in ("ON", "("):
        return ()
    try:
        return (reader.name(),)
    except StringForNameError:
        raise
    except SqlError:
        return ()


def _on(reader: Reader, target: str) -> Name | None:
    """The table after ON in CREATE INDEX, CREATE TRIGGER and DROP TRIGGER."""
    if target not in ("index", "trigger"):
        return None
    while not reader.done:
        if reader.accept("ON"):
            return reader.name()
        reader.at += 1
    return None


def create(reader: Reader, text: str, offset: int) -> Ddl:
    """Reads CREATE of anything but a materialized view."""
    reader.expect("CREATE")
    replace = reader.accept("OR", "REPLACE")
    temporary = _qualifiers(reader)
    target = _target(reader)
    exists = reader.accept("IF", "NOT", "EXISTS")
    names = _optional_name(reader)
    on = _on(reader, target)
    return Ddl(text, offset, "create", target, names, on, False, replace, exists, temporary)


def drop(reader: Reader, text: str, offset: int) -> Ddl:
    """Reads DROP of anything but a materialized view."""
    reader.expect("DROP")
    _qualifiers(reader)
    target = _target(reader)
    exists = reader.accept("IF", "EXISTS")
    names = reader.names()
    cascade = reader.find("CASCADE")
    on = _on(reader, target)
    return Ddl(text, offset, "drop", target, names, on, cascade, False, exists)


def alter(reader: Reader, text: str, offset: int) -> Ddl:
    """Reads ALTER of anything but a materialized view."""
    reader.expect("ALTER")
    target = _target(reader)
    exists = reader.accept("IF", "EXISTS")
    names = (reader.name(),)
    cascade = reader.find("CASCADE")
    return Ddl(text, offset, "alter", target, names, None, cascade, False, exists)


def comment(reader: Reader, text: str, offset: int) -> Ddl:
    """Reads COMMENT ON target name IS …"""
    reader.expect("COMMENT", "ON")
    target = _target(reader)
    return Ddl(text, offset, "comment", target, _optional_name(reader))


def session(reader: Reader, text: str, offset: int) -> Ddl:
    """Reads a statement about the session: ATTACH, USE, SET, PRAGMA, LOAD, IMPORT and the like."""
    action = reader.peek().lower()
    reader.at += 1
    target = ""
    for word in ("DATABASE", "VARIABLE", "EXTENSIONS"):
        if reader.accept(word):
            target = word.lower()
    while (scope := reader.peek()) in ("GLOBAL", "LOCAL", "SESSION"):
        reader.at += 1
        target = scope.lower()
    exists = reader.accept("IF", "EXISTS") or reader.accept("IF", "NOT", "EXISTS")
    names = _attached(reader) if action == "attach" else _session_name(reader)
    return Ddl(text, offset, action, target, names, None, False, False, exists)


def _session_name(reader: Reader) -> tuple[Name, ...]:
    """The name of a setting, a database or the like; a string is a path."""
    named = not reader.done and is_name(reader.tokens[reader.at])
    return _optional_name(reader) if named else ()


def _attached(reader: Reader) -> tuple[Name, ...]:
    reader.at += 1
    return (reader.name(),) if reader.accept("AS") else ()
