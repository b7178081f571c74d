"""The interactive shell, key by key through prompt_toolkit and whole on a real terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pexpect
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

import ivm
from ivm.shell.commands import COMMANDS, run_command
from ivm.shell.console import Console, Settings
from ivm.shell.created import statements
from ivm.shell.display.output import Output, Paint, standard_error, standard_output
from ivm.shell.listing import listed
from ivm.shell.prompt import Shell, history_path, interact
from ivm.shell.view_pictures import ViewReader
from ivm.shell.watch import Screen, drawn, watch
from ivm.storage.interrupts import check
from ivm.storage.warehouse.duckdb import duck

ENTER = "\r"
CTRL_C = "\x03"
CTRL_D = "\x04"
TAB = "\t"
UP = "\x1b[A"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home for the history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("""
            CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR, amount INTEGER);
            CREATE MATERIALIZED VIEW revenue AS
              SELECT region, sum(amount) AS total FROM orders GROUP BY region ORDER BY total DESC;
            INSERT INTO orders VALUES (1, 'EU', 5), (2, 'US', 7);
        """)
        yield database


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def typed(db: ivm.Database, keys: PipeInput, text: str, capsys: Any) -> str:
    """What the shell prints while `text` is typed, without its greeting; Ctrl-D ends it."""
    keys.send_text(text + CTRL_D)
    interact(db, mode="csv")
    captured = capsys.readouterr()
    lines = captured.out.splitlines() + captured.err.splitlines()[2:]
    return "\n".join(line for line in lines if not re.match(r"done|\d+ rows?", line))


# --- keys ------------------------------------------------------------------------------------


@pytest.mark.full
def test_enter_runs_closed_statements_only(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    text = f"select 1 as a,{ENTER}2 as b{ENTER};{ENTER}"
    assert typed(db, keys, text, capsys) == "a,b\n1,2"


@pytest.mark.full
def test_a_line_may_hold_several_statements(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    assert typed(db, keys, f"select 1 as a; select 2 as b;{ENTER}", capsys) == "a\n1\nb\n2"


@pytest.mark.full
def test_ctrl_c_drops_the_text(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    assert typed(db, keys, f"select nonsense{CTRL_C}select 1 as a;{ENTER}", capsys) == "a\n1"


@pytest.mark.full
def test_the_history_survives_the_session(
    db: ivm.Database, keys: PipeInput, capsys: Any, state: Path
) -> None:
    assert typed(db, keys, f"select 1 as a;{ENTER}", capsys) == "a\n1"
    assert "+select 1 as a;" in history_path().read_text()
    assert history_path() == state / "ivm" / "history"
    assert history_path().stat().st_mode & 0o077 == 0
    assert typed(db, keys, f"{UP}{ENTER}", capsys) == "a\n1"


@pytest.mark.full
def test_an_unwritable_history_is_no_obstacle(
    db: ivm.Database, keys: PipeInput, capsys: Any, state: Path
) -> None:
    state.write_text("a file where the folder should be")
    assert typed(db, keys, f"select 1 as a;{ENTER}", capsys) == "a\n1"


@pytest.mark.full
@pytest.mark.parametrize("word", ["exit", "quit;", ".quit", ".q", ".exit", "\\q"])
def test_words_that_leave(db: ivm.Database, keys: PipeInput, capsys: Any, word: str) -> None:
    assert typed(db, keys, f"{word}{ENTER}select 1 as never;{ENTER}", capsys) == ""


@pytest.mark.full
def test_an_error_keeps_the_shell_alive(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    printed = typed(db, keys, f"select nope;{ENTER}select 1 as a;{ENTER}", capsys)
    assert printed.startswith("a\n1\nBinder Error")  # standard error comes after standard output


# --- commands --------------------------------------------------------------------------------


def test_help_lists_every_command(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    printed = typed(db, keys, f"help{ENTER}", capsys)
    assert all(command.name in printed for command in COMMANDS)


@pytest.mark.full
def test_tables_and_views_are_listed(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    db.execute("CREATE VIEW plain AS SELECT 1 AS one; CREATE SCHEMA s; CREATE TABLE s.t (a INT)")
    printed = typed(db, keys, f".tables{ENTER}.views{ENTER}", capsys).splitlines()
    assert printed[0] == "name,kind,rows,columns"
    assert 'orders,table,2,"id, region, amount"' in printed
    assert 'revenue,materialized view,2,"region, total"' in printed
    assert "plain,view,,one" in printed
    assert "s.t,table,0,a" in printed
    assert any(re.match("revenue,.*,orders,", line) for line in printed)


@pytest.mark.full
def test_schema_shows_what_made_things(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    assert "CREATE TABLE orders" in typed(db, keys, f".schema{ENTER}", capsys)
    printed = typed(db, keys, f".schema revenue{ENTER}", capsys)
    assert printed.startswith("CREATE MATERIALIZED VIEW revenue AS\nSELECT region, sum(amount)")
    assert "there is no table or view" in typed(db, keys, f".schema nope{ENTER}", capsys)


def test_schema_of_a_database_can_be_run_again(
    db: ivm.Database, keys: PipeInput, capsys: Any
) -> None:
    db.execute("""
        CREATE SCHEMA s; CREATE SEQUENCE ids; CREATE TABLE s.t (a INTEGER DEFAULT nextval('ids'));
        CREATE INDEX i ON s.t (a);
        CREATE MATERIALIZED VIEW zero AS SELECT count(*) AS n FROM s.t;
        CREATE MATERIALIZED VIEW above AS SELECT n + 1 AS m FROM zero;
        CREATE VIEW plain AS FROM above;
        CREATE MATERIALIZED VIEW s."Of ""it"(n, "select") WITH (tick = '1 minute') AS
            SELECT a, now(), a + 1 AS more FROM s.t;
        CREATE INDEX "by n" ON s."Of ""it" (n, "select");
    """)
    script = typed(db, keys, f".schema{ENTER}", capsys)
    with ivm.connect() as other:
        other.execute(script)
        assert [view.name for view in other.views()] == ["revenue", "zero", "above", 's."Of ""it"']
        assert other.execute("FROM plain").fetchall() == [(1,)]
        of_it = other.views()[-1]
        assert [name for name, _ in of_it.columns] == ["n", "select", "more"]
        shown = other.execute("SHOW MATERIALIZED VIEWS").arrow().to_pylist()[-1]
        assert (shown["tick"], shown["indexes"]) == ("1 minute", "by n (n, select)")


MADE = """
    CREATE SCHEMA "s 1";
    CREATE SEQUENCE "s 1"."my ids";
    CREATE TABLE orders (id INTEGER DEFAULT nextval('"s 1"."my ids"'), region VARCHAR);
    CREATE TABLE "s 1"."t.x" (a INTEGER);
    CREATE VIEW regions AS SELECT region FROM orders;
    CREATE MATERIALIZED VIEW "A count" AS SELECT region, count(*) AS n FROM regions GROUP BY region;
    CREATE VIEW above AS FROM "A count";
    CREATE MATERIALIZED VIEW "order" AS FROM above;
