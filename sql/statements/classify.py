"""Classifies a statement by its tokens, and reads no more of them than that needs.

Contract: a statement that changes rows is never a Query; where its first words leave that open
(a change inside a CTE, EXPLAIN ANALYZE of a change) it is a Dml of kind "other".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ivm.sql.statements.changes.clauses import read_clauses, verb_of
from ivm.sql.statements.changes.dml import VERBS, changes_inside, changing, dml
from ivm.sql.statements.ddl import alter, comment, create, drop, session
from ivm.sql.statements.nodes.nodes import (
    Ddl,
    Deallocate,
    Dml,
    Execute,
    Other,
    Prepare,
    Query,
    Statement,
    TransactionControl,
)
from ivm.sql.statements.nodes.own_nodes import ExplainView, ShowSinks, ShowSources, ShowViews
from ivm.sql.statements.own import users
from ivm.sql.statements.own.histories import begins_create, begins_set, create_history, set_history
from ivm.sql.statements.own.retention import begins_retention, set_retention, with_own_clauses
from ivm.sql.statements.own.sinks import change_sink, create_sink
from ivm.sql.statements.own.sources import (
    alter_source,
    change_source,
    create_source,
    dead_letters,
)
from ivm.sql.statements.own.views import (
    create_view,
    drop_view,
    refresh_view,
    refuse_alter,
    subscribe,
    verify_view,
)
from ivm.sql.statements.own.watermarks import begins_watermark, set_watermark
from ivm.sql.statements.text.tokens import Reader, SourceText, Token, unquoted
from ivm.storage.errors import UnsupportedError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TRANSACTION = {
    "BEGIN": "begin",
    "START": "begin",
    "COMMIT": "commit",
    "END": "commit",
    "ROLLBACK": "rollback",
    "ABORT": "rollback",
}
_READING = _words(
    "SELECT FROM VALUES TABLE DESCRIBE DESC SHOW SUMMARIZE PIVOT UNPIVOT PIVOT_WIDER PIVOT_LONGER"
    " ( EXPORT"
)
_HIDING = "json_execute_serialized_sql"
_SHOWN = {"SOURCES": ShowSources, "SINKS": ShowSinks}
_SESSION = _words("ATTACH DETACH USE SET RESET PRAGMA CALL LOAD INSTALL IMPORT UPDATE")


def classify(script: str, tokens: Sequence[Token]) -> Statement:
    """Returns the statement that `tokens` of `script` form.

    Args:
        tokens: at least one, none of them a semicolon.

    Raises:
        SqlError: one of our own statements does not parse.
        UnsupportedError: a statement about materialized views that has no meaning here.
    """
    text = script[tokens[0].start : tokens[-1].end]
    if any(unquoted(t).lower() == _HIDING for t in tokens if len(t.text) >= len(_HIDING)):
        raise UnsupportedError(
            f"{_HIDING} runs a statement that no view could follow: write the statement itself",
            tokens[0].start,
        )
    return _classify(SourceText(script, text, tokens[0].start), Reader(tokens))


def _classify(source: SourceText, reader: Reader) -> Statement:
    word = reader.peek()
    if word in VERBS and not (word == "UPDATE" and reader.peek(1) == "EXTENSIONS"):
        return changing(source, reader)
    if word == "WITH":
        reader.at = verb_of(reader.tokens)
        return changing(source, reader) if reader.peek() in VERBS else _reading(source, reader)
    if word in _READING:
        return _reading(source, reader)
    if word in _TRANSACTION:
        return _transaction(source, reader)
    if word in _SESSION:
        return session(reader, source.text, source.offset)
    special = _SPECIAL.get(word)
    if special is not None:
        return special(source, reader)
    return Other(source.text, source.offset, word.lower())


# --- statements that read or change rows -----------------------------------------------


def _reading(source: SourceText, reader: Reader) -> Statement:
    if reader.accept("SHOW", "MATERIALIZED", "VIEWS"):
        reader.finish()
        return ShowViews(source.text, source.offset)
    if reader.peek() == "SHOW" and reader.peek(1) in _SHOWN and not reader.peek(2):
        return _SHOWN[reader.peek(1)](source.text, source.offset)
    if reader.peek() == "SHOW" and (shown := users.show(source, reader)) is not None:
        return shown
    if changes_inside(reader):
        return Dml(source.text, source.offset, "other", None)
    kind = reader.tokens[0].word.lower()
    return Query(source.text, source.offset, "select" if kind == "(" else kind)


def _copy(source: SourceText, reader: Reader) -> Statement:
    begin = Reader(reader.tokens, reader.at + 1)
    if begin.accept("FROM", "DATABASE"):
        return Ddl(source.text, source.offset, "copy database", "")
    if begin.peek() == "(":
        return _reading(source, begin)
    begin.name()
    if begin.peek() == "(":
        begin.skip_parentheses()
    if begin.peek() != "FROM":
        return _query(source, "copy")
    return dml(source, reader, read_clauses(reader.tokens, reader.at))


def _query(source: SourceText, kind: str) -> Query:
    return Query(source.text, source.offset, kind)


# --- transactions, prepared statements, EXPLAIN ---


def _transaction(source: SourceText, reader: Reader) -> TransactionControl:
    action = _TRANSACTION[reader.peek()]
    read_only = reader.find("READ", "ONLY")
    return TransactionControl(source.text, source.offset, action, read_only)


def _inner(source: SourceText, reader: Reader) -> Statement:
    """The statement from the current token on, its offset counted in `source.text`."""
    if reader.done:
        raise reader.error("expected a statement")
    statement = classify(source.script, reader.tokens[reader.at :])
    return dataclasses.replace(statement, offset=statement.offset - source.offset)


def _prepare(source: SourceText, reader: Reader) -> Prepare:
    reader.expect("PREPARE")
    name = reader.identifier()
    if reader.peek() == "(":
        reader.skip_parentheses()
    reader.expect("AS")
    return Prepare(source.text, source.offset, name, _inner(source, reader))


def _execute(source: SourceText, reader: Reader) -> Execute:
    reader.expect("EXECUTE")
    name = reader.identifier()
    if reader.done:
        return Execute(source.text, source.offset, name, "")
    begin = reader.tokens[reader.at].end
    reader.skip_parentheses()
    reader.finish()
    arguments = source.script[begin : reader.tokens[-1].start].strip()
    return Execute(source.text, source.offset, name, arguments)


def _deallocate(source: SourceText, reader: Reader) -> Deallocate:
    reader.expect("DEALLOCATE")
    reader.accept("PREPARE")
    return Deallocate(source.text, source.offset, reader.identifier())


def _explain(source: SourceText, reader: Reader) -> Statement:
    reader.expect("EXPLAIN")
    analyze, form = _explain_options(reader)
    if reader.accept("MATERIALIZED", "VIEW"):
        name = reader.name()
        reader.finish()
        return ExplainView(source.text, source.offset, name, analyze, form)
    inner = _inner(source, reader)
    if isinstance(inner, Execute):
        explained = source.text[: inner.offset]
        return dataclasses.replace(inner, text=source.text, offset=source.offset, explain=explained)
    if analyze and isinstance(inner, Dml):
        return Dml(source.text, source.offset, "other", None)
    if analyze and isinstance(inner, Ddl):
        return dataclasses.replace(inner, text=source.text, offset=source.offset)
    shown = inner if isinstance(inner, Query) and not analyze else None
    change = inner if isinstance(inner, Dml) else None
    return Query(source.text, source.offset, "explain", shown or change)


def _explain_options(reader: Reader) -> tuple[bool, str]:
    analyze, form = reader.accept("ANALYZE"), "text"
    if reader.peek() != "(" or reader.peek(1) not in ("ANALYZE", "FORMAT"):
        return analyze, form
    reader.at += 1
    while not reader.accept(")"):
        option, value = reader.peek(), _option_value(reader)
        if option == "ANALYZE" and value in ("false", "off", "no"):
            raise UnsupportedError(
                f"EXPLAIN (ANALYZE {value}): DuckDB runs the statement all the same; leave it out"
            )
        if option not in ("ANALYZE", "FORMAT"):
            raise reader.error("EXPLAIN takes ANALYZE and FORMAT")
        analyze, form = analyze or option == "ANALYZE", value if option == "FORMAT" else form
    return analyze, form


def _option_value(reader: Reader) -> str:
    """Reads an option and the comma behind it; returns its value, "" if it has none."""
    reader.at += 1
    begin = reader.at
    while reader.peek() not in (",", ")") and not reader.done:
        reader.at += 1
    value = reader.tokens[begin : reader.at]
    reader.accept(",")
    return "".join([token.text.strip("'\"").lower() for token in value])


# --- catalog ----------------------------------------------------------------


def _create(source: SourceText, reader: Reader) -> Statement:
    if users.begins(reader):
        return users.change(source, reader)
    start = reader.at
    reader.expect("CREATE")
    replace = reader.accept("OR", "REPLACE")
    if reader.accept("MATERIALIZED", "VIEW"):
        return create_view(source, reader, replace)
    if not replace and reader.accept("SOURCE"):
        return create_source(source, reader)
    if not replace and reader.accept("SINK"):
        return create_sink(source, reader)
    if not replace and begins_create(reader):
        return create_history(source, reader)
    reader.at = start
    if changes_inside(reader):
        way = "run the change first, as a statement of its own"
        reason = f"CREATE … AS with an INSERT, UPDATE, DELETE or MERGE inside: {way}"
        raise UnsupportedError(reason, source.offset)
    text, retention, watermark = with_own_clauses(source, reader)
    created = create(reader, text, source.offset)
    return dataclasses.replace(created, retention=retention, watermark=watermark)


def _drop(source: SourceText, reader: Reader) -> Statement:
    if reader.accept("DROP", "MATERIALIZED", "VIEW"):
        return drop_view(source, reader)
    if reader.peek(1) in ("SOURCE", "SINK"):
        return _stream(source, reader)
    if users.begins(reader):
        return users.change(source, reader)
    return drop(reader, source.text, source.offset)


def _stream(source: SourceText, reader: Reader) -> Statement:
    """PAUSE, RESUME and DROP of a source or a sink."""
    return (change_sink if reader.peek(1) == "SINK" else change_source)(source, reader)


def _alter(source: SourceText, reader: Reader) -> Statement:
    if reader.peek(1) == "MATERIALIZED":
        refuse_alter(source)
    if reader.peek(1) == "SOURCE":
        return alter_source(source, reader)
    if users.begins(reader):
        return users.change(source, reader)
    if begins_set(reader):
        return set_history(source, reader)
    if begins_watermark(reader):
        return set_watermark(source, reader)
    if begins_retention(reader):
        return set_retention(source, reader)
    return alter(reader, source.text, source.offset)


def _comment(source: SourceText, reader: Reader) -> Statement:
    return comment(reader, source.text, source.offset)


_SPECIAL: dict[str, Callable[[SourceText, Reader], Statement]] = {
    "COPY": _copy,
    "PREPARE": _prepare,
    "EXECUTE": _execute,
    "DEALLOCATE": _deallocate,
    "EXPLAIN": _explain,
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "COMMENT": _comment,
    "VERIFY": verify_view,
    "SUBSCRIBE": subscribe,
    "REFRESH": refresh_view,
    "PAUSE": _stream,
    "RESUME": _stream,
    "RETRY": dead_letters,
    "DISCARD": dead_letters,
}
