"""The drivers of Python against `ivm serve`: psycopg 3, psycopg2, asyncpg and SQLAlchemy."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import struct
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy as sa
from psycopg.types.json import Json

from ivm.serve.pg.values import types
from tests.serve.serving import Served

pytestmark = pytest.mark.full(smoke=6)

UTC = datetime.UTC
DAY = 86_400_000_000  # microseconds
VALUES: dict[str, Any] = {
    "true": True,
    "1::TINYINT": 1,
    "-2::SMALLINT": -2,
    "3": 3,
    "4::UINTEGER": 4,
    "-5::BIGINT": -5,
    "18446744073709551615::UBIGINT": Decimal(18446744073709551615),
    "-170141183460469231731687303715884105::HUGEINT": Decimal(
        "-170141183460469231731687303715884105"
    ),
    "0.5::FLOAT": 0.5,
    "1e300::DOUBLE": 1e300,
    "'infinity'::DOUBLE": float("inf"),
    "1.50::DECIMAL(5, 2)": Decimal("1.50"),
    "-0.05::DECIMAL(18, 2)": Decimal("-0.05"),
    "123456789012345678901234567890.5::DECIMAL(38, 2)": Decimal(
        "123456789012345678901234567890.50"
    ),
    "'hé'": "hé",
    "''": "",
    "'\\x00\\xff'::BLOB": b"\x00\xff",
    "DATE '2024-02-29'": datetime.date(2024, 2, 29),
    "TIME '01:02:03.5'": datetime.time(1, 2, 3, 500000),
    "TIMESTAMP '2024-01-02 03:04:05.678'": datetime.datetime(2024, 1, 2, 3, 4, 5, 678000),
    "TIMESTAMP '1969-12-31 23:59:59'": datetime.datetime(1969, 12, 31, 23, 59, 59),
    "TIMESTAMP_S '2024-01-02 03:04:05'": datetime.datetime(2024, 1, 2, 3, 4, 5),
    "TIMESTAMPTZ '2024-01-02 03:04:05+01'": datetime.datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC),
    "INTERVAL '3 days 04:05:06'": datetime.timedelta(3, hours=4, minutes=5, seconds=6),
    "'8ceadae7-9c71-4d89-b5e1-00bd5b811d01'::UUID": uuid.UUID(
        "8ceadae7-9c71-4d89-b5e1-00bd5b811d01"
    ),
    "[1, NULL, 3]": [1, None, 3],
    "[]::INTEGER[]": [],
    "['a\"b', NULL, 'c\\d', '']": ['a"b', None, "c\\d", ""],
    "[1.5::DECIMAL(4, 1)]": [Decimal("1.5")],
    "[DATE '2024-01-01']": [datetime.date(2024, 1, 1)],
    "'a'::ENUM('a', 'b')": "a",
}


@pytest.fixture
def connection(shop: Served) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(shop.dsn()) as connection:
        yield connection
        connection.rollback()


# -- values -------------------------------------------------------------------------------------


@pytest.mark.full
def test_every_number_of_nested_values_is_json(connection: psycopg.Connection[Any]) -> None:
    # DuckDB's own JSON has `.5` for a DECIMAL(p, p), and a bare NaN.
    value = "{'x': -0.5::DECIMAL(18, 18), 't': ':.5', 'd': 'nan'::DOUBLE}"
    found = connection.execute(f"SELECT {value}").fetchone()
    assert found == ({"x": -0.5, "t": ":.5", "d": "NaN"},)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_values_of_all_types(
    connection: psycopg.Connection[Any], *, binary: bool, many: bool
) -> None:
    """Few rows and many rows are encoded on different ways, with the same values."""
    columns = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(VALUES))
    nulls = ", ".join("NULL" for _ in VALUES)
    sql = f"SELECT * FROM (SELECT {columns} UNION ALL SELECT {nulls}) v, range({200 * many + 1})"
    rows = connection.cursor(binary=binary).execute(sql).fetchall()
    assert len(rows) == 2 * (200 * many + 1)
    for row in rows:
        found = row[:-1]
        if any(value is not None for value in found):
            assert list(found) == list(VALUES.values())


@pytest.mark.parametrize("binary", [False, True])
def test_each_value_by_itself(connection: psycopg.Connection[Any], *, binary: bool) -> None:
    cursor = connection.cursor(binary=binary)
    for sql, value in VALUES.items():
        assert cursor.execute(f"SELECT {sql}, NULL, {sql}").fetchone() == (value, None, value), sql


@pytest.mark.parametrize(
    "value",
    [
        "DATE '5877642-06-25 (BC)'",
        "TIMESTAMP '290309-12-22 (BC) 00:00:00'",
        "[TIMESTAMPTZ '290309-12-22 (BC) 00:00:00+00']",
    ],
)
def test_times_before_all_binary_ones_are_refused(
    connection: psycopg.Connection[Any], value: str
) -> None:
    with pytest.raises(psycopg.errors.NumericValueOutOfRange, match="a time is out of range"):
        connection.cursor(binary=True).execute(f"SELECT {value}")


def test_few_rows_have_the_texts_of_many(connection: psycopg.Connection[Any]) -> None:
    values = "19781.0625::FLOAT, -1915074.75::FLOAT, 'nan'::FLOAT, -0.5::DECIMAL(18, 18)"
    texts = (b"19781.0625", b"-1915074.75", b"NaN", b"-0.500000000000000000")
    for count in (1, 200):
        cursor = connection.execute(f"SELECT {values} FROM range({count})")
        assert cursor.pgresult is not None
        for row in (0, count - 1):
            assert tuple(cursor.pgresult.get_value(row, i) for i in range(4)) == texts


def test_nested_values_are_json(connection: psycopg.Connection[Any]) -> None:
    sql = "SELECT {'a': 1, 'b': [1, 2]}, MAP {'k': 5}, [[1], [2, 3]], '{\"x\": 1}'::JSON"
    row = connection.execute(sql).fetchone()
    assert row == ({"a": 1, "b": [1, 2]}, {"k": 5}, [[1], [2, 3]], {"x": 1})


def test_parameters_keep_their_types(connection: psycopg.Connection[Any]) -> None:
    given = [value for value in VALUES.values() if value not in ([], None)]
    for form in ("%s", "%b", "%t"):
        for value in given:
            if isinstance(value, list) and isinstance(value[0], str):
                continue  # texts have no type with psycopg, and lists of them neither
            sql = f"SELECT {form} AS found"
            row = connection.execute(sql.encode(), [value]).fetchone()
            assert row is not None
            assert row[0] == value, (form, value)


def test_parameters_that_duckdb_does_not_take_from_python(
    connection: psycopg.Connection[Any],
) -> None:
    west = datetime.timezone(datetime.timedelta(hours=-5, minutes=-30))
    time = datetime.time(1, 2, 3, 4, tzinfo=west)
    assert connection.execute("SELECT %b, %t", [time, time]).fetchone() == (time, time)
    for form in ("%b", "%t::NUMERIC"):
        sql = f"SELECT {form}"
        with pytest.raises(psycopg.errors.NumericValueOutOfRange):
            connection.execute(sql.encode(), [Decimal("9" * 39)])
        connection.rollback()


def test_bytes_that_drivers_write_into_the_statement(
    connection: psycopg.Connection[Any], shop: Served
) -> None:
    r"""DuckDB would take PostgreSQL's `'\x005c'` for a byte and two letters."""
    given, text = (bytes(range(256)), b"", b"\0\\x41"), r"'\x4142'::bytea"
    for value in given:
        found = psycopg.ClientCursor(connection).execute("SELECT %s, %s", [value, text])
        assert found.fetchone() == (value, text)
    with psycopg2.connect(shop.dsn()) as other, other.cursor() as cursor:
        cursor.execute("SELECT %s, %s", [psycopg2.Binary(given[0]), [given[0], given[2]]])
        whole, listed = cursor.fetchone() or (b"", [])
        assert [bytes(whole), *map(bytes, listed)] == [given[0], given[0], given[2]]


