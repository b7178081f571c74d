"""The kinds of statements as frozen dataclasses.

Law: `script[offset : offset + len(text)] == text`. `text` is the statement exactly as the user
wrote it, without the closing semicolon; no statement is rendered back from a tree.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ivm.sql.statements.expressions import Expression
from ivm.sql.statements.values_list import LiteralRows

Name: TypeAlias = tuple[str, ...]
"""A qualified name as its parts, quotes resolved, letter case as written."""


@dataclass(frozen=True)
class Statement:
    """Any statement.

    Attributes:
        text: the statement as written, without its semicolon and the blanks and comments around it.
        offset: its offset in the script, in characters.
    """

    text: str
    offset: int


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [WITH …] AS query.

    Attributes:
        query: the SELECT, verbatim.
        query_offset: the query's offset in `text`.
        columns: the view's column names, empty if the view has the query's names.
        backfill: who fills it first: "duckdb", "spark" or "auto".
        tick: of the clock that it reads, in microseconds; None for the usual one.
    """

    name: Name
    columns: tuple[str, ...]
    query: str
    query_offset: int
    replace: bool
    if_not_exists: bool
    backfill: str = "auto"
    tick: int | None = None


@dataclass(frozen=True)
class DropView(Statement):
    """DROP MATERIALIZED VIEW [IF EXISTS] names [CASCADE]."""

    names: tuple[Name, ...]
    if_exists: bool
    cascade: bool

    @property
    def name(self) -> Name:
        """The first name (most often the only one)."""
        return self.names[0]


@dataclass(frozen=True)
class ExplainView(Statement):
    """EXPLAIN [ANALYZE] [(ANALYZE, FORMAT f)] MATERIALIZED VIEW name; `format` is lower case."""

    name: Name
    analyze: bool
    format: str


@dataclass(frozen=True)
class VerifyView(Statement):
    """VERIFY MATERIALIZED VIEW name [USING SPARK], or VERIFY MATERIALIZED VIEWS (`name` is None).

    Attributes:
        spark: whether Spark computes what the view is compared with.
    """

    name: Name | None
    spark: bool = False


@dataclass(frozen=True)
class RefreshView(Statement):
    """REFRESH MATERIALIZED VIEW name."""

    name: Name


@dataclass(frozen=True)
class ShowViews(Statement):
    """SHOW MATERIALIZED VIEWS."""


@dataclass(frozen=True)
class Subscribe(Statement):
    """SUBSCRIBE [TO] name."""

    name: Name


@dataclass(frozen=True)
class CreateSource(Statement):
    """CREATE SOURCE [IF NOT EXISTS] name [INTO table] FROM kind (option value, …).

    Attributes:
        kind: as written.
        target: the table that INTO names, None without.
        options: names in lower case unless they have a dot, and values as texts.
    """

    name: str
    kind: str
    target: Name | None
    options: tuple[tuple[str, str], ...]
    if_not_exists: bool


@dataclass(frozen=True)
class ChangeSource(Statement):
    """PAUSE, RESUME, DROP or ALTER SOURCE, and RETRY or DISCARD DEAD LETTERS.

    Attributes:
        action: "pause", "resume", "drop", "set", "add table", "drop table", "retry" or "discard".
        tables: of ADD TABLE and DROP TABLE, as written, with commas between them.
        options: of SET.
    """

    action: str
    name: str
    tables: str = ""
    options: tuple[tuple[str, str], ...] = ()
    if_exists: bool = False


@dataclass(frozen=True)
class ShowSources(Statement):
    """SHOW SOURCES."""


@dataclass(frozen=True)
class CreateSink(Statement):
    """CREATE SINK [IF NOT EXISTS] name FROM view INTO kind (option value, …).

    Attributes:
        kind: as written.
        options: names in lower case, and values as texts.
    """

    name: str
    view: Name
    kind: str
    options: tuple[tuple[str, str], ...]
    if_not_exists: bool


@dataclass(frozen=True)
class ChangeSink(Statement):
    """PAUSE, RESUME or DROP SINK; `action` is the first word, lower case."""

    action: str
    name: str
    if_exists: bool


@dataclass(frozen=True)
class ShowSinks(Statement):
    """SHOW SINKS."""


