"""What is found out about names while a session changes the catalog is kept no longer than that."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm.catalog import relations_read
from ivm.engine.base import definitions
from ivm.errors import IvmError
from ivm.session.queries import query
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.whole.test_concurrency import run_all

RECOMPUTED = "SELECT mad(b) AS b FROM {}"


def beside(job: Callable[[], Any]) -> Any:
    """The job's result in another thread, and so in another session, which may not wait."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(job()))
    thread.start()
    thread.join(timeout=20)
    assert found, "it waits"
    return found[0]


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute("CREATE TABLE t1(b INT); CREATE TABLE t2(b INT)")
        opened.execute("CREATE VIEW pv AS SELECT b FROM t1; CREATE MACRO tm() AS TABLE FROM t1")
        opened.execute("CREATE MACRO m() AS (SELECT count(*) FROM t1)")
        yield opened


CHANGES = {
    "view": ("CREATE OR REPLACE VIEW pv AS SELECT b FROM t2", "SELECT b FROM pv"),
    "table macro": ("CREATE OR REPLACE MACRO tm() AS TABLE FROM t2", "FROM tm()"),
    "macro": (
        "CREATE OR REPLACE MACRO m() AS (SELECT list(b) FROM t2)",
        "SELECT unnest(m()::INT[])",
    ),
    "view in a table's place": (
        "DROP TABLE t1; CREATE VIEW t1 AS FROM t2",
        "SELECT b FROM t1",
    ),
    "materialized view": ("CREATE MATERIALIZED VIEW w AS FROM t2", "SELECT b FROM w"),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("transaction", [True, False])
def test_readers_beside_a_change_of_the_catalog_keep_nothing(
    db: ivm.Database, kind: str, transaction: bool
) -> None:
    change, query = CHANGES[kind]

    def look() -> None:
        with contextlib.suppress(IvmError):  # it is not there yet
            db.execute(query).fetchall()

    if transaction:
        db.execute("BEGIN")
    for statement in change.split("; "):
        beside(look)
        db.execute(statement)
        beside(look)
    if transaction:
        db.execute("COMMIT")
    db.insert("t2", {"b": [1, 2, 3]})
    assert sorted(db.execute(query).fetchall()) == [(1,), (2,), (3,)]
    assert sorted(beside(lambda: db.execute(query).fetchall())) == [(1,), (2,), (3,)]


def test_what_is_looked_up_while_the_catalog_changes_is_not_kept(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lookup that began before the change ended behind it, and its answer stayed.
    relations = db._engine.definitions.relations
    find = relations._find

    def overtaken(*given: Any) -> Any:
        found = find(*given)
        monkeypatch.setattr(relations, "_find", find)
        beside(lambda: db.execute("CREATE OR REPLACE VIEW pv AS SELECT b FROM t2"))
        return found

    monkeypatch.setattr(relations, "_find", overtaken)
    db.insert("t2", {"b": [1]})
    assert db.execute("SELECT b FROM pv").fetchall() == [(1,)]
    db.insert("t2", {"b": [2]})
    assert sorted(db.execute("SELECT b FROM pv").fetchall()) == [(1,), (2,)]


@pytest.mark.full
def test_polling_readers_see_each_change_of_a_view(db: ivm.Database) -> None:
    query, done = "SELECT b FROM pv", threading.Event()

    def poll() -> None:
        while not done.is_set():
            db.execute(query).fetchall()

    def change() -> None:
        try:
            for i in range(20):
                table, other = ("t1", "t2") if i % 2 else ("t2", "t1")
                db.execute(f"CREATE OR REPLACE VIEW pv AS SELECT b FROM {table}")
                db.execute(f"TRUNCATE {table}")
                db.insert(table, {"b": [i]})
                db.insert(other, {"b": [-1]})
                assert db.execute(query).fetchall() == [(i,)]
        finally:
            done.set()

    run_all(change, poll, poll)


@pytest.mark.full
def test_a_reader_waits_for_no_transaction_unless_its_view_is_stale(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW r AS {RECOMPUTED.format('t1')}")
    db.insert("t1", {"b": [1, 3]})
    assert db.execute("SELECT b FROM r").fetchall() == [(1.0,)]
    db.execute("BEGIN; INSERT INTO t1 VALUES (100), (200)")
    assert beside(lambda: db.execute("SELECT b FROM r").fetchall()) == [(1.0,)]
    together = "SELECT r.b, count(*) FROM r, t1 GROUP BY ALL"
    assert beside(lambda: db.execute(together).fetchall()) == [(1.0, 2)]
    db.execute("COMMIT")
    assert beside(lambda: db.execute(together).fetchall()) == [(49.5, 4)]


@pytest.mark.full
def test_a_commit_before_the_snapshot_is_pinned_makes_the_reader_refresh(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW r AS {RECOMPUTED.format('t1')}")
    db.insert("t1", {"b": [1, 3]})
    assert db.execute("SELECT b FROM r").fetchall() == [(1.0,)]
    ready = query._is_ready

    def overtaken(*args: Any, **named: Any) -> bool:
        monkeypatch.setattr(query, "_is_ready", ready)
        beside(lambda: db.insert("t1", {"b": [101, 103]}))
        return ready(*args, **named)

    monkeypatch.setattr(query, "_is_ready", overtaken)
    both = "SELECT r.b, count(*) FROM r, t1 GROUP BY ALL"
    assert db.execute(both).fetchall() == [(50.0, 4)]


@pytest.mark.full
def test_a_stale_view_that_another_session_drops_is_read_fresh(db: ivm.Database) -> None:
    # The name was unknown while the DROP was not committed, and nothing was brought up to date.
    db.execute(f"CREATE MATERIALIZED VIEW r AS {RECOMPUTED.format('t1')}")
    db.insert("t1", {"b": [1, 3]})
    db.execute("BEGIN; DROP MATERIALIZED VIEW r")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(db.execute("FROM r").fetchall()))
    waits, wait = threading.Event(), db._engine.writer_lock._wait

    def noticed() -> None:
        waits.set()
        wait()

    db._engine.writer_lock._wait = noticed  # type: ignore[method-assign]
    thread.start()
    assert waits.wait(20)
    db.execute("ROLLBACK")
    thread.join(20)
    assert found == [(1.0,)]


@pytest.mark.full
def test_a_view_is_shown_while_another_session_drops_it(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW gone AS SELECT b, count(*) AS n FROM t1 GROUP BY b")
    views, found = db._engine.views, db._engine.catalog.views["gone"]  # as a session finds it
    operator = views.explain(found).split("[")[0]
    beside(lambda: db.execute("DROP MATERIALIZED VIEW gone"))
    assert views.strategy(found) == "indexed"
    assert views.explain(found).split("[")[0] == operator


@pytest.mark.full
def test_a_view_is_shown_while_another_session_has_it_filled_anew(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE MATERIALIZED VIEW counted AS SELECT b, count(*) AS n FROM t1 GROUP BY b")
    maintenance = db._engine.maintenance
    detach, shown, threads = maintenance.detach, [], []

    def show() -> None:
        shown.extend(db.execute("SHOW MATERIALIZED VIEWS").fetchall())

    def overtaken(name: str) -> None:
        detach(name)
        threads.append(threading.Thread(target=show))
        threads[-1].start()
        threads[-1].join(0.3)  # it may wait until the view is back

    monkeypatch.setattr(maintenance, "detach", overtaken)
    db.execute("ALTER TABLE t1 ALTER b TYPE INTEGER USING b + 1")
    for thread in threads:
        thread.join(20)
    assert [row[:2] for row in shown] == [("counted", "indexed")] * len(threads)
    assert threads


@pytest.mark.full
def test_what_texts_mean_indirectly_is_asked_once_for_all(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a text with parameters DuckDB names no relations; a new macro is found all the same."""
    asked = list[Any]()
    ask = relations_read._indirect

    def spied(*given: Any) -> set[str]:
        asked.append(given)
        return ask(*given)

    monkeypatch.setattr(relations_read, "_indirect", spied)

    def read(text: str) -> list[str]:
        return sorted(db._engine.definitions.relations.read_by(text) or ())

    for number in range(3):
        assert read(f"SELECT list(b), {number} FROM t1 WHERE b > ?") == ["t1"]
    assert len(asked) == 1
    assert read("SELECT b FROM other() WHERE b > ?") == []
    db.execute("CREATE MACRO other() AS TABLE FROM t2")
    assert read("SELECT b FROM other() WHERE b > ?") == ["t1", "t2"]
    assert len(asked) == 2


# --- functions ---


@pytest.mark.full
def test_functions_are_listed_again_only_where_others_may_be_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed: list[object] = []

    def counted(cursor: Cursor) -> FunctionList:
        listed.append(cursor)
        return list_functions(cursor)

    monkeypatch.setattr(definitions, "list_functions", counted)
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        db.execute("INSERT INTO t VALUES (1, 1); ALTER TABLE t ADD COLUMN b INTEGER")
        db.execute("CREATE INDEX i ON t (a); DROP INDEX i; CREATE VIEW p AS FROM t")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT a FROM p; DROP MATERIALIZED VIEW w")
        assert db.execute("SELECT a + $x FROM t", {"x": 1}).fetchall() == [(2,)]
        assert not listed  # a new database has DuckDB's own
        for change in (
            "CREATE MACRO rows_of_t() AS TABLE FROM t",
            "BEGIN; CREATE OR REPLACE MACRO rows_of_t() AS TABLE FROM p; ROLLBACK",
            f"ATTACH '{tmp_path / 'b.duckdb'}' AS b",
            "CREATE MACRO b.main.of_t() AS (SELECT count(*) FROM a.main.t)",
        ):
            before = len(listed)
            db.execute(change)
            db.execute(f"INSERT INTO t VALUES ({10 + before}, 1, 1)")
            ((count,),) = db.execute("SELECT count(*) + $x FROM rows_of_t()", {"x": 0}).fetchall()
            assert len(listed) > before, change
            assert db.execute("SELECT max(n) FROM v").fetchall() == [(count,)], change
        db.execute("INSERT INTO t VALUES (99, 1, 1)")
        assert db.execute("SELECT b.main.of_t() + $x", {"x": 0}).fetchall() == [(count + 1,)]
        db.create_function(ivm.Function("own", lambda x: x, ["BIGINT"], "BIGINT"))
        db.execute("CREATE MATERIALIZED VIEW o AS SELECT own(a) AS a FROM t")
        assert len(db.execute("FROM o").fetchall()) == count + 1


@pytest.mark.full
def test_what_is_looked_up_of_tables_and_triggers_is_kept_no_longer_than_that(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: what was found out beside a change of the catalog stayed after it."""
    known = db._engine.definitions

    def changed(*given: object) -> Any:
        known.forget()
        return wrong

    wrong: Any = [True]

    db.execute("CREATE TABLE t3 (b INT DEFAULT 1)")
    with monkeypatch.context() as patch:
        patch.setattr(definitions, "tells_time", changed)
        patch.setattr(relations_read, "rows", changed)
        patch.setattr(definitions, "fast_path_of", changed)
        assert known.defaults_tell_time
        assert known.relations.triggers()
        assert known.fast_path("t3") is wrong
    assert known.fast_path("t3") is not wrong
    assert not known.defaults_tell_time
    assert not known.relations.triggers()


@pytest.mark.parametrize("name", [":memory:", "new.duckdb"])
def test_a_new_database_has_duckdbs_own_functions_until_it_has_more(
    name: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.duckdb"
    with duckdb.connect(other) as cursor:
        cursor.execute("CREATE MACRO theirs(x) AS x")
    with ivm.connect(name if name == ":memory:" else tmp_path / name) as db:
        known, cursor = db._engine.definitions, db._engine.warehouse.cursor()

        def parts(functions: FunctionList) -> tuple[set[Any], ...]:
            return tuple([set(getattr(functions, field.name)) for field in fields(functions)])

        assert parts(known.functions) == parts(list_functions(cursor))
        db.execute("CREATE MACRO ours(x) AS x")
        assert known.macros == {"ours"}
        db.execute(f"ATTACH '{other}' AS other")
        assert known.functions.elsewhere == {"theirs"}
        assert parts(known.functions) == parts(list_functions(cursor))
    if name != ":memory:":
        with ivm.connect(tmp_path / name) as db:
            assert db._engine.definitions.macros == {"ours"}


def test_a_file_that_another_program_has_begun_is_not_new(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "x.duckdb") as cursor:
        cursor.execute("CREATE MACRO theirs(x) AS x")
    with ivm.connect(tmp_path / "x.duckdb") as db:
        assert db._engine.definitions.macros == {"theirs"}
