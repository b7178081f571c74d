"""Reads UPDATE, DELETE and MERGE as changes of rows that a source is joined with.

Contract: a `JoinedChange` means what the statement means to DuckDB, if its names and expressions
bind. Statements with other branches than these have none, a MERGE of several sources neither. An
UPDATE or DELETE of one table has a source only where a query gives the keys
(`ivm.changes.read.key_queries`), or when `ivm.changes.rows.found_rows` has given it one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import not_
from typing import NamedTuple

from ivm.changes.read.change_text import ChangeText
from ivm.changes.read.key_queries import key_query
from ivm.changes.read.set_queries import read_sets
from ivm.changes.read.source_conditions import is_of_sources
from ivm.changes.read.sources import Sources, alias_of, listed, read_sources
from ivm.sql.statements.changes.assignments import settings
from ivm.sql.statements.changes.keyed_changes import conjuncts
from ivm.sql.statements.nodes.expressions import Expression, Marks
from ivm.sql.statements.nodes.nodes import Dml, Name
from ivm.sql.statements.text.cached_by_text import kept
from ivm.sql.statements.text.tokens import Reader, Token, split, text_of
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold

_MARKS = Marks(named=True)
_KEYS, _KEY = "__ivm_keys", "__ivm_key"


class Conjunct(NamedTuple):
    """One of the conditions that AND connects.

    Attributes:
        names: the two names of `name = name`, else None.
        expression: the condition.
    """

    names: tuple[Name, Name] | None
    expression: Expression


class Branch(NamedTuple):
    """What is done with a row of the target, or with a row of the source that matches none.

    Attributes:
        action: "update", "delete", "insert" or "nothing".
        condition: of the rows that it is for; None for all that are left.
        sets: of "update": column and value.
        columns: of "insert": those named, None for all.
        values: of "insert"; None for the source's columns in their order.
        queries: of the only "update": whose values are set, see `ivm.changes.read.set_queries`.
    """

    action: str
    condition: Expression | None = None
    sets: tuple[tuple[str, Expression], ...] = ()
    columns: tuple[str, ...] | None = None
    values: tuple[Expression, ...] | None = None
    queries: tuple[str, ...] = ()


class Pieces(NamedTuple):
    """The texts of an UPDATE or DELETE; "" for what it does not have.

    Attributes:
        prefix: its WITH clause.
        relation: its sources, as they stand after FROM or USING.
        where: the WHERE clause.
        condition: that of the clause, where there is no source; None if kernels cannot read it.
    """

    prefix: str
    relation: str
    where: str
    condition: Expression | None


class JoinedChange(NamedTuple):
    """A change by a source, or by several as one.

    Attributes:
        source: a query for the source's rows; "" for none.
        aliases: by which the statement calls its columns, see `ivm.changes.read.sources`.
        conjuncts: when a row of the target matches one of the source.
        matched: the first branch whose condition a pair meets is taken.
        unmatched: likewise for rows of the source that match none.
        returned: the list after RETURNING, "" without.
        once: a row of the target may be in several pairs, and is changed once, by whichever.
        pieces: None for a MERGE.
        found: the query is for the table's rows that meet the condition, each before a row of the
            source.
        plain: the same change without a source, where that is a query for keys: it means the same
            if the query fails by itself, as one does that reads the table's columns.
        apart: the table alone connects its sources.
    """

    source: str
    aliases: tuple[str, ...]
    conjuncts: tuple[Conjunct, ...]
    matched: tuple[Branch, ...]
    unmatched: tuple[Branch, ...] = ()
    returned: str = ""
    once: bool = False
    pieces: Pieces | None = None
    found: bool = False
    plain: JoinedChange | None = None
    apart: bool = False

    @property
    def queries(self) -> tuple[str, ...]:
        """Those whose values are set."""
        return self.matched[0].queries


class _OtherFormError(Exception):
    """The statement has a form that is left to DuckDB."""


def read_joined(
    written: ChangeText, statement: Dml, columns: frozenset[str]
) -> JoinedChange | None:
    """Reads a change; None if it has any other form.

    Args:
        columns: the folded names of the changed table's.
    """
    assert statement.table is not None
    taken = columns | {*map(fold, statement.table), fold(statement.alias or ""), "rowid"}
    return _read(written.text, statement.kind, taken)


@kept(texts=256, long_texts=1)
def _read(text: str, kind: str, taken: frozenset[str]) -> JoinedChange | None:
    try:
        return _READ[kind](ChangeText(text, None), taken)
    except (_OtherFormError, SqlError):
        return None


def _update(written: ChangeText, taken: frozenset[str]) -> JoinedChange:
    read = read_sets(written.text, written.within(written.clauses.sets.rest), _MARKS)
    if read is None:
        raise _OtherFormError
    return _by_where(written, taken, Branch("update", sets=read.sets, queries=read.queries))


def _delete(written: ChangeText, taken: frozenset[str]) -> JoinedChange:
    return _by_where(written, taken, Branch("delete"))._replace(once=True)


def _by_where(written: ChangeText, taken: frozenset[str], branch: Branch) -> JoinedChange:
    """A change whose condition is a WHERE clause."""
    clauses, condition = written.clauses, None
    relation, tokens = clauses.source.rest, written.within(clauses.condition.rest)
    if tokens and not relation:
        condition = _MARKS.expression(written.text, tokens)
    texts = written.prefix, written.piece(relation), written.piece(clauses.condition)
    returned = written.piece(clauses.returning.rest)
    pieces = Pieces(*texts, condition)
    change = JoinedChange("", (), (), (branch,), returned=returned, pieces=pieces)
    if relation:
        return _by_sources(written, taken, change, read_sources(written.within(relation)), tokens)
    if tokens and condition is None:
        return _by_keys(written, change, tokens) or change
    return change


def _by_sources(
    written: ChangeText,
    taken: frozenset[str],
    change: JoinedChange,
    sources: Sources | None,
    tokens: Sequence[Token],
) -> JoinedChange:
    """The change by its sources; their query has those conditions that are of them alone."""
    if sources is None or change.pieces is None:
        raise _OtherFormError
    parts = _parts(tokens) if tokens else []
    own = [is_of_sources(part, sources.aliases, taken) for part in parts]
    met = tuple([_conjunct(written, part) for part in itertools.compress(parts, map(not_, own))])
    narrow = list(itertools.compress(parts, own))
    query = _query(change.pieces.prefix, sources.aliases, change.pieces.relation)
    if narrow:
        conditions = [f"({text_of(written.text, part)})" for part in narrow]
        query = f"{query} WHERE {' AND '.join(conditions)}"
    apart = not sources.are_connected(narrow)
    return change._replace(source=query, aliases=sources.aliases, conjuncts=met, apart=apart)


def _by_keys(
    written: ChangeText, change: JoinedChange, tokens: Sequence[Token]
) -> JoinedChange | None:
    """The change by the rows of the only query for keys; None if there is none, or another one."""
    parts = conjuncts(tokens) or []
    read = [key_query(written.text, part) for part in parts]
    if len(read) - read.count(None) != 1 or _KEY in fold(written.text):
        return None
    met, query = [], ""
    for part, found in zip(parts, read, strict=True):
        expression = _MARKS.expression(written.text, part)
        if found is not None:
            query = found.query
            expression = Expression("")  # never evaluated: the join has the names, or is none
        if expression is None:
            return None
        names = None if found is None else (found.name, (_KEYS, _KEY))
        met.append(Conjunct(names, expression))
    prefix = "" if change.pieces is None else change.pieces.prefix
    source = f"{prefix} SELECT * FROM ({query}) AS {_KEYS}({_KEY})".lstrip()
    return change._replace(
        source=source, aliases=(_KEYS,), conjuncts=tuple(met), once=True, plain=change
    )


def _merge(written: ChangeText, _: frozenset[str]) -> JoinedChange:
    clauses = written.clauses
    source, condition = clauses.source.rest, written.within(clauses.condition)
    alias = alias_of(written.within(source))
    if alias is None or clauses.returning or [t.word for t in condition[:1]] != ["ON"]:
        raise _OtherFormError
    query = _query(written.prefix, (alias,), written.piece(source))
    met = tuple([_conjunct(written, part) for part in _parts(condition[1:])])
    matched: list[Branch] = []
    unmatched: list[Branch] = []
    for span in clauses.branches:
        reader = Reader(written.within(span.rest))
        found = unmatched if reader.accept("NOT") else matched
        reader.expect("MATCHED")
        if found is unmatched and reader.accept("BY"):
            reader.expect("TARGET")
        found.append(_branch(written, reader))
    kinds = {branch.action for branch in unmatched} | {f"{b.action}d" for b in matched}
    if not kinds or not kinds <= {"insert", "nothing", "updated", "deleted", "nothingd"}:
        raise _OtherFormError
    return JoinedChange(query, (alias,), met, tuple(matched), tuple(unmatched))


def _branch(written: ChangeText, reader: Reader) -> Branch:
    condition = None
    if reader.accept("AND"):
        then = reader.index("THEN")
        condition = _expression(written, reader.tokens[reader.at : then])
        reader.at = then
    reader.expect("THEN")
    branch = _action(written, reader)
    reader.finish()
    return branch._replace(condition=condition)


def _action(written: ChangeText, reader: Reader) -> Branch:
    if reader.accept("DO", "NOTHING"):
        return Branch("nothing")
    if reader.accept("DELETE"):
        return Branch("delete")
    rest = len(reader.tokens)
    if reader.accept("UPDATE", "SET"):
        sets = _sets(written, reader.tokens[reader.at :])
        reader.at = rest
        return Branch("update", sets=sets)
    reader.expect("INSERT")
    if reader.done or reader.accept("*"):
        return Branch("insert")
    columns = reader.columns() if reader.peek() == "(" else None
    reader.expect("VALUES", "(")
    cells = split(reader.tokens[reader.at : rest - 1])
    reader.at = rest
    return Branch(
        "insert", columns=columns, values=tuple([_expression(written, cell) for cell in cells])
    )


def _query(prefix: str, aliases: Sequence[str], relation: str) -> str:
    """A query for the rows of the sources."""
    columns = "*" if len(aliases) == 1 else listed(aliases)
    return f"{prefix} SELECT {columns} FROM {relation}".lstrip()


def _parts(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    found = conjuncts(tokens)
    if found is None:
        raise _OtherFormError
    return found


def _conjunct(written: ChangeText, part: Sequence[Token]) -> Conjunct:
    return Conjunct(_names(part), _expression(written, part))


def _names(part: Sequence[Token]) -> tuple[Name, Name] | None:
    """Reads `name = name`; None for another condition."""
    reader = Reader(part)
    try:
        left = reader.name()
        reader.expect("=")
        right = reader.name()
        reader.finish()
    except SqlError:
        return None
    return left, right


def _sets(written: ChangeText, tokens: Sequence[Token]) -> tuple[tuple[str, Expression], ...]:
    found = settings(written.text, tokens, _MARKS)
    if found is None:
        raise _OtherFormError
    return found


def _expression(written: ChangeText, tokens: Sequence[Token]) -> Expression:
    found = _MARKS.expression(written.text, tokens)
    if found is None or text_of(written.text, tokens) == "*":
        raise _OtherFormError
    return found


_READ = {"update": _update, "delete": _delete, "merge": _merge}
