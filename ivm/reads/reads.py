"""Queries are answered from memory, by their compiled forms.

Contract: an answer has the rows, names, types and values of DuckDB's to the same text, and includes
every commit made before the query began. Texts that differ in literals alone share a compiled form
where that is the same. A simple text is compiled when it comes first, any other the third time:
compiling costs several reads. One that is left to DuckDB costs a look-up from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import duckdb

from ivm.catalog.version import Meaning
from ivm.engine.engine import Engine
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.views.held_views import TooManyRowsError
from ivm.engine.views.view_contents import MOST_FOUND, between, under
from ivm.ingest.parameters import Params
from ivm.reads.answer import Answer
from ivm.reads.chains import Step
from ivm.reads.compiling import Compiled, ReadCompiler
from ivm.reads.lifted_types import literal_type
from ivm.reads.literals import shape_of
from ivm.reads.parameters import Values, duckdb_type, named
from ivm.reads.table_reads import TableReads
from ivm.reads.verdicts import LiftedError, NotFromStateError
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.statements.text.cached_by_text import LONGEST
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.errors import EvaluationError, SqlError, UnsupportedError
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.flush.refused import RefusedError

_WORTHWHILE = 3
"""The time at which a text is compiled (measured: 5 to 10 ms; a read from a file costs 2 to 7)."""
_CHANGES = "a transaction changes the catalog"
_MOST_TEXTS = 4096
Types: TypeAlias = Mapping[str, str | None]
Label: TypeAlias = tuple[bool | str, ...]


@dataclass
class _Query:
    """What is known of a text, or of the shape of several, with parameters of certain types.

    Attributes:
        text: its text.
        types: of its parameters.
        literals: the names of those that are literals.
        left: how often it still comes before it is compiled.
        compiled: None if it is not, or is left to DuckDB.
        reason: why it is left to DuckDB.
        keyed: its view has too many rows to be held whole.
        unlike: texts of this shape are to be compiled each, as their literals matter.
        is_source: a change takes its rows; it may read no relation.
    """

    text: str
    types: Types
    left: int
    literals: frozenset[str] = frozenset()
    compiled: Compiled | None = None
    reason: str | None = None
    keyed: bool = False
    unlike: bool = False
    is_source: bool = False


@dataclass(frozen=True)
class _Text:
    """A text that came.

    Attributes:
        query: itself.
        shape: with its literals as parameters; None if it has none that could be.
        literals: their values.
    """

    query: _Query
    shape: _Query | None = None
    literals: Values = field(default_factory=dict)


class _Forms:
    """The texts and shapes that are known under one meaning of names.

    Another meaning has another object: who has looked one up goes on with it, and what is found out
    meanwhile is not taken for what it would be under the next.
    """

    def __init__(self, meaning: Meaning | None) -> None:
        self.meaning = meaning
        self.known: dict[Label, _Text] = {}
        self.shapes: dict[Label, _Query] = {}

    def text(self, label: Label, text: str, types: Types, *, is_source: bool) -> _Text:
        """What is known of a text."""
        return self.known.get(label) or self._new(label, text, types, is_source=is_source)

    def _new(self, label: Label, text: str, types: Types, *, is_source: bool) -> _Text:
        if len(self.known) >= _MOST_TEXTS:  # most of them come once, with other literals each
            kept = {n: e for n, e in list(self.known.items()) if e.query.compiled is not None}
            self.known = kept if 2 * len(kept) < _MOST_TEXTS else {}
        if len(self.shapes) >= _MOST_TEXTS:
            self.shapes = {}
        shape = shape_of(text, of_source=is_source)
        left = 1 if shape.simple and not is_source else _WORTHWHILE
        literal = bool(shape.literals)  # then most texts of its shape come once
        entry = _Text(_Query(text, types, _WORTHWHILE if literal else left, is_source=is_source))
        if shape.literals and None not in types.values():
            literals = {name: literal_type(value) for name, value in shape.literals.items()}
            every = {**types, **literals}
            query = _Query(shape.text, every, left, frozenset(literals), is_source=is_source)
            of_shape = _label(shape.text, every, is_source=is_source)
            query = self.shapes.setdefault(of_shape, query)
            entry = _Text(entry.query, query, shape.literals)
        return self.known.setdefault(label, entry)


class StateReads:
    """The compiled queries of one database.

    Args:
        engine: its engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._compiler = ReadCompiler(engine)
        self._tables = TableReads(engine)
        self._forms = _Forms(None)  # replaced whole: threads read it without a lock

    def answer(
        self,
        text: str,
        params: Params,
        transaction: Transaction | None = None,
        *,
        is_source: bool = False,
    ) -> Answer | None:
        """The answer to a query; None if DuckDB gives it.

        Args:
            text: one SELECT; its session sees the names that all sessions see.
            params: its parameters, None for none.
            transaction: the session's, within one of its statements; of the catalog it has changed
                nothing.
            is_source: the transaction makes a change of the rows.

        Raises:
            UnavailableError: the last commit cannot be made durable.
        """
        meaning = self._engine.meaning()
        if meaning is None or len(text) > LONGEST:
            return None
        known, values = self._given(text, params, meaning, is_source=is_source)
        query = self._worthwhile(known, meaning)
        if query is None or query.compiled is None:
            return None
        if query is known.shape:
            values = {**values, **known.literals} if values else known.literals
        return self._answer(query, query.compiled, values, meaning, transaction)

    def _given(
        self, text: str, params: Params, meaning: Meaning, *, is_source: bool
    ) -> tuple[_Text, Values | None]:
        """What is known of a text, and the values of its parameters."""
        forms = self._forms
        if meaning != forms.meaning:
            forms = self._forms = _Forms(meaning)
        label, values, types = _labelled(text, params, is_source=is_source)
        return forms.text(label, text, types, is_source=is_source), values

    def answer_shape(
        self, shape: str, literals: Mapping[str, int | str], transaction: Transaction
    ) -> Answer | None:
        """The answer to a query whose rows a change takes; None if it may be DuckDB's.

        Args:
            shape: of a text that has come before.
            literals: of this one.
            transaction: the session's, as of `answer`.
        """
        meaning = self._engine.meaning()
        types = {name: literal_type(value) for name, value in literals.items()}
        forms = self._forms
        query = forms.shapes.get(_label(shape, types, is_source=True))
        if meaning is None or meaning != forms.meaning or query is None or query.compiled is None:
            return None
        if not _fits(query, literals):
            return None
        return self._answer(query, query.compiled, literals, meaning, transaction)

    def _worthwhile(self, known: _Text, meaning: Meaning) -> _Query | None:
        """The text, or its shape, if that is compiled, which it is when it came often enough."""
        # The shape first: its compiled form serves every text that is like this one. Both count
        # each time, so that a text whose literals matter is compiled as soon as that is known.
        queries = [query for query in (known.shape, known.query) if query is not None]
        for query in queries:
            query.left -= 1
        for query in queries:
            if query.compiled is None and query.reason is None:
                if query.left > 0:
                    return None
                self._compile_or_say_why(query, meaning)
            if query.compiled is not None and _fits(query, known.literals):
                return query
            if query.reason is not None and not query.unlike:
                known.query.reason = query.reason  # it is that of all texts of the shape
                return None
        return None

    def _answer(
        self,
        query: _Query,
        compiled: Compiled,
        values: Values | None,
        meaning: Meaning,
        transaction: Transaction | None,
    ) -> Answer | None:
        try:
            given = compiled.parameters.columns(values) if compiled.parameters and values else ()
            if compiled.views and _differs(transaction):
                return None
            if compiled.most is None:
                return self._tables.answer(compiled, given, meaning, transaction)
            return self._of_views(query, compiled, given, meaning, compiled.most)
        except TooManyRowsError:
            if not self._waits(compiled):
                query.compiled, query.reason = None, "a view has too many rows"
        except (EvaluationError, RefusedError, duckdb.Error):
            pass  # the way through DuckDB has the words for it, or an answer
        return None

    def _of_views(
        self,
        query: _Query,
        compiled: Compiled,
        given: Sequence[Column],
        meaning: Meaning,
        most: int,
    ) -> Answer | None:
        """The answer from the rows of views; None if they cannot be had now."""
        held = self._engine.held
        if not compiled.views:
            return compiled.found((), given)
        step = compiled.steps[0] if compiled.steps else None
        if step is not None and step.range is None:
            values = step.values(given, {})
            if values is None:
                return self._of_no_rows(compiled, given, meaning)
            rows = self._engine.groups.find(step.name, step.key, values, meaning)
            if rows is not None:
                return compiled.found_under(rows, given)
        if not query.keyed:
            try:
                every = held.whole(compiled.views, meaning)
                return None if every is None else compiled.found(every, given)
            except TooManyRowsError:
                if step is None:
                    raise
                query.keyed = True
        assert step is not None
        rows = held.by_key(step.name, step.key, _finder(step, given), meaning, most)
        return None if rows is None else compiled.found_under(rows, given)

    def _of_no_rows(self, compiled: Compiled, given: Sequence[Column], meaning: Meaning) -> Answer:
        """The answer where no row of the only view can have the key."""
        schema = meaning.version.relation_schema(compiled.views[0])
        return compiled.found([empty([type for _, type in schema])], given)

    def _waits(self, compiled: Compiled) -> bool:
        """Returns whether the rows of a view will be found in its state, once that is built."""
        step = compiled.steps[0] if compiled.steps else None
        if compiled.most is None or step is None or step.range is not None:
            return False
        return self._engine.groups.can_find(step.name, step.key)

    def why_not(
        self,
        text: str,
        params: Params,
        transaction: Transaction | None,
        *,
        is_source: bool = False,
    ) -> str | None:
        """Why a query is left to DuckDB; None if it is answered from memory, at the latest when it
        comes the third time; the arguments as of `answer`."""
        meaning = self._engine.meaning()
        if meaning is None:
            return _CHANGES
        known, values = self._given(text, params, meaning, is_source=is_source)
        return self._reason(known, values, transaction, meaning)

    def _reason(
        self,
        known: _Text,
        values: Values | None,
        transaction: Transaction | None,
        meaning: Meaning,
    ) -> str | None:
        for query in (known.shape, known.query):
            if query is not None:
                query.left = min(query.left, 1)
        query = self._worthwhile(known, meaning)
        if query is None or query.compiled is None:
            return known.query.reason
        compiled, of_table = query.compiled, query.compiled.most is None
        if compiled.views and _differs(transaction):
            return "the transaction has changes of its own, or has used DuckDB"
        values = {**(values or {}), **known.literals} if query is known.shape else values
        within = transaction if of_table else None
        answered = self._answer(query, compiled, values, meaning, within)
        if answered is None and of_table:
            return f"it asks for more than {MOST_FOUND:,} rows, or what it reads is not held yet"
        if answered is None and query.compiled is not None and self._waits(compiled):
            return "the state of its view is not built yet: the next change does that"
        return query.reason  # perhaps it has just found too many rows

    def _compile_or_say_why(self, query: _Query, meaning: Meaning) -> None:
        """Compiles a text; what was compiled while names changed their meaning is dropped."""
        compiled, reason, unlike = None, None, False
        try:
            given = query.text, query.types, meaning, query.literals
            compiled = self._compiler.compile(*given, is_source=query.is_source)
        except (NotFromStateError, UnsupportedError, SqlError, EvaluationError) as verdict:
            reason = str(verdict)
        except LiftedError as verdict:
            reason, unlike = str(verdict), True
        except duckdb.InterruptException:
            return  # which says nothing of the text
        except duckdb.Error as error:  # perhaps of a mark in the place of a literal
            reason, unlike = str(error), bool(query.literals)
        except NotIncremental as verdict:
            reason = verdict.reason
        except RecursionError:
            reason = "an expression nested too deeply to be planned"
        if meaning == self._engine.meaning():
            query.compiled, query.reason, query.unlike = compiled, reason, unlike


