"""Rows held in memory read as DuckDB's do: in the session's time zone, and to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

import ivm

# DuckDB makes frames of such times in a way that pandas will not have for ever.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

ZONE = "America/New_York"
TABLE = """
    CREATE TABLE t (k INTEGER PRIMARY KEY, z TIMESTAMPTZ, l TIMESTAMPTZ[], u INTEGER);
    INSERT INTO t SELECT i, z, [z, NULL], 0
    FROM (SELECT i, make_timestamptz(1710052200000000 + i * 3600000000) AS z
        FROM range(4) r(i))
"""
ROWS = "SELECT k, z, l, {'z': z} AS s, MAP {'z': z} AS m FROM t ORDER BY k"

Read = Callable[[Any], Any]
READINGS: dict[str, Read] = {
    "fetchall": lambda result: result.fetchall(),
    "df": lambda result: result.df().to_dict(),
    "fetchnumpy": lambda result: [list(column) for column in result.fetchnumpy().values()],
}


@pytest.fixture
def databases() -> Iterator[tuple[ivm.Database, duckdb.DuckDBPyConnection]]:
    with ivm.connect() as db, duckdb.connect() as peer:
        for side in (db, peer):
            side.execute(f"SET TimeZone = '{ZONE}'")
            side.execute(TABLE)
        yield db, peer


Databases = tuple[ivm.Database, duckdb.DuckDBPyConnection]


@pytest.mark.full
@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_times_keep_their_zone_when_the_cursor_is_needed_again(
    databases: Databases, read: Read
) -> None:
    db, peer = databases
    ours, theirs = db.execute(ROWS), peer.execute(ROWS)
    assert ours.fetchone() == theirs.fetchone()
    db.execute("SET TimeZone = 'Asia/Tokyo'")
    assert str(read(ours)) == str(read(theirs))


@pytest.mark.full
@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO t VALUES (9, TIMESTAMPTZ '1970-01-01 00:00:00+00', NULL, 1) RETURNING *",
        "UPDATE t SET u = 3 WHERE k = 2 RETURNING k, z, [z] AS list",
        "UPDATE t SET u = 3 WHERE k % 2 = 1 RETURNING z",
        "DELETE FROM t WHERE k = 1 RETURNING *",
        "INSERT OR REPLACE INTO t VALUES (1, NULL, ['2024-07-01'], 5) RETURNING *",
    ],
)
def test_what_a_change_returns_has_the_zone_of_the_session(
    databases: Databases, change: str, read: Read
) -> None:
    db, peer = databases
    assert str(read(db.execute(change))) == str(read(peer.execute(change)))


@pytest.mark.full
def test_printed_rows_have_the_zone_of_the_session(databases: Databases) -> None:
    db, peer = databases
    change = "UPDATE t SET u = 3 WHERE k = 2 RETURNING z, l"
    shown, found = repr(db.execute(change)), db.sql(ROWS)
    assert "2024-03-10 04:30:00-04" in shown
    assert found is not None
    assert repr(found) == str(peer.sql(ROWS)) == repr(db.execute(ROWS))
    assert str(found.pl().schema["z"]) == str(db.execute(ROWS).pl().schema["z"])
    assert ZONE in str(found.pl().schema["z"])


QUERIES = [
    "SELECT k, u, [u] AS l FROM t",
    "SELECT k, u FROM t WHERE k = 2",
    "UPDATE t SET u = 4 WHERE k = 2 RETURNING u, 'x' AS s",
    "SELECT 1 AS a, 2 AS a, NULL, 'x'::ENUM('x', 'y') AS e, 5::HUGEINT AS h, [1]::VARIANT AS v",
]


@pytest.mark.full
@pytest.mark.parametrize("last", ["fetchall", "df", "arrow", "pl", "fetchnumpy"])
@pytest.mark.parametrize("query", QUERIES)
def test_after_the_last_row_there_are_the_columns(
    databases: Databases, query: str, last: str
) -> None:
    db, _ = databases
    names, types = db.execute(query).df().columns.tolist(), db.execute(query).arrow().schema.types

    def read() -> ivm.Result:
        result = db.execute(query)
        getattr(result, last)()
        return result

    assert read().fetchall() == []
    assert (read().fetchone(), read().fetchmany(3)) == (None, [])
    assert (read().df().columns.tolist(), len(read().df())) == (names, 0)
    assert list(read().fetchnumpy()) == names
    assert (read().arrow().schema.types, read().arrow().num_rows) == (types, 0)


def test_a_statement_without_rows_has_no_columns(databases: Databases) -> None:
    db, _ = databases
    done = db.execute("CREATE TABLE other (a INTEGER)")
    assert (done.df().shape, done.fetchnumpy(), done.arrow().shape) == ((0, 0), {}, (0, 0))
    count = db.execute("DELETE FROM t WHERE k = 3")
    assert count.df()["Count"].tolist() == [1]
    assert count.df()["Count"].tolist() == []


@pytest.mark.full
@pytest.mark.parametrize("value", ["INTERVAL 1 MONTH", "[INTERVAL 1 DAY]", "union_value(x := 1)"])
def test_a_type_that_polars_has_not(value: str) -> None:
    """Bug: it was called a fault of the program, or was no `Exception` at all."""
    with ivm.connect() as db, pytest.raises(ivm.errors.UnsupportedError, match="CAST it"):
        db.execute(f"SELECT {value} AS a").pl()
