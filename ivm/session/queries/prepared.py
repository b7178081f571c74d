"""PREPARE, EXECUTE and DEALLOCATE: DuckDB runs queries, and changes are run as any change.

Contract: an argument keeps its value and its type. DuckDB decides what can be prepared, and runs
prepared queries that memory does not answer. A change must be captured: it gets its arguments as
parameters where no type is lost, else as variables, which hold any value of any type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import duckdb

from ivm.ingest.parameters import Params
from ivm.reads.answer import Answer
from ivm.reads.literals import literal_value
from ivm.session.queries.query import SELECTS, query
from ivm.session.results.result import Result
from ivm.session.results.state_result import StateResult
from ivm.session.session import RunStatement, Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.placeholders import filled, placeholders
from ivm.sql.statements.text.tokens import split, text_of, tokens
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.identifiers import literal, quote
from ivm.storage.warehouse.duckdb.duck import run

_FAST = frozenset(
    ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR", '"NULL"')
)
"""The types whose values a column gets from Python's objects as from DuckDB's own values."""


def prepare(session: Session, statement: st.Prepare, params: Params) -> Result:
    """Runs PREPARE name AS statement; DuckDB checks changes too, but holds only queries."""
    run(session.cursor, statement.text)
    prepared = statement.statement
    if not isinstance(prepared, st.Query):
        run(session.cursor, f"DEALLOCATE {quote(statement.name)}")
        if not isinstance(prepared, st.Dml):
            raise UnsupportedError("only queries and changes of rows can be prepared")
    session.prepared[statement.name.lower()] = prepared
    return Result("done")


def deallocate(session: Session, statement: st.Deallocate, params: Params) -> Result:
    """Runs DEALLOCATE name; an unknown name is no error, as in DuckDB."""
    prepared = session.prepared.pop(statement.name.lower(), None)
    if isinstance(prepared, st.Query):
        run(session.cursor, statement.text)
    return Result("done")


def deallocate_all(session: Session) -> None:
    """Forgets all that was prepared."""
    session.release()
    for name in [*session.prepared]:
        deallocate(session, st.Deallocate(f"DEALLOCATE {quote(name)}", 0, name), None)


def execute(
    session: Session, statement: st.Execute, params: Params, run_statement: RunStatement
) -> Result:
    """Runs [EXPLAIN [ANALYZE]] EXECUTE name [(arguments)]."""
    prepared = session.prepared.get(statement.name.lower())
    if prepared is None:
        raise InputError(f"there is no prepared statement {statement.name!r}: PREPARE it first")
    if statement.instead is not None:
        prepared = statement.instead  # which DuckDB does not hold
    elif isinstance(prepared, st.Query):
        answered = None if statement.explain else _from_state(session, prepared, statement)
        return query(session, statement, params) if answered is None else StateResult(answered)
    arguments = _arguments(statement.arguments)
    _demand_equal(prepared.text, arguments)
    if _takes_plain_values(prepared) and not statement.explain:
        values = _plain_values(session, arguments)
        if values is not None:
            return run_statement(session, prepared, values)
    with _variables(session, arguments) as held:
        (bound,) = st.parse(
            statement.explain + filled(prepared.text, lambda name: _variable(held[name]))
        )
        result = run_statement(session, bound, None)
        session.release()
        return result


def _from_state(session: Session, prepared: st.Query, statement: st.Execute) -> Answer | None:
    """The answer of a prepared query from memory; None if DuckDB gives it."""
    if prepared.kind not in SELECTS:
        return None
    arguments = _arguments(statement.arguments)
    values = {name: literal_value(tokens(text)) for name, text in arguments.items()}
    if None in values.values():
        return None  # an expression, whose type DuckDB knows
    positional = all(name.isdigit() for name in values)
    return session.from_state(prepared.text, [*values.values()] if positional else values)


def _takes_plain_values(statement: st.Statement) -> bool:
    """Returns whether the types of parameters do not matter: none is part of an expression."""
    if not isinstance(statement, st.Insert | st.KeyedChange):
        return False
    return not any(e.parameters and not e.is_parameter for e in statement.expressions)


def _arguments(text: str) -> dict[str, str]:
    """The arguments' expressions by name; those without a name are called 1, 2, …"""
    found: dict[str, str] = {}
    for part in filter(None, split(tokens(text))):
        named = len(part) > 2 and part[1].word in (":=", "=>")
        name = part[0].text.strip('"').lower() if named else str(len(found) + 1)
        found[name] = text_of(text, part[2 if named else 0 :])
    return found


def _plain_values(session: Session, arguments: Mapping[str, str]) -> Params:
    """The arguments as parameters; None if the type of one of them would be lost."""
    if not arguments:
        return ()
    session.cursor.execute(f"SELECT {', '.join(arguments.values())}")
    types = [str(column[1]) for column in session.cursor.description or ()]
    values = session.cursor.fetchall()[0]
    if not _FAST.issuperset(types):
        return None
    positional = all(name.isdigit() for name in arguments)
    return values if positional else dict(zip(arguments, values, strict=True))


@contextlib.contextmanager
def _variables(session: Session, arguments: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Sets the arguments as variables of the session for the block; yields the variables' names."""
    held = {name: f"_ivm_argument_{name}" for name in arguments}
    for name, expression in arguments.items():
        run(session.cursor, f"SET VARIABLE {quote(held[name])} = ({expression})")
    try:
        yield held
    finally:
        with contextlib.suppress(duckdb.Error):  # aborted: variables that stay do no harm
            for variable in held.values():
                run(session.cursor, f"RESET VARIABLE {quote(variable)}")


def _demand_equal(text: str, arguments: Mapping[str, str]) -> None:
    """Checks that each parameter has an argument, and each argument a parameter.

    Raises:
        InputError: one has none.
    """
    wanted = {name for name, _, _ in placeholders(text)}
    for names, what in (
        (wanted - arguments.keys(), "values are missing for the parameters"),
        (arguments.keys() - wanted, "there are no parameters for the values"),
    ):
        if names:
            raise InputError(f"{what} {', '.join(sorted(names))}: EXECUTE gives each one value")


def _variable(name: str) -> str:
    """An expression that reads a variable."""
    return f"system.main.getvariable({literal(name)})"
