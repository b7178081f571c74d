"""COPY over the connection: its formats and options, with what PostgreSQL 15 makes of them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import io
import struct
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest

from ivm.serve.pg.statements.copy_syntax import copy_rows
from ivm.storage.errors import SqlError
from tests.serve.raw import EXECUTE, Raw, bind, message, parse
from tests.serve.serving import Served

pytestmark = pytest.mark.full(smoke=5)

HEAD, END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
ONE = struct.pack("!hiii2s", 2, 4, 100, 2, b"EU")  # a row

# What comes, and the rows that PostgreSQL has of it, or the code of the error.
COMES: list[tuple[str, str, list[Any] | str]] = [
    ("", "1\ta\\x41\\101b\n", [(1, "aAAb")]),
    ("", "1\t\x01\\\\x\n", [(1, "\x01\\x")]),
    ("", "1\ta\\\nb\n2\tc\\\td\n", [(1, "a\nb"), (2, "c\td")]),
    ("", "1\ta\\qb\\\n\n", [(1, "aqb\n")]),
    ("", "1\ta\r\n2\tb\r\n", [(1, "a"), (2, "b")]),
    ("", "\\N\t\\\\N\n1\t\\N\n", [(None, "\\N"), (1, None)]),
    ("", "1\tx\n\\.\nanything\n", [(1, "x")]),
    ("", "\\.\n", []),
    ("", '1\t"a\n2\tb"\n', [(1, '"a'), (2, 'b"')]),
    ("", "1\t" + "y" * 3_000_000 + "\n", [(1, "y" * 3_000_000)]),
    ("", "1\n", "22P04"),
    ("", "1\ta\tb\n", "22P04"),
    ("", "1\ta\n\n", "22P04"),
    ("", "1\ta\rb\n", "22P04"),
    ("", "1\t\\xff\n", "22021"),
    ("(DELIMITER ',')", "1,a\\,b\n2,\\N\n", [(1, "a,b"), (2, None)]),
    ("WITH DELIMITER AS '|' NULL 'x'", "1|x\n2|y\n", [(1, None), (2, "y")]),
    ("(FORMAT text, DELIMITER 'x')", "1xa\n", "22023"),
    ("WHERE id > 1", "1\ta\n", "0A000"),
    ("nonsense", "1\ta\n", "42601"),
    ("(FORMAT csv) WHERE id > 1", "1,a\n", "0A000"),
    ("(ENCODING 'latin1')", "1\ta\n", "0A000"),
    ("(FORMAT csv, FORCE_NULL (v))", "1,a\n", "0A000"),
    ("(FORMAT text, QUOTE 'x')", "1\ta\n", "0A000"),
    ("(FORMAT csv)", '1,a\n2,""\n3,\n', [(1, "a"), (2, ""), (3, None)]),
    ("(FORMAT csv)", '1,"a\r\nb""c"\r\n2,d\r\n', [(1, 'a\r\nb"c'), (2, "d")]),
    ("(FORMAT csv)", '1,a"b,"c\n2, "x"\n', [(1, "ab,c"), (2, " x")]),
    ("(FORMAT csv)", '1,"a\n\nb"\n', [(1, "a\n\nb")]),
    ("(FORMAT csv)", '1,"a"\n\n', "22P04"),
    ("(FORMAT csv)", "\n1,a\n", "22P04"),
    ("(FORMAT csv)", '1,"a\n', "22P04"),
    ("(FORMAT csv)", "1,\\N\n\\.\n", [(1, "\\N")]),
    ("(FORMAT csv, NULL 'nil')", '1,nil\n2,"nil"\n3,\n', [(1, None), (2, "nil"), (3, "")]),
    ("(FORMAT csv, HEADER)", 'id,"v"\n1,x\n', [(1, "x")]),
    ("(FORMAT csv, HEADER)", "any\n1,x\n", [(1, "x")]),
    ("(FORMAT csv, HEADER)", 'a;"b\nc"\r\n1,x\r\n', [(1, "x")]),
    ("(FORMAT csv, HEADER)", "\n1,x\n", [(1, "x")]),
    ("(FORMAT csv, HEADER, ESCAPE '\\')", '"a\\"\n"\n1,x\n', [(1, "x")]),
    ("(FORMAT text, HEADER)", "any\n1\tx\n", [(1, "x")]),
    ("(FORMAT csv)", "\ufeff1,x\n", "22P02"),
    ("(FORMAT csv, HEADER match)", "id,v\n1,x\n", [(1, "x")]),
    ("(FORMAT csv, HEADER match)", "id,w\n1,x\n", "22P04"),
    ("CSV HEADER", "id,v\n1,x\n", [(1, "x")]),
    (
        "(FORMAT csv, QUOTE '''', ESCAPE '\\')",
        "1,'a\\'\\n'\n2,\\'b'\n",
        [(1, "a'\\n"), (2, "\\b")],
    ),
]
OF_ONE_COLUMN: list[tuple[str, str, list[str | None]]] = [
    ("", "a\n\nb\n", ["a", "", "b"]),
    ("", "\n\n", ["", ""]),
    ("", "\ufeffa\n\ufeffb\n", ["\ufeffa", "\ufeffb"]),
    ("", "\\N\n", [None]),
    ("(FORMAT csv)", '""\n\nx\n', ["", None, "x"]),
]
GIVEN = [
    *(("1", "a"), ("2", None), ("3", ""), ("4", "a,b|c"), ("5", 'q"q'), ("6", "n\nl")),
    *(("7", "t\tb\\"), ("8", "\r\b\v\f\x01"), ("9", "\\.")),
]
GOES = {
    "": '1\ta\n2\t\\N\n3\t\n4\ta,b|c\n5\tq"q\n6\tn\\nl\n7\tt\\tb\\\\\n'
    "8\t\\r\\b\\v\\f\x01\n9\t\\\\.\n",
    "(DELIMITER ',')": '1,a\n2,\\N\n3,\n4,a\\,b|c\n5,q"q\n6,n\\nl\n7,t\\tb\\\\\n'
    "8,\\r\\b\\v\\f\x01\n9,\\\\.\n",
    "(FORMAT csv, HEADER)": 'id,"v,""x"\n1,a\n2,\n3,""\n4,"a,b|c"\n5,"q""q"\n6,"n\nl"\n7,t\tb\\\n'
    '8,"\r\b\v\f\x01"\n9,\\.\n',
    "(FORMAT csv, FORCE_QUOTE *)": '"1","a"\n"2",\n"3",""\n"4","a,b|c"\n"5","q""q"\n"6","n\nl"\n'
    '"7","t\tb\\"\n"8","\r\b\v\f\x01"\n"9","\\."\n',
}
TYPES: dict[str, Any] = {
    "BOOLEAN": True,
    "SMALLINT": -2,
    "BIGINT": 1 << 40,
    "HUGEINT": Decimal(-(1 << 100)),
    "DOUBLE": 1.5e300,
    "FLOAT": -0.25,
    "DECIMAL(12, 3)": Decimal("-1234.500"),
    "VARCHAR": "a\tb\\",
    "BLOB": b"\x00\\\xff",
    "DATE": datetime.date(1999, 12, 31),
    "TIME": datetime.time(1, 2, 3, 4),
    "TIMESTAMP": datetime.datetime(1969, 1, 2, 3, 4, 5, 6),
    "TIMESTAMPTZ": datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC),
    "INTERVAL": datetime.timedelta(days=-3, microseconds=5),
    "UUID": uuid.UUID(int=1 << 100),
    "INTEGER[]": [1, None, -3],
    "VARCHAR[]": ["a,b", None, 'q"', ""],
}

HARD = (  # types, and values that Python does not have or that travel as other texts
    ("TIME", "'24:00:00'"),
    ("TIMETZ", "'24:00:00-05:30:15'"),
    ("TIMETZ", "'00:00:00.5+15:59:59'"),
    ("INTERVAL", "'30 hours'"),
    ("INTERVAL", "'1 day -1 second'"),
    ("INTERVAL", "'-1 microsecond'"),
    ("INTERVAL", "'-1 month 2 days -25 hours'"),
    ("DATE", "'infinity'"),
    ("DATE", "'0044-03-15 (BC)'"),
    ("DATE", "'10000-01-01'"),
    ("TIMESTAMP", "'-infinity'"),
    ("TIMESTAMP", "'0044-03-15 (BC) 10:00:01.5'"),
    ("TIMESTAMPTZ", "'0044-03-15 (BC) 10:00:01+00'"),
    ("TIMESTAMPTZ", "'1800-01-01 00:00:00.25+00'"),
    ("BIT", "'0101'"),
    ("STRUCT(q VARCHAR)", "{'q': 'a' || chr(10) || 'b'}"),
    ("UNION(i INTEGER, s VARCHAR)", "union_value(i := 1)"),
    ("UNION(i INTEGER, s VARCHAR)", "union_value(s := '1')"),
    ("MAP(VARCHAR, INTEGER)", "MAP {'k\"': 1, '': NULL}"),
    ('STRUCT(b BLOB, "BLOB" BIT)', r"{'b': '\xff\x22a', 'BLOB': '01'}"),
    ("STRUCT(a DOUBLE, t TIME)[]", "[{'a': 'nan', 't': '24:00:00'}, NULL]"),
    ("VARCHAR[][]", "[['a,b', NULL, 'null'], [], NULL]"),
)


@pytest.fixture
def connection(shop: Served) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        columns = ", ".join(f"c{i} {type}" for i, type in enumerate(TYPES))
        connection.execute("CREATE TABLE copied (id INTEGER, v VARCHAR)")
        connection.execute("CREATE TABLE one (v VARCHAR)")
        connection.execute(f"CREATE TABLE typed ({columns})".encode())
        yield connection
        for table in ("copied", "one", "typed"):
            connection.execute(f"DROP TABLE {table}".encode())


def _comes(connection: psycopg.Connection[Any], sql: str, data: str) -> list[Any] | str:
    """The rows that a table has after a COPY, or the code of its error."""
    table = sql.split()[1]
    connection.execute(f"DELETE FROM {table}".encode())
    try:
        with connection.cursor().copy(sql.encode()) as copy:
            for i in range(0, len(data), 65_536):
                copy.write(data[i : i + 65_536])
    except psycopg.Error as error:
        return error.sqlstate or str(error)
    return connection.execute(f"SELECT * FROM {table}".encode()).fetchall()


def _goes(connection: psycopg.Connection[Any], sql: str) -> bytes:
    with connection.cursor().copy(sql.encode()) as copy:
        return b"".join(map(bytes, copy))


@pytest.mark.full
def test_rows_come_as_in_postgresql(connection: psycopg.Connection[Any]) -> None:
    for options, data, wanted in COMES:
        assert _comes(connection, f"COPY copied FROM STDIN {options}", data) == wanted, data[:99]
    for options, data, values in OF_ONE_COLUMN:
        found = _comes(connection, f"COPY one FROM STDIN {options}", data)
        assert found == [(value,) for value in values], data


@pytest.mark.full
def test_rows_in_several_pieces(connection: psycopg.Connection[Any]) -> None:
    """More than is made rows of at a time, with ends of lines in values wherever they are cut."""
    rows = [(i, f'{i}\n\\{"x" * (i % 500)}"\n') for i in range(40_000)]
    lines = [f"{i}\t" + v.replace("\\", "\\\\").replace("\n", "\\\n") + "\n" for i, v in rows]
    assert _comes(connection, "COPY copied FROM STDIN", "".join(lines)) == rows
    lines = [f'{i},"' + v.replace('"', '""') + '"\n' for i, v in rows]
    assert _comes(connection, "COPY copied FROM STDIN (FORMAT csv)", "".join(lines)) == rows


def test_rows_go_as_in_postgresql(connection: psycopg.Connection[Any]) -> None:
    connection.execute('CREATE TABLE given (id INTEGER, "v,""x" VARCHAR)')
    connection.cursor().executemany("INSERT INTO given VALUES (%s, %s)", GIVEN)
    for options, wanted in GOES.items():
        sql = f"COPY (SELECT * FROM given ORDER BY id) TO STDOUT {options}"
        assert _goes(connection, sql).decode() == wanted, options
    connection.execute("DROP TABLE given")
    sql = "COPY (SELECT '\\.') TO STDOUT (FORMAT csv)"  # plain it would be the end of the rows
    assert _goes(connection, sql) == b'"\\."\n'


@pytest.mark.parametrize("format", ["text", "csv", "binary"])
def test_values_of_all_types_go_and_come_back(
    connection: psycopg.Connection[Any], format: str
) -> None:
    marks = ", ".join(f"%s::{type}" for type in TYPES)
    connection.execute(f"INSERT INTO typed VALUES ({marks})".encode(), list(TYPES.values()))
    connection.execute("INSERT INTO typed (c0) VALUES (NULL)")
    wanted = connection.execute("SELECT * FROM typed").fetchall()
    assert wanted == [tuple(TYPES.values()), (None,) * len(TYPES)]
    data = _goes(connection, f"COPY typed TO STDOUT (FORMAT {format})")
    connection.execute("DELETE FROM typed")
    with connection.cursor().copy(f"COPY typed FROM STDIN (FORMAT {format})".encode()) as back:
        for at in range(0, len(data), 11):
            back.write(data[at : at + 11])
    assert connection.execute("SELECT * FROM typed").fetchall() == wanted


@pytest.mark.parametrize("format", ["text", "csv", "binary"])
def test_values_that_python_does_not_have_go_and_come_back(
    connection: psycopg.Connection[Any], format: str
) -> None:
    """Also as those of lists, and where the zone's distance from Greenwich has seconds."""
    columns = [(type, f"({value})::{type}") for type, value in HARD]
    columns += [(f"{type}[]", f"[{value}, NULL]") for type, value in columns]
    listed = ", ".join(f"c{i} {type}" for i, (type, _) in enumerate(columns))
    connection.execute("SET TimeZone = 'Europe/Berlin'")
    for table in ("hard", "back"):
        connection.execute(f"CREATE TABLE {table} ({listed})".encode())
    connection.execute(f"INSERT INTO hard VALUES ({', '.join(v for _, v in columns)})".encode())
    data = _goes(connection, f"COPY hard TO STDOUT (FORMAT {format})")
    with connection.cursor().copy(f"COPY back FROM STDIN (FORMAT {format})".encode()) as copy:
        copy.write(data)
    for i, (_, value) in enumerate(columns):
        sql = (
            f"SELECT hard.c{i}::VARCHAR, back.c{i}::VARCHAR, hard.c{i} = back.c{i} FROM hard, back"
        )
        ((given, found, same),) = connection.execute(sql.encode()).fetchall()
        assert (found, same) == (given, True), value
    connection.execute("DROP TABLE hard; DROP TABLE back; RESET TimeZone")


