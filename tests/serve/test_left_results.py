"""Results that a client leaves behind unread are let go; what it may still read is held, in bounds.

Portals end with their transaction, and are run once, as in PostgreSQL.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from ivm.serve.settings import ServerSettings
from tests.serve.in_process import Listening, listening
from tests.serve.raw import Answer, Raw, message, parse
from tests.serve.test_stalled_readers import HUGE, demand_cut, taking_little

MOST = 50  # megabytes of a result


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Listening]:
    settings = ServerSettings(pg="127.0.0.1:0", trust="loopback", result_megabytes=MOST)
    with ivm.connect() as database, listening(database, tmp_path, settings) as found:
        database.execute("CREATE TABLE t AS SELECT i AS id FROM range(5) t(i)")
        yield found


def run(portal: str, sql: str, most: int = 0) -> bytes:
    return parse("", sql) + message(b"B", portal, "", 0, 0, 0) + execute(portal, most)


def execute(portal: str, most: int = 0) -> bytes:
    return message(b"E", portal, struct.pack("!i", most))


def told(answers: list[Answer]) -> list[str]:
    """The tags of statements and the codes of errors, and the state of the transaction."""
    found = []
    for answer in answers:
        if answer.tag in "CZ":
            found.append(answer.body.rstrip(b"\0").decode())
        elif answer.tag in "Es":
            found.append(answer.code if answer.tag == "E" else "suspended")
    return found


def query(sql: str | bytes) -> bytes:
    return message(b"Q", sql) if isinstance(sql, str) else message(b"Q", sql + b"\0")


@pytest.mark.full
@pytest.mark.parametrize("end", ["next", "commit", "too large", "leave", "rollback in a batch"])
def test_what_nobody_can_read_is_not_computed(server: Listening, end: str) -> None:
    with taking_little(2 * MOST + 100):
        with Raw(server.port) as client:
            _leave_behind(client, end)
        demand_cut(server.pool)
        time.sleep(0.3)  # its session is closed


def _leave_behind(client: Raw, end: str) -> None:
    if end == "too large":
        assert told(client.send(run("p", HUGE)))[-2:] == ["54000", "I"]
    else:
        if end != "next":
            client.send(run("", "BEGIN"))
        assert told(client.send(run("p", HUGE, 3)))[0] == "suspended"
    if end == "commit":
        assert told(client.send(run("", "COMMIT"))) == ["COMMIT", "I"]
    if end == "rollback in a batch":
        done = client.send(run("", "ROLLBACK"), run("", "BEGIN"), execute("p"))
        assert told(done) == ["ROLLBACK", "BEGIN", "34000", "E"]
    if end != "leave":
        assert told(client.send(run("", "ROLLBACK"), run("", "SELECT 1")))[-2:-1] == ["SELECT 1"]


@pytest.mark.full
def test_what_can_be_read_is_held_up_to_a_bound(server: Listening) -> None:
    with Raw(server.port) as client:
        client.send(run("", "BEGIN"), run("large", HUGE, 3))
        found = told(client.send(run("small", "SELECT * FROM range(100000)", 3)))
        assert found == ["suspended", "T"]
        assert told(client.send(run("", "SELECT 1"))) == ["SELECT 1", "T"]
        assert told(client.send(execute("small"))) == ["SELECT 99997", "T"]
        failed = client.send(execute("large"))
        assert told(failed) == ["53200", "E"]
        assert b"held in memory" in next(a.body for a in failed if a.tag == "E")


@pytest.mark.full
def test_what_a_session_holds_is_bounded_together(server: Listening) -> None:
    most = MOST * 1_000_000 // 8  # of rows of a BIGINT
    with Raw(server.port) as client:
        client.send(run("", "BEGIN"))
        for portal in "ab":
            client.send(run(portal, f"SELECT * FROM range({most * 2 // 3})", 3), execute(portal, 1))
        client.send(run("", "SELECT 1"), execute("a", 20_000))
        assert told(client.send(execute("a", 20_000))) == ["suspended", "T"]
        assert told(client.send(execute("b", 20_000))) == ["53200", "E"]


def test_a_portal_of_a_failed_transaction_gives_no_rows(server: Listening) -> None:
    with Raw(server.port) as client:
        client.send(run("", "BEGIN"), run("p", "SELECT id FROM t", 2))
        assert told(client.send(run("", "SELECT error('no')")))[-1] == "E"
        assert told(client.send(execute("p"))) == ["25P02", "E"]


def test_a_change_is_not_told_twice(server: Listening) -> None:
    with Raw(server.port) as client:
        twice = client.send(run("p", "INSERT INTO t VALUES (9)"), execute("p"))
        assert told(twice) == ["INSERT 0 1", "55000", "I"]
        assert told(client.send(run("", "SELECT id FROM t"))) == ["SELECT 5", "I"]


def test_a_tag_counts_the_rows_of_one_execute(server: Listening) -> None:
    with Raw(server.port) as client:
        parts = client.send(run("p", "SELECT id FROM t", 2), execute("p", 2), execute("p", 2))
        assert told(parts) == ["suspended", "suspended", "SELECT 1", "I"]
        assert told(client.send(run("p", "SELECT id FROM t", -1))) == ["SELECT 5", "I"]


def test_a_simple_query_behind_an_error_waits_for_a_sync(server: Listening) -> None:
    with Raw(server.port) as client:
        assert told(client.send(parse("", "SELEC"), query("DELETE FROM t"))) == ["42601", "I"]
        assert told(client.send(run("", "SELECT id FROM t"))) == ["SELECT 5", "I"]


def test_a_call_of_a_function_is_answered(server: Listening) -> None:
    with Raw(server.port) as client:
        call = message(b"F", b"\0\0\0\x01", 0, 0, 0)
        assert told(client.ask(call)) == ["0A000", "I"]


@pytest.mark.full
def test_a_client_may_send_much_as_soon_as_it_is_greeted(server: Listening) -> None:
    for _ in range(20):
        with Raw(server.port) as client:
            assert told(client.ask(query(f"SELECT {'1' * 9}{' ' * 100_000}"))) == ["SELECT 1", "I"]


@pytest.mark.parametrize("sql", ["SELECT i FROM range(2000000) t(i)", f"COPY ({HUGE}) TO STDOUT"])
def test_a_cancel_ends_what_is_being_sent(server: Listening, sql: str) -> None:
    with Raw(server.port) as client:
        assert told(client.ask_and_cancel(query(sql), 0.5))[-2:] == ["57014", "I"]
        assert told(client.ask(query("SELECT 1"))) == ["SELECT 1", "I"]


VALUE = struct.pack("!i", 1) + b"1"
MALFORMED = (
    ([parse("", "SELECT $1::INTEGER"), message(b"B", "", "", 0, 2, VALUE + VALUE, 0)], "08P01"),
    ([parse("", "SELECT $1::INTEGER"), message(b"B", "", "", 2, 0, 0, 1, VALUE, 0)], "08P01"),
    ([parse("", "SELECT 1"), message(b"B", "", "", 0, 5)], "08P01"),
    ([message(b"P", b"without an end")], "08P01"),
    ([message(b"P", b"\0SELECT '\xff'\0\0\0")], "22021"),
    ([message(b"D", b"Z\0")], "08P01"),
    ([message(b"C", b"Z\0")], "08P01"),
)


@pytest.mark.full
@pytest.mark.parametrize(("messages", "code"), MALFORMED)
def test_a_malformed_message_fails_alone(
    server: Listening, messages: list[bytes], code: str
) -> None:
    """As in PostgreSQL 15."""
    with Raw(server.port) as client:
        answers = client.send(*messages, execute(""))
        assert told(answers) == [code, "I"]
        assert b"VERROR" in next(each.body for each in answers if each.tag == "E")
        assert told(client.ask(query("SELECT '\xff'".encode("latin1")))) == ["22021", "I"]
        assert told(client.ask(query("SELECT 1"))) == ["SELECT 1", "I"]
