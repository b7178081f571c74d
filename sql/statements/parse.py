"""Splits a script into statements and classifies each.

Law: the statements' texts at their offsets hold all tokens of the script but the semicolons.
DuckDB's own tokenizer splits and DuckDB's own parser checks, so a script that DuckDB accepts is
accepted here. Results are cached by text: parsing a parametrised statement again takes about a
microsecond.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import duckdb

from ivm.sql.statements.classify import classify
from ivm.sql.statements.nodes import values_list
from ivm.sql.statements.nodes.nodes import (
    Ddl,
    Deallocate,
    Dml,
    Execute,
    Insert,
    KeyedChange,
    Name,
    Other,
    Prepare,
    Query,
    Respelled,
    Statement,
    TransactionControl,
)
from ivm.sql.statements.nodes.own_nodes import (
    AdvanceWatermark,
    ChangeSink,
    ChangeSource,
    ChangeToken,
    ChangeUser,
    CreateHistory,
    CreateSink,
    CreateSource,
    CreateView,
    DropView,
    ExplainView,
    RefreshView,
    SetHistory,
    SetRetention,
    SetWatermark,
    ShowSinks,
    ShowSources,
    ShowUsers,
    ShowViews,
    Subscribe,
    VerifyView,
)
from ivm.sql.statements.own.watermark_calls import may_call_watermark, with_watermarks
from ivm.sql.statements.own.window_calls import may_have_windows
from ivm.sql.statements.own.windows import with_windows
from ivm.sql.statements.readable import place, refuse_odd_blanks, unterminated
from ivm.sql.statements.text.cached_by_text import LONGEST, kept
from ivm.sql.statements.text.hints import hint
from ivm.sql.statements.text.skeletons import skeleton_of
from ivm.sql.statements.text.spelling import Spelling, may_be_spelled, spelled
from ivm.sql.statements.text.tokens import (
    Reader,
    StringForNameError,
    Token,
    kept_tokens,
    open_at_end,
    tokens,
)
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.scratch import Scratch

__all__ = [
    "AdvanceWatermark",
    "ChangeSink",
    "ChangeSource",
    "ChangeToken",
    "ChangeUser",
    "CreateHistory",
    "CreateSink",
    "CreateSource",
    "CreateView",
    "Ddl",
    "Deallocate",
    "Dml",
    "DropView",
    "Execute",
    "ExplainView",
    "Insert",
    "KeyedChange",
    "Name",
    "Other",
    "Prepare",
    "Query",
    "RefreshView",
    "SetHistory",
    "SetRetention",
    "SetWatermark",
    "ShowSinks",
    "ShowSources",
    "ShowUsers",
    "ShowViews",
    "Statement",
    "Subscribe",
    "TransactionControl",
    "VerifyView",
    "parse",
]

_SKELETONS = 2048
_HEAD_LENGTH = 4096  # of a long INSERT only this is tokenized: 10 000 rows have 100 000 tokens

_CHECKED_LENGTH = 65536  # DuckDB parses a longer single statement only once, when it runs


def parse(script: str) -> tuple[Statement, ...]:
    """Returns the statements of a script, in order.

    Args:
        script: any number of statements between semicolons; empty ones are dropped.

    Returns:
        The statements; the same tuple for the same short text.

    Raises:
        SqlError: the script does not parse; none of its statements may be run.
        UnsupportedError: a statement about views that has no meaning here.
    """
    return _parse(script)


@kept(texts=2048)
def _parse(script: str) -> tuple[Statement, ...]:
    if may_call_watermark(script):
        return _respelled(with_watermarks(with_windows(spelled(script))))
    if may_have_windows(script):
        return _respelled(with_windows(spelled(script)))
    if may_be_spelled(script):
        return _respelled(spelled(script))
    try:
        return _statements(script)
    except StringForNameError as found:
        return _respelled(Spelling(script).naming(found))


def _respelled(spelling: Spelling) -> tuple[Statement, ...]:
    """The statements of a script in another spelling."""
    while True:
        try:
            return _as_written(spelling, _statements(spelling.text))
        except StringForNameError as found:
            spelling = spelling.naming(found)
        except (SqlError, UnsupportedError) as error:
            if error.position is not None:
                told, error.position = error.position, spelling.written(error.position)
                here = place(spelling.original, error.position)
                error.args = (str(error).replace(place(spelling.text, told), here),)
            raise


def _as_written(spelling: Spelling, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements at their offsets in the user's script."""
    if not (spelling.edits or spelling.of):
        return statements
    return tuple(
        [
            dataclasses.replace(
                each,
                offset=spelling.written(each.offset),
                respelled=Respelled(spelling, each.offset),
            )
            for each in statements
        ]
    )


def _statements(script: str) -> tuple[Statement, ...]:
    skeleton = skeleton_of(script) if len(script) <= LONGEST else None
    known = None if skeleton is None else _known.get(skeleton)
    if known is not None and known.statement is not None:
        return (known.statement_of(script),)
    statements = _read(script, checked=known is not None)
    if skeleton is not None and len(statements) == 1:
        if len(_known) >= _SKELETONS:
            _known.clear()
        _known[skeleton] = _Known.of(script, statements[0])
    return statements