"""


@pytest.mark.full
def test_schema_can_be_run_again_after_a_reopening(tmp_path: Path) -> None:
    """DuckDB then numbers tables, as which views are stored, by name: "A count" before orders."""
    with ivm.connect(tmp_path / "a.duckdb") as database:
        database.execute(MADE)
    with ivm.connect(tmp_path / "a.duckdb") as database:
        script = ";\n".join(statements(database))
    with ivm.connect() as other:
        other.execute(script)
        assert sorted(statements(other)) == sorted(script.split(";\n"))
        assert [view.name for view in other.views()] == ["A count", "order"]


def test_schema_has_what_views_and_tables_were_given() -> None:
    made = [
        "CREATE TABLE t(a INTEGER, Ts TIMESTAMP) WITH (retain = INTERVAL '3 days', "
        'retain_by = "Ts")',
        'CREATE MATERIALIZED VIEW renamed (x, "Y z") AS\nSELECT a, count(*) FROM t GROUP BY a',
        "CREATE MATERIALIZED VIEW of_the_time WITH (tick = '1 minute') AS\n"
        'SELECT count(*) AS n FROM t WHERE "Ts" > localtimestamp - INTERVAL 1 DAY',
    ]
    with ivm.connect() as database:
        database.execute(";".join(made))
        assert list(statements(database)) == made


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("a COUNT", 'CREATE MATERIALIZED VIEW "A count" AS\nSELECT region, count(*)'),
        ('"main"."a count"', 'CREATE MATERIALIZED VIEW "A count"'),
        ("memory.main.Orders", "CREATE TABLE orders("),
        ('"s 1"."T.X"', 'CREATE TABLE "s 1"."t.x"('),
        ('s 1."t.x"', 'CREATE TABLE "s 1"."t.x"('),
        ("order", 'CREATE MATERIALIZED VIEW "order"'),
    ],
)
def test_schema_knows_a_name_in_all_its_spellings(name: str, made: str) -> None:
    with ivm.connect() as database:
        database.execute(MADE)
        (statement,) = statements(database, name)
    assert statement.startswith(made)


def test_schema_lists_the_names_that_there_are() -> None:
    with ivm.connect() as database:
        database.execute(
            "CREATE SCHEMA s; CREATE TABLE s.t (a INTEGER); CREATE TABLE u (a INTEGER)"
        )
        with pytest.raises(ivm.errors.InputError, match=r"'s'; there are: s\.t, u$"):
            list(statements(database, "s"))


@pytest.mark.full
@pytest.mark.parametrize("name", ["order", '"order"', "memory.main.ORDER", "'order'"])
def test_commands_take_names_that_need_quotes(keys: PipeInput, capsys: Any, name: str) -> None:
    with ivm.connect() as database:
        database.execute(
            'CREATE TABLE "a.b" (c INTEGER); CREATE MATERIALIZED VIEW "order" AS FROM "a.b"'
        )
        shown = typed(database, keys, f".explain {name}{ENTER}", capsys)
    assert "Scan" in shown


def test_words_after_a_command_may_be_in_capitals_and_behind_a_tab(
    db: ivm.Database, capsys: Any
) -> None:
    console = Console(db, ":memory:", standard_output(), standard_error(), Settings(), run_command)
    assert console.run(".timer OFF\n.MODE\tCSV\nSELECT 1 AS a;")
    assert capsys.readouterr().out == "a\n1\n"


def test_explain_shows_the_plan(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    assert "orders" in typed(db, keys, f".explain revenue{ENTER}", capsys)


@pytest.mark.full
def test_explain_names_the_way_of_a_query_and_of_a_change(
    db: ivm.Database, keys: PipeInput, capsys: Any
) -> None:
    shown = typed(db, keys, f"EXPLAIN FROM revenue;{ENTER}", capsys)
    assert "\nread from: memory" in shown
    changed = typed(db, keys, f"explain delete from orders;{ENTER}", capsys)
    assert "\nchanged by: fast path: DuckDB finds the rows" in changed


@pytest.mark.full
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (".tabels", "did you mean .tables?"),
        (".t", "could be .tables or .timer"),
        (".mode fancy", "there is no mode 'fancy'"),
        (".read", ".read needs FILE"),
        (".read missing.sql", "cannot read missing.sql"),
        (".views all", ".views takes no argument"),
        (".timer maybe", ".timer is on or off"),
        (".explain nope", "there is no materialized view 'nope'"),
        (".watch revenue", ".watch needs a terminal"),
    ],
)
def test_commands_say_what_is_wrong(
    db: ivm.Database, keys: PipeInput, capsys: Any, line: str, reason: str
) -> None:
    assert reason in typed(db, keys, line + ENTER, capsys)


@pytest.mark.full
def test_a_script_is_summed_up_in_one_line(
    db: ivm.Database, keys: PipeInput, capsys: Any, tmp_path: Path
) -> None:
    script = tmp_path / "load.sql"
    script.write_text("INSERT INTO orders VALUES (7, 'EU', 1);\nFROM revenue;\n")
    printed = typed(db, keys, f".read {script}{ENTER}", capsys).splitlines()
    assert printed[:-1] == ["region,total", "US,7", "EU,6"]
    assert printed[-1].startswith(f"{script}: 2 statements · ")


def test_completion_inside_a_transaction_runs_no_query(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(database: ivm.Database) -> None:
        raise AssertionError("a query would leave the transaction's fast path")

    db.execute("BEGIN")
    monkeypatch.setattr("ivm.shell.listing.relations", fail)
    tables, views = listed(db)
    assert [column.name for column in tables["orders"]] == ["id", "region", "amount"]
    assert list(views) == ["revenue"]
    db.execute("ROLLBACK")


@pytest.mark.full
def test_completion_goes_on_with_what_it_knew_if_nothing_can_be_read(
    db: ivm.Database, keys: PipeInput
) -> None:
    outputs = standard_output(), standard_error()
    shell = Shell(Console(db, ":memory:", *outputs, Settings("csv"), run_command))
    shell._vocabulary.set_result(([], frozenset()))
    assert "orders" in shell.names().tables
    for statement in ("BEGIN", "SELEC"):
        with suppress(ivm.errors.SqlError):
            db.execute(statement)
    assert "SELEC" in str(db.aborted)
    shell._read = False
    assert "orders" in shell.names().tables
    db.close()
    shell._read = False
    assert "orders" in shell.names().tables


@pytest.mark.full
def test_modes_change_in_the_shell(db: ivm.Database, keys: PipeInput, capsys: Any) -> None:
    printed = typed(
        db,
        keys,
        f".mode json{ENTER}select 1 as a;{ENTER}.mode line{ENTER}from revenue;{ENTER}",
        capsys,
    )
    assert '[{"a":1}]' in printed
    assert "region = EU\n total = 5" in printed


def test_another_database_can_be_opened(
    db: ivm.Database, keys: PipeInput, capsys: Any, tmp_path: Path
) -> None:
    file = tmp_path / "other.duckdb"
    with ivm.connect(file) as other:
        other.execute("CREATE TABLE elsewhere (a INT)")
    keys.send_text(f".open {file}{ENTER}.open {file}{ENTER}.tables{ENTER}{CTRL_D}")
    mine = ivm.connect()
    interact(mine, mode="csv", owned=True)
    captured = capsys.readouterr()
    assert "elsewhere,table,0,a" in captured.out
    assert "is the database that is open" in captured.err


# --- watching --------------------------------------------------------------------------------


def test_a_watched_view_shows_its_last_change(db: ivm.Database) -> None:
    reader = ViewReader(db, "revenue")
    with db.subscribe("revenue") as feed:
        db.execute("INSERT INTO orders VALUES (3, 'EU', 5)")
        epoch, delta = next(feed)
    picture = reader.picture(epoch, [delta], 10)
    assert (picture.rows, picture.added, picture.removed) == (2, 1, 1)
    assert picture.shown.cells == [["EU", "US"], ["10", "7"]]  # in the order the query asks for
    assert picture.marked == {("EU", "10")}
    lines = drawn("revenue", picture, 80, Paint(False))
    assert lines[0] == f"revenue   2 rows   epoch {epoch}   last change +1 −1   q ends"


def test_a_watched_view_of_final_rows_is_in_its_order(db: ivm.Database) -> None:
    db.execute("CREATE TABLE clicks (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    query = "SELECT ts FROM clicks ORDER BY ts DESC"
    db.execute(f"CREATE MATERIALIZED VIEW seen AS {query} EMIT ON WINDOW CLOSE")
    db.execute("INSERT INTO clicks VALUES ('2026-03-01'), ('2026-03-02'), ('2026-03-03')")
    picture = ViewReader(db, "seen").picture(0, [], 10)
    assert picture.shown.cells == [["2026-03-02 00:00:00", "2026-03-01 00:00:00"]]


def test_a_watched_view_has_the_time_zone_of_its_shell(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that draws has a session of its own, in which no SET has run."""
    drawings: list[list[str]] = []

    def draw(screen: Screen) -> None:
        db.execute("INSERT INTO times VALUES (TIMESTAMPTZ '2020-06-01 00:00:00+00')")
        epoch, delta = next(screen._feed)
        picture = screen._reader.picture(epoch, [delta], 10)
        assert picture.marked == {("2020-06-01 09:00:00+09",)}
        drawings.append(drawn("at", picture, 80, Paint(False)))

    monkeypatch.setattr(Screen, "run", draw)
    db.execute("CREATE TABLE times (t TIMESTAMPTZ); CREATE MATERIALIZED VIEW at AS FROM times")
    db.execute("SET TimeZone = 'Asia/Tokyo'")
    output = Output(sys.stdout, is_terminal=True)
    watch(Console(db, ":memory:", output, output, Settings(), run_command), "at")
    assert any("2020-06-01 09:00:00+09" in line for line in drawings[0])


