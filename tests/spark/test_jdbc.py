"""Tables FROM JDBC: what PostgreSQL has is what the table has, once, whole and without secrets."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ivm
from tests import support
from tests.support import spark
from tests.support.maven import Jars, java_missing
from tests.support.postgres import Database, Server, running

pytestmark = pytest.mark.full

DRIVER = Jars("org.postgresql", "postgresql", "42.7.7")
SECRET = "s3cr3t-of-the-test"
# The columns, their types in PostgreSQL and here.
TYPES = {
    "b": ("boolean", "BOOLEAN"),
    "i2": ("smallint", "SMALLINT"),
    "i4": ("integer", "INTEGER"),
    "i8": ("bigint", "BIGINT"),
    "n": ("numeric", "VARCHAR"),
    "n38": ("numeric(38, 10)", "DECIMAL(38, 10)"),
    "nd": ("numeric", "DOUBLE"),
    "r": ("real", "FLOAT"),
    "dp": ("double precision", "DOUBLE"),
    "t": ("text", "VARCHAR"),
    'Odd name`"': ("text", "VARCHAR"),
    "d": ("date", "DATE"),
    "ts": ("timestamp", "TIMESTAMP"),
    "tz": ("timestamptz", "TIMESTAMPTZ"),
    "tm": ("time", "TIME"),
    "u": ("uuid", "UUID"),
    "j": ("json", "JSON"),
    "jb": ("jsonb", "JSON"),
    "by": ("bytea", "BLOB"),
    "iv": ("interval", "VARCHAR"),
    "a": ("integer[]", "VARCHAR"),
}
ROWS: list[list[str | None]] = [
    [
        *("true", "-32768", "-2147483648", "-9223372036854775808"),
        *("12345678901234567890123456789012345678901234567890.5",),
        *("1234567890123456789012345678.0123456789", "NaN", "0.1", "1e-300"),
        *("é€😀 'x' \"y\" \\n\n", "ü", "0044-03-15 BC", "0044-03-15 01:02:03.123456 BC"),
        *("0044-03-15 01:02:03.123456+00 BC", "23:59:59.999999"),
        *("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", '{"a" : [1, null]}', '{"a":1}', "\\x00ff5c78"),
        *("1 year -2 days", "{1,NULL}"),
    ],
    [
        *(
            "false",
            "32767",
            "2147483647",
            "9223372036854775807",
            "NaN",
            "-0.0000000001",
            "Infinity",
        ),
        *("-Infinity", "NaN", "", "", "infinity", "-infinity", "infinity", "24:00", None),
        *("null", "null", "\\x", "00:00", "{}"),
    ],
    [
        *("false", "0", "0", "0", "-0", "0", "1e20", "3.4028235e38", "1.7976931348623157e308"),
        *("NULL", "\\N", "1500-02-28", "1500-02-28 00:00", "1582-10-04 23:59:60+05:30"),
        *("00:00", None, "1", "1", None, None, None),
    ],
    [None] * len(TYPES),
]


class Child:
    """The process, and the file that it has open."""

    def __init__(self, jar: Path, log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.jdbc_child", str(jar)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                cwd=support.ROOT, env=os.environ | {"TEST_PASSWORD": SECRET},
            )  # fmt: skip

    def ask(self, **asked: str) -> None:
        print(json.dumps(asked), file=self.process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self._log.read_text()[-3000:]
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def run(self, sql: str) -> list[list[str]]:
        self.ask(sql=sql)
        found = self.answer()
        assert "error" not in found, found
        return found["rows"]  # type: ignore[no-any-return]

    def fails(self, sql: str) -> str:
        """The error, in which no secret is, nor in its traceback."""
        self.ask(sql=sql)
        found = self.answer()
        assert "error" in found, found
        assert SECRET not in found["trace"]
        return f"{found['kind']}: {found['error']}"

    def open(self, file: Path) -> None:
        self.ask(open=str(file))
        assert "error" not in self.answer()

    def close(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Child]:
    missing = java_missing() or DRIVER.missing()
    if missing:
        if os.environ.get("IVM_SERVERS") == "required":
            raise RuntimeError(missing)
        pytest.skip(f"JDBC NOT RUN: {missing}")
    spark.session()  # or the test is not run
    (jar,) = DRIVER.folder().glob("postgresql-*.jar")
    return lambda: Child(jar, tmp_path_factory.mktemp("child") / "log")


@pytest.fixture(scope="module")
def child(start: Callable[[], Child]) -> Iterator[Child]:
    with closing(start()) as made:
        yield made


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        Database(started, "postgres").execute(
            f"CREATE ROLE reader LOGIN SUPERUSER PASSWORD '{SECRET}'",
            "ALTER ROLE reader SET bytea_output = 'escape'",
            "ALTER ROLE reader SET TimeZone = 'Asia/Kolkata'",
            "ALTER ROLE reader SET extra_float_digits = 0",
            "ALTER ROLE reader SET IntervalStyle = 'iso_8601'",
        )
        yield started


@pytest.fixture
def shop(server: Server) -> Iterator[Database]:
    with server.fresh() as database:
        yield database


@pytest.fixture
def opened(child: Child, tmp_path: Path) -> Child:
    child.open(tmp_path / "a.duckdb")
    return child


def url(shop: Database) -> str:
    return f"jdbc:postgresql://127.0.0.1:{shop.server.port}/{shop.name.replace(' ', '%20')}"


def sql(shop: Database, columns: str, to: Path, more: str, table: str = "t") -> str:
    place = str(to).replace("'", "''")
    options = f"copy = '{place}', user = 'reader', password = 'env:TEST_PASSWORD', {more}"
    return f"CREATE TABLE {table} ({columns}) FROM JDBC '{url(shop)}' WITH ({options})"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("a.duckdb"))


PARTED = "partitioncolumn = 'id', lowerbound = 1, upperbound = 3, numpartitions = 2"


@pytest.mark.parametrize("more", ["", f", stored = false, {PARTED}"], ids=["stored", "parted"])
def test_every_type_is_what_postgresql_says(
    opened: Child, shop: Database, tmp_path: Path, more: str
) -> None:
    there = ", ".join(f"{quoted(name)} {there}" for name, (there, _) in TYPES.items())
    shop.execute(f"CREATE TABLE all_types (id bigint, more point, {there})")
    with closing(shop.connect()) as connection, connection.cursor() as cursor:
        marks = ", ".join(["%s"] * (len(TYPES) + 1))
        names = ", ".join(["id", *map(quoted, TYPES)])
        for i, row in enumerate(ROWS):
            cursor.execute(f"INSERT INTO all_types ({names}) VALUES ({marks})", [i, *row])
    here = ", ".join(
        f"{quoted(name.upper() if name == 'ts' else name)} {here}"
        for name, (_, here) in TYPES.items()
    )
    relation = "dbtable = 'public.all_types'"
    opened.run(sql(shop, f"id BIGINT PRIMARY KEY, {here}", tmp_path / "copy", f"{relation}{more}"))
    # Each value by DuckDB, of the text that PostgreSQL writes and psycopg2 passes on.
    texts = ", ".join(f"{quoted(name)}::text" for name in TYPES)
    said = shop.execute(
        f"SET TimeZone = 'UTC'; SET bytea_output = 'hex'; SELECT {texts} FROM all_types ORDER BY id"
    )
    opened.run("SET TimeZone = 'UTC'")
    for i, texts_of in enumerate(said):
        for name, text in zip(TYPES, texts_of, strict=True):
            (found,) = opened.run(f"SELECT {quoted(name)}::VARCHAR FROM t WHERE id = {i}")
            assert found == [expected(opened, text, TYPES[name][1])], (name, text)
    assert left(tmp_path) == ["copy"]


def expected(child: Child, text: str | None, type: str) -> str:
    if text is None or type == "VARCHAR":
        return str(text)
    if type == "BLOB":
        literal = "".join(f"\\x{byte:02X}" for byte in bytes.fromhex(text[2:]))
    elif text.endswith(" BC"):
        day, _, rest = text.removesuffix(" BC").partition(" ")
        literal = f"{day} (BC) {rest}".strip()
    else:
        literal = text
    escaped = literal.replace("'", "''")
    return child.run(f"SELECT '{escaped}'::{type}::VARCHAR")[0][0]


def test_rows_of_every_partition_are_there_once(
    opened: Child, shop: Database, tmp_path: Path
) -> None:
    shop.execute(
        "CREATE TABLE o (id bigint PRIMARY KEY, part int, region text); INSERT INTO o "
        "SELECT i, nullif(i % 50, 7) - 5, 'r' || i % 3 FROM generate_series(1, 5000) i"
    )
    for number, part in enumerate(("part", "part * 2", "length(region)")):
        parted = f"partitioncolumn = '{part}', lowerbound = 0, upperbound = 30, numpartitions = 7"
        query = "query = 'SELECT id, upper(region) AS region, part FROM o WHERE id > 10 -- all;'"
        opened.run(
            sql(
                shop, "ID BIGINT PRIMARY KEY, region VARCHAR", tmp_path / f"c{number}",
                f"{query}, {parted}, fetchsize = 100, stored = false", f"t{number}",
            )
        )  # fmt: skip
        want = shop.execute("SELECT count(*), sum(id) FROM o WHERE id > 10")[0]
        assert opened.run(f"SELECT count(*), sum(id) FROM t{number}") == [list(map(str, want))]


def test_it_is_a_table_of_its_copy(opened: Child, shop: Database, tmp_path: Path) -> None:
    shop.execute("CREATE TABLE o (id bigint, region text)")
    shop.execute("INSERT INTO o SELECT i, 'r' || i % 3 FROM generate_series(1, 300) i")
    columns = "id BIGINT PRIMARY KEY, region VARCHAR NOT NULL, CHECK (id > 0)"
    opened.run(sql(shop, columns, tmp_path / "copy", "dbtable = 'o', stored = false"))
    opened.run(
        "CREATE MATERIALIZED VIEW d AS SELECT region, count(*) AS n FROM t GROUP BY region;"
        "CREATE MATERIALIZED VIEW s WITH (backfill = 'spark') AS"
        " SELECT region, count(*) AS n FROM t GROUP BY region"
    )
    opened.ask(backfill="s")
    assert "error" not in opened.answer()
    opened.run("DELETE FROM t WHERE id <= 30; INSERT INTO t VALUES (1, 'r9'), (1000, 'r9')")
    shop.execute("DROP TABLE o")  # it is not asked again
    for again in (False, True):
        if again:
            opened.open(tmp_path / "a.duckdb")
            opened.run("UPDATE t SET region = 'r8' WHERE id = 1000")
        want = [["r0", "90"], ["r1", "90"], ["r2", "90"]]
        want += [["r8", "1"], ["r9", "1"]] if again else [["r9", "2"]]
        assert opened.run("FROM d ORDER BY region") == want
        assert opened.run("FROM s ORDER BY region") == want
        assert opened.run("VERIFY MATERIALIZED VIEW s")[0][4] == "True"
    opened.run(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    kept = [*(tmp_path / "out").rglob("*"), *tmp_path.glob("a.duckdb*"), *tmp_path.rglob("*.log")]
    for file in (path for path in kept if path.is_file()):
        held = file.read_bytes()
        assert not re.search(b"jdbc|TEST_PASSWORD", held), file
        assert SECRET.encode() not in held, file


def test_a_stream_that_began_before_goes_on_without_a_gap(
    opened: Child, shop: Database, tmp_path: Path
) -> None:
    shop.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, x numeric(9, 2));"
        "INSERT INTO t SELECT i, i FROM generate_series(1, 100) i",
        "CREATE PUBLICATION mine FOR TABLE t WITH (publish_via_partition_root = true)",
        "SELECT pg_create_logical_replication_slot('own', 'pgoutput')",
    )
    changes = (
        "INSERT INTO t VALUES ({0}01, 1), ({0}02, 2); UPDATE t SET x = x + {0} WHERE id % 3 = 0;"
        "DELETE FROM t WHERE id % 10 = {0}; UPDATE t SET id = -id WHERE id % 7 = {0}"
    )
    shop.execute(changes.format(2))  # these are in the copy and in the stream
    columns = "id BIGINT PRIMARY KEY, x DECIMAL(9, 2)"
    opened.run(sql(shop, columns, tmp_path / "copy", f"dbtable = 't', stored = false, {PARTED}"))
    opened.open(tmp_path / "b.duckdb")
    shop.execute(changes.format(3))
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute(
            f"CREATE SOURCE shop FROM POSTGRES (dsn '{shop.dsn.replace(chr(39), chr(39) * 2)}', "
            "tables 't', slot 'own', publication 'mine', create_slot 'false')"
        )
        db.start_sources()
        all_rows = "SELECT id, x FROM t ORDER BY id"
        end = time.monotonic() + 60
        while db.execute(all_rows).fetchall() != shop.execute(all_rows):
            assert time.monotonic() < end, db.execute("SHOW SOURCES").fetchall()
            time.sleep(0.1)


def test_an_empty_table(opened: Child, shop: Database, tmp_path: Path) -> None:
    shop.execute("CREATE TABLE o (id bigint, x numeric)")
    for number, more in enumerate(("stored = true", f"stored = false, {PARTED}")):
        to, table = tmp_path / f"c {number}%20'é", f"t{number}"
        opened.run(sql(shop, "id BIGINT, x DOUBLE", to, f"dbtable = 'o', {more}", table))
        assert opened.run(f"SELECT count(*) FROM {table}") == [["0"]]


BAD = {
    "x INTEGER": ("text", "'1x'", "'1x' in the row with id = '7', which is no INTEGER"),
    "x DECIMAL(4, 2)": ("numeric", "'123.4'", "'123.4' in the row"),
    "x TIMESTAMP": ("timestamp", "'294276-01-01'", "'294276-01-01 00:00:00' in the row"),
    "x TIMESTAMPTZ": ("timestamp", "'2020-01-01'", "'2020-01-01 00:00:00' in the row"),
    "x BLOB": ("text", "'abc'", "'abc' in the row"),
    "x DATE": ("text", "'2020-02-30'", "'2020-02-30' in the row"),
    "x HUGEINT": ("numeric", "1", "cannot be copied as HUGEINT"),
    "x INTERVAL": ("interval", "'1 day'", "cannot be copied as INTERVAL"),
    "x INTEGER[]": ("integer[]", "'{1}'", "cannot be copied as INTEGER[]"),
    "y INTEGER": ("integer", "1", "no column 'y'; it has id, x"),
}


@pytest.mark.parametrize("column", BAD)
def test_what_is_not_exact_is_refused_and_nothing_left(
    opened: Child, shop: Database, tmp_path: Path, column: str
) -> None:
    type, value, message = BAD[column]
    shop.execute(f"CREATE TABLE o (id bigint, x {type}); INSERT INTO o VALUES (1, NULL)")
    shop.execute(f"INSERT INTO o VALUES (7, {value})")
    columns = f"id BIGINT PRIMARY KEY, {column}"
    assert message in opened.fails(sql(shop, columns, tmp_path / "copy", "dbtable = 'o'"))
    assert left(tmp_path) == []
    assert opened.run("SHOW TABLES") == []


def test_mistakes(opened: Child, shop: Database, tmp_path: Path) -> None:
    shop.execute("CREATE TABLE o (id bigint); INSERT INTO o VALUES (1)")
    to, table = tmp_path / "copy", "dbtable = 'o'"

    def fails(more: str = table, to: Path = to, columns: str = "id BIGINT") -> str:
        return opened.fails(sql(shop, columns, to, more))

    assert "give one" in fails("stored = true")
    assert "stored is true or false" in fails("stored = 'no'")
    assert "give one" in fails(f"{table}, query = 'SELECT 1'")
    assert "no option 'partitions'" in fails(f"{table}, partitions = 4")
    assert "lowerbound, upperbound" in fails(f"{table}, partitioncolumn = 'id', numpartitions = 2")
    assert "is a whole number" in fails(f"{table}, {PARTED.replace('= 3', '= 3.5')}")
    assert "no folder" in fails(to=tmp_path / "none" / "copy")
    assert "without * ? [" in fails(to=tmp_path / "c*")
    assert "needs a list of its columns" in fails(columns="")
    assert "does not exist" in fails("dbtable = 'missing'")
    assert "division by zero" in fails("query = 'SELECT 1 / (id - 1) AS id FROM o'")
    good = sql(shop, "id BIGINT", to, table)
    assert "has a password in it" in opened.fails(
        good.replace("' WITH", f"?password={SECRET}' WITH")
    )
    assert "has a password in it" in opened.fails(good.replace("//", f"//me:{SECRET}@"))
    assert "name of an environment variable" in opened.fails(
        good.replace("env:TEST_PASSWORD", SECRET)
    )
    assert "'NOT_SET' is not set" in opened.fails(good.replace("TEST_PASSWORD", "NOT_SET"))
    assert "refused" in opened.fails(good.replace(f":{shop.server.port}/", ":1/"))
    assert "no JDBC driver for mysql" in opened.fails(good.replace("postgresql", "mysql"))
    assert "ivm.toml" in opened.fails(good.replace("user =", "driver = 'a.B', user ="))
    opened.run("BEGIN")
    assert "COMMIT or ROLLBACK it first" in opened.fails(good)
    opened.run("ROLLBACK")
    (tmp_path / "copy.part").mkdir()
    (tmp_path / "copy.part" / "mine").touch()
    assert "is in the way" in opened.fails(good)
    (tmp_path / "copy.part" / "mine").unlink()
    opened.run(good)
    assert "exists already" in opened.fails(good)
    opened.run(good.replace("TABLE t", "TABLE IF NOT EXISTS t"))
    assert "is there already" in opened.fails(good.replace("TABLE t", "TABLE t2"))
    opened.run(f"CREATE TABLE t2 (id BIGINT) FROM PARQUET '{to}' WITH (stored = false)")
    assert opened.run("FROM t UNION ALL FROM t2") == [["1"], ["1"]]
    assert left(tmp_path) == ["copy"]


def test_a_constraint_that_fails_leaves_the_copy(
    opened: Child, shop: Database, tmp_path: Path
) -> None:
    shop.execute("CREATE TABLE o (id bigint); INSERT INTO o VALUES (1), (1)")
    for stored in ("true", "false"):
        to = tmp_path / f"copy-{stored}"
        more = f"dbtable = 'o', stored = {stored}"
        said = opened.fails(sql(shop, "id BIGINT PRIMARY KEY", to, more))
        assert said.startswith("ConstraintError")
        assert opened.run("SHOW TABLES") == []
        opened.run(f"CREATE TABLE t FROM PARQUET '{to}' WITH (stored = {stored}); DROP TABLE t")


SLOW = (
    "CREATE TABLE o (id bigint); INSERT INTO o SELECT generate_series(1, 100);"
    "CREATE VIEW slow AS SELECT id, pg_sleep(0.2)::text AS s FROM o"
)


def test_ctrl_c_ends_it_and_leaves_nothing(
    start: Callable[[], Child], shop: Database, tmp_path: Path
) -> None:
    shop.execute(SLOW)
    copy = sql(shop, "id BIGINT, s VARCHAR", tmp_path / "copy", "dbtable = 'slow'")
    with closing(start()) as child:
        child.open(tmp_path / "a.duckdb")
        child.ask(sql=copy)
        reads(shop)
        began = time.monotonic()
        child.process.send_signal(signal.SIGINT)
        found = child.answer()
        assert found["kind"] == "KeyboardInterrupt", found
        assert time.monotonic() - began < 15  # of the 20 that it takes
        assert left(tmp_path) == []
        assert child.run("SHOW TABLES") == []
        with socket.create_server(("127.0.0.1", 0)) as silent:
            child.ask(sql=copy.replace(f":{shop.server.port}/", f":{silent.getsockname()[1]}/"))
            with closing(silent.accept()[0]):
                child.process.send_signal(signal.SIGINT)
                assert child.answer()["kind"] == "KeyboardInterrupt"
        assert left(tmp_path) == []
        child.run(copy.replace("'slow'", "'o'").replace(", s VARCHAR", ""))
        assert child.run("SELECT count(*) FROM t") == [["100"]]
        assert left(tmp_path) == ["copy"]


def test_commits_go_on_and_closing_ends_it(opened: Child, shop: Database, tmp_path: Path) -> None:
    shop.execute(SLOW)
    opened.run("CREATE TABLE other (id BIGINT)")
    opened.ask(aside=sql(shop, "id BIGINT, s VARCHAR", tmp_path / "copy", "dbtable = 'slow'"))
    assert opened.answer() == {"rows": []}
    reads(shop)
    began = time.monotonic()
    opened.run("INSERT INTO other VALUES (1); CREATE TABLE more (id BIGINT)")
    opened.open(tmp_path / "a.duckdb")  # closes it before
    assert time.monotonic() - began < 15  # of the 20 that it takes
    assert opened.run("SHOW TABLES") == [["more"], ["other"]]
    assert left(tmp_path) == []


def test_what_a_killed_process_has_left_is_removed(
    start: Callable[[], Child], opened: Child, shop: Database, tmp_path: Path
) -> None:
    shop.execute(SLOW)
    copy = sql(shop, "id BIGINT, s VARCHAR", tmp_path / "copy", "dbtable = 'slow'")
    again = copy.replace("'slow'", "'o'").replace(", s VARCHAR", "")
    killed = start()
    killed.open(tmp_path / "b.duckdb")
    killed.ask(sql=copy)
    reads(shop)
    assert "another statement copies" in opened.fails(again)
    killed.process.kill()
    killed.process.communicate()
    assert "copy.part" in left(tmp_path)
    opened.run(again)
    assert opened.run("SELECT count(*) FROM t") == [["100"]]
    assert not {"copy.part"} & set(left(tmp_path))


def reads(shop: Database) -> None:
    """Waits until Spark reads the slow table."""
    active = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%slow%' AND state = 'active'"
    active += " AND pid <> pg_backend_pid() AND wait_event = 'PgSleep'"
    end = time.monotonic() + 60
    while not shop.execute(active):
        assert time.monotonic() < end
        time.sleep(0.05)
