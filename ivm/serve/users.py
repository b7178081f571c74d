"""The users of a served database: those of `ivm.toml`, and those that CREATE USER has made.

    [users.ann]
    verifier = "SCRAM-SHA-256$4096:…"   # as PostgreSQL writes it, or `_ivm.users` has it
    role = "read"
    schema = "reports"                  # if the role is limited to one

A user of the file comes before one of the same name that SQL has made.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Any

from ivm.access.check import Checks
from ivm.access.roles import schema_name
from ivm.access.users import StoredToken, StoredUser, stored_tokens, stored_users
from ivm.access.verifiers import Verifier, read, token_hash, verifier_of
from ivm.engine.base.settings_file import section
from ivm.engine.engine import Engine
from ivm.serve.access import User
from ivm.serve.failed_logins import FailedLogins
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.own.users import ROLES
from ivm.storage.errors import AccessError, InputError
from ivm.storage.identifiers import fold, split_name

_KEYS = frozenset(("verifier", "role", "schema"))
_REFUSED = "the user or the password is wrong"
_REFUSED_TOKEN = "the token is unknown, or has expired"
_MOST = 1024  # passwords of which it is known that they are right


class Users:
    """The gate of a database with users; any thread calls it.

    Args:
        engine: the database's engine.
        named: users by name, as `ivm.toml` has them under `[users]`.

    Attributes:
        failures: the logins that have failed.

    Raises:
        InputError: one of them makes no sense.
    """

    def __init__(self, engine: Engine, named: Mapping[str, Any]) -> None:
        self.failures = FailedLogins()
        self._engine = engine
        self._checks = Checks(engine)
        self._named = {fold(name): _named(name, given) for name, given in named.items()}
        self._lock = threading.Lock()
        self._generation = -1
        self._users: dict[str, StoredUser] = {}
        self._tokens: dict[str, StoredToken] = {}
        self._right: set[bytes] = set()
        self._secret = secrets.token_bytes(32)
        self._nobody: Verifier | None = None

    def apply(self, named: Mapping[str, Any]) -> None:
        """Takes other users of `ivm.toml`.

        Raises:
            InputError: one of them makes no sense; nothing has changed.
        """
        found = {fold(name): _named(name, given) for name, given in named.items()}
        with self._lock:
            self._named, self._generation = found, -1

    def verifier(self, name: str) -> Verifier | None:
        """See `Gate`."""
        found = self._known().get(fold(name))
        return None if found is None else found.verifier

    def user(self, name: str) -> User | None:
        """See `Gate`."""
        found = self._known().get(fold(name))
        return None if found is None else _user(found)

    def demand(self, user: User, statement: st.Statement, session: Session) -> None:
        """See `Gate`."""
        self.demand_unchanged(user)
        self._checks.demand(session, user.grant, statement)

    def allowing(
        self, user: User, statement: st.Statement, session: Session
    ) -> AbstractContextManager[None]:
        """See `Gate`."""
        self.demand_unchanged(user)
        return self._checks.allowing(session, user.grant, statement)

    def demand_unchanged(self, user: User) -> None:
        """See `Gate`."""
        if not user.is_trusted and self.user(user.name) != user:
            raise AccessError(
                f"the user {user.name!r} was dropped, or its role or password changed, after this "
                "login: log in again"
            )

    def login(self, name: str, password: str) -> User:
        """The user of this name, if the password is right.

        Raises:
            AccessError: it is not, or there is no such user; the answer takes as long.
        """
        found = self._known().get(fold(name))
        verifier = found.verifier if found is not None else None
        is_right = (verifier or self._no_verifier()).verifies(password) and verifier is not None
        if found is None or not is_right:
            raise AccessError(_REFUSED)
        with self._lock:
            if len(self._right) >= _MOST:
                self._right.clear()
            self._right.add(self._mark(name, password, verifier))
        return _user(found)

    def known(self, name: str, password: str) -> User | None:
        """The user, if this password of it was right before; None if that is to be found out."""
        found = self._known().get(fold(name))
        if found is None or self._mark(name, password, found.verifier) not in self._right:
            return None
        return _user(found)

    def bearer(self, token: str) -> User:
        """The user whose token this is.

        Raises:
            AccessError: it is unknown, or has expired.
        """
        known = self._known()
        found = self._tokens.get(token_hash(token))
        owner = None if found is None or not found.is_good() else known.get(found.owner)
        if owner is None:
            raise AccessError(_REFUSED_TOKEN)
        return _user(owner)

    def _known(self) -> dict[str, StoredUser]:
        generation = self._engine.definitions.relations.generation
        if generation == self._generation:
            return self._users
        cursor, named = self._engine.warehouse.cursor(), self._named
        users = {user.name: user for user in stored_users(cursor)} | named
        tokens = {token.hash: token for token in stored_tokens(cursor)}
        with self._lock:
            if named is self._named:  # else others were taken meanwhile
                self._users, self._tokens, self._generation = users, tokens, generation
        return users

    def _mark(self, name: str, password: str, verifier: Verifier | None) -> bytes:
        """Stands for a password that was right: hashing it anew for each request takes long."""
        text = "\0".join((fold(name), password, str(verifier)))
        return hmac.digest(self._secret, text.encode(), sha256)

    def _no_verifier(self) -> Verifier:
        """What a password is compared with where there is no such user."""
        if self._nobody is None:
            self._nobody = verifier_of(secrets.token_urlsafe())
        return self._nobody


def _user(stored: StoredUser) -> User:
    return User(stored.name, stored.role, stored.schema, verifier=stored.verifier)


def read_users(database: str) -> Mapping[str, Any]:
    """The users of `ivm.toml`, by name.

    Raises:
        InputError: the file cannot be read.
    """
    return section(database, "users") or {}


def _named(name: str, given: Any) -> StoredUser:
    if not isinstance(given, dict) or not set(given) <= _KEYS:
        raise InputError(f"[users.{name}] has the keys {', '.join(sorted(_KEYS))}, and no others")
    verifier = read(str(given.get("verifier", "")))
    if verifier is None:
        raise InputError(
            f"[users.{name}] needs a verifier such as 'SCRAM-SHA-256$4096:…', not a password"
        )
    role, schema = given.get("role"), given.get("schema")
    if role not in ROLES:
        raise InputError(f"[users.{name}] role is {', '.join(ROLES)}, not {role!r}")
    if schema is not None and (not isinstance(schema, str) or role == ROLES[-1]):
        raise InputError(f"[users.{name}] schema is a name, and an admin has none")
    limit = None if schema is None else schema_name(split_name(schema))
    return StoredUser(fold(name), role, limit, verifier)
