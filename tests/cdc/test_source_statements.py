"""The statements on sources: what they change, when, and what they refuse."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm.cdc.sources.files.files import Files
from ivm.errors import InputError, SqlError, UnavailableError, UnsupportedError
from tests.cdc.orders import ORDERS, VIEW, content

CREATE = "CREATE SOURCE shop INTO orders FROM FILES (path '{}', format 'json')"
COLUMNS = {
    "name": "VARCHAR",
    "kind": "VARCHAR",
    "target": "VARCHAR",
    "state": "VARCHAR",
    "position": "VARCHAR",
    "lag_events": "BIGINT",
    "lag_seconds": "DOUBLE",
    "events": "BIGINT",
    "events_per_second": "DOUBLE",
    "dead_letters": "BIGINT",
    "reason": "VARCHAR",
}


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    return tmp_path / "orders.jsonl"


@pytest.fixture(scope="module")
def kept() -> Iterator[ivm.Database]:
    """A database with a source, for statements that are refused."""
    with ivm.connect() as opened:
        opened.execute(f"{ORDERS}; {VIEW}; {CREATE.format('orders.jsonl')}")
        yield opened


@pytest.fixture
def shop(db: ivm.Database, inbox: Path) -> ivm.Database:
    """A database with a source."""
    db.execute(CREATE.format(inbox))
    return db


def put(inbox: Path, *ids: int) -> None:
    with inbox.open("a") as file:
        for id in ids:
            file.write(json.dumps({"op": "insert", "id": id, "customer": 1, "amount": 1}) + "\n")


def waited(ready: Callable[[], Any], db: ivm.Database) -> None:
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end, db.sources()
        time.sleep(0.02)


def names(db: ivm.Database) -> list[str]:
    return [source.name for source in db.sources()]


def only(db: ivm.Database) -> ivm.SourceInfo:
    [source] = db.sources()
    return source


def elsewhere(work: Callable[[], Any]) -> Any:
    """What another thread, and so another session, gets."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


# --- what they say -----------------------------------------------------------------------------


@pytest.mark.full
def test_show_has_a_row_a_source(shop: ivm.Database) -> None:
    result = shop.execute("show  Sources")
    assert dict(zip(result.columns, result.types, strict=True)) == COLUMNS
    row = ("shop", "FILES", "orders", "not started", "", None, None, 0, 0.0, 0, None)
    assert result.fetchall() == [row]
    assert result.arrow().num_rows == 0
    assert [str(t) for t in shop.execute("SHOW SOURCES").arrow().schema.types] == [
        *["string"] * 5,
        *("int64", "double", "int64", "double", "int64", "string"),
    ]


def test_show_before_any_source(db: ivm.Database) -> None:
    result = db.execute("SHOW SOURCES")
    assert (result.columns, result.fetchall()) == (list(COLUMNS), [])


@pytest.mark.full
def test_a_table_may_have_the_name_of_the_list(db: ivm.Database) -> None:
    """SHOW SOURCES is ours; DESCRIBE, quotes and all else mean the table."""
    db.execute("CREATE TABLE sources (a INTEGER); CREATE TABLE sinks (a INTEGER)")
    assert db.execute("SHOW sources").columns == list(COLUMNS)
    for words in ('SHOW "sources"', "DESCRIBE sources", "SHOW main.sources"):
        assert db.execute(words).fetchall()[0][:2] == ("a", "INTEGER")
    assert db.execute("FROM sources").fetchall() == []


@pytest.mark.full
def test_source_is_no_reserved_word(db: ivm.Database) -> None:
    db.execute("CREATE TABLE source (source INTEGER, sink INTEGER)")
    db.execute("INSERT INTO source VALUES (1, 2)")
    db.execute("ALTER TABLE source ADD COLUMN pause INTEGER; DROP TABLE source")


# --- names -------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("name", ["SHOP", "Shop", '"shop"', '"SHOP"'])
def test_names_are_without_regard_to_case(shop: ivm.Database, inbox: Path, name: str) -> None:
    with pytest.raises(SqlError, match="exists: DROP SOURCE"):
        shop.execute(CREATE.format(inbox).replace("shop", name, 1))
    shop.execute(f"PAUSE SOURCE {name}; DROP SOURCE {name}")
    assert names(shop) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ['"my source"', '"a;b"', '"it\'s"', '"größe"', '"a""b"', '"1"'])