def test_a_view_longer_than_the_screen_says_so(db: ivm.Database) -> None:
    picture = ViewReader(db, "revenue").picture(0, [], 1)
    assert drawn("revenue", picture, 80, Paint(False))[-1] == "… 1 row"


@pytest.mark.parametrize("key", ["q", CTRL_C])
def test_watching_follows_other_threads_until_a_key(
    db: ivm.Database, keys: PipeInput, key: str
) -> None:
    with db.subscribe("revenue") as feed:
        screen = Screen(ViewReader(db, "revenue"), feed, Paint(False))

        def change_and_leave() -> None:
            db.insert("orders", {"id": [9], "region": ["ASIA"], "amount": [1]})
            end = time.monotonic() + 10
            while "last change" not in screen.text() and time.monotonic() < end:
                time.sleep(0.02)
            keys.send_text(key)

        writer = threading.Thread(target=change_and_leave)
        writer.start()
        screen.run()
        writer.join()
    assert "ASIA" in screen.text()
    assert "last change +1 −0" in screen.text()


def test_a_view_dropped_while_watched_ends_the_watching(db: ivm.Database, keys: PipeInput) -> None:
    with db.subscribe("revenue") as feed:
        screen = Screen(ViewReader(db, "revenue"), feed, Paint(False))
        db.execute("DROP MATERIALIZED VIEW revenue")
        with pytest.raises(ivm.errors.IvmError, match="revenue"):
            screen.run()