def test_nanoseconds_go_as_text_alone(connection: psycopg.Connection[Any]) -> None:
    for value, goes in (
        ("TIMESTAMP_NS '2024-01-02 03:04:05.123456789'", None),
        ("'03:04:05.123456789'::TIME_NS", False),
        ("['03:04:05.123456789'::TIME_NS, NULL]", False),
        ("TIMESTAMP_NS '2024-01-02 03:04:05.123456'", True),
        ("[TIMESTAMP_NS 'infinity', NULL]", True),
        ("'24:00:00'::TIME_NS", True),
    ):
        sql = f"COPY (SELECT {value}) TO STDOUT (FORMAT binary)"
        if goes:
            assert _goes(connection, sql)
        else:
            with pytest.raises(psycopg.Error, match="microseconds"):
                _goes(connection, sql)
    sql = "COPY (SELECT '03:04:05.123456789'::TIME_NS) TO STDOUT"
    assert _goes(connection, sql) == b"03:04:05.123456789\n"


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Europe/Berlin", "1800-01-01 00:53:28.5+00:53:28"),
        ("America/New_York", "1799-12-31 19:03:58.5-04:56:02"),
        ("America/Anchorage", "1800-01-01 14:00:24.5+14:00:24"),
        ("UTC", "1800-01-01 00:00:00.5+00"),
    ],
)
def test_moments_have_the_seconds_of_their_zone(
    connection: psycopg.Connection[Any], zone: str, text: str
) -> None:
    connection.execute(f"SET TimeZone = '{zone}'".encode())
    sql = "COPY (SELECT TIMESTAMPTZ '1800-01-01 00:00:00.5+00') TO STDOUT"
    assert _goes(connection, sql).decode() == f"{text}\n"


