"""What happens upstream and here while Debezium's engine is followed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ivm
from tests.cdc.debezium.following import ORDERS, begin_to_copy, copied, follow, follows, reason
from tests.cdc.debezium.upstreams import Upstream, source
from tests.cdc.kafka.following import examples_of
from tests.cdc.postgres.following import until
from tests.support import ROOT


def types(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """Values of every kind arrive as they are, in the copy and in the stream."""
    here = ("timestamp", "timestamptz", "jsonb", "bytea")
    at, zoned, json, binary = (
        here if is_postgres(upstream) else ("datetime(6)", "timestamp(6) NULL", "json", "blob")
    )
    upstream.execute(
        "CREATE TABLE v (id bigint PRIMARY KEY, s smallint, n numeric(38,10), d double precision,"
        f" t text, day date, at {at}, z {zoned}, j {json}, b {binary})",
        "INSERT INTO v VALUES (1, -32768, 1234567890123456789012345678.0123456789, 1e-300,"
        " 'ä\"''\n', '2024-02-29', '2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.123456',"
        " '{\"a\": [1, null]}', 'xyz')",
    )
    follow(db, upstream)
    upstream.execute("INSERT INTO v SELECT 2, s, n, d, t, day, at, z, j, b FROM v")
    upstream.execute("INSERT INTO v (id) VALUES (-9223372036854775808)")
    until(lambda: counted(db, "v") == 3, db, 60)
    listed = "s, n, d, t, CAST(day AS VARCHAR), CAST(at_ AS VARCHAR), epoch_us(z), j, b"
    found = db.execute(
        f'SELECT {listed} FROM (SELECT *, "at" AS at_ FROM v) ORDER BY id'
    ).fetchall()
    assert found[0] == (None,) * 9
    assert found[1] == found[2]
    assert [str(value) for value in found[1][:6]] == [
        *("-32768", "1234567890123456789012345678.0123456789", "1e-300", "ä\"'\n"),
        *("2024-02-29", "2024-02-29 12:34:56.123456"),
    ]
    assert found[1][6:] == (1709210096123456, '{"a": [1, null]}', b"xyz")
    kinds = db.execute('SELECT typeof(n), typeof(z), typeof("at") FROM v LIMIT 1').fetchall()
    assert kinds == [("DECIMAL(38,10)", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP")]


def added_columns(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """New columns upstream are new columns here, also if they come while nobody looks."""
    upstream.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'a')")
    follow(db, upstream)
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM orders")
    upstream.execute(
        "ALTER TABLE orders ADD COLUMN more integer", "INSERT INTO orders VALUES (2, 1, 1, 'b', 5)"
    )
    follows(db, upstream)
    db.execute("PAUSE SOURCE shop")
    upstream.execute(
        "INSERT INTO orders VALUES (3, 1, 1, 'c', 6)",
        "ALTER TABLE orders ADD COLUMN yet varchar(9)",
        "UPDATE orders SET yet = 'now', more = 1 WHERE id < 3",
    )
    db.execute("RESUME SOURCE shop")
    follows(db, upstream)
    assert db.execute("FROM n").fetchall() == [(3,)]
    upstream.execute("ALTER TABLE orders DROP COLUMN t", "INSERT INTO orders (id) VALUES (9)")
    assert 'ALTER TABLE "orders" DROP COLUMN "t"' in reason(db)
    db.execute('ALTER TABLE "orders" DROP COLUMN "t"; RESUME SOURCE shop')
    follows(db, upstream, "SELECT id, customer, amount, more, yet FROM orders")


def odd_names(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """Names that topics cannot have do not mix up tables."""
    q = '"' if is_postgres(upstream) else "`"
    names = ("a b", "a_b", "É-x")
    for number, name in enumerate(names):
        quoted = q + name.replace(q, q + q) + q
        upstream.execute(
            f"CREATE TABLE {quoted} ({q}Id no{q} integer PRIMARY KEY, t varchar(9))",
            f"INSERT INTO {quoted} VALUES ({number}, '{number}')",
        )
    follow(db, upstream)
    for number, name in enumerate(names):
        quoted = q + name.replace(q, q + q) + q
        upstream.execute(f"INSERT INTO {quoted} VALUES (7, NULL)")
        ours = '"' + name.replace('"', '""') + '"'
        until(lambda ours=ours: counted(db, ours) == 2, db, 60)  # type: ignore[misc]
        assert db.execute(f'SELECT "Id no" FROM {ours} ORDER BY ALL').fetchall() == [
            (number,),
            (7,),
        ]


def into_one_table(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """INTO names ours; another upstream table cannot go there, too."""
    upstream.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'a')")
    db.execute(source(upstream, "bought"))
    db.start_sources()
    until(lambda: copied(db), db, 60)
    assert counted(db, "bought") == 1
    assert counted(db, "orders") is None
    db.execute("DROP SOURCE shop")
    upstream.execute("CREATE TABLE z (i integer PRIMARY KEY)", "INSERT INTO z VALUES (1)")
    db.execute(source(upstream, "bought"))
    assert "orders and" in reason(db)
    assert "create a source for the other INTO another table" in reason(db)


def gone_and_back(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """A server that does not answer is waited for."""
    upstream.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'a')")
    follow(db, upstream)
    upstream.stop()
    try:
        until(lambda: "does not answer" in str(db.sources()[0].reason), db, 60)
    finally:
        upstream.start()
    upstream.execute("INSERT INTO orders VALUES (2, 1, 1, 'b')")
    follows(db, upstream)


def lost_changes(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """Changes that the server no longer has stop the source; a new one copies anew."""
    upstream.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'a'), (2, 2, 2, 'b')")
    if not is_postgres(upstream):
        upstream.execute("FLUSH BINARY LOGS")  # the place is not in the first one
    follow(db, upstream)
    db.execute("PAUSE SOURCE shop")
    upstream.execute("DELETE FROM orders WHERE id = 1")
    if is_postgres(upstream):
        slots = "FROM pg_replication_slots WHERE database = current_database()"
        until(lambda: upstream.execute(f"SELECT 1 {slots} AND active") == [], db)
        upstream.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots}")
    else:
        upstream.execute("RESET MASTER")
    db.execute("RESUME SOURCE shop")
    assert "no longer available on the server" in reason(db)
    assert "drop the source and create it again" in reason(db)
    db.execute("DROP SOURCE shop")
    db.execute(source(upstream))
    follows(db, upstream)


def other_tables(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """What is captured cannot be changed later: older rows would be missing."""
    upstream.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'a')")
    follow(db, upstream)
    db.execute("ALTER SOURCE shop SET (table.include.list 'x')")
    assert "other tables or columns are captured" in reason(db)
    db.execute("DROP SOURCE shop")
    db.execute(source(upstream))
    follows(db, upstream)


def refused_rows(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """A row that cannot be applied is a dead letter, and can be tried again."""
    upstream.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1.5, NULL), (2, 2, 2, 'b')")
    db.execute("""
        CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(8,2),
            t VARCHAR NOT NULL)
    """)
    follow(db, upstream)
    upstream.execute("INSERT INTO orders VALUES (3, 3, 3.25, NULL)")
    until(lambda: db.sources()[0].dead_letters == 2, db, 60)
    db.execute("ALTER TABLE orders ALTER COLUMN t DROP NOT NULL")
    assert db.execute("RETRY DEAD LETTERS FOR shop").rowcount == 2
    follows(db, upstream)


def emptied_while_left(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """A copy that was left begins anew, also with tables that have no rows any more."""
    values = ", ".join(f"({i}, 1, 1, 'x')" for i in range(5000))
    upstream.execute(ORDERS, f"INSERT INTO orders VALUES {values}")
    db.execute(source(upstream, max_batch_size="100", max_queue_size="200"))
    begin_to_copy(db)
    assert (0 < (counted(db, "orders") or 0) < 5000, copied(db)) == (True, False)
    upstream.execute("DELETE FROM orders")
    db.start_sources()
    until(lambda: counted(db, "orders") == 0, db, 60)
    upstream.execute("INSERT INTO orders VALUES (1, 1, 1, 'y')")
    follows(db, upstream)


def interrupted(db: ivm.Database, upstream: Upstream, path: Path) -> None:
    """Ctrl-C ends the process, and nothing but that is written."""
    upstream.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'a')")
    db.execute(source(upstream))
    db.close()
    child = subprocess.Popen(
        [sys.executable, "-c", _UNTIL_INTERRUPTED, str(path / "a.duckdb")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "copied\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    out, said = child.communicate(timeout=60)
    assert (out, said) == ("interrupted\n", "")
    assert child.returncode == 0


_UNTIL_INTERRUPTED = """
import sys, time, ivm
with ivm.connect(sys.argv[1]) as db:
    db.start_sources()
    while not db.sources()[0].events:
        time.sleep(0.05)
    print("copied", flush=True)
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""

CASES = (
    *(types, added_columns, odd_names, into_one_table, gone_and_back, lost_changes),
    *(other_tables, refused_rows, emptied_while_left, interrupted),
)


@pytest.mark.full(smoke=9)
@pytest.mark.parametrize("case", CASES)
def test_case(
    case: Callable[[ivm.Database, Upstream, Path], None],
    db: ivm.Database,
    upstream: Upstream,
    tmp_path: Path,
) -> None:
    case(db, upstream, tmp_path)


def test_the_example_of_the_docs_is_accepted() -> None:
    [example] = examples_of("sources.md", "debezium")
    with ivm.connect() as db:
        db.execute(example)
        [found] = db.sources()
    assert (found.name, found.kind) == ("shop", "DEBEZIUM")


def is_postgres(upstream: Upstream) -> bool:
    return upstream.connector == "postgresql"


def counted(db: ivm.Database, table: str) -> int | None:
    """How many rows a table has; None if there is none of the name."""
    try:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])
    except ivm.errors.SqlError:
        return None