def test_names_that_need_quotes(db: ivm.Database, inbox: Path, name: str) -> None:
    db.execute(CREATE.format(inbox).replace("shop", name, 1))
    assert names(db) == [name[1:-1].replace('""', '"')]
    db.execute(f"PAUSE SOURCE {name}; RESUME SOURCE {name}; DISCARD DEAD LETTERS FOR {name}")
    db.execute(f"ALTER SOURCE {name} SET (settle 1); DROP SOURCE {name}")
    assert names(db) == []


@pytest.mark.full
def test_the_target_may_be_in_a_schema(db: ivm.Database, inbox: Path) -> None:
    db.execute('CREATE SCHEMA "S 1"; CREATE TABLE "S 1"."T.x" (id INTEGER PRIMARY KEY)')
    db.execute(CREATE.format(inbox).replace("orders", '"S 1"."T.x"', 1))
    put(inbox, 1, 2)
    db.start_sources()
    waited(lambda: only(db).caught_up or only(db).reason, db)
    assert content(db, 'FROM "S 1"."T.x" ORDER BY 1') == [(1,), (2,)]


# --- what is refused ---------------------------------------------------------------------------


def test_two_sources_whose_copies_would_empty_one_table() -> None:
    pytest.importorskip("psycopg")
    create = "CREATE SOURCE {} FROM POSTGRES (dsn 'host=nowhere', tables '{}')"
    with ivm.connect() as db:
        db.execute(create.format("a", "t, s.u"))
        for into in ("b", "b INTO T", "b INTO main.t", 'b INTO "S"."u"'):
            with pytest.raises(InputError, match=r"'a' copies into table .* would empty it"):
                db.execute(create.format(into, '"T"' if into == "b" else "other"))
        db.execute(create.format("b INTO t2", "t"))
        db.execute(create.format("c", "v"))
        with pytest.raises(InputError, match="'b' copies into table 't2'"):
            db.execute("ALTER SOURCE c ADD TABLE t2")
        db.execute(create.format("IF NOT EXISTS a", "t2"))
        db.execute("DROP SOURCE b; ALTER SOURCE c ADD TABLE t2")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("statement", "reason", "at"),
    [
        ("CREATE SOURCE s INTO orders FROM FILE (path 'x')", "did you mean 'FILES'", "FILE ("),
        ("CREATE SOURCE s INTO orders FROM NOPE (path 'x')", "there are: FILES", "NOPE"),
        ("CREATE SOURCE s INTO orders FROM FILES (paht 'x')", "did you mean 'path'", "paht"),
        ("CREATE SOURCE s INTO orders FROM FILES (path 'x')", "needs the option 'format'", "FILES"),
        ("CREATE SOURCE s INTO orders FROM FILES (path 'x', path 'y')", "given twice", "'y'"),
        (
            "CREATE SOURCE settle INTO orders FROM FILES (path 'x', format 'json', settle 'y')",
            "'settle' is a number, not 'y'",
            "settle 'y'",
        ),
        ("CREATE SOURCE s INTO orders FROM FILES (path x)", "a 'text', a number", "x)"),
        ("CREATE SOURCE s INTO orders FROM FILES", "expected (", None),
        ("CREATE SOURCE s INTO orders", "expected FROM", None),
        ("PAUSE SOURCE", "expected a name", None),
        ("PAUSE orders", "expected SOURCE", "orders"),
        ("RETRY LETTERS FOR s", "expected DEAD", "LETTERS"),
        ("ALTER SOURCE shop RENAME TO s", "SET POSITION 'place', ADD TABLE or DROP", "RENAME"),
        ("ALTER SOURCE shop SET (paht 'x')", "did you mean 'path'", "paht"),
        ("ALTER SOURCE shop SET POSITION", "expected a 'text'", None),
        ("ALTER SOURCE shop SET POSITION latest", "expected a 'text'", "latest"),
        ("ALTER SOURCE shop SET POSITION '0:1' 2", "expected the end", "2"),
        ("ALTER SOURCE shop SET (settle TRUE)", "'settle' is a number", "settle"),
        ("DROP SOURCE shop CASCADE", "expected the end", "CASCADE"),
    ],
)
def test_errors_have_their_place(
    kept: ivm.Database, statement: str, reason: str, at: str | None
) -> None:
    """The place counts in the whole script, which has a statement before."""
    script = f"SELECT 'größe'; {statement}"
    with pytest.raises(SqlError) as raised:
        kept.execute(script)
    assert reason in str(raised.value)
    assert raised.value.position == (len(script) if at is None else script.rindex(at))
    assert names(kept) == ["shop"]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE SOURCE s INTO nope FROM FILES (path 'x', format 'json')", "no table 'nope'"),
        ("CREATE SOURCE s INTO revenue FROM FILES (path 'x', format 'json')", "revenue"),
        ("CREATE SOURCE s FROM FILES (path 'x', format 'json')", "INTO table"),
        ("CREATE SOURCE s INTO orders FROM FILES (path 'x', format 'xml')", "no format 'xml'"),
        ("ALTER SOURCE shop SET (format 'xml')", "no format 'xml'"),
        ("ALTER SOURCE shop ADD TABLE orders", "no list of tables"),
        ("PAUSE SOURCE nope", "no source 'nope'; there are: shop"),
        ("RESUME SOURCE nope", "no source 'nope'"),
        ("ALTER SOURCE nope SET (settle 1)", "no source 'nope'"),
        ("DROP SOURCE nope", "no source 'nope'"),
        ("RETRY DEAD LETTERS FOR nope", "no source 'nope'"),
    ],
)
def test_what_cannot_be(kept: ivm.Database, statement: str, reason: str) -> None:
    before = kept.execute("FROM _ivm.sources").fetchall()
    with pytest.raises((InputError, UnsupportedError), match=reason):
        kept.execute(statement)
    assert kept.execute("FROM _ivm.sources").fetchall() == before