def _differs(transaction: Transaction | None) -> bool:
    """Returns whether views may have other rows in it than those that are held."""
    return transaction is not None and bool(transaction.changes or transaction.in_duckdb)


def _fits(query: _Query, literals: Values) -> bool:
    """Returns whether the values of literals mean what DuckDB takes them for."""
    parameters = query.compiled.parameters if query.compiled is not None else None
    return parameters is None or not query.literals or parameters.fits(literals)


def _label(text: str, types: Types, *, is_source: bool) -> Label:
    return (is_source, text, *types, *map(str, types.values()))


def _labelled(text: str, params: Params, *, is_source: bool) -> tuple[Label, Values | None, Types]:
    """The name under which a text with parameters is known, their values and their types."""
    if not params:
        return (is_source, text), None, {}
    values = named(params)
    if values is None:
        return (is_source, text, ""), None, {"": None}
    types = {name: duckdb_type(value) for name, value in values.items()}
    return _label(text, types, is_source=is_source), values, types


def _finder(step: Step, given: Sequence[Column]) -> Callable[[Arrangement], ZSet | None]:
    """Finds the rows of a view in its arrangement; there may be some."""
    if step.range is not None:
        low, high = step.range.bounds(given)
        return lambda rows: between(rows, low, high)
    values = step.values(given, {})
    assert values is not None
    return lambda rows: under(rows, values)
