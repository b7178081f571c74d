"""Reads the statements on users and tokens, which DuckDB does not know.

Law: no error has a password in it: texts in quotes are not shown.
"""

from __future__ import annotations

from itertools import pairwise

from ivm.sql.statements.nodes.own_nodes import ChangeToken, ChangeUser, ShowUsers
from ivm.sql.statements.own.durations import duration
from ivm.sql.statements.text.tokens import Reader, SourceText, tokens
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold

ROLES = ("read", "write", "admin")
"""What a user may do, from the least to the most."""
KINDS = ("USER", "TOKEN")


def begins(reader: Reader) -> bool:
    """Whether the statement creates, alters or drops a user or a token; the reader stays.

    `CREATE USER` is no statement of DuckDB's, and neither are the others.
    """
    return reader.peek(1) in KINDS and not (reader.peek() == "ALTER" and reader.peek(1) == "TOKEN")


def change(source: SourceText, reader: Reader) -> ChangeUser | ChangeToken:
    """Reads a statement that `begins`."""
    action = reader.peek().lower()
    reader.at += 1
    is_user = reader.accept("USER")
    reader.at += not is_user
    optional = _optional(reader, action)
    name = fold(reader.identifier())
    if is_user:
        return _user(source, reader, action, name, optional)
    return _token(source, reader, action, name, optional)


def _optional(reader: Reader, action: str) -> bool:
    if action == "create":
        return reader.accept("IF", "NOT", "EXISTS")
    return reader.accept("IF", "EXISTS")


def _user(source: SourceText, reader: Reader, action: str, name: str, optional: bool) -> ChangeUser:
    password = role = schema = None
    everywhere = False
    while action != "drop" and not reader.done:
        if password is None and reader.accept("PASSWORD"):
            password = _text(reader, "expected the password as a 'text'")
        elif role is None and reader.accept("ROLE"):
            role = _role(reader)
        elif schema is None and reader.accept("IN", "SCHEMA"):
            schema = reader.name()
        elif action == "alter" and schema is None and reader.accept("IN", "ALL", "SCHEMAS"):
            everywhere = True
        else:
            raise _error(reader, "expected PASSWORD '…', ROLE read, write or admin, or IN SCHEMA")
    _finish(reader)
    if action == "create" and (password is None or role is None):
        raise _error(reader, "a user needs PASSWORD '…' and ROLE read, write or admin")
    if schema is not None and role == "admin":
        raise _error(reader, "an admin is not limited to a schema: leave out IN SCHEMA")
    if action == "alter" and not (password or role or schema or everywhere):
        raise _error(reader, "expected what to change: PASSWORD, ROLE or IN SCHEMA")
    return ChangeUser(
        *(source.text, source.offset, action, name, password, role, schema, everywhere, optional)
    )


def _role(reader: Reader) -> str:
    found = reader.peek().lower()
    if found not in ROLES:
        raise _error(reader, f"expected a role: {', '.join(ROLES)}")
    reader.at += 1
    return found


def _token(
    source: SourceText, reader: Reader, action: str, name: str, optional: bool
) -> ChangeToken:
    user, expires = "", None
    if action == "create":
        reader.expect("FOR", "USER")
        user = fold(reader.identifier())
        if reader.accept("EXPIRES"):
            expires = _moment(reader)
    _finish(reader)
    return ChangeToken(source.text, source.offset, action, name, user, expires, optional)


def _moment(reader: Reader) -> str:
    """SQL of the time at which a token expires: from now on, or a time with its zone."""
    if reader.peek() == "INTERVAL":
        return f"now() + INTERVAL '{duration(reader).text}'"
    text = _text(reader, "expected INTERVAL '30 days', or a time such as '2030-01-31 12:00:00+00'")
    return "TIMESTAMPTZ '" + text.replace("'", "''") + "'"


def show(source: SourceText, reader: Reader) -> ShowUsers | None:
    """Reads SHOW USERS and SHOW TOKENS; None for another statement."""
    if reader.peek(2) or reader.peek(1) not in ("USERS", "TOKENS"):
        return None
    return ShowUsers(source.text, source.offset, reader.peek(1) == "TOKENS")


def _text(reader: Reader, expected: str) -> str:
    token = None if reader.done else reader.tokens[reader.at]
    if token is None or token.text[:1] != "'" or token.text[-1:] != "'" or len(token.text) < 3:
        raise SqlError(f"syntax error: {expected}", None if token is None else token.start)
    reader.at += 1
    return token.text[1:-1].replace("''", "'")


def _finish(reader: Reader) -> None:
    if not reader.done:
        raise _error(reader, "expected the end of the statement")


def _error(reader: Reader, reason: str) -> SqlError:
    if reader.done:
        return reader.error(reason)
    token = reader.tokens[reader.at]
    shown = token.text if token.word or token.text[:1] == '"' else "a text"
    return SqlError(f"syntax error at or near {shown}: {reason}", token.start)


def without_passwords(sql: str) -> str:
    """The text with `'***'` in the place of each text behind PASSWORD, for logs and histories."""
    if "password" not in sql.lower():
        return sql
    pieces, start, found = [], 0, tokens(sql)
    for word, value in pairwise(found):
        if word.word == "PASSWORD" and not value.word:
            pieces += [sql[start : value.start], "'***'"]
            start = value.end
    return "".join([*pieces, sql[start:]])
