"""What a role may do, and the error of what it may not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ivm.sql.statements.own.users import ROLES
from ivm.storage.errors import AccessError
from ivm.storage.identifiers import fold, path_of, quote

READ, WRITE, ADMIN = ROLES


@dataclass(frozen=True)
class Grant:
    """A role, in one schema or everywhere.

    Attributes:
        role: one of `ROLES`: "read" reads tables and views, "write" changes rows too, and "admin"
            does everything.
        schema: to which it is limited, see `schema_name`; None for all.
    """

    role: str
    schema: str | None = None

    @property
    def writes(self) -> bool:
        """Whether it may change rows."""
        return self.role != READ

    def demand_write(self) -> None:
        """Refuses to change rows.

        Raises:
            AccessError: the role only reads.
        """
        if not self.writes:
            raise AccessError("the role read changes nothing: an admin can ALTER USER … ROLE write")

    def demand_relation(self, name: str) -> None:
        """Refuses a relation that is not the role's.

        Args:
            name: canonical.

        Raises:
            AccessError: it lies in another schema, or is one of the database's own records.
        """
        if self.role == ADMIN:
            return
        path = path_of(name)[:-1]
        if fold(path[0]) == "_ivm":
            raise AccessError("the schema _ivm is for admins: it holds the database's own records")
        if self.schema is not None and schema_name(path) != self.schema:
            raise AccessError(
                f"{name!r} is not in schema {self.schema}, to which the user is limited: an admin "
                "can ALTER USER … IN ALL SCHEMAS"
            )


def schema_name(path: Iterable[str]) -> str:
    """The folded parts of a schema joined by dots; one with a dot or a quote in it is quoted."""
    folded = map(fold, path)
    return ".".join(quote(part) if "." in part or '"' in part else part for part in folded)
