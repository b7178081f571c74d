"""The kinds of statements as frozen dataclasses; `own_nodes` has those that DuckDB does not know.

Law: `script[offset : offset + len(text)] == text`, but in the places where the script is spelled
otherwise (see `spelling`). So `text` is the statement as the user wrote it, without the closing
semicolon; no statement is rendered back from a tree.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ivm.sql.statements.nodes.expressions import Expression
from ivm.sql.statements.nodes.values_list import LiteralRows
from ivm.sql.statements.text.spelling import Spelling

Name: TypeAlias = tuple[str, ...]
"""A qualified name as its parts, quotes resolved, letter case as written."""


class Respelled(NamedTuple):
    """How the user's script is spelled, and the statement's offset in that spelling."""

    spelling: Spelling
    offset: int


@dataclass(frozen=True)
class Statement:
    """Any statement.

    Attributes:
        text: the statement as written, without its semicolon and the blanks and comments around it.
        offset: its offset in the script, in characters.
        respelled: of a text that is not spelled as the user wrote it.
    """

    text: str
    offset: int
    respelled: Respelled | None = field(default=None, kw_only=True, compare=False, repr=False)

    def written(self, position: int) -> int:
        """The place in the script of one in the text, counted from the offset of both."""
        if self.respelled is None:
            return position
        return self.respelled.spelling.written(position - self.offset + self.respelled.offset)


class Retention(NamedTuple):
    """How long a table keeps its rows.

    Attributes:
        retain: the length of time, as DuckDB writes an INTERVAL, and from when it counts.
        by: the column that tells a row's time, as written; None for that of the watermark.
    """

    retain: str
    by: str | None


class WatermarkClause(NamedTuple):
    """WATERMARK FOR column AS column - INTERVAL …, with the policy for late rows.

    Attributes:
        column: that tells a row's time, as written.
        delay: microseconds by which the watermark is behind the greatest time.
        late: the policy: "apply" or "refuse"; None for the one that there is, or the usual one.
        idle_after: microseconds without rows after which it goes on with the clock; None for what
            there is.
        by: the column that tells the parts of the stream apart; None for the one that there is.
    """

    column: str
    delay: int
    late: str | None = None
    idle_after: int | None = None
    by: str | None = None


@dataclass(frozen=True)
class Dml(Statement):
    """A statement that changes rows.

    Attributes:
        kind: "insert", "update", "delete", "merge", "truncate", "copy", or "other" for a
            statement whose change is nested (a data-modifying CTE, EXPLAIN ANALYZE of a change):
            only a comparison of all rows of the tables captures it.
        table: the changed table as written; None for "other".
        alias: the table's alias in the statement, if it has one.
        returning: it has a RETURNING clause.
        body: the verb's offset in `text`, not 0 after a WITH clause.
        or_action: "replace" or "ignore" of INSERT OR …, else "".
        on_conflict: it has an ON CONFLICT clause.
        sources: it reads other relations (SELECT, FROM, USING, a file).
    """

    kind: str
    table: Name | None
    alias: str | None = None
    returning: bool = False
    body: int = 0
    or_action: str = ""
    on_conflict: bool = False
    sources: bool = False


@dataclass(frozen=True)
class Conflict:
    """What an INSERT does where a key is stored already.

    Attributes:
        target: the columns after ON CONFLICT, None without; `sets` and `where` are of DO UPDATE.
        sets: a column and its expression each; empty for DO NOTHING.
        where: which rows are updated; None for all.
        replaces: INSERT OR REPLACE: the other columns that are named get their new values.
    """

    target: tuple[str, ...] | None = None
    sets: tuple[tuple[str, Expression], ...] = ()
    where: Expression | None = None
    replaces: bool = False


class Insertion(NamedTuple):
    """How an INSERT adds its rows.

    Attributes:
        columns: those named, or None for all.
        conflict: of INSERT OR REPLACE, OR IGNORE and ON CONFLICT.
        returned: the list after RETURNING, "" without.
    """

    columns: tuple[str, ...] | None = None
    conflict: Conflict | None = None
    returned: str = ""


@dataclass(frozen=True)
class Insert(Dml):
    """INSERT INTO table [(columns)] VALUES of literals and parameters alone: the fast path.

    Attributes:
        rows: the cells as SQL texts, not yet values.
        insertion: how they are added.
    """

    rows: LiteralRows = field(default=LiteralRows((), 0))
    insertion: Insertion = field(default=Insertion())

    @functools.cached_property
    def parameters(self) -> frozenset[int | str]:
        """The distinct parameters."""
        used = [expression.parameters for expression in self.expressions]
        return self.rows.parameters.union(*used)

    @property
    def is_plain(self) -> bool:
        """Returns whether it is rows of literals and parameters alone."""
        return not (self.insertion.conflict or self.returning)

    @property
    def returned(self) -> str:
        """The list after RETURNING, "" without."""
        return self.insertion.returned

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of DO UPDATE."""
        conflict = self.insertion.conflict
        if conflict is None:
            return ()
        sets = tuple([expression for _, expression in conflict.sets])
        return sets if conflict.where is None else (*sets, conflict.where)


