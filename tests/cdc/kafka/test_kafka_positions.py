"""SET POSITION moves a source of a real broker: back to read again, and on past some messages."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.cdc.letter_keys import OVERTAKEN
from ivm.cdc.sources.source import SourceError
from ivm.serve.settings import ServerSettings
from ivm.shell.commands import run_command
from ivm.shell.console import Console, Settings
from ivm.shell.display.output import Output
from tests.cdc.kafka.following import Following, examples_of, rows, wait_until
from tests.cdc.kafka.test_kafka import Topic, add_source, texts, with_schema
from tests.serve.in_process import listening
from tests.support.kafka import Broker
from tests.tiers import examples

BEGIN = 1_700_000_000_000  # 2023-11-14 22:13:20+00
LETTERS = "SELECT stream, position, reason, payload FROM _ivm.dead_letters"
FACTS = "SELECT stream, position, facts FROM _ivm.letter_facts"
STORED = "SELECT stream, position FROM _ivm.positions"
KEYED = "CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR)"


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute(KEYED)
        yield database


def moved(db: ivm.Database, place: str, source: str = "s") -> list[tuple[Any, ...]]:
    """What SET POSITION says of a paused source."""
    return db.execute(f"ALTER SOURCE {source} SET POSITION '{place}'").fetchall()


def caught_up(db: ivm.Database, source: str = "s") -> None:
    with Following(db, source) as following:
        following.catch_up()


def with_source(db: ivm.Database, broker: Broker, topic: Topic, messages: Sequence[str]) -> str:
    """The name of a new topic, whose messages the source s has read."""
    name = topic()
    broker.send(name, messages)
    add_source(db, "s", broker, name)
    caught_up(db)
    return name


def stopped(db: ivm.Database) -> str:
    """Why the source has stopped, when it has."""
    wait_until(lambda: db.sources()[0].state == "stopped")
    return str(db.sources()[0].reason)


# --- places ------------------------------------------------------------------------------------


@pytest.fixture
def read(broker: Broker, topic: Topic, db: ivm.Database) -> str:
    """A topic of four partitions, of which three have messages, read to its end and paused."""
    name = topic(4)
    for at, number in ((-2, 1), (0, 2), (0, 3), (7, 4)):
        broker.send(name, texts(number), time=BEGIN + at)
    broker.send(name, texts(11, 12), 1, time=BEGIN - 9)
    broker.send(name, texts(21), 2, time=BEGIN + 9)
    add_source(db, "s", broker, name)
    caught_up(db)
    db.execute("PAUSE SOURCE s; DELETE FROM t")
    return name


ENDS = [4, 2, 1, 0]


@pytest.mark.full(smoke=1)
@pytest.mark.parametrize(
    ("place", "now", "again"),
    [
        ("earliest", [0, 0, 0, 0], [1, 2, 3, 4, 11, 12, 21]),
        ("latest", ENDS, []),
        ("2023-11-14 22:13:20+00", [1, 2, 0, 0], [2, 3, 4, 21]),
        ("2023-11-14T23:13:20.001+01:00", [3, 2, 0, 0], [4, 21]),
        ("1960-01-01 00:00Z", [0, 0, 0, 0], [1, 2, 3, 4, 11, 12, 21]),
        ("2999-01-01 00:00+00", ENDS, []),
        ("0:2", [2, 2, 1, 0], [3, 4]),
        ("1:1, 0:4", [4, 1, 1, 0], [12]),
    ],
)
def test_a_source_goes_back_to_a_place(
    db: ivm.Database, read: str, place: str, now: list[int], again: list[int]
) -> None:
    """What is not named stays where it is."""
    named = [int(pair.partition(":")[0]) for pair in place.split(", ") if pair[1] == ":"]
    told = [
        (f"{read}/{i}", ENDS[i], now[i], "reads again" if now[i] < ENDS[i] else "stays", 0)
        for i in sorted(named or range(4))
    ]
    assert moved(db, place) == told
    assert rows(db, STORED) == [(f"{read}/{i}", at) for i, at in enumerate(now)]
    assert db.sources()[0].position == ", ".join(f"{read}/{i}: {at}" for i, at in enumerate(now))
    caught_up(db)
    assert sorted(id for id, _ in rows(db, "FROM t")) == again
    assert rows(db, STORED) == [(f"{read}/{i}", at) for i, at in enumerate(ENDS)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("0:5", "offsets 0 to 4, not 5: the next message gets 4"),
        ("0:0, 9:0", r"no partition {0}/9; there are: {0}/0, {0}/1, {0}/2, {0}/3"),
        ("0:-1", "the offset -1 of {0}/0 is negative"),
        ("0:1, 0:2", "names a partition twice"),
        ("other/0:1", "'other' is no topic of the source: it has {0}"),
        ("2023-11-14 22:13", r"has no zone: write '2023-11-14 22:13\+00', if it is UTC"),
        ("soon", "'earliest', 'latest', a time such as"),
    ],
)
def test_a_place_that_is_none_is_refused(
    db: ivm.Database, read: str, place: str, says: str
) -> None:
    with pytest.raises(errors.InputError, match=says.format(read)):
        moved(db, place)
    assert rows(db, STORED) == [(f"{read}/{i}", at) for i, at in enumerate(ENDS)]


def test_messages_that_are_gone_are_no_place(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = with_source(db, broker, topic, texts(1, 2, 3))
    broker.forget(name, 2)
    db.execute("PAUSE SOURCE s; DELETE FROM t")
    with pytest.raises(
        errors.InputError, match="2 to 3, not 1: the messages before 2 were removed"
    ):
        moved(db, "0:1")
    assert moved(db, "earliest") == [(f"{name}/0", 3, 2, "reads again", 0)]
    caught_up(db)
    assert rows(db, "FROM t") == [(3, "v3")]


@pytest.mark.full
def test_an_offset_that_compaction_has_left_out(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    broker.send(name, texts(*range(30)), keys=[str(i % 3) for i in range(30)], time=BEGIN)

    def compacted() -> bool:
        broker.send(name, texts(99), keys=["x"])  # ends a segment
        return len(broker.read(name)) < 25

    wait_until(compacted)
    add_source(db, "s", broker, name)
    caught_up(db)
    db.execute("PAUSE SOURCE s")
    for place in ("0:2", "2023-11-14 22:13:20+00"):
        db.execute("DELETE FROM t")
        moved(db, place)
        caught_up(db)
        assert rows(db, "FROM t") == [(27, "v27"), (28, "v28"), (29, "v29"), (99, "v99")]


# --- back and forth ----------------------------------------------------------------------------

EVENTS = st.tuples(st.integers(0, 1), st.integers(0, 2), st.sampled_from("ucdx"))


def event(id: int, kind: str, v: int) -> str:
    """An upsert, a part of a row, a delete, or what is no row; a key has one partition."""
    row: dict[str, Any] = {"op": {"u": "upsert", "c": "update"}.get(kind, "delete"), "id": id}
    row |= {"v": f"v{v}", "w": v} if kind == "u" else {"v": f"v{v}"} if kind == "c" else {}
    return json.dumps(row if kind != "x" else {"op": "upsert", "id": id, "v": "x", "w": "none"})


@pytest.mark.full
@settings(max_examples=examples(10))
@given(
    st.lists(EVENTS, min_size=1, max_size=25),
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.booleans()), max_size=6),
)
def test_what_is_read_again_leaves_the_rows_that_there_are(
    broker: Broker,
    tmp_path_factory: pytest.TempPathFactory,
    sent: list[tuple[int, int, str]],
    steps: list[tuple[int, int, bool]],
) -> None:
    """After any batch a source goes back, and may be opened anew: rows and letters are the same."""
    folder = tmp_path_factory.mktemp("back")
    topic = broker.create(f"back.{folder.name}", 2)
    for v, (partition, id, kind) in enumerate(sent):
        broker.send(topic, [event(10 * partition + id, kind, v)], partition)
    path = folder / "db"
    db = ivm.connect(path)
    for table in "tu":
        db.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, v VARCHAR, w INTEGER)")
    db.execute("CREATE MATERIALIZED VIEW counted AS SELECT v, count(*) AS n FROM t GROUP BY v")
    add_source(db, "s", broker, topic, format="json")
    options = f"brokers '{broker.address}', topic '{topic}', format 'json'"
    db.execute(f"CREATE SOURCE once INTO u FROM KAFKA ({options})")
    for limit, offset, reopened in steps:
        with Following(db, "s") as following:
            following.step()
            following.step(limit, 5.0)
            at = following.positions()
        places = [
            f"{partition}:{min(offset, at[f'{topic}/{partition}'].offset)}"
            for partition in range(2)
        ]
        db.execute("PAUSE SOURCE s")
        moved(db, ", ".join(places))
        db.execute("RESUME SOURCE s")
        if reopened:
            db.close()
            db = ivm.connect(path)
    with db:
        caught_up(db, "s")
        caught_up(db, "once")
        assert rows(db, "FROM t") == rows(db, "FROM u")
        assert db.execute("VERIFY MATERIALIZED VIEW counted").fetchall()
        of = f"{LETTERS} WHERE source = "
        assert rows(db, f"{of} 's'") == rows(db, f"{of} 'once'")
        keys = "SELECT stream, position, key FROM _ivm.letter_keys WHERE source = "
        assert rows(db, f"{keys} 's'") == rows(db, f"{keys} 'once'")


@pytest.mark.parametrize("version", ["", "place"])
def test_rows_go_through_the_older_ones_unless_they_have_a_version(
    broker: Broker, topic: Topic, version: str
) -> None:
    name = topic()
    broker.send(name, [json.dumps({"id": 1, "v": v}) for v in ("old", "new")])
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR, place BIGINT)")
        add_source(db, "s", broker, name, metadata="place = offset", version=version)
        caught_up(db)
        db.execute("PAUSE SOURCE s")
        moved(db, "earliest")
        with Following(db, "s") as following:
            wait_until(lambda: following.step(limit=1) is not None)
            assert rows(db, "SELECT v FROM t") == [("new" if version else "old",)]
            following.catch_up()
        assert rows(db, "FROM t") == [(1, "new", 1)]


def test_watermarks_stay_and_only_rows_that_are_gone_are_late(broker: Broker, topic: Topic) -> None:
    name = topic()
    sent = [{"op": "insert", "id": i, "ts": f"2026-01-01 00:0{i}:00"} for i in range(5)]
    broker.send(name, map(json.dumps, [*sent, {"op": "delete", "id": 1}]))
    with ivm.connect() as db:
        db.execute("""
            CREATE TABLE t (id INTEGER PRIMARY KEY, ts TIMESTAMP, part INTEGER,
                WATERMARK FOR ts AS ts) WITH (late = 'refuse', watermark_by = part)
        """)
        add_source(db, "s", broker, name, format="json", metadata="part = partition")
        caught_up(db)
        watermark = "SELECT watermark FROM _ivm.watermarks"
        before = rows(db, "FROM t"), rows(db, watermark)
        db.execute("PAUSE SOURCE s")
        moved(db, "earliest")
        with Following(db, "s") as following:  # else one batch has the row and its deletion
            wait_until(lambda: following.step(limit=2) is not None)
            following.catch_up()
        assert (rows(db, "FROM t"), rows(db, watermark)) == before
        [(_, position, reason, _)] = rows(db, LETTERS)
        assert position == 1
        assert "late row" in reason
        assert reason.endswith(OVERTAKEN)


def test_dead_letters_come_again_with_their_events(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic(2)
    broker.send(name, ["{", *texts(1), "{", *texts(2)])
    broker.send(name, ["{"], 1)
    add_source(db, "s", broker, name, metadata="v = offset")
    caught_up(db)
    before = rows(db, LETTERS), rows(db, FACTS), rows(db, "FROM t")
    db.execute("PAUSE SOURCE s")
    assert moved(db, "0:1, 1:1") == [
        (f"{name}/0", 4, 1, "reads again", 1),
        (f"{name}/1", 1, 1, "stays", 0),
    ]
    assert [(each[0], each[1]) for each in rows(db, LETTERS)] == [
        (f"{name}/0", 0),
        (f"{name}/1", 0),
    ]
    assert db.sources()[0].dead_letters == 2
    caught_up(db)
    assert (rows(db, LETTERS), rows(db, FACTS), rows(db, "FROM t")) == before


def test_a_message_that_stops_the_source_is_passed_over(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic(2)
    broker.send(name, [*texts(1), "{", *texts(2)])
    broker.send(name, texts(9), 1)
    add_source(db, "s", broker, name, max_dead_letters="0")
    db.start_sources()
    assert "max_dead_letters" in stopped(db)
    told = moved(db, "0:2")
    assert [(stream, now, effect) for stream, _, now, effect, _ in told] == [
        (f"{name}/0", 2, "skips")
    ]
    assert db.sources()[0].state == "stopped"
    db.execute("RESUME SOURCE s")
    wait_until(lambda: db.sources()[0].caught_up)
    assert {2, 9} <= {id for id, _ in rows(db, "FROM t")}
    assert rows(db, LETTERS) == []


# --- what is refused ---------------------------------------------------------------------------


def test_a_table_without_a_key_is_not_read_twice(broker: Broker, topic: Topic) -> None:
    name = topic(2)
    broker.send(name, texts(1, 2))
    broker.send(name, texts(11), 1)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER, v VARCHAR)")
        add_source(db, "s", broker, name)
        caught_up(db)
        db.execute("PAUSE SOURCE s")
        broker.send(name, texts(3, 4))
        before = rows(db, STORED)
        for place in ("earliest", "1:0", "0:1, 1:1"):
            with pytest.raises(errors.UnsupportedError, match="table t has no PRIMARY KEY"):
                moved(db, place)
        assert rows(db, STORED) == before
        assert moved(db, "0:3, 1:1") == [
            (f"{name}/0", 2, 3, "skips", 0),
            (f"{name}/1", 1, 1, "stays", 0),
        ]
        caught_up(db)
        assert [id for id, _ in rows(db, "FROM t")] == [1, 11, 2, 4]


def test_of_several_topics_those_with_keys_go_back(broker: Broker, topic: Topic) -> None:
    keyed, other, new = topic(), topic(), topic(2)
    tables = [each.rpartition(".")[2] for each in (keyed, other, new)]
    broker.send(keyed, texts(1, 2))
    broker.send(other, texts(1, 2))
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE {tables[0]} (id INTEGER PRIMARY KEY, v VARCHAR)")
        db.execute(f"CREATE TABLE {tables[1]} (id INTEGER, v VARCHAR)")
        db.execute(f"CREATE TABLE {tables[2]} (id INTEGER, v VARCHAR)")
        options = f"brokers '{broker.address}', format 'json appends', start 'latest'"
        db.execute(f"CREATE SOURCE s FROM KAFKA ({options}, topic '{keyed}, {other}')")
        caught_up(db)
        broker.send(new, texts(1, 2))
        broker.send(new, texts(11), 1)
        db.execute(f"PAUSE SOURCE s; ALTER SOURCE s SET (topic '{keyed}, {other}, {new}')")
        with pytest.raises(errors.UnsupportedError, match=f"{other}/0 cannot be read again"):
            moved(db, "earliest")
        told = [
            (f"{keyed}/0", 2, 1, "reads again", 0),
            (f"{new}/0", None, 1, "begins", 0),
            (f"{new}/1", None, 1, "begins", 0),  # where start says
        ]
        assert moved(db, f"{keyed}/0:1, {new}/0:1") == sorted(told, key=lambda move: move[0])
        caught_up(db)
        assert [rows(db, f"SELECT id FROM {each}") for each in tables] == [[(2,)], [], [(2,)]]


def test_a_running_source_is_paused_first(broker: Broker, topic: Topic, db: ivm.Database) -> None:
    name = topic()
    add_source(db, "s", broker, name)
    with pytest.raises(errors.UnavailableError, match="'s' is not paused: PAUSE SOURCE s first"):
        moved(db, "earliest")
    with pytest.raises(errors.SqlError, match="no source 'nope'; there are: s"):
        moved(db, "earliest", "nope")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("INTO t FROM FILES (path 'x', format 'json')", "DROP SOURCE and CREATE SOURCE"),
        ("FROM POSTGRES (dsn 'service=x', tables 't')", "DROP TABLE, RESUME SOURCE, and ADD TABLE"),
        ("FROM DEBEZIUM (connector 'mysql', database.hostname 'x')", "DROP SOURCE and CREATE"),
    ],
)
def test_other_kinds_cannot_be_moved(db: ivm.Database, source: str, says: str) -> None:
    db.execute(f"CREATE SOURCE s {source}; PAUSE SOURCE s")
    with pytest.raises(errors.UnsupportedError, match=f"of source 's' cannot be set: .*{says}"):
        moved(db, "earliest")


def test_brokers_that_do_not_answer_are_told(db: ivm.Database) -> None:
    db.execute("CREATE SOURCE s INTO t FROM KAFKA (brokers '127.0.0.1:1', topic 'a')")
    db.execute("PAUSE SOURCE s")
    with pytest.raises(errors.UnavailableError, match="cannot be reached"):
        moved(db, "earliest")


# --- what was lost upstream --------------------------------------------------------------------


@pytest.mark.full
def test_a_gap_is_passed_over(broker: Broker, topic: Topic, db: ivm.Database) -> None:
    name = with_source(db, broker, topic, texts(1, 2))
    broker.send(name, texts(3, 4, 5))
    broker.forget(name, 4)
    db.start_sources()
    assert "begins at offset 4" in stopped(db)
    assert moved(db, "earliest") == [(f"{name}/0", 2, 4, "skips", 0)]
    db.execute("RESUME SOURCE s")
    wait_until(lambda: [id for id, _ in rows(db, "FROM t")] == [1, 2, 5])


@pytest.mark.full
def test_a_topic_that_was_created_again_is_begun(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = with_source(db, broker, topic, ["{", *texts(1)])
    broker.delete(name)
    broker.create(name)
    broker.send(name, texts(2, 3))
    db.execute("PAUSE SOURCE s")
    assert moved(db, "0:2") == [(f"{name}/0", 2, 2, "begins", 0)]
    assert moved(db, "earliest") == [(f"{name}/0", 2, 0, "reads again", 1)]
    caught_up(db)
    assert [id for id, _ in rows(db, "FROM t")] == [1, 2, 3]


@pytest.mark.full
def test_messages_of_an_older_schema_are_read_again_without_following(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic()
    broker.send(name, [with_schema({"id": 1, "v": "a"}, id="int32", v="string")])
    new = {"id": "int32", "v": "string", "more": "int32?"}
    broker.send(name, [with_schema({"id": 2, "v": "b", "more": 7}, **new)])
    add_source(db, "s", broker, name, format="debezium with schema")
    db.start_sources()
    wait_until(lambda: len(rows(db, "FROM t")) == 2 and db.sources()[0].caught_up)
    before = rows(db, "FROM t")
    db.execute("PAUSE SOURCE s")
    moved(db, "earliest")
    db.execute("RESUME SOURCE s")
    assert "'more'" in stopped(db)
    db.execute("ALTER SOURCE s SET (follow FALSE); RESUME SOURCE s")
    wait_until(lambda: db.sources()[0].caught_up)
    assert rows(db, "FROM t") == before == [(1, "a", None), (2, "b", 7)]


# --- transactions, restarts and clients --------------------------------------------------------


def test_a_rolled_back_move_has_changed_nothing(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = with_source(db, broker, topic, ["{", *texts(1)])
    db.execute("PAUSE SOURCE s")
    before = rows(db, "FROM _ivm.positions"), rows(db, LETTERS)
    db.execute("BEGIN")
    assert moved(db, "earliest") == [(f"{name}/0", 2, 0, "reads again", 1)]
    assert (rows(db, STORED), rows(db, LETTERS)) == ([(f"{name}/0", 0)], [])
    db.execute("ROLLBACK")
    assert (rows(db, "FROM _ivm.positions"), rows(db, LETTERS)) == before


def test_a_running_source_is_moved_in_one_transaction(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic()
    broker.send(name, texts(1, 2, 3))
    add_source(db, "s", broker, name)
    db.start_sources()
    wait_until(lambda: len(rows(db, "FROM t")) == 3)
    db.execute("DELETE FROM t WHERE id > 1")
    db.execute("BEGIN; PAUSE SOURCE s")
    moved(db, "0:2")
    db.execute("RESUME SOURCE s; COMMIT")
    wait_until(lambda: [id for id, _ in rows(db, "FROM t")] == [1, 3])
    broker.send(name, texts(4))
    wait_until(lambda: [id for id, _ in rows(db, "FROM t")] == [1, 3, 4])


KILLED = """
import os, signal, sys, ivm
db = ivm.connect(sys.argv[1])
db.execute("ALTER SOURCE s SET POSITION '0:1'").fetchall()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.full(smoke=1)
def test_a_position_outlives_a_killed_process(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    name, path = topic(2), tmp_path / "a.duckdb"
    broker.send(name, [*texts(1), "{", *texts(2)])
    with ivm.connect(path) as db:
        db.execute(KEYED)
        add_source(db, "s", broker, name)
        caught_up(db)
        db.execute("PAUSE SOURCE s; DELETE FROM t")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with ivm.connect(path) as db:
        [source] = db.sources()
        assert (source.state, source.position) == ("paused", f"{name}/0: 1, {name}/1: 0")
        assert rows(db, LETTERS) == []
        db.start_sources()
        db.execute("RESUME SOURCE s")
        wait_until(lambda: rows(db, "FROM t") == [(2, "v2")] and len(rows(db, LETTERS)) == 1)


SHOWN = ["stream", "before", "position", "effect", "dead_letters"]


def over_postgres(db: ivm.Database, tmp_path: Path, place: str) -> None:
    with (
        listening(db, tmp_path, ServerSettings(pg="127.0.0.1:0", trust="loopback")) as served,
        psycopg.connect(served.dsn(), autocommit=True) as connection,
    ):
        for binary in (False, True):  # which asks for the columns first
            cursor = connection.cursor(binary=binary)
            cursor.execute(f"ALTER SOURCE s SET POSITION '{place}'")
            assert [column.name for column in cursor.description or ()] == SHOWN
            assert len(cursor.fetchall()) == 2
        assert len(connection.execute("SHOW SOURCES").fetchall()) == 1


def in_shell(db: ivm.Database, tmp_path: Path, place: str) -> None:
    stream = io.StringIO()
    output = Output(stream, is_terminal=False)
    console = Console(db, ":memory:", output, output, Settings("csv"), run_command)
    assert console.run(f"ALTER SOURCE s SET POSITION '{place}';")
    assert stream.getvalue().splitlines()[0] == ",".join(SHOWN)


def in_python(db: ivm.Database, tmp_path: Path, place: str) -> None:
    found = db.execute(f"alter source S set position '{place}'")
    assert found.columns == SHOWN
    assert found.types == ["VARCHAR", "BIGINT", "BIGINT", "VARCHAR", "BIGINT"]


@pytest.mark.parametrize("by", [over_postgres, in_shell, in_python])
def test_every_client_can_move_a_source(
    broker: Broker,
    topic: Topic,
    db: ivm.Database,
    tmp_path: Path,
    by: Callable[[ivm.Database, Path, str], None],
) -> None:
    name = topic(2)
    broker.send(name, texts(1, 2, 3))
    add_source(db, "s", broker, name)
    caught_up(db)
    db.execute("PAUSE SOURCE s; DELETE FROM t")
    by(db, tmp_path, "0:2, 1:0")
    assert rows(db, STORED) == [(f"{name}/0", 2), (f"{name}/1", 0)]
    caught_up(db)
    assert rows(db, "FROM t") == [(3, "v3")]


@pytest.mark.full
def test_the_examples_of_the_docs_run(broker: Broker, topic: Topic) -> None:
    name = topic()
    broker.send(name, [json.dumps({"op": "c", "after": {"id": i, "page": "/"}}) for i in range(2)])
    [example] = examples_of("sources.md", "kafka-places")
    create, *others = example.replace("localhost:9092", broker.address).split(";\n")
    with ivm.connect() as db:
        db.execute("CREATE TABLE clicks (id INTEGER PRIMARY KEY, page VARCHAR, seen TIMESTAMP)")
        db.execute(create.replace("shop.public.clicks", name).replace("2026-11-28", "2016-11-28"))
        caught_up(db, "recent")
        db.execute("DELETE FROM clicks")
        for statement in others:
            db.execute(statement)
        caught_up(db, "recent")
        assert rows(db, "SELECT id, page FROM clicks") == [(1, "/")]


def test_the_option_start_says_that_it_moves_nothing(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic()
    broker.send(name, texts(1))
    add_source(db, "s", broker, name, start="0:7")
    with pytest.raises(SourceError, match=r"0 to 1, not 7.*SET \(start '…'\) mends it"):
        Following(db, "s")
    assert db.execute("ALTER SOURCE s SET (start 'earliest')").message == ""
    caught_up(db)
    told = db.execute("ALTER SOURCE s SET (start 'latest')").message
    assert "ALTER SOURCE s SET POSITION '…'" in told