@pytest.mark.full
@pytest.mark.parametrize("change", ["DROP", "CREATE OR REPLACE"])
def test_watching_ends_when_the_view_goes(db: ivm.Database, keys: PipeInput, change: str) -> None:
    """Once the thread that waits for changes ran without rest, and the screen stood still."""
    with db.subscribe("revenue") as feed:
        screen = Screen(ViewReader(db, "revenue"), feed, Paint(False))

        def change_it() -> None:
            while screen.text() == "…":
                time.sleep(0.02)
            rest = " AS FROM orders" if change != "DROP" else ""
            db.execute(f"{change} MATERIALIZED VIEW revenue{rest}")

        writer = threading.Thread(target=change_it)
        writer.start()
        with pytest.raises(ivm.errors.InputError, match="revenue changes no more: it was dropped"):
            screen.run()
        writer.join()


# --- on a real terminal ----------------------------------------------------------------------

pytestmark = pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """`ivm` on a pseudo terminal of 100 × 40."""

    def __init__(self, *args: str, **variables: str) -> None:
        environment = {**os.environ, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
        environment["PYTHONPATH"] = str(Path(ivm.__file__).parent.parent)
        environment.pop("NO_COLOR", None)
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "ivm", *args],
            env={**environment, **variables},
            dimensions=(40, 100),
            encoding="utf-8",
            timeout=20,
        )
        self.raw = ""
        self.wait_for("Ctrl-D leaves")

    def wait_for(self, text: str) -> str:
        """The output up to `text`, without escape sequences."""
        end = time.monotonic() + 20
        seen = ""
        while text not in seen:
            assert time.monotonic() < end, seen
            chunk = self.process.read_nonblocking(4096, timeout=20)
            self.raw += chunk
            seen = ESCAPES.sub("", self.raw)
        self.raw = ""
        return seen

    def type(self, text: str) -> None:
        self.process.send(text + ENTER)

    def leave(self) -> int:
        self.process.send(CTRL_D)
        self.process.expect(pexpect.EOF)
        self.process.close()
        return int(self.process.exitstatus or 0)