def test_bytes_of_postgresqls_form_are_those_of_a_cast_alone(
    connection: psycopg.Connection[Any],
) -> None:
    row = connection.execute(
        r"SELECT '\x005c' :: BYTEA, CAST('\x4142' AS blob), E'\\x4142'::bytea, bytea '\x4142', "
        r"'\x41\x42'::BLOB, '\x4142', '''\x4142''::bytea', $$'\x4142'::bytea$$, "
        "'\\x41'::bytea::VARCHAR -- '\\x4142'::bytea"
    ).fetchone()
    texts = r"\x4142", r"'\x4142'::bytea", r"'\x4142'::bytea", "A"
    assert row == (b"\0\\", b"AB", b"AB", b"AB", b"AB", *texts)
    with pytest.raises(psycopg.errors.SyntaxErrorOrAccessRuleViolation, match="two hexa"):
        connection.execute(r"SELECT '\x414'::bytea")
    connection.rollback()
    with pytest.raises(psycopg.errors.UndefinedColumn) as raised:  # places stay what they are
        connection.execute(r"SELECT '\x4142'::bytea, nothing")
    assert raised.value.diag.statement_position == "25"


BINARY: dict[int, list[bytes]] = {
    types.TIME: [struct.pack("!q", micros) for micros in (0, 1, DAY)],
    types.TIMETZ: [
        struct.pack("!qi", micros, west) for micros in (5, DAY) for west in (0, 19_815, -57_599)
    ],
    types.INTERVAL: [
        struct.pack("!qii", *parts)
        for parts in ((-1, 0, 0), (DAY, -1, 13), (30 * DAY, 0, 0), (-5, 1, 0), (0, -(1 << 31), 0))
    ],
    types.DATE: [struct.pack("!i", days) for days in (-746_000, -730_120, 3_000_000)],
    types.TIMESTAMP: [
        struct.pack("!q", micros) for micros in (-746_000 * DAY + 5, 3_000_000 * DAY)
    ],
    types.TIMESTAMPTZ: [struct.pack("!q", -746_000 * DAY + 5)],
}


@pytest.mark.parametrize("oid", BINARY)
def test_binary_values_that_python_does_not_have(
    connection: psycopg.Connection[Any], oid: int
) -> None:
    """They come back as they went, by themselves and in arrays, or are refused."""
    sql = f"SELECT $1, [$1::{types.duckdb_type(oid)}, NULL]".encode()
    for value in BINARY[oid]:
        found = connection.pgconn.exec_params(sql, [value], [oid], [1], 1)
        assert found.error_message == b""
        assert found.get_value(0, 0) == value
        assert value in (found.get_value(0, 1) or b"")


def test_times_of_no_day_are_refused(connection: psycopg.Connection[Any]) -> None:
    for oid, zone in ((types.TIME, b""), (types.TIMETZ, bytes(4))):
        for micros in (-1, DAY + 1):
            given = [struct.pack("!q", micros) + zone]
            found = connection.pgconn.exec_params(b"SELECT $1", given, [oid], [1], 1)
            assert b"invalid value for parameter $1" in found.error_message