class _Known(NamedTuple):
    """What is known of the scripts of a skeleton: they are one statement that DuckDB can parse.

    Where a literal makes a difference to that, DuckDB says so as it runs the statement.

    Attributes:
        statement: one of them; None if its attributes depend on its literals.
        behind: the characters of the script that follow it.
    """

    statement: Statement | None
    behind: int

    @classmethod
    def of(cls, script: str, statement: Statement) -> _Known:
        """What the only statement of a script tells."""
        is_query = type(statement) is Query and statement.explained is None
        alike = is_query or (type(statement) is Dml and not statement.body)
        behind = len(script) - statement.offset - len(statement.text)
        return cls(statement if alike else None, behind)

    def statement_of(self, script: str) -> Statement:
        """The statement that another script is."""
        assert self.statement is not None
        text = script[self.statement.offset : len(script) - self.behind]
        return dataclasses.replace(self.statement, text=text)


_known: dict[str, _Known] = {}  # by skeletons


def _read(script: str, *, checked: bool) -> tuple[Statement, ...]:
    if len(script) > _HEAD_LENGTH:
        bulk = _bulk_insert(script)
        if bulk is not None:
            return (bulk,)
    found = kept_tokens(script)
    opened = open_at_end(script, found)
    if opened is not None:
        raise unterminated(script, opened)
    statements = tuple([classify(script, part) for part in _split(found)])
    if not script.isascii():
        refuse_odd_blanks(script, found, statements)
    if not checked and (len(statements) > 1 or len(script) <= _CHECKED_LENGTH):
        for statement in statements:
            _check(script, statement)
    return statements


def _bulk_insert(script: str) -> Insert | None:
    """Reads a script that is one long INSERT … VALUES of literals; None for any other."""
    head = Reader(tokens(script[:_HEAD_LENGTH]))
    if head.peek() != "INSERT":
        return None
    values = next((i for i, t in enumerate(head.tokens) if t.word == "VALUES"), None)
    found = None if values is None else values_list.ends(script, head.tokens[values].end)
    if values is None or found is None:
        return None
    first, end = found
    last = Token("", ")", end - 1)  # shows `classify` where the list ends
    tail = script[end:].rstrip(" \t\r\n;")
    if len(tail) > _HEAD_LENGTH:
        return None
    behind = tokens(tail)
    if open_at_end(tail, behind) or any(token.word == ";" for token in behind):
        return None
    clauses = [token._replace(start=token.start + end) for token in behind]
    statement = classify(script, [*head.tokens[: values + 1], last, *clauses])
    if not isinstance(statement, Insert):
        return None
    return statement if not clauses or _parses(script[:first] + " " + tail) else None


def _parses(text: str) -> bool:
    """Returns whether DuckDB's parser accepts a text."""
    try:
        with _scratch.borrow() as parser:
            return bool(parser.extract_statements(text))
    except duckdb.Error:
        return False  # the whole text is parsed, for an error at the right place


def _split(script_tokens: Iterable[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in script_tokens:
        if token.word != ";":
            part.append(token)
        elif part:
            yield part
            part = []
    if part:
        yield part


# --- checked by DuckDB's parser ----------------------------------------------------------

_OWN = (
    *(DropView, ExplainView, VerifyView, RefreshView, ShowViews, Subscribe, Insert),
    *(CreateSource, ChangeSource, ShowSources, CreateSink, ChangeSink, ShowSinks),
    *(CreateHistory, SetHistory, SetRetention, SetWatermark, AdvanceWatermark),
    *(ChangeUser, ChangeToken, ShowUsers),
)


_scratch = Scratch.of("SET errors_as_json = true")


def _check(script: str, statement: Statement) -> None:
    """Raises SqlError if DuckDB's parser refuses a statement, before any of the script is run."""
    if isinstance(statement, _OWN) and not _has_clauses(statement):
        return
    text, offset = statement.text, statement.offset
    if isinstance(statement, CreateView):
        text, offset = statement.query, offset + statement.query_offset
    try:
        with _scratch.borrow() as parser:
            found = parser.extract_statements(text)
    except duckdb.Error as error:
        raise _sql_error(script, text, offset, str(error)) from None
    if isinstance(statement, CreateView) and found[0].type.name not in ("SELECT", "MULTI"):
        reason = f"a materialized view needs a SELECT, not {found[0].type.name}"
        raise SqlError(f"syntax error: {reason}", offset)


def _has_clauses(statement: Statement) -> bool:
    """Returns whether it is an INSERT with more than a VALUES list, which is read completely."""
    return isinstance(statement, Insert) and (statement.on_conflict or statement.returning)


def _sql_error(script: str, text: str, offset: int, message: str) -> SqlError:
    detail = json.loads(message[message.index("{") :])
    in_bytes = int(detail.get("position", 0))
    inside = len(text.encode()[:in_bytes].decode(errors="ignore"))
    found = offset + inside
    return SqlError(detail["exception_message"] + place(script, found) + hint(text, inside), found)