def in_transaction(shop: str) -> Terminal:
    """A terminal with an open transaction that has inserted a row."""
    terminal = Terminal(shop)
    terminal.type("BEGIN;")
    terminal.wait_for("shop*>")
    terminal.type("INSERT INTO orders VALUES ('EU', 1);")
    terminal.wait_for("1 row changed")
    return terminal


@pytest.fixture
def shop(tmp_path: Path) -> str:
    file = tmp_path / "shop.duckdb"
    with ivm.connect(file) as database:
        database.execute("""
            CREATE TABLE orders (region VARCHAR, amount INTEGER);
            CREATE MATERIALIZED VIEW revenue AS
              SELECT region, sum(amount) AS total FROM orders GROUP BY region;
        """)
    return str(file)


@pytest.mark.full
def test_a_session_on_a_file(shop: str) -> None:
    terminal = Terminal(shop)
    terminal.type("INSERT INTO orders VALUES ('EU', 1), ('EU', 2);")
    assert "2 rows changed" in terminal.wait_for(" ms")
    terminal.type("FROM revenue;")
    assert "│ EU      │       3 │" in terminal.wait_for("1 row · ")
    terminal.type("SELECT region,")
    terminal.type("  nope FROM revenue;")
    shown = terminal.wait_for("^^^^")
    assert "LINE 2:   nope FROM revenue" in shown
    assert terminal.leave() == 0
    with ivm.connect(shop) as database:
        assert database.execute("FROM revenue").fetchall() == [("EU", 3)]


