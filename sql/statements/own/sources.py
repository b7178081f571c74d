"""Reads the statements on sources of changes, which DuckDB does not know."""

from __future__ import annotations

from ivm.sql.statements.nodes.nodes import Statement
from ivm.sql.statements.nodes.own_nodes import ChangeSource, CreateSource
from ivm.sql.statements.text.tokens import Reader, SourceText, text_of, unquoted

Options = tuple[tuple[str, str], ...]


def create_source(source: SourceText, reader: Reader) -> CreateSource:
    """Reads CREATE SOURCE, from the token after these words."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.identifier()
    target = reader.name() if reader.accept("INTO") else None
    reader.expect("FROM")
    kind = reader.identifier()
    options = read_options(reader)
    reader.finish()
    return CreateSource(source.text, source.offset, name, kind, target, options, if_not_exists)


def change_source(source: SourceText, reader: Reader) -> ChangeSource:
    """Reads PAUSE SOURCE, RESUME SOURCE and DROP SOURCE [IF EXISTS]."""
    action, name, if_exists = read_change(reader, "SOURCE")
    return ChangeSource(source.text, source.offset, action, name, if_exists=if_exists)


def alter_source(source: SourceText, reader: Reader) -> ChangeSource:
    """Reads ALTER SOURCE name SET (options) | SET POSITION 'place' | ADD | DROP TABLE tables."""
    reader.expect("ALTER", "SOURCE")
    name = reader.identifier()
    at = source.text, source.offset
    if reader.accept("SET", "POSITION"):
        place = _text(reader)
        reader.finish()
        return ChangeSource(*at, "set position", name, place=place)
    if reader.accept("SET"):
        options = read_options(reader)
        reader.finish()
        return ChangeSource(*at, "set", name, options=options)
    adds = reader.accept("ADD")
    if not adds and not reader.accept("DROP"):
        raise reader.error(
            "expected SET (option value, …), SET POSITION 'place', ADD TABLE or DROP TABLE"
        )
    reader.expect("TABLE")
    begin = reader.at
    reader.names()
    tables = text_of(source.script, reader.tokens[begin : reader.at])
    reader.finish()
    return ChangeSource(*at, "add table" if adds else "drop table", name, tables)


def dead_letters(source: SourceText, reader: Reader) -> Statement:
    """Reads RETRY DEAD LETTERS FOR source and DISCARD DEAD LETTERS FOR source."""
    action = reader.peek().lower()
    reader.at += 1
    reader.expect("DEAD", "LETTERS", "FOR")
    name = reader.identifier()
    reader.finish()
    return ChangeSource(source.text, source.offset, action, name)


def read_change(reader: Reader, kind: str) -> tuple[str, str, bool]:
    """Reads PAUSE, RESUME or DROP [IF EXISTS] of a kind: the action, the name, and IF EXISTS."""
    action = reader.peek().lower()
    reader.at += 1
    reader.expect(kind)
    if_exists = action == "drop" and reader.accept("IF", "EXISTS")
    name = reader.identifier()
    reader.finish()
    return action, name, if_exists


def read_options(reader: Reader) -> Options:
    """Reads `(name value, …)`: values are strings, numbers, TRUE or FALSE.

    A name of several parts, as `database.hostname`, is a property of a client, and may be a string.
    """
    reader.expect("(")
    found: list[tuple[str, str]] = []
    while not reader.accept(")"):
        if found:
            reader.expect(",")
        name = _option(reader)
        if name in dict(found):
            raise reader.error(f"the option {name!r} is given twice")
        found.append((name, _value(reader)))
    return tuple(found)


def _option(reader: Reader) -> str:
    name = _text(reader) if _is_text(reader) else ".".join(reader.name())
    return name if "." in name else name.lower()  # in properties, upper case is another name


def _value(reader: Reader) -> str:
    reader.accept("=")
    sign = "-" if reader.accept("-") else ""
    if reader.done:
        raise reader.error("expected a value")
    if _is_text(reader):
        return _text(reader)
    token = reader.tokens[reader.at]
    if token.word[:1].isdigit() or token.word in ("TRUE", "FALSE"):
        reader.at += 1
        return sign + unquoted(token).lower()
    raise reader.error("expected a value: a 'text', a number, TRUE or FALSE")


def _is_text(reader: Reader) -> bool:
    return not reader.done and reader.tokens[reader.at].text[:1] == "'"


def _text(reader: Reader) -> str:
    if not _is_text(reader):
        raise reader.error("expected a 'text'")
    reader.at += 1
    return reader.tokens[reader.at - 1].text[1:-1].replace("''", "'")