def test_years_before_our_era_are_written_as_in_postgresql(
    connection: psycopg.Connection[Any],
) -> None:
    sql = "COPY (SELECT DATE '0044-03-15 (BC)', TIMESTAMP '0044-03-15 (BC) 10:00:00') TO STDOUT"
    assert _goes(connection, sql) == b"0044-03-15 BC\t0044-03-15 10:00:00 BC\n"


@pytest.mark.parametrize("more", [False, True])
def test_a_copy_is_cancelled_while_it_waits_for_rows(
    connection: psycopg.Connection[Any], *, more: bool
) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        _copy_and_cancel(connection, "2\tb\n" * 100_000 * more)
    with connection.cursor().copy("COPY copied FROM STDIN") as copy:
        copy.write("3\tc\n")
    assert connection.execute("FROM copied").fetchall() == [(3, "c")]


def _copy_and_cancel(connection: psycopg.Connection[Any], more: str) -> None:
    with connection.cursor().copy("COPY copied FROM STDIN") as copy:
        copy.write("1\ta\n")
        connection.cancel()
        copy.write(more)


def test_a_copy_in_a_pipeline_that_fails_has_copied_nothing(
    connection: psycopg.Connection[Any], shop: Served
) -> None:
    rows = message(b"d", b"1\tone\n"), message(b"c")
    copy = parse("", "COPY copied FROM STDIN"), bind(""), EXECUTE, *rows
    fails = parse("", "SELECT 'x'::INTEGER FROM revenue"), bind(""), EXECUTE
    with Raw(shop.port) as client:
        assert [answer.tag for answer in client.send(*copy, *fails)][2:4] == ["G", "C"]
        assert _copied(connection) == 0
        twice = client.send(*copy, EXECUTE)  # as in PostgreSQL, a portal runs once
        assert [answer.code for answer in twice if answer.tag == "E"] == ["55000"]
        assert _copied(connection) == 0
        client.send(*copy)
        assert _copied(connection) == 1