@pytest.mark.full
def test_tab_completes_and_enter_takes_the_completion(shop: str) -> None:
    terminal = Terminal(shop)
    terminal.process.send("SELECT 'done' FROM reve")
    terminal.wait_for("view, 2 columns")
    terminal.process.send(TAB + ENTER)  # the menu is gone, the line is still being typed
    terminal.type(" LIMIT 0; SELECT 42 AS answer;")
    assert "42 │" in terminal.wait_for("1 row · ")
    terminal.process.send(".sch")
    terminal.wait_for("the statements that made")
    terminal.process.send(TAB + ENTER)
    terminal.type(" revenue")
    terminal.wait_for("CREATE MATERIALIZED VIEW revenue AS")
    assert terminal.leave() == 0


@pytest.mark.full
def test_tables_are_coloured_and_cut_on_a_terminal(shop: str) -> None:
    terminal = Terminal(shop)
    terminal.type("SELECT range AS i, repeat('x', 500) AS s FROM range(1000);")
    raw = terminal.process.read_nonblocking(1, timeout=20)
    terminal.raw = raw
    shown = terminal.wait_for("1,000 rows (40 shown)")
    assert "… 960 rows" in shown
    assert max(len(line) for line in shown.splitlines() if "│" in line) <= 100
    assert terminal.leave() == 0


@pytest.mark.full(smoke=1)
def test_no_color_is_heeded(shop: str) -> None:
    terminal = Terminal(shop, NO_COLOR="1")
    terminal.type("SELECT NULL AS nothing;")
    terminal.process.expect("1 row · ")
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.process.before) is None
    assert terminal.leave() == 0


@pytest.mark.full
def test_ctrl_c_ends_the_statement_and_not_the_shell(shop: str) -> None:
    terminal = Terminal(shop)
    terminal.type("SELECT count(*) FROM range(100000000) a, range(100000) b;")
    time.sleep(1)
    terminal.process.kill(signal.SIGINT)
    terminal.wait_for("Cancelled.")
    terminal.type("SELECT 42 AS answer;")
    assert "42 │" in terminal.wait_for("1 row · ")
    assert terminal.leave() == 0


def test_ctrl_c_says_what_has_become_of_the_statement(
    db: ivm.Database, keys: PipeInput, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked() -> None:
        monkeypatch.setattr(duck, "check", check)
        signal.raise_signal(signal.SIGINT)
        check()

    monkeypatch.setattr(duck, "check", checked)  # where the state of the new view is built
    create = "CREATE MATERIALIZED VIEW v AS SELECT amount, count(*) AS n FROM orders GROUP BY 1;"
    shown = typed(db, keys, f"{create}{ENTER}SELECT n FROM v WHERE amount = 5;{ENTER}", capsys)
    told = "Cancelled. The transaction is committed. The state of its views is not built yet"
    assert shown.splitlines()[:2] == ["n", "1"]
    assert shown.splitlines()[2].startswith(told)


@pytest.mark.full
def test_leaving_rolls_an_open_transaction_back(shop: str) -> None:
    terminal = in_transaction(shop)
    terminal.type(".watch revenue")
    terminal.wait_for("COMMIT or ROLLBACK it first")
    terminal.process.send(CTRL_D)
    terminal.wait_for("rolled back")
    terminal.process.expect(pexpect.EOF)
    with ivm.connect(shop) as database:
        assert database.execute("FROM orders").fetchall() == []


@pytest.mark.full
def test_a_failed_transaction_can_be_seen_and_left(shop: str) -> None:
    terminal = in_transaction(shop)
    terminal.type("SELEC * FROM orders;")
    assert "The transaction was rolled back: ROLLBACK, then begin again." in terminal.wait_for(
        "shop!>"
    )
    terminal.process.send("FROM orde")
    terminal.wait_for("table, 2 columns")
    terminal.type("rs;")
    terminal.wait_for("the transaction was rolled back because a statement in it failed")
    terminal.type("ROLLBACK;")
    terminal.wait_for("shop>")
    terminal.type("FROM orders;")
    terminal.wait_for("0 rows")
    assert terminal.leave() == 0


@pytest.mark.full
def test_watch_on_a_terminal(shop: str) -> None:
    terminal = Terminal(shop)
    terminal.type("INSERT INTO orders VALUES ('EU', 1);")
    terminal.wait_for("1 row changed")
    terminal.type(".watch revenue")
    shown = terminal.wait_for("q ends")
    assert "1 row " in shown
    terminal.process.send("q")
    terminal.wait_for("shop>")
    assert terminal.leave() == 0
