"""The users and tokens of a database, and the statements about them.

Invariant: they are rows of `_ivm.users` and `_ivm.tokens`, changed in the DuckDB transaction of
their statement. A password is stored as its verifier and a token as its hash, nowhere as itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ivm.access.roles import schema_name
from ivm.access.verifiers import Verifier, new_token, read, token_hash, verifier_of
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.parameters import Params
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import SqlError
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from ivm.storage.warehouse.tables.table_info import read_schemas

_TABLES = {
    "_ivm.users": "(name VARCHAR PRIMARY KEY, role VARCHAR NOT NULL, schema VARCHAR, "
    "verifier VARCHAR NOT NULL)",
    "_ivm.tokens": "(name VARCHAR PRIMARY KEY, owner VARCHAR NOT NULL, hash VARCHAR NOT NULL, "
    "created TIMESTAMPTZ NOT NULL, expires TIMESTAMPTZ)",
}
_EXIST = """
SELECT count(*) FROM system.main.duckdb_tables()
WHERE database_name = system.main.current_database() AND schema_name = '_ivm'
    AND table_name IN ('users', 'tokens')
"""
_STORED = """
SELECT name, owner, hash, CASE WHEN expires IS NOT NULL THEN system.main.epoch_us(
    system.main.greatest(system.main.least(expires, TIMESTAMPTZ '9999-12-31 00:00:00+00'),
                         TIMESTAMPTZ '1970-01-01 00:00:00+00')) END
