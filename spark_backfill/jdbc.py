"""A table or query of another database, read by Spark over JDBC and written as texts.

Law: a value is the text that the database writes for it. The driver is asked for texts
(`getString`), and neither it nor Spark makes a value of a type of its own of them. No error has a
secret in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.spark_backfill.files.local_files import local
from ivm.spark_backfill.session import words_of
from ivm.storage.errors import IvmError, SqlError, UnavailableError
from ivm.storage.identifiers import fold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POSTGRES = "postgresql"
_DRIVERS = {POSTGRES: "org.postgresql.Driver"}
_NO_DRIVER = ("ClassNotFoundException", "No suitable driver")
_FETCHED = "10000"
"""Rows that a driver fetches at once: PostgreSQL's would hold all of them in memory."""
_TEXTS = {
    POSTGRES: {
        "binaryTransfer": "false",
        "sessionInitStatement": "SET TimeZone = 'UTC'; SET bytea_output = 'hex'; "
        "SET extra_float_digits = 3; SET IntervalStyle = 'postgres'",
    }
}
"""What has a database write the same texts whatever the settings of its server and users are."""


@dataclass(frozen=True)
class JdbcSource:
    """Where the rows are.

    Attributes:
        url: `jdbc:database:…`, without a password.
        relation: a table as the database spells it, or a query in parentheses with a name.
        partitions: conditions of which each row satisfies one: a query each; () for one query.
        driver: the class; "" for the one that is known for this database.
        options: of Spark's reader, as `fetchsize` and `user`.
        secrets: such options, too, which no error may tell.
    """

    url: str
    relation: str
    partitions: tuple[str, ...]
    driver: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def database(self) -> str:
        """The kind of database, as `postgresql`."""
        return self.url.split(":")[1].lower()


def write_texts(
    spark: SparkSession,
    source: JdbcSource,
    columns: Sequence[str],
    to: Path,
    check: Callable[[], None],
) -> None:
    """Writes columns of the source as Parquet files of texts, which are named c0, c1, ….

    Args:
        spark: a prepared session.
        source: of the rows.
        columns: their names, in any case.
        to: a folder that is not there yet.
        check: called before anything is written; raises an IvmError to leave it.

    Raises:
        SqlError: the source lacks a column, or has two of that name.
        UnavailableError: Spark has no driver, or cannot read the source.
    """
    try:
        there = _frame(spark, source, {}).columns
        names = [_back_quoted(_named(name, there)) for name in columns]
        texts = {"customSchema": ", ".join(f"{name} STRING" for name in names)}
        frame = _frame(spark, source, texts)
        listed = [frame[name].alias(f"c{i}") for i, name in enumerate(names)]
        check()
        frame.select(*listed).write.parquet(local(to))
    except IvmError:
        raise
    except Exception as error:
        raise _refused(source, _said(error)) from None  # Spark's own words could have secrets


def _frame(spark: SparkSession, source: JdbcSource, more: Mapping[str, str]) -> DataFrame:
    driver = source.driver or _DRIVERS.get(source.database)
    given = {"fetchsize": _FETCHED, **_TEXTS.get(source.database, {})}
    given |= {"driver": driver} if driver else {}
    reader = spark.read.options(**given, **more).options(**source.options, **source.secrets)
    if source.partitions:
        return reader.jdbc(source.url, source.relation, predicates=list(source.partitions))
    return reader.jdbc(source.url, source.relation)


def _named(name: str, there: Sequence[str]) -> str:
    """The column that is meant, as the database spells it."""
    alike = [known for known in there if fold(known) == fold(name)]
    if name in alike:
        return name
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise SqlError(
            f"the source has the columns {', '.join(alike)}: spell {name!r} as one of them"
        )
    raise SqlError(f"the source has no column {name!r}; it has {', '.join(there)}")


def _back_quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _said(error: Exception) -> str:
    """What Spark says, and what the driver has told it, if it keeps that apart."""
    cause = getattr(error, "_cause", None)
    words = [words_of(error), *([words_of(cause)] if isinstance(cause, Exception) else [])]
    return ": ".join(words)


def _refused(source: JdbcSource, words: str) -> UnavailableError:
    for secret in (*source.secrets.values(), source.url):
        words = words.replace(secret, "…")
    if any(sign in words for sign in _NO_DRIVER):
        return UnavailableError(
            f"Spark has no JDBC driver for {source.database} ({words}): write its package into "
            "ivm.toml beside the database, as [spark] packages = "
            '["org.postgresql:postgresql:42.7.7"], or give its jar as spark.jars, before Spark '
            "starts in this process; for databases other than PostgreSQL name the class, too "
            "(driver = 'com.example.Driver')"
        )
    return UnavailableError(f"the JDBC source cannot be read: {words}")
