"""CREATE TABLE … FROM JDBC: the rows are copied to Parquet files, from which the table is made.

Contract: nothing of the connection is kept, neither in the catalog nor in the log: after the copy
the statement is `CREATE TABLE … FROM PARQUET 'copy'`. The copy is made without a lock.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from ivm.backfill.extraction import extract
from ivm.session.session import Session
from ivm.spark_backfill.jdbc import JdbcSource
from ivm.sql.statements import parse as st
from ivm.storage.errors import InputError, SqlError, UnsupportedError
from ivm.storage.identifiers import literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, roll_back, rows, run

FORMAT = "jdbc"
_READER = ("fetchsize", "user")
_PARTITIONS = ("partitioncolumn", "lowerbound", "upperbound", "numpartitions")
_KNOWN = ("copy", "dbtable", "query", *_PARTITIONS, "driver", *_READER, "password")
_KEPT = ("stored", "check")
_ENVIRONMENT = "env:"
_SECRET = re.compile(
    r"(password|passphrase|pwd|secret|token)\s*=|://[^/@\s]*:[^/@\s]*@|thin:[^/@]+/[^@]+@", re.I
)
_PROBE = "ivm columns of a copy"  # no user's table has such a name


def copied(session: Session, statement: st.CreateHistory) -> st.CreateHistory:
    """Copies the rows, and gives the statement that makes the table of the copy.

    Raises:
        InputError: an option is missing, wrong or a secret; a value is not of its type.
        UnsupportedError: a transaction is open, or a column cannot be copied.
        UnavailableError: Spark or the database cannot do it now.
    """
    if session.transaction is not None:
        raise UnsupportedError(
            "rows are not copied over JDBC in a transaction, which would hold up all writers: "
            "COMMIT or ROLLBACK it first",
            statement.offset,
        )
    given = dict(statement.options)
    source, to = _source(statement.location, given), _folder(given)
    schema, key = _columns(session.cursor, statement)
    session.release()
    extract(session.engine, session.cursor, source, schema, key, to)
    return _of_copy(statement, to, {name: given[name] for name in _KEPT if name in given})


def _of_copy(statement: st.CreateHistory, to: Path, kept: Mapping[str, str]) -> st.CreateHistory:
    options = {"hive_partitioning": "false", **kept}
    listed = ", ".join(f"{name} = {literal(value)}" for name, value in options.items())
    name = ".".join(map(quote, statement.name))
    text = f"CREATE TABLE {name} ({statement.columns}) FROM PARQUET {literal(str(to))}"
    return dataclasses.replace(
        statement,
        text=f"{text} WITH ({listed})",
        format="parquet",
        location=f"{to}/",
        options=tuple(options.items()),
    )


def _columns(cursor: Cursor, statement: st.CreateHistory) -> tuple[Schema, list[str]]:
    """The columns that the statement lists, and those of its primary key."""
    if not statement.columns.strip():
        raise SqlError(
            "a table FROM JDBC needs a list of its columns: CREATE TABLE t (id BIGINT PRIMARY KEY, "
            "…) FROM JDBC …",
            statement.offset,
        )
    run(cursor, "BEGIN")
    try:
        run(cursor, f"CREATE TEMP TABLE {quote(_PROBE)} ({statement.columns})")
        schema = describe(cursor, f"FROM temp.{quote(_PROBE)}")
        keys = rows(
            cursor,
            "SELECT constraint_column_names FROM duckdb_constraints() "
            f"WHERE table_name = {literal(_PROBE)} AND constraint_type = 'PRIMARY KEY'",
        )
    finally:
        roll_back(cursor)
    return schema, keys[0][0] if keys else []


# --- options ---


def _source(url: str, given: Mapping[str, str]) -> JdbcSource:
    unknown = sorted(set(given) - {*_KNOWN, *_KEPT})
    if unknown:
        raise SqlError(
            f"tables FROM JDBC have no option {unknown[0]!r}; they have {', '.join(_KNOWN)}, "
            "stored and check. What the driver knows stands in the URL"
        )
    if not re.match(r"jdbc:\w+:", url):
        raise SqlError("the place of a table FROM JDBC is a URL as 'jdbc:postgresql://host/name'")
    if _SECRET.search(url):
        raise InputError(
            "the URL has a password in it, which would be told in logs: leave it out, write "
            "user = '…', password = 'env:NAME', and set the environment variable NAME"
        )
    options = {name: given[name] for name in _READER if name in given}
    relation, driver = _relation(given), given.get("driver", "")
    return JdbcSource(url, relation, _partitions(given), driver, options, _secrets(given))


def _secrets(given: Mapping[str, str]) -> dict[str, str]:
    if "password" not in given:
        return {}
    variable = given["password"].removeprefix(_ENVIRONMENT)
    if variable == given["password"]:
        raise InputError(
            "the option 'password' is the name of an environment variable: set PGPASSWORD, for "
            "example, and write password = 'env:PGPASSWORD'"
        )
    if not os.environ.get(variable):
        raise InputError(
            f"the environment variable {variable!r} is not set, which the option 'password' names: "
            "set it for this process"
        )
    return {"password": os.environ[variable]}


def _relation(given: Mapping[str, str]) -> str:
    if ("dbtable" in given) == ("query" in given):
        raise SqlError(
            "a table FROM JDBC is one of dbtable = 'schema.table' and query = 'SELECT …': give one"
        )
    query = given.get("query", "").strip().rstrip(";")
    # The parenthesis has a line of its own: the query may end in a comment.
    return given.get("dbtable", f"({query}\n) ivm_copied")


def _partitions(given: Mapping[str, str]) -> tuple[str, ...]:
    """Conditions that divide the rows, also those without a value, into ranges of equal width."""
    if not any(name in given for name in _PARTITIONS):
        return ()
    missing = [name for name in _PARTITIONS if name not in given]
    if missing:
        raise SqlError(f"{', '.join(_PARTITIONS)} go together: {', '.join(missing)} is missing")
    low, high, count = (_number(name, given[name]) for name in _PARTITIONS[1:])
    if not (low < high and count >= 1):
        raise SqlError("lowerbound is less than upperbound, and numpartitions at least 1")
    bounds = sorted({low + (high - low) * i // count for i in range(1, count)} - {low})
    if not bounds:
        return ()
    column = f"({given['partitioncolumn']})"
    inner = [f"{column} >= {a} AND {column} < {b}" for a, b in pairwise(bounds)]
    first = f"{column} < {bounds[0]} OR {column} IS NULL"
    return (first, *inner, f"{column} >= {bounds[-1]}")


def _number(name: str, value: str) -> int:
    if not re.fullmatch(r"-?\d+", value):
        raise SqlError(
            f"{name} is a whole number, not {value!r}; partitioncolumn may be an expression that "
            "gives some"
        )
    return int(value)


def _folder(given: Mapping[str, str]) -> Path:
    if not given.get("copy"):
        raise SqlError(
            "a table FROM JDBC needs a folder for its rows, which stays: copy = 'lake/orders'"
        )
    to = Path(os.path.abspath(given["copy"]))
    if re.match(r"[a-z0-9]+://", given["copy"], re.I) or any(sign in str(to) for sign in "*?["):
        raise UnsupportedError(
            f"the copy {given['copy']!r} is to be a folder that this process sees, without * ? [ "
            "in its path"
        )
    if os.path.lexists(to):
        raise InputError(
            f"{str(to)!r} is there already: CREATE TABLE … FROM PARQUET {literal(given['copy'])} "
            "makes a table of a copy that was made before; or name another folder"
        )
    if not to.parent.is_dir():
        raise InputError(f"there is no folder {str(to.parent)!r} for the copy: make it first")
    return to