def _copied(connection: psycopg.Connection[Any]) -> int:
    (count,) = connection.execute("SELECT count(*) FROM copied").fetchone() or (-1,)
    return int(count)


def test_what_is_no_binary_copy_is_refused(connection: psycopg.Connection[Any]) -> None:
    head = HEAD
    for data, code in (
        (b"1,a\n", "22P04"),
        (b"", "22P04"),
        (head + ONE[:-1], "22P04"),
        (head + ONE + END + b"x", "22P04"),
        (head + ONE + END + head + ONE + END, "22P04"),
        (head + b"\0\1\0\0\0\1a\xff\xff", "22P04"),
        (head + b"\0\2\0\0\0\1a\xff\xff\xff\xff\xff\xff", "22P03"),
        (head + b"\0\2\xff\xff\xff\xfe", "22P04"),
    ):
        with pytest.raises(psycopg.Error) as raised:
            _copy_binary(connection, data)
        assert raised.value.sqlstate == code, data
    assert connection.execute("SELECT count(*) FROM copied").fetchone() == (0,)


def test_the_end_of_a_binary_copy_needs_no_mark(connection: psycopg.Connection[Any]) -> None:
    """As pgx, Go's driver, sends its rows."""
    for data, count in ((HEAD, 0), (HEAD + ONE, 1), (HEAD + ONE * 3, 3), (HEAD + ONE + END, 1)):
        connection.execute("DELETE FROM copied")
        _copy_binary(connection, data)
        found = connection.execute("SELECT id, v FROM copied").fetchall()
        assert found == [(100, "EU")] * count


