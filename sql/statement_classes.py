"""Tells which kind of statement a row of tokens is, reading only as far as it must.

Law: a statement that changes rows is never called a Query; where the words leave it open
(a change inside a CTE, EXPLAIN ANALYZE of a change) it is a Dml of kind "other".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ivm.sql import literal_values
from ivm.sql.statement_ddl import alter, comment, create, drop, session
from ivm.sql.statement_nodes import (
    CreateView,
    Ddl,
    Deallocate,
    Dml,
    DropView,
    Execute,
    ExplainView,
    Insert,
    Name,
    Other,
    Prepare,
    Query,
    ShowViews,
    Statement,
    Subscribe,
    Transaction,
    VerifyView,
)
from ivm.sql.statement_tokens import Reader, Token
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
_CHANGING = _words("INSERT UPDATE DELETE MERGE TRUNCATE")
_SESSION = _words("ATTACH DETACH USE SET RESET PRAGMA CALL LOAD INSTALL IMPORT UPDATE")
_SOURCES = _words("SELECT FROM WITH TABLE")
_NESTED = (("INSERT", "INTO"), ("INSERT", "OR"), ("DELETE", "FROM"), ("MERGE", "INTO"))


def classify(script: str, tokens: Sequence[Token]) -> Statement:
    """The statement made of `tokens` (at least one, no semicolon) of `script`.

    Raises:
        SqlError: one of our own statements does not parse.
        UnsupportedError: a statement about materialized views that has no meaning here.
    """
    text = script[tokens[0].start : tokens[-1].end]
    return _classify(_Source(script, text, tokens[0].start, tokens), Reader(tokens))


@dataclasses.dataclass(frozen=True)
class _Source:
    script: str
    text: str
    offset: int
    tokens: Sequence[Token]


def _classify(source: _Source, reader: Reader) -> Statement:
    word = reader.peek()
    if word in _CHANGING and not (word == "UPDATE" and reader.peek(1) == "EXTENSIONS"):
        return _changing(source, reader)
    if word == "WITH":
        _step_over_ctes(reader)
        return _changing(source, reader) if reader.peek() in _CHANGING else _reading(source, reader)
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


def _reading(source: _Source, reader: Reader) -> Statement:
    if reader.accept("SHOW", "MATERIALIZED", "VIEWS"):
        reader.finish()
        return ShowViews(source.text, source.offset)
    if _changes_inside(reader):
        return Dml(source.text, source.offset, "other", None)
    kind = reader.tokens[0].word.lower()
    return Query(source.text, source.offset, "select" if kind == "(" else kind)


def _changes_inside(reader: Reader) -> bool:
    """Whether a parenthesis anywhere holds an INSERT, UPDATE, DELETE or MERGE."""
    words = [t.word for t in reader.tokens]
    for place, word in enumerate(words[:-2]):
        if word != "(" or words[place + 1] not in _CHANGING:
            continue
        if words[place + 1] == "UPDATE" and "SET" in words[place + 2 : place + 10]:
            return True
        if (words[place + 1], words[place + 2]) in _NESTED or words[place + 1] == "TRUNCATE":
            return True
    return False


def _step_over_ctes(reader: Reader) -> None:
    while not reader.done:
        if reader.peek() != "(":
            reader.at += 1
            continue
        reader.skip_parentheses()
        if reader.peek() not in ("AS", "USING", ","):
            return


def _changing(source: _Source, reader: Reader) -> Statement:
    body = reader.tokens[reader.at].start - source.offset
    statement = _CHANGES[reader.peek()](source, reader)
    if type(statement) is Dml and _changes_inside(reader):
        return Dml(source.text, source.offset, "other", None)
    if body == 0:
        return statement
    return dataclasses.replace(statement, body=body, sources=True)


def _insert(source: _Source, reader: Reader) -> Dml:
    reader.expect("INSERT")
    action = _or_action(reader)
    reader.expect("INTO")
    table = reader.name()
    alias = reader.identifier() if reader.accept("AS") else None
    columns = reader.columns() if _column_list(reader) else None
    if reader.accept("VALUES") and not action and alias is None:
        fast = _fast_insert(source, reader, table, columns)
        if fast is not None:
            return fast
    sources = any(t.word in _SOURCES for t in reader.tokens[reader.at :])
    conflict = reader.find("ON", "CONFLICT", "(") or reader.find("ON", "CONFLICT", "DO")
    returning = reader.find("RETURNING")
    return Dml(
        source.text, source.offset, "insert", table, alias, returning, 0, action, conflict, sources
    )


def _or_action(reader: Reader) -> str:
    if not reader.accept("OR"):
        return ""
    return "replace" if reader.accept("REPLACE") else "ignore" if reader.accept("IGNORE") else ""


def _column_list(reader: Reader) -> bool:
    """Whether `(` opens the column list and not a query in parentheses."""
    return reader.peek() == "(" and reader.peek(1) not in ("SELECT", "FROM", "WITH", "VALUES", "(")


def _fast_insert(
    source: _Source, reader: Reader, table: Name, columns: tuple[str, ...] | None
) -> Insert | None:
    begin = reader.tokens[reader.at - 1].end
    rows = literal_values.scan(source.script, begin, reader.tokens[-1].end)
    if rows is None:
        return None
    text, offset = source.text, source.offset
    return Insert(text, offset, "insert", table, columns=columns, rows=rows)


def _update(source: _Source, reader: Reader) -> Dml:
    reader.expect("UPDATE")
    table = reader.name()
    alias = _alias(reader, "SET")
    found = reader.find("RETURNING"), reader.find("FROM")
    return _dml(source, "update", table, alias, *found)


def _delete(source: _Source, reader: Reader) -> Dml:
    reader.expect("DELETE", "FROM")
    table = reader.name()
    alias = _alias(reader, "USING", "WHERE", "RETURNING")
    found = reader.find("RETURNING"), reader.find("USING")
    return _dml(source, "delete", table, alias, *found)


def _truncate(source: _Source, reader: Reader) -> Dml:
    reader.expect("TRUNCATE")
    reader.accept("TABLE")
    return _dml(source, "truncate", reader.name(), None, reader.find("RETURNING"), False)


def _merge(source: _Source, reader: Reader) -> Dml:
    reader.expect("MERGE", "INTO")
    table = reader.name()
    alias = _alias(reader, "USING")
    return _dml(source, "merge", table, alias, reader.find("RETURNING"), True)


def _dml(
    source: _Source, kind: str, table: Name, alias: str | None, returning: bool, sources: bool
) -> Dml:
    text, offset = source.text, source.offset
    return Dml(text, offset, kind, table, alias, returning, sources=sources)


def _alias(reader: Reader, *following: str) -> str | None:
    if reader.accept("AS"):
        return reader.identifier()
    if reader.done or reader.peek() in following:
        return None
    return reader.identifier()


_CHANGES: dict[str, Callable[[_Source, Reader], Dml]] = {
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "TRUNCATE": _truncate,
}


def _copy(source: _Source, reader: Reader) -> Statement:
    reader.expect("COPY")
    if reader.accept("FROM", "DATABASE"):
        return Ddl(source.text, source.offset, "import", "database")
    if reader.peek() == "(":
        return _reading(source, reader)
    table = reader.name()
    if reader.peek() == "(":
        reader.skip_parentheses()
    if reader.peek() == "FROM":
        return _dml(source, "copy", table, None, False, True)
    return _query(source, "copy")


def _query(source: _Source, kind: str) -> Query:
    return Query(source.text, source.offset, kind)


# --- transactions, prepared statements, EXPLAIN ---


def _transaction(source: _Source, reader: Reader) -> Transaction:
    action = _TRANSACTION[reader.peek()]
    read_only = reader.find("READ", "ONLY")
    return Transaction(source.text, source.offset, action, read_only)


def _inner(source: _Source, reader: Reader) -> Statement:
    """The statement from here on, its offset counted in `source.text`."""
    if reader.done:
        raise reader.error("expected a statement")
    statement = classify(source.script, reader.tokens[reader.at :])
    return dataclasses.replace(statement, offset=statement.offset - source.offset)


def _prepare(source: _Source, reader: Reader) -> Prepare:
    reader.expect("PREPARE")
    name = reader.identifier()
    if reader.peek() == "(":
        reader.skip_parentheses()
    reader.expect("AS")
    return Prepare(source.text, source.offset, name, _inner(source, reader))


def _execute(source: _Source, reader: Reader) -> Execute:
    reader.expect("EXECUTE")
    name = reader.identifier()
    if reader.done:
        return Execute(source.text, source.offset, name, "")
    begin = reader.tokens[reader.at].end
    reader.skip_parentheses()
    reader.finish()
    arguments = source.script[begin : reader.tokens[-1].start].strip()
    return Execute(source.text, source.offset, name, arguments)


def _deallocate(source: _Source, reader: Reader) -> Deallocate:
    reader.expect("DEALLOCATE")
    reader.accept("PREPARE")
    return Deallocate(source.text, source.offset, reader.identifier())


def _explain(source: _Source, reader: Reader) -> Statement:
    reader.expect("EXPLAIN")
    analyze, form = _explain_options(reader)
    if reader.accept("MATERIALIZED", "VIEW"):
        name = reader.name()
        reader.finish()
        return ExplainView(source.text, source.offset, name, analyze, form)
    inner = _inner(source, reader)
    if analyze and isinstance(inner, Dml):
        return Dml(source.text, source.offset, "other", None)
    if analyze and isinstance(inner, Ddl):
        return dataclasses.replace(inner, text=source.text, offset=source.offset)
    return _query(source, "explain")


def _explain_options(reader: Reader) -> tuple[bool, str]:
    analyze, form = reader.accept("ANALYZE"), "text"
    if reader.peek() != "(" or reader.peek(1) not in ("ANALYZE", "FORMAT"):
        return analyze, form
    reader.at += 1
    while not reader.accept(")"):
        if reader.accept("ANALYZE"):
            analyze = True
        elif reader.accept("FORMAT"):
            form = reader.identifier().lower()
        elif not reader.accept(","):
            raise reader.error("EXPLAIN takes ANALYZE and FORMAT")
    return analyze, form


# --- our own statements ----------------------------------------------------------------


def _create(source: _Source, reader: Reader) -> Statement:
    start = reader.at
    reader.expect("CREATE")
    replace = reader.accept("OR", "REPLACE")
    if not reader.accept("MATERIALIZED", "VIEW"):
        reader.at = start
        if _changes_inside(reader):
            way = "run the change first, as a statement of its own"
            reason = f"CREATE … AS with an INSERT, UPDATE, DELETE or MERGE inside: {way}"
            raise UnsupportedError(reason, source.offset)
        return create(reader, source.text, source.offset)
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    columns = reader.columns() if reader.peek() == "(" else ()
    reader.expect("AS")
    if reader.done:
        raise reader.error("expected the view's query")
    begin = reader.tokens[reader.at].start - source.offset
    query = source.text[begin:]
    flags = begin, replace, if_not_exists
    return CreateView(source.text, source.offset, name, columns, query, *flags)


def _drop(source: _Source, reader: Reader) -> Statement:
    if not reader.accept("DROP", "MATERIALIZED", "VIEW"):
        return drop(reader, source.text, source.offset)
    if_exists = reader.accept("IF", "EXISTS")
    names = reader.names()
    cascade = reader.accept("CASCADE")
    reader.accept("RESTRICT")
    reader.finish()
    return DropView(source.text, source.offset, names, if_exists, cascade)


def _verify(source: _Source, reader: Reader) -> VerifyView:
    reader.expect("VERIFY", "MATERIALIZED")
    name = None
    if not reader.accept("VIEWS"):
        reader.expect("VIEW")
        name = reader.name()
    reader.finish()
    return VerifyView(source.text, source.offset, name)


def _subscribe(source: _Source, reader: Reader) -> Subscribe:
    reader.expect("SUBSCRIBE")
    if reader.peek() == "TO" and reader.peek(1):
        reader.at += 1
    name = reader.name()
    reader.finish()
    return Subscribe(source.text, source.offset, name)


def _alter(source: _Source, reader: Reader) -> Statement:
    if reader.peek(1) == "MATERIALIZED":
        way = "drop it and create it anew, or use CREATE OR REPLACE MATERIALIZED VIEW"
        raise UnsupportedError(f"ALTER MATERIALIZED VIEW is not supported: {way}", source.offset)
    return alter(reader, source.text, source.offset)


def _refresh(source: _Source, reader: Reader) -> Statement:
    way = "use VERIFY MATERIALIZED VIEW to compare one with its query"
    raise UnsupportedError(
        f"REFRESH is not needed: views are always up to date; {way}", source.offset
    )


def _comment(source: _Source, reader: Reader) -> Statement:
    return comment(reader, source.text, source.offset)


_SPECIAL: dict[str, Callable[[_Source, Reader], Statement]] = {
    "COPY": _copy,
    "PREPARE": _prepare,
    "EXECUTE": _execute,
    "DEALLOCATE": _deallocate,
    "EXPLAIN": _explain,
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "COMMENT": _comment,
    "VERIFY": _verify,
    "SUBSCRIBE": _subscribe,
    "REFRESH": _refresh,
}