def test_the_tables_of_sources_are_not_changed_by_hand(shop: ivm.Database) -> None:
    for change in ("DELETE FROM _ivm.sources", "UPDATE _ivm.positions SET position = 0"):
        with pytest.raises(ivm.IvmError, match="_ivm"):
            shop.execute(change)


def test_if_exists_and_if_not_exists(shop: ivm.Database, inbox: Path) -> None:
    before = shop.execute("FROM _ivm.sources").fetchall()
    other = CREATE.format("elsewhere").replace("SOURCE", "SOURCE IF NOT EXISTS", 1)
    shop.execute(other)
    assert shop.execute("FROM _ivm.sources").fetchall() == before
    shop.execute("DROP SOURCE IF EXISTS shop; DROP SOURCE IF EXISTS shop")
    shop.execute(other)
    assert names(shop) == ["shop"]


# --- transactions ------------------------------------------------------------------------------


@pytest.mark.full
def test_the_first_source_comes_outside_of_a_transaction(db: ivm.Database, inbox: Path) -> None:
    db.execute("BEGIN")
    with pytest.raises(UnavailableError, match="outside of a transaction"):
        db.execute(CREATE.format(inbox))
    db.execute("ROLLBACK")
    db.execute(CREATE.format(inbox))
    assert names(db) == ["shop"]


@pytest.mark.full
def test_a_rolled_back_statement_has_changed_nothing(shop: ivm.Database, inbox: Path) -> None:
    before = shop.execute("FROM _ivm.sources").fetchall()
    for statement in (
        "PAUSE SOURCE shop",
        "ALTER SOURCE shop SET (format 'maxwell')",
        "DROP SOURCE shop",
        CREATE.format(inbox).replace("shop", "other", 1),
        f"DROP SOURCE shop; {CREATE.format('elsewhere')}",
    ):
        shop.execute(f"BEGIN; {statement}")
        assert shop.execute("FROM _ivm.sources").fetchall() != before
        assert elsewhere(lambda: names(shop)) == ["shop"]
        shop.execute("ROLLBACK")
        assert shop.execute("FROM _ivm.sources").fetchall() == before