def test_a_binary_copy_has_its_header_before_the_first_row(
    connection: psycopg.Connection[Any],
) -> None:
    for asked, wanted in (
        ("SELECT 100, 'EU' WHERE false", [HEAD + END]),
        ("SELECT 100, 'EU'", [HEAD + ONE, END]),
        ("SELECT 100, 'EU' FROM range(3)", [HEAD + ONE, ONE, ONE, END]),
    ):
        with connection.cursor().copy(f"COPY ({asked}) TO STDOUT (FORMAT binary)") as copy:
            assert [bytes(piece) for piece in copy] == wanted


@pytest.mark.full
def test_drivers_read_a_binary_copy_row_by_row(
    connection: psycopg.Connection[Any], shop: Served
) -> None:
    rows = [(i, None if i % 7 == 0 else f"r{i}") for i in range(25_000)]
    with connection.cursor().copy("COPY copied FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        for row in rows:
            copy.write_row(row)
    with connection.cursor().copy("COPY copied TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        assert list(copy.rows()) == rows

    async def work() -> None:
        place = {"host": "127.0.0.1", "port": shop.port, "user": "ann", "database": "shop"}
        client, out = await asyncpg.connect(**place), io.BytesIO()
        try:
            sql = "SELECT * FROM copied WHERE id < $1"
            assert await client.copy_from_query(sql, 99, output=out, format="binary") == "COPY 99"
            out.seek(0)
            assert await client.copy_to_table("copied", source=out, format="binary") == "COPY 99"
        finally:
            await client.close()

    asyncio.run(work())
    assert connection.execute("SELECT count(*) FROM copied").fetchone() == (25_099,)


def _copy_binary(connection: psycopg.Connection[Any], data: bytes) -> None:
    with connection.cursor().copy("COPY copied FROM STDIN (FORMAT binary)") as copy:
        copy.write(data)


def test_asyncpg_copies_records(connection: psycopg.Connection[Any], shop: Served) -> None:
    async def work() -> str:
        client = await asyncpg.connect(
            host="127.0.0.1", port=shop.port, user="ann", database="shop"
        )
        try:
            records = [(i, None if i % 3 else f"r{i}") for i in range(1000)]
            return str(await client.copy_records_to_table("copied", records=records))
        finally:
            await client.close()

    assert asyncio.run(work()) == "COPY 1000"
    sql = "SELECT count(*), count(v), sum(id) FROM copied"
    assert connection.execute(sql).fetchone() == (1000, 334, 499_500)


def test_many_quotes_are_read_in_no_time() -> None:
    """Where a pattern can read them in several ways, it takes for ever to refuse them."""
    for text in ("COPY {} x", "COPY t ({}) FROM", "COPY t FROM STDIN (NULL {}", "COPY {} TO"):
        for sign in ("'", '"', "(", ")", '"" ', " ", "\n", ") "):
            with contextlib.suppress(SqlError):
                copy_rows(text.format(sign * 20_001), 0)


def test_names_with_quotes(connection: psycopg.Connection[Any]) -> None:
    connection.execute('CREATE TABLE "o (d)d" ("a b" INTEGER, "c""d" VARCHAR)')
    with connection.cursor().copy('COPY "o (d)d" ("a b", "c""d") FROM STDIN') as copy:
        copy.write_row((1, "x"))
    found = _goes(connection, 'COPY "o (d)d" ("c""d") TO STDOUT (FORMAT csv, HEADER)')
    assert found == b'"c""d"\nx\n'
    connection.execute('DROP TABLE "o (d)d"')


@pytest.mark.parametrize(
    "asked",
    [
        *("", "BEGIN", "COPY t FROM STDIN", "CREATE TABLE z (a INTEGER)", "DELETE FROM few"),
        *("SET TimeZone = 'UTC'", "SAVEPOINT a", "SELECT 1; SELECT 2"),
    ],
)
def test_what_has_no_rows_is_not_copied(connection: psycopg.Connection[Any], asked: str) -> None:
    connection.execute("CREATE OR REPLACE TABLE few (a INTEGER); INSERT INTO few VALUES (1)")
    with pytest.raises(psycopg.errors.SyntaxError):
        _goes(connection, f"COPY ({asked}) TO STDOUT")
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert _goes(connection, "COPY (FROM few) TO STDOUT") == b"1\n"
    assert _goes(connection, "COPY (DELETE FROM few RETURNING a) TO STDOUT") == b"1\n"
    assert _goes(connection, "COPY (SHOW TimeZone) TO STDOUT") != b""
