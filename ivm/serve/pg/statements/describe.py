"""The types of a statement's parameters and columns, without running it.

DuckDB binds a parameter only with its value, and does not tell its type before. Where the client
leaves a type open, the parameter's place decides (see `parameter_places`), or what DuckDB takes
there (see `bound_parameters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivm.serve.kept_by_meaning import KeptByMeaning
from ivm.serve.pg.values import types
from ivm.serve.pg.values.bound_parameters import bound_types
from ivm.serve.pg.values.parameter_places import nested_types, types_by_place
from ivm.serve.pg.values.types import duckdb_type
from ivm.session.names.replacement_scans import explained
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.changes.clauses import clauses_of
from ivm.sql.statements.text.placeholders import filled, placeholders
from ivm.sql.statements.text.tokens import kept_tokens, text_of
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import quote
from ivm.storage.warehouse.duckdb.duck import rows

Columns = list[tuple[str, str]]
"""Names and DuckDB's types."""

EXPLAINED: Columns = [("explain_key", "VARCHAR"), ("explain_value", "VARCHAR")]
SHOWS = (st.ShowViews, st.ShowSources, st.ShowSinks, st.ShowUsers, st.ExplainView, st.VerifyView)
"""The statements that tell rows, and change nothing, besides queries."""
READS = frozenset(("select", "with", "from", "values", "table"))
"""The kinds of queries that DuckDB describes."""


class KnownParameters:
    """Remembers the types of statements' parameters, for all sessions of a server.

    Clients that prepare nothing for later ask for them with every statement. Any thread calls it.
    """

    def __init__(self) -> None:
        self._types, self._nested = KeptByMeaning(), KeptByMeaning()

    def types(
        self, session: Session, statement: st.Statement, given: Sequence[int]
    ) -> tuple[int, ...]:
        """See `parameter_types`."""
        text, key = statement.text, tuple(given)
        found = self._types.get(
            session, text, key, lambda: parameter_types(session, statement, given)
        )
        return found or ()

    def nested(self, session: Session, statement: st.Statement) -> Mapping[str, str]:
        """See `nested_types`."""
        text = statement.text
        return self._nested.get(session, text, None, lambda: nested_types(session, text)) or {}


def parameter_types(
    session: Session, statement: st.Statement, given: Sequence[int]
) -> tuple[int, ...]:
    """The OIDs of a statement's parameters.

    Args:
        session: whose names the statement uses.
        statement: the statement.
        given: what the client gave, 0 for what it leaves open.
    """
    names = {name for name, _, _ in placeholders(statement.text)}
    count = max([int(name) for name in names if name.isdigit()], default=0)
    oids = list(given[:count]) + [0] * (count - len(given))
    if 0 in oids:
        text, given = explained(statement.text), oids
        found = types_by_place(session, text)
        oids = [oid or found.get(i, types.TEXT) for i, oid in enumerate(given, 1)]
        left = [i for i, oid in enumerate(given, 1) if not oid and oids[i - 1] == types.TEXT]
        if left and isinstance(statement, st.Query | st.Dml):
            bound = bound_types(session, text, oids, left)
            oids = [bound.get(i, oid) for i, oid in enumerate(oids, 1)]
    return tuple([types.TEXT if oid == types.UNKNOWN else oid for oid in oids])


def result_columns(
    session: Session, statement: st.Statement, oids: Sequence[int]
) -> Columns | None:
    """The columns of a statement's result; None if it has none.

    Raises:
        duckdb.Error: it does not bind.
        UnsupportedError: they are not known before it runs.
    """
    session.release()
    if isinstance(statement, st.Dml):
        return _returned(session, statement, oids)
    if isinstance(statement, st.Query) and statement.kind in READS:
        text = filled(statement.text, lambda name: _null(oids, name))
        return [(name, type) for name, type, *_ in rows(session.cursor, f"DESCRIBE {text}")]
    return None


def _null(oids: Sequence[int], name: str) -> str:
    oid = oids[int(name) - 1] if name.isdigit() and int(name) <= len(oids) else 0
    return f"CAST(NULL AS {duckdb_type(oid) or 'VARCHAR'})"


def _returned(session: Session, statement: st.Dml, oids: Sequence[int]) -> Columns | None:
    if statement.kind == "other":
        if statement.text[:7].upper() == "EXPLAIN":
            return EXPLAINED
        raise UnsupportedError(
            "the columns of a query with a change in it are not known before it runs: run it as a "
            "simple query, or write the change with RETURNING"
        )
    if not statement.returning or statement.table is None:
        return None
    query = filled(_as_query(statement, statement.table), lambda name: _null(oids, name))
    return [(name, type) for name, type, *_ in rows(session.cursor, f"DESCRIBE {query}")]


def _as_query(statement: st.Dml, table: st.Name) -> str:
    """A query with the columns that a change returns.

    As DuckDB has it, RETURNING sees the changed table alone: by its alias, but that of an INSERT
    without a clause about conflicts.
    """
    text = statement.text
    returned = text_of(text, clauses_of(text).returning.rest.of(kept_tokens(text)))
    source = ".".join(map(quote, table))
    upserts = statement.on_conflict or bool(statement.or_action)
    if statement.alias is not None and (upserts or statement.kind != "insert"):
        source += f" AS {quote(statement.alias)}"
    query = f"SELECT {returned}\nFROM {source}"
    if statement.kind != "merge":
        return query
    outer = "(SELECT CAST(NULL AS VARCHAR) AS merge_action) AS _ivm_merge"  # not one of its *
    return f"SELECT _ivm_returned.* FROM {outer}, LATERAL ({query}) AS _ivm_returned"