@pytest.mark.full
def test_a_committed_transaction_has_changed_all(shop: ivm.Database, inbox: Path) -> None:
    shop.execute(f"BEGIN; PAUSE SOURCE shop; {CREATE.format(inbox).replace('shop', 'other', 1)}")
    assert [source.state for source in shop.sources()] == ["not started", "paused"]
    shop.execute("COMMIT")
    assert elsewhere(lambda: [source.state for source in shop.sources()]) == [
        "not started",
        "paused",
    ]


@pytest.mark.full
def test_a_running_source_follows_what_is_committed(shop: ivm.Database, inbox: Path) -> None:
    shop.start_sources()
    put(inbox, 1)
    waited(lambda: content(shop) == [(1,)], shop)
    for end, count in (("ROLLBACK", 2), ("COMMIT", 2)):
        shop.execute("BEGIN; PAUSE SOURCE shop")
        put(inbox, count)
        time.sleep(0.1)
        shop.execute(end)
        if end == "ROLLBACK":
            waited(lambda: len(content(shop)) == 2, shop)
    assert only(shop).state == "paused"
    put(inbox, 3)
    time.sleep(0.3)
    assert len(content(shop)) == 2
    shop.execute("BEGIN; RESUME SOURCE shop; COMMIT")
    waited(lambda: len(content(shop)) == 3, shop)


@pytest.mark.full
def test_a_source_created_in_a_transaction_runs_after_its_commit(
    shop: ivm.Database, inbox: Path
) -> None:
    shop.execute("DROP SOURCE shop")
    shop.start_sources()
    put(inbox, 1)
    shop.execute(f"BEGIN; INSERT INTO orders (id, customer) VALUES (9, 9); {CREATE.format(inbox)}")
    time.sleep(0.2)
    assert content(shop) == [(9,)]
    shop.execute("COMMIT")
    waited(lambda: content(shop) == [(1,), (9,)], shop)


# --- while it runs -----------------------------------------------------------------------------


@pytest.mark.full
def test_altered_while_running(shop: ivm.Database, inbox: Path, tmp_path: Path) -> None:
    shop.start_sources()
    put(inbox, 1, 2)
    waited(lambda: len(content(shop)) == 2, shop)
    other = tmp_path / "other.jsonl"
    put(other, 3)
    shop.execute(f"ALTER SOURCE shop SET (path '{other}')")
    waited(lambda: len(content(shop)) == 3, shop)
    assert only(shop).events == 3  # counted since it was started here


@pytest.mark.full
def test_dropped_and_created_again_it_begins_anew(shop: ivm.Database, inbox: Path) -> None:
    put(inbox, 1, 2)
    shop.start_sources()
    waited(lambda: only(shop).caught_up, shop)
    shop.execute("DROP SOURCE shop; DELETE FROM orders")
    assert content(shop, "FROM _ivm.positions") == []
    shop.execute(CREATE.format(inbox))
    waited(lambda: len(content(shop)) == 2, shop)


@pytest.mark.full
def test_who_creates_a_source_or_a_sink_is_told_what_runs_it(
    db: ivm.Database, inbox: Path, tmp_path: Path
) -> None:
    db.execute("CREATE TABLE t (id INTEGER); CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    source = f"CREATE SOURCE {{}} INTO t FROM FILES (path '{inbox}', format 'json')"
    sink = f"CREATE SINK {{}} FROM v INTO FILES (path '{tmp_path}/{{}}')"
    assert "db.start_sources(), ivm ingest" in db.execute(source.format("a")).message
    assert "db.start_sinks(), ivm ingest" in db.execute(sink.format("a", "a")).message
    db.start_sources()
    db.start_sinks()
    assert db.execute(source.format("b")).message == ""
    assert db.execute(sink.format("b", "b")).message == ""


@pytest.mark.full
def test_only_the_named_sources_are_started(shop: ivm.Database, inbox: Path) -> None:
    shop.execute(CREATE.format(inbox).replace("shop", "other", 1))
    put(inbox, 1)
    with pytest.raises(SqlError, match="no source 'nope'"):
        shop.start_sources(["shop", "nope"])
    assert [source.state for source in shop.sources()] == ["not started"] * 2
    shop.start_sources(["SHOP"])
    waited(lambda: shop.sources()[1].caught_up, shop)
    assert shop.sources()[0].state == "not started"
    shop.start_sources()
    waited(lambda: shop.sources()[0].caught_up, shop)
    assert [source.events for source in shop.sources()] == [1, 1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "mend"),
    [
        ("ALTER TABLE orders RENAME TO sales", "ALTER TABLE sales RENAME TO orders"),
        ("DROP TABLE orders CASCADE", ORDERS),
    ],
)
def test_a_table_that_goes_stops_its_source(
    shop: ivm.Database, inbox: Path, change: str, mend: str
) -> None:
    shop.execute("DROP MATERIALIZED VIEW revenue")
    shop.start_sources()
    put(inbox, 1)
    waited(lambda: len(content(shop)) == 1, shop)
    shop.execute(change)
    put(inbox, 2)
    waited(lambda: only(shop).state == "stopped", shop)
    assert "no table 'orders'" in str(only(shop).reason)
    shop.execute(f"{mend}; RESUME SOURCE shop")
    waited(lambda: only(shop).caught_up, shop)
    assert content(shop)[-1] == (2,)
    assert only(shop).reason is None


