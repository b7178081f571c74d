"""Who gets in: the interface by which a listener asks, and the gate for trusted neighbours.

Law: nobody gets in without a user, unless the settings trust this machine's own programs.
"""

from __future__ import annotations

import ipaddress
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from ivm.access.roles import Grant
from ivm.access.verifiers import Verifier
from ivm.serve.failed_logins import FailedLogins
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.own.users import ROLES
from ivm.storage.errors import AccessError

__all__ = ["ROLES", "AccessError", "Gate", "NoUsers", "User", "Verifier", "is_loopback", "trusted"]


@dataclass(frozen=True)
class User:
    """Somebody who is logged in.

    Attributes:
        name: of the user.
        role: one of `ROLES`: "read" reads tables and views, "write" changes rows too, and "admin"
            does everything.
        schema: to which a role is limited; None for all.
        is_trusted: whether it is a program of this machine, and none of the users.
        verifier: of the password at the login.
    """

    name: str
    role: str
    schema: str | None = None
    is_trusted: bool = False
    verifier: Verifier | None = field(default=None, repr=False)

    @property
    def grant(self) -> Grant:
        """What the user may do."""
        return Grant(self.role, self.schema)


class Gate(Protocol):
    """The users of one database; any thread calls it.

    Attributes:
        failures: the logins that have failed.
    """

    failures: FailedLogins

    def verifier(self, name: str) -> Verifier | None:
        """The verifier of a user's password; None if there is no such user."""

    def user(self, name: str) -> User | None:
        """A user; None if there is none of this name."""

    def demand_unchanged(self, user: User) -> None:
        """Refuses a user who is not what it was at login.

        Raises:
            AccessError: it was dropped, or its role or its password has changed.
        """

    def demand(self, user: User, statement: st.Statement, session: Session) -> None:
        """Refuses a statement that a user may not run; see `demand_unchanged`, too.

        Raises:
            AccessError: what is missing, and who can give it.
        """

    def allowing(
        self, user: User, statement: st.Statement, session: Session
    ) -> AbstractContextManager[None]:
        """Runs a block with a statement that a user may run, else as `demand`."""


class NoUsers:
    """The gate of a database that has no users."""

    def __init__(self) -> None:
        self.failures = FailedLogins()

    def verifier(self, name: str) -> Verifier | None:
        """See `Gate`."""
        return None

    def user(self, name: str) -> User | None:
        """See `Gate`."""
        return None

    def demand_unchanged(self, user: User) -> None:
        """See `Gate`."""

    def demand(self, user: User, statement: st.Statement, session: Session) -> None:
        """See `Gate`: who is trusted is an admin."""

    def allowing(
        self, user: User, statement: st.Statement, session: Session
    ) -> AbstractContextManager[None]:
        """See `Gate`."""
        return nullcontext()


def trusted(name: str) -> User:
    """The user for a program of this machine that the settings trust."""
    return User(name or "ivm", "admin", is_trusted=True)


def is_loopback(host: str) -> bool:
    """Returns whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
