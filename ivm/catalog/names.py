"""Name resolution: DuckDB's rules for names of one part and of several.

A first part that is a database's name means that database; if it is also a schema of the opened
database, a name of two parts is ambiguous and refused. Relations of other databases and temporary
relations are not in the catalog; temporary ones hide the relations of schema main.
(Tried on 2.0: `main.t` finds a temporary `t` too, and `main.x.t` never finds the schema x in main.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ivm.storage.errors import InputError, SqlError, UnsupportedError
from ivm.storage.identifiers import Path, canonical_name, fold, is_text, path_of, split_name

NOTHING: frozenset[str] = frozenset()
_UNKNOWN = object()
_MAX_ANSWERS = 4096


def name_parts(name: object) -> tuple[str, ...]:
    """Splits a name given in Python, written as in SQL (quotes may be left out), into its parts.

    Raises:
        InputError: it is no string, or holds half of a surrogate pair.
    """
    if not isinstance(name, str) or not is_text(name):
        raise InputError(f"a table or view is named by text such as 'orders', not by {name!r}")
    return split_name(name)


class NameRules:
    """The names of one state of the catalog: immutable, so that answers can be cached.

    Args:
        database: DuckDB's name of the opened database.
        databases: names of all attached databases, also of this one, `temp` and `system`.
        schemas: of the opened database.
        relations: canonical names of its tables and views.

    Attributes:
        others: the folded names of the other databases.
    """

    def __init__(
        self,
        database: str,
        databases: Iterable[str],
        schemas: Iterable[Path],
        relations: Iterable[str],
    ) -> None:
        self._database = fold(database)
        own = frozenset((self._database, "temp", "system"))
        self._databases = own.union(map(fold, databases))
        self.others = self._databases - own
        self._schemas: Mapping[Path, Path] = {_folded(path): path for path in schemas}
        self._relations = {_folded(path_of(name)): name for name in relations}
        self._answers: dict[Sequence[str], str | None] = {}

    def resolve(self, parts: Sequence[str], hidden: frozenset[str] = NOTHING) -> str | None:
        """The canonical name of the relation that a name means; None if it is not in the catalog.

        Args:
            parts: the name as written, quotes resolved.
            hidden: folded names of the session's temporary relations.

        Raises:
            SqlError: it begins with a database's name that is also a schema's.
        """
        if hidden:
            return self._find(parts, hidden)
        parts = tuple(parts)
        answer = self._answers.get(parts, _UNKNOWN)
        if answer is _UNKNOWN:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[parts] = self._find(parts, hidden)
        return answer  # type: ignore[return-value]

    def _find(self, parts: Sequence[str], hidden: frozenset[str]) -> str | None:
        *schemas, name = _folded(parts)
        if name in hidden and schemas in ([], ["main"]):
            return None
        path = self.path(parts)
        return None if path is None else self._relations.get(path)

    def path(self, parts: Sequence[str]) -> Path | None:
        """The folded path that a name means in the opened database; None if it means another."""
        *schemas, name = _folded(parts)
        schema = self._schema_path(schemas)
        named_main = len(schemas) > 1 and schemas[0] == "main"
        return None if schema is None or named_main else (*schema, name)

    def _schema_path(self, schemas: Sequence[str]) -> Path | None:
        """The folded path of the schema that a name's leading parts mean; None in another database.

        Raises:
            SqlError: see `resolve`.
        """
        if not schemas:
            return ("main",)
        if schemas[0] not in self._databases:
            return tuple(schemas)
        if len(schemas) == 1 and (schemas[0],) in self._schemas:
            raise SqlError(
                f'"{schemas[0]}" is the name of a database and of a schema: write both, as in '
                f'"{schemas[0]}"."main".name or "{self._database}"."{schemas[0]}".name'
            )
        return (tuple(schemas[1:]) or ("main",)) if schemas[0] == self._database else None

    def new(self, parts: Sequence[str]) -> str:
        """The canonical name of a relation that is to be created under a name.

        Raises:
            UnsupportedError: the name means another database.
            SqlError: see `resolve`; or there is no such schema.
        """
        *written, name = parts
        path = self._schema_path(_folded(written))
        if path is None:
            raise UnsupportedError(
                f"{'.'.join(parts)!r} lies in another database: a materialized view is kept in the "
                "database of its tables"
            )
        schema = self._schemas.get(path)
        if schema is None:
            raise SqlError(f"there is no schema {'.'.join(written)!r}: CREATE SCHEMA makes one")
        return canonical_name((*schema, name))

    def inside(self, schema: Sequence[str]) -> list[str]:
        """The canonical names of all relations in a schema and in the schemas inside it."""
        path = _folded(schema)
        if len(path) > 1 and path[0] in self._databases:
            if path[0] != self._database:
                return []
            path = path[1:]
        found = self._relations.items()
        return [name for known, name in found if known[:-1][: len(path)] == path]


def _folded(path: Iterable[str]) -> Path:
    return tuple([fold(part) for part in path])