@dataclass(frozen=True)
class ChangeUser(Statement):
    """CREATE, ALTER or DROP USER.

    Attributes:
        action: the first word, lower case.
        name: of the user, folded.
        password: as given, or a verifier as PostgreSQL writes it; None to leave it.
        role: one of `users.ROLES`; None to leave it.
        schema: to which the role is limited; None to leave it.
        everywhere: IN ALL SCHEMAS, the role is no longer limited.
        optional: IF EXISTS, or IF NOT EXISTS.
    """

    action: str
    name: str
    password: str | None = field(default=None, repr=False)
    role: str | None = None
    schema: Name | None = None
    everywhere: bool = False
    optional: bool = False


@dataclass(frozen=True)
class ChangeToken(Statement):
    """CREATE or DROP TOKEN.

    Attributes:
        action: the first word, lower case.
        name: of the token, folded.
        user: whose it is, folded.
        expires: SQL of the time from which it is of no use; None for never.
        optional: IF EXISTS, or IF NOT EXISTS.
    """

    action: str
    name: str
    user: str
    expires: str | None
    optional: bool


@dataclass(frozen=True)
class ShowUsers(Statement):
    """SHOW USERS or SHOW TOKENS."""

    tokens: bool


@dataclass(frozen=True)
class CreateHistory(Statement):
    """CREATE TABLE [IF NOT EXISTS] name [(columns)] FROM format 'place' [WITH (option = value, …)].

    Attributes:
        columns: what stands between the parentheses; "" if the files name the columns.
        format: of the files, lower case.
        location: a file, a folder or a pattern.
        options: names in lower case, and values as texts.
    """

    name: Name
    columns: str
    format: str
    location: str
    options: tuple[tuple[str, str], ...]
    if_not_exists: bool


@dataclass(frozen=True)
class SetHistory(Statement):
    """ALTER TABLE name SET HISTORY 'place' AT [EPOCH] number [WITH (option = value, …)].

    Attributes:
        location: a file, a folder or a pattern.
        epoch: the files hold the table's rows as of this epoch.
        options: names in lower case, and values as texts.
    """

    name: Name
    location: str
    epoch: int
    options: tuple[tuple[str, str], ...]


class Retention(NamedTuple):
    """How long a table keeps its rows.

    Attributes:
        retain: the length of time, as DuckDB writes an INTERVAL.
        by: the column that tells a row's time, as written.
    """

    retain: str
    by: str


@dataclass(frozen=True)
class SetRetention(Statement):
    """ALTER TABLE [IF EXISTS] name SET (retain = …[, retain_by = column]) | RESET (retain).

    Attributes:
        retain: the length of time, as DuckDB writes an INTERVAL; None if all rows are to stay.
        by: the column that tells a row's time; None for the one that did.
    """

    name: Name
    retain: str | None
    by: str | None
    if_exists: bool


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


@dataclass(frozen=True)
class Insert(Dml):
    """INSERT INTO table [(columns)] VALUES of literals and parameters alone: the fast path.

    Attributes:
        columns: the columns named, or None for all.
        rows: the cells as SQL texts, not yet values.
        conflict: of INSERT OR REPLACE, OR IGNORE and ON CONFLICT.
        returned: the list after RETURNING, "" without.
    """

    columns: tuple[str, ...] | None = None
    rows: LiteralRows = field(default=LiteralRows((), 0))
    conflict: Conflict | None = None
    returned: str = ""

    @functools.cached_property
    def parameters(self) -> frozenset[int | str]:
        """The distinct parameters."""
        used = [expression.parameters for expression in self.expressions]
        return self.rows.parameters.union(*used)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of DO UPDATE."""
        if self.conflict is None:
            return ()
        sets = tuple([expression for _, expression in self.conflict.sets])
        return sets if self.conflict.where is None else (*sets, self.conflict.where)


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
    """

    name: str
    arguments: str
    explain: str = ""


@dataclass(frozen=True)
class Deallocate(Statement):
    """DEALLOCATE [PREPARE] name."""

    name: str


@dataclass(frozen=True)
class Other(Statement):
    """Any other statement (CHECKPOINT, VACUUM, …), passed to DuckDB; `kind` is its first word."""

    kind: str
