"""What a role may do, and the error of what it may not."""

from __future__ import annotations

from dataclasses import dataclass

from ivm.sql.statements.users import ROLES
from ivm.storage.errors import AccessError
from ivm.storage.identifiers import fold, path_of

READ, WRITE, ADMIN = ROLES


@dataclass(frozen=True)
class Grant:
    """A role, in one schema or everywhere.

    Attributes:
        role: one of `ROLES`: "read" reads tables and views, "write" changes rows too, and "admin"
            does everything.
        schema: to which it is limited, its folded parts joined by dots; None for all.
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
        schema = ".".join(fold(part) for part in path_of(name)[:-1])
        if schema.partition(".")[0] == "_ivm":
            raise AccessError("the schema _ivm is for admins: it holds the database's own records")
        if self.schema is not None and schema != self.schema:
            raise AccessError(
                f"{name!r} is not in schema {self.schema}, to which the user is limited: an admin "
                "can ALTER USER … IN ALL SCHEMAS"
            )
