"""Events from Python: applied once, in one epoch with their position, dirt set aside."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import ivm
from ivm import errors
from ivm.cdc.formats.texts import text_of
from tests.cdc.orders import ORDERS, VIEW, content, created
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER, examples


@pytest.mark.full
def test_a_batch_is_one_epoch_with_its_position(db: ivm.Database) -> None:
    db.ingest("orders", [], position=0)  # makes the tables of the records
    before = db.epoch
    batch = [created(1, amount="9.50"), created(2), {"op": "d", "before": {"id": 2}}]
    found = db.ingest("orders", batch, source="shop", position=7)
    assert (found.applied, found.refused, db.epoch) == (3, {}, before + 1)
    assert content(db) == [(1,)]
    positions = content(db, "FROM _ivm.positions ORDER BY ALL")
    assert positions == [("python", "orders", 0, ""), ("shop", "orders", 7, "")]


@pytest.mark.full
@pytest.mark.parametrize("position", [7, 6])
def test_a_batch_seen_again_changes_nothing(db: ivm.Database, position: int) -> None:
    db.ingest("orders", [created(1)], source="shop", position=7)
    epoch = db.epoch
    assert db.ingest("orders", [created(2)], source="shop", position=position).skipped
    assert (content(db), db.epoch) == ([(1,)], epoch)
    assert not db.ingest("orders", [created(3)], source="other", position=position).skipped


@pytest.mark.full
@pytest.mark.parametrize("position", ["8", 8.0, True])
def test_positions_are_integers(db: ivm.Database, position: Any) -> None:
    with pytest.raises(errors.InputError, match="a position is an integer that grows"):
        db.ingest("orders", [created(2)], source="shop", position=position)


@pytest.mark.full
def test_the_stream_goes_on_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with ivm.connect(file) as db:
        db.execute(ORDERS + ";" + VIEW)
        for position in range(3):
            db.ingest("orders", [created(position), "dirt"], source="shop", position=position)
    with ivm.connect(file) as db:
        assert db.ingest("orders", [created(9)], source="shop", position=2).skipped
        assert not db.ingest("orders", [created(3)], source="shop", position=3).skipped
        assert content(db) == [(0,), (1,), (2,), (3,)]
        letters = content(db, "SELECT position, event, reason FROM _ivm.dead_letters ORDER BY ALL")
        assert letters == [(i, 1, "it is not JSON") for i in range(3)]
        assert_verified(db)


@pytest.mark.full
def test_a_rolled_back_batch_leaves_nothing(db: ivm.Database) -> None:
    db.ingest("orders", [created(1)], source="shop", position=1)
    db.execute("BEGIN")
    db.ingest("orders", [created(2), "dirt"], source="shop", position=2)
    assert db.ingest("orders", [created(3)], source="shop", position=2).skipped
    db.execute("ROLLBACK")
    assert content(db) == [(1,)]
    assert content(db, "FROM _ivm.dead_letters") == []
    assert not db.ingest("orders", [created(2)], source="shop", position=2).skipped


@pytest.mark.full
def test_positions_follow_their_table(tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with ivm.connect(file) as db:
        db.execute("CREATE SCHEMA s; CREATE TABLE s.t (x INTEGER); CREATE TABLE u (x INTEGER)")
        for source in ("a", "b"):
            db.ingest("s.t", [{"op": "c", "after": {"x": 1}}], source=source, position=5)
        db.ingest("u", [], source="a", position=7)
        db.execute("CREATE MATERIALIZED VIEW reached AS FROM _ivm.positions")
        db.execute("ALTER TABLE s.t RENAME TO v")
        db.execute("ALTER TABLE s.v ADD COLUMN y INTEGER")
        db.execute("BEGIN; ALTER TABLE u RENAME TO gone; DROP TABLE s.v; ROLLBACK")
        assert db.ingest("s.v", [{"op": "c", "after": {"x": 1}}], source="a", position=5).skipped
    with ivm.connect(file) as db:
        reached = content(db, "SELECT source, stream, position FROM reached ORDER BY ALL")
        assert reached == [("a", "s.v", 5), ("a", "u", 7), ("b", "s.v", 5)]
        assert_verified(db)


@pytest.mark.full
@pytest.mark.parametrize(
    "anew",
    [
        "DROP TABLE orders; CREATE TABLE orders (id INTEGER)",
        "BEGIN; DROP TABLE orders; CREATE TABLE orders (id INTEGER); COMMIT",
        "CREATE OR REPLACE TABLE orders (id INTEGER)",
        "ALTER TABLE orders RENAME TO old; CREATE TABLE orders (id INTEGER)",
    ],
)
def test_another_table_of_the_name_begins_anew(anew: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE orders (id INTEGER)")
        event = {"op": "c", "after": {"id": 1}}
        db.ingest("orders", [event], source="shop", position=5)
        db.execute(anew)
        assert not db.ingest("orders", [event], source="shop", position=1).skipped
        assert content(db, "FROM orders") == [(1,)]


@pytest.mark.full
def test_positions_of_stored_sources_follow_no_table(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_text('{"id": 1}\n')
    with ivm.connect() as db:
        db.execute("CREATE TABLE orders (id INTEGER)")
        db.execute(f"CREATE SOURCE s INTO orders FROM FILES (path '{path}', format 'json appends')")
        db.start_sources()
        while not content(db, "FROM orders"):
            time.sleep(0.01)
        db.stop_sources()
        db.execute(f'CREATE TABLE "{path}" (id INTEGER); DROP TABLE "{path}"')
        assert content(db, "SELECT stream FROM _ivm.positions") == [(str(path),)]


@pytest.mark.full
def test_the_first_batch_is_refused_in_a_transaction(db: ivm.Database) -> None:
    db.execute("BEGIN")
    with pytest.raises(errors.UnavailableError, match="outside of a transaction"):
        db.ingest("orders", [created(1)])


ZERO_BYTE = (
    "it is not JSON: it begins with a zero byte, as what is written with a schema registry does "
    "(Avro, Protobuf). Have it written as plain JSON (Kafka Connect's JsonConverter)"
)
DIRT: list[tuple[Any, str]] = [
    ("{", "it is not JSON"),
    (b"\xff", "it is not JSON"),
    ("[1]", "its operation (op) is unknown or missing"),
    ({"op": "?", "after": {"id": 1}}, "its operation (op) is unknown or missing"),
    ({"op": "c"}, "it has no row (after)"),
    ({"op": "d"}, "the key of the deleted row is missing"),
    (created(5, amount="too much"), 'amount is no DECIMAL(10,2): "too much"'),
    (
        created(5, amount="1234"),
        'amount is no DECIMAL(10,2): "1234" (text, or base64? '
        "decimals='text' or 'base64' says it)",
    ),
    (
        created(5, made=17),
        "made is no TIMESTAMP: 17 (a number of what? times='ms', 'us' or 'ns' says it)",
    ),
    (created(5, amount=10**9), "amount is no DECIMAL(10,2): 1000000000"),
    (created(5, made="soon"), 'made is no TIMESTAMP: "soon"'),
    (created(5, customer=None), "NOT NULL constraint failed: orders.customer"),
    ({"op": "c", "after": {"customer": 1}}, "NOT NULL constraint failed: orders.id"),
    *[(b"\0\0\0\0\1" + each, ZERO_BYTE) for each in (b"\2\x0ahello", b"\xff", b"{}")],
    (text_of(b"\0\0\0\0\1\xff"), ZERO_BYTE),
]


@pytest.mark.full
def test_dirt_stays_alone(db: ivm.Database) -> None:
    events = [event for i, (dirt, _) in enumerate(DIRT) for event in (created(10 + i), dirt)]
    found = db.ingest("orders", events, source="shop", position=1)
    assert found.refused == {2 * i + 1: why for i, (_, why) in enumerate(DIRT)}
    assert content(db) == [(10 + i,) for i in range(len(DIRT))]
    letters = content(db, "SELECT * EXCLUDE (time, payload) FROM _ivm.dead_letters ORDER BY event")
    assert letters == [
        ("shop", "orders", "orders", 1, 2 * i + 1, why) for i, (_, why) in enumerate(DIRT)
    ]
    ((payload,),) = content(db, "SELECT payload FROM _ivm.dead_letters WHERE reason LIKE '%much%'")
    assert json.loads(payload) == DIRT[6][0]


@pytest.mark.full
def test_views_may_read_the_records(db: ivm.Database) -> None:
    db.ingest("orders", [created(1)], position=1)
    db.execute(
        "CREATE MATERIALIZED VIEW dirt AS SELECT source, count(*) AS n FROM _ivm.dead_letters "
        "GROUP BY source"
    )
    db.ingest("orders", ["dirt", "dirt"], position=2)
    assert content(db, "FROM dirt") == [("python", 2)]
    with pytest.raises(errors.UnsupportedError, match="database's own records"):
        db.execute("DELETE FROM _ivm.dead_letters")
    with pytest.raises(errors.UnsupportedError, match="database's own records"):
        db.delete("_ivm.dead_letters", {"source": ["python"]})
    assert [table.name for table in db.tables()] == ["orders"]


@pytest.mark.full
def test_values_that_were_not_sent_stay(db: ivm.Database) -> None:
    db.ingest("orders", [created(1, note="long", amount=5)])
    placeholder = "__debezium_unavailable_value"
    after = {"id": 1, "customer": 2, "amount": None, "note": placeholder}
    db.ingest("orders", [{"op": "u", "before": None, "after": after}])
    assert content(db, "SELECT customer, amount, note FROM orders") == [(2, None, "long")]
    db.ingest("orders", [{"op": "u", "before": {"id": 1}, "after": {"id": 3, "amount": 6}}])
    assert content(db, "SELECT * EXCLUDE (made) FROM orders") == [(3, 2, 6, "long")]
    assert_verified(db)


@pytest.mark.full
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_columns_that_are_not_sent_take_their_default(db: ivm.Database, key: str) -> None:
    db.execute(f"CREATE TABLE d (id INTEGER {key}, n INTEGER DEFAULT 7, s VARCHAR DEFAULT 'x')")
    db.ingest("d", [{"id": 1}, {"id": 2, "n": None}, {"id": 3, "n": 4}], format="json appends")
    assert content(db, "FROM d ORDER BY id") == [(1, 7, "x"), (2, None, "x"), (3, 4, "x")]
    update = {"type": "update", "data": {"id": 3, "s": "y"}, "old": {"n": 4, "s": "x"}}
    db.ingest("d", [update], format="maxwell")
    assert content(db, "FROM d WHERE id = 3") == [(3, None, "y")]


@pytest.mark.full
def test_truncate_empties_the_table(db: ivm.Database) -> None:
    db.ingest("orders", [created(1), created(2)])
    epoch = db.epoch
    found = db.ingest("orders", [created(3), {"op": "t"}, created(4)])
    assert (content(db), db.epoch) == ([(4,)], epoch + 1)
    assert found.counts == {"inserts": 1, "truncates": 1}
    assert_verified(db)


def test_a_stream_may_spell_a_column_in_two_ways(db: ivm.Database) -> None:
    """As two programs that write it may do; within one event it may mean two things."""
    rows = [
        {"op": "I", "id": 1, "customer": 1, "Note": "a"},
        {"op": "I", "id": 2, "customer": 1, "note": "b"},
        {"op": "U", "ID": 1, "customer": 1, "note": "c"},
        {"op": "U", "id": 2, "customer": 1, "note": "d", "NOTE": "e"},
        {"op": "D", "Id": 9},
    ]
    found = db.ingest("orders", [*map(json.dumps, rows), "{", "null"], format="json")
    why = "it has two keys for one column: 'NOTE' and 'note'"
    assert (found.refused, found.ignored) == ({3: why, 5: "it is not JSON"}, 1)
    assert found.counts["unknown_deletes"] == 1
    assert content(db, "SELECT note FROM orders ORDER BY id") == [("c",), ("b",)]


@pytest.mark.full
def test_a_table_without_a_key_needs_the_row_before(db: ivm.Database) -> None:
    db.execute(BAG)
    events = [
        {"op": "c", "after": {"a": None, "b": None}},
        {"op": "u", "before": None, "after": {"a": 1}},
        {"op": "d", "before": None, "after": None},
        {"op": "u", "before": {"a": None, "b": None}, "after": {"a": 2, "b": "x"}},
    ]
    why = "the row before is missing, and the table has no key"
    assert db.ingest("bag", events).refused == {1: why, 2: why}
    assert content(db, "FROM bag") == [(2, "x")]


@pytest.mark.full
def test_positions_are_of_a_source_and_a_table(db: ivm.Database) -> None:
    db.execute(BAG)
    assert db.ingest("orders", [created(1)], source="shop", position=1).applied == 1
    row = {"a": 1}
    for table in ("bag", "main.BAG"):
        found = db.ingest(table, [row], format="json appends", source="shop", position=1)
        assert found.skipped == (table == "main.BAG")
    assert content(db, "FROM bag") == [(1, None)]


@pytest.mark.full
def test_tables_to_which_others_refer_and_unknown_ones_are_refused(db: ivm.Database) -> None:
    db.execute("CREATE TABLE u (id INTEGER PRIMARY KEY); CREATE TABLE v (u INTEGER REFERENCES u)")
    with pytest.raises(errors.UnsupportedError, match="foreign keys refer to it"):
        db.ingest("u", [created(1)])
    with pytest.raises(errors.SqlError, match="there is no table 'nothing'; there are: orders, u"):
        db.ingest("nothing", [created(1)])


BAG = "CREATE TABLE bag (a INTEGER, b VARCHAR CHECK (b <> 'bad'))"


def bag_event(random: Random) -> dict[str, Any]:
    def row() -> dict[str, Any]:
        return {"a": random.choice([1, 2, None]), "b": random.choice(["x", "y", None, "bad"])}

    kind = random.choice(["insert", "insert", "update", "delete"])
    data = row()
    event: dict[str, Any] = {"type": kind, "data": data}
    if kind == "update":
        event["old"] = {key: value for key, value in row().items() if value != data[key]}
    return event


def apply_to_bag(duck: duckdb.DuckDBPyConnection, event: dict[str, Any]) -> bool:
    """Whether DuckDB takes the event."""
    data, gone = event["data"], {**event["data"], **event.get("old", {})}
    duck.execute("BEGIN")
    try:
        if event["type"] != "insert":
            duck.execute(
                "DELETE FROM bag WHERE rowid = (SELECT min(rowid) FROM bag WHERE "
                "a IS NOT DISTINCT FROM ? AND b IS NOT DISTINCT FROM ?)",
                [gone["a"], gone["b"]],
            ).fetchall()
        if event["type"] != "delete":
            duck.execute("INSERT INTO bag VALUES (?, ?)", [data["a"], data["b"]]).fetchall()
    except duckdb.ConstraintException:
        duck.execute("ROLLBACK")
        return False
    duck.execute("COMMIT")
    return True


@pytest.mark.full
@pytest.mark.parametrize("seed", range(examples(12)))
def test_a_table_without_a_key_has_the_rows_of_its_events(seed: int) -> None:
    random, duck = Random(seed), duckdb.connect()
    duck.execute(BAG)
    with ivm.connect() as db:
        db.execute(BAG + "; CREATE MATERIALIZED VIEW n AS SELECT b, count(*) FROM bag GROUP BY b")
        for _ in range(6):
            batch = [bag_event(random) for _ in range(random.randint(1, 12))]
            refused = {i for i, event in enumerate(batch) if not apply_to_bag(duck, event)}
            assert db.ingest("bag", batch, format="maxwell").refused.keys() == refused
            stored = db.execute("FROM bag").fetchall()
            assert Counter(stored) == Counter(duck.execute("FROM bag").fetchall())
        assert_verified(db)


def batch_of(position: int) -> list[dict[str, Any]]:
    """Changes that differ from batch to batch, and add up: applied twice, they would be seen."""
    random = Random(position)
    ids = [random.randrange(40) for _ in range(20)]
    return [{"type": "insert", "data": {"a": i % 7, "b": "x"}} for i in ids]


def write_batches(file: str) -> None:
    """A child process that ingests until it is killed; it tells each batch that has returned."""
    with ivm.connect(file) as db:
        for position in range(10_000):
            db.ingest("bag", batch_of(position), format="maxwell", source="s", position=position)
            print(position, flush=True)


@pytest.mark.full(smoke=1)
def test_killed_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    file = str(tmp_path / "bag.duckdb")
    with ivm.connect(file) as db:
        db.execute(BAG + "; CREATE MATERIALIZED VIEW n AS SELECT a, count(*) FROM bag GROUP BY a")
    told = -1
    for kills in range(1, 2 if TIER == "quick" else 4):
        code = f"from {__name__} import write_batches; write_batches({file!r})"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for line in child.stdout:
                told = max(told, int(line))
                if told >= 15 * kills:
                    break
            child.kill()
            told = max([told, *map(int, child.stdout.read().split()[:-1])])
    with ivm.connect(file) as db:
        ((reached,),) = content(db, "SELECT position FROM _ivm.positions")
        assert reached in (told, told + 1, told + 2)
        batches = [batch_of(position) for position in range(reached + 1)]
        expected = Counter(event["data"]["a"] for batch in batches for event in batch)
        assert Counter(dict(content(db, "FROM n"))) == expected
        assert_verified(db)