@dataclass(frozen=True)
class Comparison:
    """`column = value` or `column IN (value, …)` of a WHERE clause.

    Attributes:
        values: literals or parameters, one column of them.
        condition: the same as an expression.
    """

    column: str
    values: LiteralRows
    condition: Expression


@dataclass(frozen=True)
class KeyedChange(Dml):
    """UPDATE … SET … or DELETE, WHERE column = value or IN [AND …]: the fast path, by an index.

    Attributes:
        columns: the columns set to literals or parameters.
        rows: their cells, in one row.
        computed: the columns set to other expressions, each with its expression.
        comparisons: of the WHERE clause, at least one.
        conditions: the other ones that AND connects with them.
        returned: the list after RETURNING, "" without.
    """

    columns: tuple[str, ...] = ()
    rows: LiteralRows = field(default=LiteralRows((), 0))
    computed: tuple[tuple[str, Expression], ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    conditions: tuple[Expression, ...] = ()
    returned: str = ""

    @functools.cached_property
    def parameters(self) -> frozenset[int | str]:
        """The distinct parameters."""
        compared = [comparison.condition for comparison in self.comparisons]
        used = [expression.parameters for expression in (*self.expressions, *compared)]
        return self.rows.parameters.union(*used)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of SET and of the conditions."""
        return (*[expression for _, expression in self.computed], *self.conditions)


@dataclass(frozen=True)
class Ddl(Statement):
    """A statement that changes the catalog or the session, run by DuckDB.

    Attributes:
        action: "create", "drop", "alter", "comment", "attach", "detach", "use", "set", "reset",
            "pragma", "call", "load", "install", "import", "copy database".
        target: "table", "view", "index", "macro", "type", "schema", "sequence", "trigger",
            "database", "variable", "secret", …; "" if the action needs none.
        names: the objects named (several in one DROP), possibly empty.
        on: the table of an index or trigger, else None.
        retention: of the table created; it is not in the text.
        watermark: the same.
    """

    action: str
    target: str
    names: tuple[Name, ...] = ()
    on: Name | None = None
    cascade: bool = False
    replace: bool = False
    if_exists: bool = False
    temporary: bool = False
    retention: Retention | None = None
    watermark: WatermarkClause | None = None

    @property
    def name(self) -> Name | None:
        """The first object named, if any."""
        return self.names[0] if self.names else None


@dataclass(frozen=True)
class Query(Statement):
    """A statement that only reads.

    Attributes:
        kind: its first word, lower case: "select", "from", "with", "explain", "copy" (TO), ….
        explained: the query or change that EXPLAIN explains without running it.
    """

    kind: str
    explained: Query | Dml | None = None


@dataclass(frozen=True)
class TransactionControl(Statement):
    """`action` is "begin", "commit" or "rollback"."""

    action: str
    read_only: bool = False


@dataclass(frozen=True)
class Prepare(Statement):
    """PREPARE name AS statement; `statement.offset` counts in this statement's `text`."""

    name: str
    statement: Statement


@dataclass(frozen=True)
class Execute(Statement):
    """[EXPLAIN [ANALYZE]] EXECUTE name [(arguments)].

    Attributes:
        arguments: the text between the parentheses, or "".
        explain: the text before EXECUTE.
        instead: what is run instead of what was prepared; None for that itself.
    """

    name: str
    arguments: str
    explain: str = ""
    instead: Statement | None = None


@dataclass(frozen=True)
class Deallocate(Statement):
    """DEALLOCATE [PREPARE] name."""

    name: str


@dataclass(frozen=True)
class Other(Statement):
    """Any other statement (CHECKPOINT, VACUUM, …), passed to DuckDB; `kind` is its first word."""

    kind: str