# --- dead letters ------------------------------------------------------------------------------


@pytest.mark.full
def test_discarded_letters_do_not_count_for_the_limit(shop: ivm.Database, inbox: Path) -> None:
    """The limit was counted from the start of the job, whatever was discarded since."""
    shop.execute("ALTER SOURCE shop SET (max_dead_letters 2)")
    shop.start_sources()
    for _ in range(3):
        with inbox.open("a") as file:
            file.write("{\n{\n")
        waited(lambda: only(shop).dead_letters == 2 and only(shop).caught_up, shop)
        assert only(shop).state == "running"
        assert shop.execute("DISCARD DEAD LETTERS FOR shop").rowcount == 2
    assert only(shop).dead_letters == 0


@pytest.mark.full
def test_dead_letters_outlive_their_source(shop: ivm.Database, inbox: Path) -> None:
    inbox.write_text("{\n")
    shop.start_sources()
    waited(lambda: only(shop).dead_letters == 1, shop)
    shop.execute("DROP SOURCE shop")
    assert content(shop, "SELECT source FROM _ivm.dead_letters") == [("shop",)]
    assert shop.execute("DISCARD DEAD LETTERS FOR shop").rowcount == 1


# --- the file ----------------------------------------------------------------------------------


def filled(tmp_path: Path, inbox: Path) -> Path:
    """A closed file whose source has applied two events, one more being refused."""
    file = tmp_path / "filled.duckdb"
    put(inbox, 1, 2)
    with inbox.open("a") as lines:
        lines.write("{\n")
    with ivm.connect(file) as db:
        db.execute(f"{ORDERS}; {VIEW}; {CREATE.format(inbox)}")
        db.start_sources()
        waited(lambda: only(db).caught_up, db)
    return file


@pytest.mark.full
def test_a_source_goes_on_after_a_restart(tmp_path: Path, inbox: Path) -> None:
    file = filled(tmp_path, inbox)
    put(inbox, 3)
    with ivm.connect(file) as db:
        assert (only(db).state, only(db).dead_letters) == ("not started", 1)
        assert only(db).position == f"{inbox}: 3"
        db.start_sources()
        waited(lambda: only(db).caught_up, db)
        assert (only(db).events, content(db)) == (1, [(1,), (2,), (3,)])
        db.execute("PAUSE SOURCE shop")
    with ivm.connect(file) as db:
        assert only(db).state == "paused"


@pytest.mark.full
def test_the_file_without_us(tmp_path: Path, inbox: Path) -> None:
    file = filled(tmp_path, inbox)
    with duckdb.connect(str(file)) as plain:
        assert plain.execute("SELECT name, state FROM _ivm.sources").fetchall() == [
            ("shop", "running")
        ]
        assert plain.execute("SELECT position FROM _ivm.positions").fetchall() == [(3,)]
        assert plain.execute("SELECT count(*) FROM _ivm.dead_letters").fetchone() == (1,)
    with ivm.connect(file) as db:
        assert names(db) == ["shop"]


@pytest.mark.full
def test_recovered_sources(tmp_path: Path, inbox: Path) -> None:
    file = filled(tmp_path, inbox)
    assert ivm.recover(file).trouble is None
    with ivm.connect(file) as db:
        assert (names(db), only(db).position) == (["shop"], f"{inbox}: 3")