def test_json_as_a_parameter_becomes_a_value_that_is_nested(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(
        "CREATE TABLE nested (s STRUCT(q VARCHAR), m MAP(VARCHAR, INTEGER), "
        "u UNION(i INTEGER, s VARCHAR), j JSON)"
    )
    values: list[Any] = [{"q": "a\nb"}, {"k": 1}, {"i": 1}, ["é", None]]
    for form in ("%s", "%b", "%t"):
        marks = ", ".join([form] * 4)
        given = [Json(value) for value in values]
        connection.execute(f"INSERT INTO nested VALUES ({marks})".encode(), given)
    texts = [json.dumps(value) for value in values]  # their types are those of the columns
    connection.execute("INSERT INTO nested VALUES (%s, %s, %s, %s)", texts)
    sql = "SELECT s.q, m['k'], u.i, j FROM nested"
    assert connection.execute(sql).fetchall() == [("a\nb", 1, 1, ["é", None])] * 4
    sql = "SELECT count(*) FROM nested WHERE s = %s AND u IN (%s, %s)"
    given = [Json(value) for value in ({"q": "a\nb"}, {"s": "x"}, {"i": 1})]
    assert connection.execute(sql, given).fetchone() == (4,)
    connection.execute("DELETE FROM nested")
    connection.commit()
    for column, text in (("s", "{'q': 'x'}"), ("j", "{x"), ("j", '"\\ud800"'), ("u", "1")):
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            connection.execute(f"INSERT INTO nested ({column}) VALUES (%s)".encode(), [text])
        connection.rollback()
    connection.execute("DROP TABLE nested")
    connection.commit()


def test_bytes_in_json_come_as_they_go(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TABLE nested (s STRUCT(b BLOB, n VARCHAR))")
    connection.execute(r"INSERT INTO nested VALUES ({'b': '\x00\xFFa', 'n': '\x00'})")
    (told,) = connection.execute("FROM nested").fetchone() or (None,)
    connection.execute("INSERT INTO nested VALUES (%s)", [Json(told)])
    assert connection.execute("SELECT DISTINCT s.b, s.n FROM nested").fetchall() == [
        (b"\0\xffa", r"\x00")
    ]


def test_years_before_our_era_as_parameters(connection: psycopg.Connection[Any]) -> None:
    """DuckDB reads the second text as one of our era."""
    row = connection.execute(
        "SELECT %s::DATE::VARCHAR, %s::TIMESTAMP::VARCHAR",
        ["0044-03-15 BC", "0044-03-15 10:00:00 BC"],
    ).fetchone()
    assert row == ("0044-03-15 (BC)", "0044-03-15 (BC) 10:00:00")


def test_infinite_dates_and_years_before_our_era_as_text(
    connection: psycopg.Connection[Any],
) -> None:
    sql = (
        "SELECT CAST('infinity' AS DATE)::VARCHAR, CAST('-infinity' AS TIMESTAMP) < TIMESTAMP "
        "'2000-01-01', %s::DATE > DATE '9999-01-01'"
    )
    assert connection.execute(sql, ["infinity"]).fetchone() == ("infinity", True, True)


# -- transactions -------------------------------------------------------------------------------


def test_a_transaction_is_undone_or_done_as_a_whole(shop: Served) -> None:
    with psycopg.connect(shop.dsn()) as connection:
        connection.execute("INSERT INTO customers VALUES (500, 'EU', 'tx')")
        connection.rollback()
        assert connection.execute("SELECT 1 FROM customers WHERE id = 500").fetchall() == []
        connection.execute("INSERT INTO customers VALUES (500, 'EU', 'tx')")
        connection.commit()
        found = connection.execute("DELETE FROM customers WHERE id = 500 RETURNING note").fetchall()
        assert found == [("tx",)]


def test_a_failed_transaction_refuses_all_but_its_end(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO customers VALUES (501, 'EU', 'f')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("INSERT INTO customers VALUES (1, 'EU', 'f2')")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        connection.execute("SELECT 1")
    connection.commit()  # as in PostgreSQL, a COMMIT then rolls back
    assert connection.execute("SELECT 1 FROM customers WHERE id = 501").fetchall() == []


def test_an_idle_transaction_that_has_only_read_holds_up_nobody(shop: Served) -> None:
    with psycopg.connect(shop.dsn()) as reader, psycopg.connect(shop.dsn()) as writer:
        reader.execute("SELECT count(*) FROM orders").fetchall()
        writer.execute("INSERT INTO customers VALUES (502, 'EU', 'idle')")
        writer.execute("DELETE FROM customers WHERE id = 502")
        writer.commit()


def test_a_transaction_that_does_nothing_for_too_long_is_ended(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as idle, psycopg.connect(shop.dsn()) as other:
        idle.execute("SET idle_in_transaction_session_timeout = '200ms'")
        idle.execute("SELECT 1")
        idle.execute("BEGIN")
        idle.execute("INSERT INTO customers VALUES (503, 'EU', 'idle')")
        other.execute("INSERT INTO customers VALUES (503, 'EU', 'other')")  # waits for its end
        other.rollback()
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            idle.execute("SELECT 1")


def test_writers_wait_for_each_other(shop: Served) -> None:
    """Each holds up the thread that has read its message, and the last message ends them all."""
    sql = "UPDATE customers SET region = region WHERE id = 7"
    with contextlib.ExitStack() as stack:
        first, *others = [stack.enter_context(psycopg.connect(shop.dsn())) for _ in range(6)]
        first.execute(sql)
        threads = [threading.Thread(target=_change, args=(each, sql)) for each in others]
        for thread in threads:
            thread.start()
        first.commit()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


def _change(connection: psycopg.Connection[Any], sql: str) -> None:
    connection.execute(sql.encode())
    connection.commit()


def test_read_only_transactions_refuse_changes(shop: Served) -> None:
    with psycopg.connect(shop.dsn()) as connection:
        connection.read_only = True
        assert connection.execute("SELECT count(*) FROM customers").fetchone() == (100,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM orders")
        connection.rollback()
        connection.read_only = False
        connection.execute("PREPARE all_gone AS DELETE FROM orders; PREPARE counted AS SELECT 1")
        connection.commit()
        connection.read_only = True
        assert connection.execute("EXECUTE counted").fetchone() == (1,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("EXECUTE all_gone")
        connection.rollback()
        assert connection.execute("SELECT count(*) > 0 FROM orders").fetchone() == (True,)


@pytest.mark.parametrize(
    "begin",
    [
        "BEGIN; SET TRANSACTION READ ONLY",
        "BEGIN; SET transaction_read_only = on",
        "SET default_transaction_read_only = on",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; BEGIN",
    ],
)
def test_read_only_is_so_however_it_is_asked_for(shop: Served, begin: str) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        connection.execute(begin.encode())
        assert connection.execute("SHOW transaction_read_only").fetchone() == ("on",)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM orders WHERE id < 0")
        connection.execute("ROLLBACK; BEGIN READ WRITE; DELETE FROM orders WHERE id < 0; COMMIT")


@pytest.mark.parametrize(
    "begin",
    [
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN",
        "SET default_transaction_isolation = 'repeatable read'; BEGIN",
    ],
)
def test_an_isolation_level_is_taken_however_it_is_asked_for(shop: Served, begin: str) -> None:
    with (
        psycopg.connect(shop.dsn(), autocommit=True) as connection,
        psycopg.connect(shop.dsn(), autocommit=True) as other,
    ):
        connection.execute(begin.encode())
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("repeatable read",)
        other.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):  # it waits for the transaction's end
            other.execute("DELETE FROM orders WHERE id < 0")
        connection.execute("COMMIT")


def test_a_transaction_that_only_reads_one_epoch_holds_up_nobody(shop: Served) -> None:
    with (
        psycopg.connect(shop.dsn(), autocommit=True) as connection,
        psycopg.connect(shop.dsn(), autocommit=True) as other,
    ):
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        before = connection.execute("SELECT count(*) FROM customers").fetchone()
        other.execute("INSERT INTO customers VALUES (901, 'EU', 'later')")
        assert connection.execute("SELECT count(*) FROM customers").fetchone() == before
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM customers")
        connection.execute("ROLLBACK")
        other.execute("DELETE FROM customers WHERE id = 901")


def test_savepoints_of_a_transaction_that_has_changed_nothing(
    connection: psycopg.Connection[Any],
) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
        connection.execute("SELECT 1 FROM nowhere")
    connection.execute("BEGIN")
    connection.execute("SAVEPOINT a€")
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("SELECT 1 FROM nowhere")
    connection.execute("ROLLBACK TO SAVEPOINT a€")
    connection.execute("INSERT INTO customers VALUES (503, 'EU', 's')")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="changed something is undone"):
        connection.execute("ROLLBACK TO a€")
    connection.rollback()
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    connection.execute("SAVEPOINT a€")
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("SELECT 1 FROM nowhere")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="see one epoch is undone"):
        connection.execute("ROLLBACK TO a€")


def test_pipelined_changes_are_one_transaction(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.UniqueViolation):
            _pipelined(connection, ["INSERT INTO customers VALUES (504, 'EU', 'p')"] * 2)
        assert connection.execute("SELECT 1 FROM customers WHERE id = 504").fetchall() == []
        with connection.pipeline():
            first = connection.execute("INSERT INTO customers VALUES (504, 'EU', 'p')")
            second = connection.execute("SELECT note FROM customers WHERE id = 504")
        assert (first.rowcount, second.fetchall()) == (1, [("p",)])
        assert connection.execute("DELETE FROM customers WHERE id = 504").rowcount == 1


SEVERAL = {
    "INSERT INTO m VALUES (1); INSERT INTO m VALUES (1); COMMIT": [],
    "INSERT INTO m VALUES (1); COMMIT; INSERT INTO m VALUES (1)": [1],
    "BEGIN; INSERT INTO m VALUES (1); COMMIT; INSERT INTO m VALUES (2); SELECT nope": [1],
    "INSERT INTO m VALUES (1); BEGIN; INSERT INTO m VALUES (2); ROLLBACK": [],
    "INSERT INTO m VALUES (1); BEGIN; INSERT INTO m VALUES (2); COMMIT": [1, 2],
    "INSERT INTO m VALUES (1); SELECT nope; INSERT INTO m VALUES (2)": [],
    "SELECT 1;; INSERT INTO m VALUES (1);": [1],
}


@pytest.mark.parametrize("sql", SEVERAL)
def test_several_statements_of_one_message_are_one_transaction(shop: Served, sql: str) -> None:
    """As in PostgreSQL: what ends a transaction among them ends that of those before it."""
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        connection.execute("CREATE OR REPLACE TABLE m (a INTEGER PRIMARY KEY)")
        connection.pgconn.exec_(sql.encode())
        connection.pgconn.exec_(b"ROLLBACK")
        found = connection.execute("SELECT a FROM m ORDER BY a").fetchall()
        assert [a for (a,) in found] == SEVERAL[sql]
        connection.execute("DROP TABLE m")


def test_statements_behind_a_copy_of_the_same_message_are_run(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        sql = b"CREATE TABLE m (a INTEGER); COPY m FROM STDIN; INSERT INTO m VALUES (2); TABLE m"
        wire = connection.pgconn
        wire.send_query(sql)
        statuses = []
        while (result := wire.get_result()) is not None:
            statuses.append(result.status)
            if result.status == psycopg.pq.ExecStatus.COPY_IN:
                wire.put_copy_data(b"1\n")
                wire.put_copy_end()
        assert len(statuses) == 5
        assert connection.execute("SELECT sum(a) FROM m").fetchone() == (3,)
        connection.execute("DROP TABLE m")


def _pipelined(connection: psycopg.Connection[Any], statements: list[str]) -> None:
    with connection.pipeline():
        for statement in statements:
            connection.execute(statement.encode())


ERRORS = {
    "SELECT nope FROM orders": "42703",
    "SELECT * FROM nowhere": "42P01",
    "SELEC 1": "42601",
    "SELECT nofunction(1)": "42883",
    "SELECT * FROM preview(1)": "42883",
    "SELECT 1::preview_type": "42704",
    "INSERT INTO customers VALUES (1, 'EU', 'e')": "23505",
    "INSERT INTO customers VALUES (505, NULL, 'e')": "23502",
    "INSERT INTO orders VALUES (5000, 1, -1, NULL)": "23514",
    "INSERT INTO orders VALUES (5000, 12345, 1, NULL)": "23503",
    "SELECT CAST('x' AS INTEGER)": "22P02",
    "SELECT 9223372036854775807 + 1::BIGINT": "22003",
    "CREATE TABLE orders (a INTEGER)": "42P07",
    "CREATE SCHEMA main": "42P06",
    "INSERT INTO customers VALUES (1, 'EU', 'e', 5)": "42601",
    "SET nothing_of_the_kind = 1": "42704",
    "EXECUTE nowhere": "26000",
    "LISTEN something": "0A000",
    "SET client_encoding = 'LATIN1'": "0A000",
    "USE main": "0A000",
}


@pytest.mark.parametrize("sql", ERRORS)
def test_errors_have_their_codes(connection: psycopg.Connection[Any], sql: str) -> None:
    with pytest.raises(psycopg.Error) as raised:
        connection.execute(sql)
    assert raised.value.sqlstate == ERRORS[sql]


def test_values_in_a_message_do_not_change_its_code(shop: Served) -> None:
    cases = {
        "INSERT INTO told VALUES ('foreign key', 'z', 1)": "23505",
        "INSERT INTO told VALUES ('z', 'a\"b not null', 1)": "23505",
        "INSERT INTO told SELECT 'foreign key', 'z', 1": "23505",
        "INSERT INTO told VALUES ('y', 'foreign key', 0)": "23514",
        "INSERT INTO told VALUES ('y', 'check constraint', NULL)": "23502",
        "SELECT 'division by zero'::INTEGER": "22P02",
        "SELECT 'it''s out of range'::DATE": "22P02",
        'SELECT "already exists" FROM told': "42703",
    }
    with psycopg.connect(shop.dsn(), autocommit=True) as client:
        client.execute(
            "CREATE TABLE told (k VARCHAR PRIMARY KEY, u VARCHAR UNIQUE, "
            "c INTEGER NOT NULL CHECK (c > 0));"
            "INSERT INTO told VALUES ('foreign key', 'a\"b not null', 1)"
        )
        for sql, code in cases.items():
            with pytest.raises(psycopg.Error) as raised:
                client.execute(sql.encode())
            assert raised.value.sqlstate == code, sql
        client.execute("DROP TABLE told")  # the server is that of all tests


def test_binary_numerics_without_a_number_are_doubles(
    connection: psycopg.Connection[Any],
) -> None:
    for form in ("%t", "%b"):
        for text in ("NaN", "Infinity", "-Infinity"):
            row = connection.execute(f"SELECT {form}::DOUBLE".encode(), [Decimal(text)]).fetchone()
            assert row is not None
            assert repr(row[0]) == repr(float(text))


def test_places_of_errors_count_from_one(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UndefinedColumn) as raised:
        connection.execute("SELECT 1; SELECT nope FROM orders", prepare=False)
    assert raised.value.diag.statement_position == "18"


# -- statements ---------------------------------------------------------------------------------


def test_prepared_statements_and_portals_with_limits(shop: Served) -> None:
    with psycopg.connect(shop.dsn()) as connection:
        for i in range(8):
            sql = "SELECT note FROM customers WHERE id = %s"
            assert connection.execute(sql, [i], prepare=True).fetchone() == (f"n{i}",)
        rows = connection.cursor().stream("SELECT id FROM orders ORDER BY id", size=7)
        assert [id for (id,) in rows] == list(range(1000))


@pytest.mark.full
def test_statements_that_a_client_gives_up_are_forgotten(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        connection.prepare_threshold, connection.prepared_max = 0, 5
        for i in range(30):
            assert connection.execute(f"SELECT %s + {i}", [1]).fetchone() == (1 + i,)
        left = connection.pgconn.describe_prepared(b"_pg3_0")
        assert left.status == psycopg.pq.ExecStatus.FATAL_ERROR
        connection.execute("DISCARD ALL")
        name = connection.pgconn.prepare(b"_pg3_29", b"SELECT 1")
        assert name.status == psycopg.pq.ExecStatus.COMMAND_OK


def test_settings_are_undone_with_their_transaction(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        for sql, zone in (
            ("BEGIN; SET LOCAL TimeZone = 'Asia/Tokyo'; COMMIT", "UTC"),
            ("BEGIN; SET TimeZone = 'Asia/Tokyo'; ROLLBACK", "UTC"),
            ("SET LOCAL TimeZone = 'Asia/Tokyo'; SELECT 1", "UTC"),
            ("SET TimeZone = 'Asia/Tokyo'", "Asia/Tokyo"),
            (
                "BEGIN; SET TimeZone = 'Europe/Rome'; SET LOCAL TimeZone = 'UTC'; COMMIT",
                "Europe/Rome",
            ),
            (
                "BEGIN; SET LOCAL TimeZone = 'UTC'; SET TimeZone = 'Asia/Tokyo'; COMMIT",
                "Asia/Tokyo",
            ),
        ):
            connection.execute(sql.encode())
            assert connection.execute("SHOW TimeZone").fetchone() == (zone,), sql
            assert connection.info.parameter_status("TimeZone") == zone
        for sql in (
            "SET TimeZone = 'UTC'; SELECT 1 / 'x'",
            "BEGIN; SET TimeZone = 'UTC'; SELECT x",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(sql.encode())
            connection.execute("ROLLBACK")
            moment = connection.execute("SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00'::VARCHAR")
            assert moment.fetchone() == ("2024-01-01 09:00:00+09",)


@pytest.mark.full
def test_discard_leaves_nothing_to_the_next_user_of_a_connection(shop: Served) -> None:
    """Else a pool's next client would read it, in place of the database's own table, too."""
    made = (
        *(
            "CREATE TEMP TABLE pooled (id INTEGER PRIMARY KEY)",
            "CREATE TEMP TYPE color AS ENUM('a')",
        ),
        *("CREATE TEMP TABLE part (id INTEGER REFERENCES pooled (id), c color)",),
        *("CREATE TEMP SEQUENCE s", "CREATE TEMP TABLE w (i BIGINT DEFAULT nextval('temp.s'))"),
        *("CREATE TEMP VIEW seen AS SELECT * FROM w", "CREATE TEMP MACRO one() AS 1"),
        "CREATE TEMP MACRO rows_of() AS TABLE SELECT 1",
    )
    with psycopg.connect(shop.dsn(), autocommit=True) as client:
        client.execute(
            "CREATE TABLE pooled (id INTEGER, v VARCHAR); INSERT INTO pooled VALUES (1, 'a')"
        )
        for way in ("DISCARD TEMP", "DISCARD ALL"):
            for sql in made:
                client.execute(sql.encode())
            client.execute("SET VARIABLE held = 'mine'")
            assert client.execute("SELECT * FROM pooled").fetchall() == []
            client.execute(way.encode())
            assert client.execute("SELECT * FROM pooled").fetchall() == [(1, "a")]
            for gone in ("FROM part", "FROM w", "FROM seen", "SELECT one()", "FROM rows_of()"):
                with pytest.raises(psycopg.Error, match="does not exist"):
                    client.execute(gone.encode())
        assert client.execute("SELECT getvariable('held')").fetchone() == (None,)
        client.execute("DROP TABLE pooled")  # the server is that of all tests


def test_discard_all_is_refused_in_a_transaction(shop: Served) -> None:
    with psycopg.connect(shop.dsn()) as client:
        client.execute("SELECT 1")
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            client.execute("DISCARD ALL")


def test_a_search_path_that_would_change_names_is_refused(
    connection: psycopg.Connection[Any],
) -> None:
    connection.autocommit = True
    for path in ('"$user", public', "main", "''", '"$user", main', "pg_catalog", "DEFAULT"):
        connection.execute(f"SET search_path = {path}".encode())
    for sql in ("SET search_path = s, main", "SELECT set_config('search_path', 's', false)"):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="of main here, not of s"):
            connection.execute(sql.encode())
    connection.execute("CREATE SCHEMA public")
    try:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="of main here, not of public"):
            connection.execute("SET search_path = public")
    finally:
        connection.execute("DROP SCHEMA public")
    assert connection.execute("SHOW search_path").fetchone() == ("main",)


def test_settings_that_a_client_asks_for_as_it_connects(shop: Served) -> None:
    options = "-c TimeZone=Asia/Tokyo --statement-timeout=3s -c application_name=a\\\\ b"
    with psycopg.connect(f"{shop.dsn()} options='{options}'", autocommit=True) as connection:
        assert connection.info.parameter_status("TimeZone") == "Asia/Tokyo"
        shown = {"TimeZone": "Asia/Tokyo", "statement_timeout": "3s", "application_name": "a b"}
        for change in ("SELECT 1", "SET TimeZone = 'UTC'; RESET ALL", "DISCARD ALL"):
            connection.execute(change.encode())
            for name, value in shown.items():
                assert connection.execute(f"SHOW {name}".encode()).fetchone() == (value,)
        moment = connection.execute("SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00'::VARCHAR")
        assert moment.fetchone() == ("2024-01-01 09:00:00+09",)
    with psycopg.connect(f"{shop.dsn()} options='-c TimeZone=GMT-02:00'") as connection:
        moment = connection.execute("SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00'::VARCHAR")
        assert moment.fetchone() == ("2024-01-01 02:00:00+02",)  # as PostgreSQL reads it
    for refused in ("TimeZone=nowhere", "search_path=s", "statement_timeout=long"):
        with pytest.raises(psycopg.OperationalError, match="FATAL"):
            psycopg.connect(f"{shop.dsn()} options='-c {refused}'")


def test_settings_are_told(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), application_name="tests") as connection:
        assert connection.info.parameter_status("application_name") == "tests"
        connection.execute("SET TIME ZONE 'Europe/Berlin'")
        assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
        sql = "SELECT CAST(TIMESTAMPTZ '2024-07-01 00:00:00+00' AS VARCHAR)"
        assert connection.execute(sql).fetchone() == ("2024-07-01 02:00:00+02",)
        assert connection.execute("SHOW timezone").fetchone() == ("Europe/Berlin",)
        connection.commit()
        with pytest.raises(psycopg.Error):
            connection.execute("SET TIME ZONE 'No/Where'")
        connection.rollback()
        assert connection.execute("SHOW timezone").fetchone() == ("Europe/Berlin",)


# -- cursors ------------------------------------------------------------------------------------


def test_cursors_of_psycopg(connection: psycopg.Connection[Any]) -> None:
    for binary in (False, True):
        with connection.cursor("c", binary=binary) as cursor:
            sql = "SELECT id, region FROM customers WHERE id < %s ORDER BY id"
            cursor.execute(sql, [70])
            assert [column.name for column in cursor.description or ()] == ["id", "region"]
            assert cursor.fetchone() == (0, "R0")
            assert len(cursor.fetchmany(20)) == 20
            connection.execute("UPDATE customers SET region = 'changed' WHERE id = 30")
            assert list(cursor) == [(i, f"R{i % 3}") for i in range(21, 70)]
            assert cursor.fetchall() == []
        connection.rollback()
    with pytest.raises(psycopg.errors.InvalidCursorName):
        connection.execute("FETCH 1 FROM c")


def test_cursors_of_psycopg2(shop: Served) -> None:
    with (
        contextlib.closing(psycopg2.connect(shop.dsn())) as connection,
        connection.cursor("named") as cursor,
    ):
        cursor.itersize = 300
        cursor.execute("SELECT id FROM orders ORDER BY id")
        assert [id for (id,) in cursor] == list(range(1000))


def test_cursors_in_sql(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:

        def run(sql: str) -> Any:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else cursor.statusmessage

        with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
            run("DECLARE a CURSOR FOR SELECT 1")
        run("BEGIN")
        assert run('DECLARE "A b" NO SCROLL CURSOR FOR SELECT i FROM range(5) t(i)') == (
            "DECLARE CURSOR"
        )
        assert run('FETCH "A b"') == [(0,)]
        assert run('MOVE 2 IN "A b"') == "MOVE 2"
        assert run('FETCH FORWARD 1 FROM "A b"') == [(3,)]
        assert run('FETCH ALL FROM "A b"') == [(4,)]
        assert run('FETCH NEXT FROM "A b"') == []
        run("DECLARE held CURSOR WITH HOLD FOR SELECT i FROM range(30000) t(i)")
        assert run('CLOSE "A b"') == "CLOSE CURSOR"
        run("COMMIT")
        assert len(run("FETCH 25000 held")) == 25000
        assert run("FETCH ALL IN held")[0] == (25000,)
        run("BEGIN")
        run("DECLARE lost CURSOR WITH HOLD FOR SELECT 1")
        run("ROLLBACK")
        for sql in ("FETCH lost", "CLOSE lost"):
            with pytest.raises(psycopg.errors.InvalidCursorName):
                run(sql)
        assert run("CLOSE ALL") == "CLOSE CURSOR ALL"
        for sql in ("FETCH PRIOR FROM held", "DECLARE s SCROLL CURSOR FOR SELECT 1"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                run(sql)
        with pytest.raises(psycopg.errors.SyntaxError, match="one query"):
            run("DECLARE d CURSOR FOR DELETE FROM orders")


def test_copy_in_and_out(connection: psycopg.Connection[Any]) -> None:
    rows = [(600 + i, "a\tb\\c\nd", None) for i in range(5)] + [(605, "\\N", "")]
    cursor = connection.cursor()
    with cursor.copy("COPY customers (id, region, note) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    assert cursor.rowcount == 6
    found = cursor.execute("SELECT * FROM customers WHERE id >= 600 ORDER BY id").fetchall()
    assert found == rows
    with cursor.copy("COPY (SELECT * FROM customers WHERE id >= 600 ORDER BY 1) TO STDOUT") as copy:
        copy.set_types(["int4", "text", "text"])
        assert list(copy.rows()) == rows


def test_a_copy_that_fails_changes_nothing(connection: psycopg.Connection[Any]) -> None:
    connection.commit()
    cursor = connection.cursor()
    with pytest.raises(psycopg.errors.UniqueViolation):
        _copy(cursor, [(700, "x", "copied"), (1, "x", "copied again")])
    connection.rollback()
    with pytest.raises(TypeError):
        _copy(cursor, [(701, "x", "copied"), 5])
    connection.rollback()
    assert cursor.execute("SELECT count(*) FROM customers WHERE id >= 700").fetchone() == (0,)


def _copy(cursor: psycopg.Cursor[Any], rows: list[Any]) -> None:
    with cursor.copy("COPY customers FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


@pytest.mark.full
def test_many_rows_and_large_values(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute("SELECT i, 'x' || i FROM range(300_000) t(i)").fetchall()
    assert rows[::50_000] == [(i, f"x{i}") for i in range(0, 300_000, 50_000)]
    text = "é" * 1_500_000
    assert connection.execute("SELECT %s::VARCHAR", [text]).fetchone() == (text,)


# -- asyncpg ------------------------------------------------------------------------------------


def run(shop: Served, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def connected() -> Any:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=shop.port, user="ann", database="shop"
        )
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(connected())


def test_statements_with_rows_are_described_before_they_run(shop: Served) -> None:
    async def work(connection: Any) -> None:
        await connection.execute("CREATE TABLE told (a INTEGER PRIMARY KEY)")
        await connection.execute("PREPARE asked AS SELECT 5 AS five")
        await connection.execute("PREPARE adding AS INSERT INTO told VALUES (1) RETURNING a")
        assert await connection.fetchval("EXECUTE asked") == 5
        assert await connection.fetchval("EXECUTE adding") == 1
        for sql in (
            *("EXPLAIN EXECUTE asked", "EXPLAIN ANALYZE INSERT INTO told VALUES (2)", "SHOW USERS"),
            *("EXPLAIN MATERIALIZED VIEW revenue", "VERIFY MATERIALIZED VIEW revenue"),
        ):
            await connection.fetch(sql)
        await connection.execute("CREATE USER tokened PASSWORD 'x' ROLE read")
        _, token = await connection.fetchrow("CREATE TOKEN told FOR USER tokened")
        assert token.startswith("ivm_")
        with pytest.raises(asyncpg.FeatureNotSupportedError):
            await connection.fetch(
                "WITH x AS (INSERT INTO told VALUES (3) RETURNING a) SELECT * FROM x"
            )
        assert [row[0] for row in await connection.fetch("FROM told ORDER BY a")] == [1, 2]
        await connection.execute("DROP USER tokened; DROP TABLE told")

    run(shop, work)


def test_asyncpg_values(shop: Served) -> None:
    async def work(connection: Any) -> None:
        for sql, value in VALUES.items():
            assert await connection.fetchval(f"SELECT {sql}") == value, sql

    run(shop, work)


def test_asyncpg_infers_the_types_of_parameters(shop: Served) -> None:
    async def work(connection: Any) -> list[Any]:
        await connection.execute("INSERT INTO customers VALUES ($1, $2, $3)", 800, "EU", "asy")
        sql = "UPDATE customers SET region = $1 WHERE id = $2 RETURNING id, region"
        changed = await connection.fetchrow(sql, "US", 800)
        by_region = await connection.fetch("SELECT id FROM customers WHERE region = $1", "US")
        first = await connection.fetch("SELECT id FROM customers ORDER BY id LIMIT $1", 2)
        sum_ = await connection.fetchval(
            "SELECT $1::BIGINT + id FROM customers WHERE id = $2", 5, 7
        )
        gone = await connection.execute("DELETE FROM customers WHERE id = $1", 800)
        return [*map(tuple, (changed, *by_region, *first)), sum_, gone]

    assert run(shop, work) == [(800, "US"), (800,), (0,), (1,), 12, "DELETE 1"]


def test_types_of_parameters_follow_the_table(shop: Served) -> None:
    """They are remembered for all sessions, but not beyond a change of the table."""

    async def work(connection: Any) -> None:
        sql = "SELECT a FROM followed WHERE a = $1"
        values: list[Any] = [1, "x", datetime.date(2024, 1, 1)]
        for type, value in zip(("INTEGER", "VARCHAR", "DATE"), values, strict=True):
            await connection.execute(f"CREATE OR REPLACE TABLE followed (a {type})")
            await connection.execute("INSERT INTO followed VALUES ($1)", value)
            await connection.reload_schema_state()
            for _ in range(3):
                async with connection.transaction():
                    assert await connection.fetchval(sql, value) == value
        async with connection.transaction():
            await connection.execute("CREATE TEMP TABLE followed (a BOOLEAN)")
            await connection.execute("INSERT INTO temp.followed VALUES (TRUE)")
            assert await connection.fetchval(sql + " ", True) is True
        await connection.execute("DROP TABLE temp.followed")
        await connection.execute("DROP TABLE followed")

    run(shop, work)


def test_asyncpg_gets_the_types_that_it_was_told(shop: Served) -> None:
    """DuckDB types a small value as INTEGER, whatever the parameter was declared as."""

    async def work(connection: Any) -> list[Any]:
        await connection.execute("CREATE TABLE told (a BIGINT)")
        try:
            sql = "SELECT a + $1, $1 FROM told"
            await connection.execute("INSERT INTO told VALUES (5)")
            first = await connection.fetchrow(sql, 7)
            await connection.execute("ALTER TABLE told ALTER a TYPE VARCHAR")
            with pytest.raises(asyncpg.PostgresError):
                await connection.fetchrow(sql, 7)
            return list(first)
        finally:
            await connection.execute("DROP TABLE told")

    assert run(shop, work) == [12, 7]


def test_asyncpg_executes_many_as_one_transaction(shop: Served) -> None:
    when = datetime.datetime(2024, 1, 1)

    async def work(connection: Any) -> list[Any]:
        sql = "INSERT INTO orders VALUES ($1, $2, $3, $4)"
        rows = [(6000 + i, i, Decimal("2.5"), when) for i in range(100)]
        await connection.executemany(sql, rows)
        count = await connection.fetchval("SELECT count(*) FROM orders WHERE id >= $1", 6000)
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.executemany(sql, [(6200, 1, Decimal(1), when), rows[0]])
        none = await connection.fetchval("SELECT count(*) FROM orders WHERE id >= $1", 6200)
        gone = await connection.execute("DELETE FROM orders WHERE id >= 6000")
        return [count, none, gone]

    assert run(shop, work) == [100, 0, "DELETE 100"]


def test_asyncpg_cursors_and_reset(shop: Served) -> None:
    async def work(connection: Any) -> list[Any]:
        async with connection.transaction():
            sql = "SELECT id FROM customers ORDER BY id"
            found = [row[0] async for row in connection.cursor(sql, prefetch=7)]
        await connection.reset()
        return found

    assert run(shop, work) == list(range(100))


# -- SQLAlchemy ---------------------------------------------------------------------------------


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine(shop: Served, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    engine = sa.create_engine(
        f"postgresql+{request.param}://ann@127.0.0.1:{shop.port}/shop", poolclass=sa.pool.NullPool
    )
    yield engine
    engine.dispose()


def test_sqlalchemy_reflects_what_there_is(engine: sa.Engine) -> None:
    found = sa.inspect(engine)
    assert found.get_schema_names() == ["information_schema", "main", "s"]
    assert sorted(found.get_table_names()) == ["customers", "orders"]
    assert found.get_table_names("s") == ["t"]
    assert found.get_view_names() == ["big"]
    assert found.get_materialized_view_names() == ["revenue"]
    columns = {c["name"]: (str(c["type"]), c["nullable"]) for c in found.get_columns("orders")}
    assert columns == {
        "id": ("INTEGER", False),
        "customer": ("INTEGER", True),
        "amount": ("NUMERIC(8, 2)", True),
        "placed": ("TIMESTAMP", True),
    }
    assert [str(c["type"]) for c in found.get_columns("t", "s")] == ["INTEGER", "ARRAY", "JSON"]
    assert found.get_pk_constraint("orders")["constrained_columns"] == ["id"]
    (key,) = found.get_foreign_keys("orders")
    assert (key["referred_table"], key["referred_columns"]) == ("customers", ["id"])
    assert [i["column_names"] for i in found.get_indexes("orders")] == [["customer"]]
    assert [u["column_names"] for u in found.get_unique_constraints("customers")] == [["note"]]
    assert [c["sqltext"] for c in found.get_check_constraints("orders")] == ["amount >= 0"]
    assert found.get_table_comment("orders") == {"text": "What was ordered"}
    assert "sum(amount) AS total" in str(found.get_view_definition("revenue"))


def test_sqlalchemy_writes_and_reads(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    made = sa.Table(
        "made_by_sqlalchemy",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(10)),
    )
    metadata.create_all(engine)
    try:
        with engine.begin() as connection:
            connection.execute(made.insert(), [{"id": i, "name": f"m{i}"} for i in range(20)])
        with engine.connect() as connection:
            sql = sa.select(made.c.name).where(made.c.id.in_([3, 5])).order_by(made.c.id)
            assert connection.execute(sql).scalars().all() == ["m3", "m5"]
    finally:
        metadata.drop_all(engine)


def test_information_schema(connection: psycopg.Connection[Any]) -> None:
    sql = (
        "SELECT table_schema, table_name, table_type FROM information_schema.tables "
        "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
    )
    assert connection.execute(sql).fetchall() == [
        ("main", "big", "VIEW"),
        ("main", "customers", "BASE TABLE"),
        ("main", "orders", "BASE TABLE"),
        ("main", "revenue", "VIEW"),
        ("s", "t", "BASE TABLE"),
    ]
    sql = (
        "SELECT column_name, data_type, is_nullable, numeric_precision FROM "
        "information_schema.columns WHERE table_name = %s ORDER BY ordinal_position"
    )
    assert connection.execute(sql, ["orders"]).fetchall()[2] == ("amount", "numeric", "YES", 8)


def test_what_dashboards_ask(connection: psycopg.Connection[Any]) -> None:
    """As Grafana's query builder and its health check ask."""
    assert connection.execute("SELECT 1").fetchone() == (1,)
    row = connection.execute(
        "SELECT current_setting('server_version_num')::int/100 AS version"
    ).fetchone()
    assert row == (1500,)
    sql = (
        "SELECT quote_ident(table_name) AS t FROM information_schema.tables "
        "WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') "
        "ORDER BY CASE WHEN table_schema = 'main' THEN 0 ELSE 1 END, 1"
    )
    assert connection.execute(sql).fetchall()[0] == ("big",)
    sql = (
        "SELECT date_trunc('month', placed) AS time, sum(amount) AS value FROM orders "
        "WHERE placed BETWEEN '2024-01-01T00:00:00Z' AND '2024-03-01T00:00:00Z' "
        "GROUP BY 1 ORDER BY 1"
    )
    assert len(connection.execute(sql).fetchall()) == 3
