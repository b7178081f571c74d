"""The statements that DuckDB does not know: of views, streams, users and histories.

Law: that of `nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ivm.sql.statements.nodes.nodes import Name, Statement, WatermarkClause
from ivm.storage.warehouse.tables.system_tables import Emits


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [WITH …] AS query
    [EMIT ON WINDOW CLOSE].

    Attributes:
        query: the SELECT, verbatim.
        query_offset: the query's offset in `text`.
        columns: the view's column names, empty if the view has the query's names.
        backfill: who fills it first: "duckdb", "spark" or "auto".
        tick: of the clock that it reads, in microseconds; None for the usual one.
        emits: when its rows come.
    """

    name: Name
    columns: tuple[str, ...]
    query: str
    query_offset: int
    replace: bool
    if_not_exists: bool
    backfill: str = "auto"
    tick: int | None = None
    emits: Emits = "changes"


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
        action: "pause", "resume", "drop", "set", "set position", "add table", "drop table", "retry"
            or "discard".
        tables: of ADD TABLE and DROP TABLE, as written, with commas between them.
        options: of SET.
        place: of SET POSITION.
    """

    action: str
    name: str
    tables: str = ""
    options: tuple[tuple[str, str], ...] = ()
    if_exists: bool = False
    place: str = ""


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


@dataclass(frozen=True)
class SetWatermark(Statement):
    """ALTER TABLE [IF EXISTS] name SET WATERMARK FOR … [WITH (…)] | DROP WATERMARK [FOR column].

    Attributes:
        clause: None to drop it.
        dropped: the column whose watermark is dropped, if it is named.
    """

    name: Name
    clause: WatermarkClause | None
    if_exists: bool
    dropped: str | None = None


@dataclass(frozen=True)
class AdvanceWatermark(Statement):
    """ALTER TABLE [IF EXISTS] name ADVANCE WATERMARK TO time; `to` is an expression as SQL."""

    name: Name
    to: str
    if_exists: bool


@dataclass(frozen=True)
class SetRetention(Statement):
    """ALTER TABLE [IF EXISTS] name SET (retain = …[, retain_by = column]) | RESET (retain).

    Attributes:
        retain: the length of time, as DuckDB writes an INTERVAL, and from when it counts; None if
            all rows are to stay.
        by: the column that tells a row's time; None for the one that did.
    """

    name: Name
    retain: str | None
    by: str | None
    if_exists: bool