@pytest.mark.full
def test_an_exported_database_leaves_its_sources_behind(tmp_path: Path, inbox: Path) -> None:
    """A position is of one database: with it, another one would leave out what it has not got."""
    with ivm.connect(filled(tmp_path, inbox)) as db:
        db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect(tmp_path / "copy.duckdb") as copy:
        copy.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert (names(copy), content(copy)) == ([], [(1,), (2,)])
        copy.execute(CREATE.format(inbox))
        assert only(copy).position == ""
        copy.start_sources()
        waited(lambda: only(copy).caught_up, copy)
        assert content(copy) == [(1,), (2,)]
        assert content(copy, "SELECT n FROM revenue") == [(2,)]


@pytest.mark.full
def test_an_import_keeps_the_sources_that_are_there(
    shop: ivm.Database, tmp_path: Path, inbox: Path
) -> None:
    shop.start_sources()
    put(inbox, 1)
    waited(lambda: only(shop).caught_up, shop)
    with ivm.connect(tmp_path / "other.duckdb") as other:
        other.execute("CREATE TABLE extra AS SELECT 1 AS a")
        other.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    shop.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
    put(inbox, 2)
    waited(lambda: len(content(shop)) == 2, shop)
    assert content(shop, "FROM extra") == [(1,)]


@pytest.mark.full
def test_tables_of_a_source_are_added_and_taken_out(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute("CREATE SOURCE shop FROM POSTGRES (dsn 'service=none', tables 'orders')")
        db.execute('ALTER SOURCE shop ADD TABLE public."Odd, ""name""", S.B')
        with pytest.raises(ivm.errors.InputError, match=r'has table "public"\."orders"'):
            db.execute("ALTER SOURCE shop ADD TABLE Public.Orders")
        db.execute("ALTER SOURCE shop DROP TABLE orders, s.b")
        with pytest.raises(ivm.errors.InputError, match=r'has no table "s"\."b"'):
            db.execute("ALTER SOURCE shop DROP TABLE s.b")
        with pytest.raises(ivm.errors.InputError, match="names no table"):
            db.execute('ALTER SOURCE shop DROP TABLE "Odd, ""name"""')
        [[options]] = db.execute("SELECT options FROM _ivm.sources").fetchall()
        assert json.loads(options)["tables"] == '"public"."Odd, ""name"""'


@pytest.mark.full
def test_a_source_of_the_name_of_a_dropped_one_begins_after_it(
    shop: ivm.Database, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: it was begun before what the dropped one has upstream was removed, and then lost it."""
    acts: list[str] = []
    opened = Files.open

    def open(files: Files, *given: Any) -> Any:
        acts.append("open")
        return opened(files, *given)

    monkeypatch.setattr(Files, "open", open)
    monkeypatch.setattr(Files, "forget", lambda *given: acts.append("forget"))
    shop.start_sources()
    put(inbox, 1)
    waited(lambda: len(content(shop)) == 1, shop)
    with shop.transaction():
        shop.execute("DROP SOURCE shop")
        shop.execute(CREATE.format(inbox))
    put(inbox, 2)
    waited(lambda: len(content(shop)) == 2, shop)
    assert acts == ["open", "forget", "open"]
    assert only(shop).state == "running"


@pytest.mark.full
def test_sources_and_the_streams_of_programs_have_names_of_their_own(
    shop: ivm.Database, inbox: Path
) -> None:
    """Neither can read the positions of the other."""
    for position in (None, 1):
        with pytest.raises(InputError, match="'shop' is a source that was created"):
            shop.ingest("orders", ["dirt"], source="shop", position=position)
    files = f"INTO orders FROM FILES (path '{inbox}', format 'json')"
    shop.ingest("orders", ["dirt"], source="letters")
    shop.ingest("orders", [], source="positions", position=1)
    for name in ("letters", "positions"):
        with pytest.raises(InputError, match=f"'{name}' is the name of a stream that a program"):
            shop.execute(f"CREATE SOURCE {name} {files}")
    shop.execute(f"DISCARD DEAD LETTERS FOR letters; CREATE SOURCE letters {files}")