FROM _ivm.tokens ORDER BY name
"""
"""The tokens; Python has no times of other years."""


@dataclass(frozen=True)
class StoredUser:
    """A user.

    Attributes:
        name: folded.
        role: see `ivm.sql.statements.own.users.ROLES`.
        schema: the schema, see `schema_name`, to which the role is limited; None for all.
        verifier: of the password.
    """

    name: str
    role: str
    schema: str | None
    verifier: Verifier | None


@dataclass(frozen=True)
class StoredToken:
    """A token of a user.

    Attributes:
        name: folded.
        owner: the user's name.
        hash: of the token.
        expires: from when on it is of no use; None for never.
    """

    name: str
    owner: str
    hash: str
    expires: datetime | None

    def is_good(self) -> bool:
        """Returns whether it has not expired."""
        return self.expires is None or datetime.now(UTC) < self.expires


def stored_users(cursor: Cursor) -> list[StoredUser]:
    """The users that a cursor sees."""
    if not _exist(cursor):
        return []
    found = rows(cursor, "SELECT name, role, schema, verifier FROM _ivm.users ORDER BY name")
    return [
        StoredUser(name, role, schema, read(verifier)) for name, role, schema, verifier in found
    ]


def stored_tokens(cursor: Cursor) -> list[StoredToken]:
    """The tokens that a cursor sees."""
    if not _exist(cursor):
        return []
    found = rows(cursor, _STORED)
    return [StoredToken(name, owner, hash, _moment(end)) for name, owner, hash, end in found]


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)


def _exist(cursor: Cursor) -> bool:
    return bool(rows(cursor, _EXIST)[0][0] == len(_TABLES))


def change_user(session: Session, statement: st.ChangeUser, params: Params) -> Result:
    """Runs CREATE, ALTER and DROP USER."""
    verifier = None if statement.password is None else verifier_of(statement.password)
    with session.writing() as transaction:
        known = {user.name: user for user in _begin(session, transaction)}
        stored = known.get(statement.name)
        if not _is_needed("user", statement, stored is not None, known):
            return Result("done")
        run(session.cursor, "DELETE FROM _ivm.users WHERE name = $1", [statement.name])
        if statement.action == "drop":
            run(session.cursor, "DELETE FROM _ivm.tokens WHERE owner = $1", [statement.name])
        else:
            row = _row(session, statement, stored, verifier)
            run(session.cursor, "INSERT INTO _ivm.users VALUES ($1, $2, $3, $4)", row)
    return Result("done")


def _row(
    session: Session,
    statement: st.ChangeUser,
    stored: StoredUser | None,
    verifier: Verifier | None,
) -> list[Any]:
    role = statement.role or (stored.role if stored else "read")
    schema = stored.schema if stored and not statement.everywhere else None
    if statement.schema is not None:
        if role == "admin":
            raise SqlError(f"user {statement.name!r} is an admin, whom no schema limits")
        schema = _schema(session, statement)
    if role == "admin":
        schema = None
    kept = verifier or (stored.verifier if stored else None)
    return [statement.name, role, schema, str(kept)]


def _schema(session: Session, statement: st.ChangeUser) -> str:
    assert statement.schema is not None
    [(database,)] = rows(session.cursor, "SELECT system.main.current_database()")
    known = map(schema_name, read_schemas(session.cursor, database).values())
    found = schema_name(statement.schema)
    if found not in known or found == "_ivm":
        raise SqlError(f"there is no schema {found!r}: CREATE SCHEMA")
    return found


def change_token(session: Session, statement: st.ChangeToken, params: Params) -> Result:
    """Runs CREATE and DROP TOKEN; a new token is in the result, and can be seen there alone."""
    with session.writing() as transaction:
        users = {user.name for user in _begin(session, transaction)}
        known = {token.name for token in stored_tokens(session.cursor)}
        if not _is_needed("token", statement, statement.name in known, known):
            return Result("done")
        if statement.action == "drop":
            run(session.cursor, "DELETE FROM _ivm.tokens WHERE name = $1", [statement.name])
            return Result("done")
        if statement.user not in users:
            raise SqlError(f"there is no user {statement.user!r}: CREATE USER first")
        token, expires = new_token(), statement.expires or "NULL"
        run(
            session.cursor,
            f"INSERT INTO _ivm.tokens VALUES ($1, $2, $3, now(), {expires})",
            [statement.name, statement.user, token_hash(token)],
        )
    table = pa.table({"name": [statement.name], "token": [token]})
    return Result.of_table(table, ["VARCHAR", "VARCHAR"])


def _is_needed(
    kind: str, statement: st.ChangeUser | st.ChangeToken, exists: bool, known: Collection[str]
) -> bool:
    """Returns whether there is something to do; an error if it cannot be done."""
    creates = statement.action == "create"
    if creates != exists:
        return True
    if statement.optional:
        return False
    if creates:
        raise SqlError(f"{kind} {statement.name!r} exists: DROP {kind.upper()} first, or ALTER it")
    listed = ", ".join(sorted(known)) or "none yet"
    raise SqlError(f"there is no {kind} {statement.name!r}; there are: {listed}")


def _begin(session: Session, transaction: Transaction) -> list[StoredUser]:
    """Begins the change in DuckDB; returns the users, whose tables are made if they are lacking."""
    transaction.change_catalog()
    transaction.begin_in_duckdb()
    for name, columns in _TABLES.items():
        run(session.cursor, f"CREATE TABLE IF NOT EXISTS {name} {columns}")
    return stored_users(session.cursor)


def show(session: Session, statement: st.ShowUsers, params: Params) -> Result:
    """Runs SHOW USERS and SHOW TOKENS."""
    session.release()
    with session.transaction or contextlib.nullcontext():
        if statement.tokens:
            return _shown_tokens(stored_tokens(session.cursor))
        found = stored_users(session.cursor)
    columns: dict[str, list[Any]] = {
        "name": [user.name for user in found],
        "role": [user.role for user in found],
        "schema": [user.schema for user in found],
    }
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return Result.of_table(pa.table(texts), ["VARCHAR"] * 3)


def _shown_tokens(found: Sequence[StoredToken]) -> Result:
    table = pa.table(
        {
            "name": pa.array([token.name for token in found], pa.string()),
            "user": pa.array([token.owner for token in found], pa.string()),
            "expires": pa.array([token.expires for token in found], pa.timestamp("us", "UTC")),
        }
    )
    return Result.of_table(table, ["VARCHAR", "VARCHAR", "TIMESTAMP WITH TIME ZONE"])
