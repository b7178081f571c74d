"""The statements on sources and dead letters; the functions run them, by kind of statement."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from ivm.cdc import dead_letters, stored_sources
from ivm.cdc.kinds import KINDS
from ivm.cdc.run_sources import list_sources
from ivm.cdc.set_position import Move, set_position
from ivm.cdc.sources.definition import DefinitionError, define
from ivm.cdc.stored_sources import PAUSED, RUNNING
from ivm.ingest.parameters import Params
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import tokens, unquoted
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import canonical_name, fold

_TYPES = {
    **dict.fromkeys(("name", "kind", "target", "state", "position"), "VARCHAR"),
    **{"lag_events": "BIGINT", "lag_seconds": "DOUBLE"},
    **{"events": "BIGINT", "events_per_second": "DOUBLE", "dead_letters": "BIGINT"},
    "reason": "VARCHAR",
}
MOVED = {
    **{"stream": "VARCHAR", "before": "BIGINT", "position": "BIGINT", "effect": "VARCHAR"},
    "dead_letters": "BIGINT",
}
"""The columns of what SET POSITION tells, with their types."""
_ARROW = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}


def create(session: Session, statement: st.CreateSource, params: Params) -> Result:
    """Runs CREATE SOURCE."""
    with told_where(statement):
        definition = define(KINDS, statement.kind, dict(statement.options))
    target = None if statement.target is None else canonical_name(statement.target)
    stored_sources.create(
        session, statement.name, definition, target, if_not_exists=statement.if_not_exists
    )
    return created(session, "source")


def created(session: Session, kind: str) -> Result:
    """What is said of a source or a sink that was created.

    Args:
        session: that has created it.
        kind: "source" or "sink".
    """
    result = Result("done")
    if not session.engine.jobs.runs(kind):
        result.message = (
            f"done; {kind}s do not run yet: .sources start in the shell, db.start_{kind}s(), "
            "ivm ingest or ivm serve runs them"
        )
    return result


@contextlib.contextmanager
def told_where(statement: st.Statement) -> Iterator[None]:
    """Adds the place in the statement to the errors of kinds and options."""
    try:
        yield
    except DefinitionError as error:
        words = tokens(statement.text)
        begin = next((i for i, token in enumerate(words) if token.word == "("), 0)
        for token in words[begin:] if error.option is not None else words[begin - 1 :]:
            if error.option in (None, unquoted(token).lower()):
                raise SqlError(str(error), statement.offset + token.start) from error
        raise


def change(session: Session, statement: st.ChangeSource, params: Params) -> Result:
    """Runs PAUSE, RESUME, ALTER and DROP SOURCE, and RETRY and DISCARD DEAD LETTERS."""
    name = statement.name
    match statement.action:
        case "pause" | "resume":
            state = PAUSED if statement.action == "pause" else RUNNING
            stored_sources.set_state(session, name, state)
        case "set":
            with told_where(statement):
                stored_sources.set_options(session, name, dict(statement.options))
            return _set(session, statement)
        case "set position":
            return _moved(set_position(session, name, statement.place))
        case "add table" | "drop table":
            adds = statement.action == "add table"
            stored_sources.change_tables(session, name, statement.tables, add=adds)
        case "drop":
            stored_sources.drop(session, name, if_exists=statement.if_exists)
        case "retry":
            return Result("count", rowcount=dead_letters.retry(session, name))
        case "discard":
            return Result("count", rowcount=dead_letters.discard(session, name))
    return Result("done")


def _set(session: Session, statement: st.ChangeSource) -> Result:
    """What is said of options: `start` makes no difference to a source that was begun."""
    result = Result("done")
    begun = stored_sources.load_positions(session, fold(statement.name))
    if begun and "start" in dict(statement.options):
        result.message = (
            "done; start is where topics are begun that are new to the source: PAUSE SOURCE "
            f"{statement.name} and ALTER SOURCE {statement.name} SET POSITION '…' move it"
        )
    return result


def _moved(moves: Sequence[Move]) -> Result:
    columns = list(zip(*moves, strict=True)) or [()] * len(MOVED)
    arrays = [
        pa.array(column, _ARROW[type]) for column, type in zip(columns, MOVED.values(), strict=True)
    ]
    return Result.of_table(pa.table(arrays, names=list(MOVED)), list(MOVED.values()))


def show(session: Session, statement: st.ShowSources, params: Params) -> Result:
    """Runs SHOW SOURCES."""
    found = list_sources(session)
    columns = {
        name: pa.array([getattr(source, name) for source in found], _ARROW[type])
        for name, type in _TYPES.items()
    }
    return Result.of_table(pa.table(columns), list(_TYPES.values()))
