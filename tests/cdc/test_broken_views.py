"""A view that fails on a change of a stream is broken, and everything else goes on."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm import errors
from ivm.engine.broken_views import BrokenViews
from ivm.engine.changefeed import delta_table
from ivm.shell.listing import relations, tables_query
from tests.support.crash_image import image
from tests.support.view_oracle import assert_same_rows

TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, s VARCHAR);
CREATE TABLE u (id INTEGER PRIMARY KEY);
CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t;
CREATE MATERIALIZED VIEW v AS SELECT id, s::INTEGER AS i FROM t;
CREATE MATERIALIZED VIEW w AS SELECT sum(i) AS i FROM v;
CREATE VIEW plain AS SELECT i + 1 AS i FROM w;
CREATE MACRO called() AS TABLE FROM plain
"""
WHOLE = "SELECT list(s ORDER BY id)[-1] AS s FROM t"
"""The last text; recomputed whole."""


def event(id: int, text: Any, op: str = "c") -> dict[str, Any]:
    return {"op": op, "after": {"id": id, "s": text}}


BAD, MENDED = [event(1, "1"), event(2, "x"), event(3, "3")], [event(2, "2", "u")]


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute(TABLES)
        yield opened


def broken(db: ivm.Database) -> set[str]:
    return {view.name for view in db.views() if view.broken}


def right(db: ivm.Database) -> None:
    """What is not broken holds its query's answer; what is broken says so."""
    for view in db.views():
        if view.broken is None:
            stored = db.execute(f'FROM "{view.name}"').fetchall()
            assert_same_rows(stored, db.execute(view.sql).fetchall(), view.name)
        else:
            with pytest.raises(errors.EvaluationError, match=r"is broken: .*REFRESH MATERIALIZED"):
                db.execute(f'FROM "{view.name}"')


def test_the_stream_goes_on_beside_a_broken_view(db: ivm.Database) -> None:
    db.ingest("t", BAD[:1], position=1)
    before = db.epoch
    assert db.ingest("t", BAD[1:], position=2).applied == 2
    assert (broken(db), db.epoch) == ({"v", "w"}, before + 1)
    right(db)
    db.ingest("t", [event(4, "y")], position=3)
    assert db.execute("FROM n").fetchall() == [(4,)]
    assert db.ingest("t", BAD, position=2).skipped


def test_the_reason_names_the_row(db: ivm.Database) -> None:
    db.ingest("t", [*[event(i, str(i)) for i in range(100)], event(200, "x"), event(201, "y")])
    reasons = {view.name: view.broken for view in db.views()}
    why = "Could not convert string 'x' to INT32 (the row of 't' with id = 200, s = x)"
    assert reasons["v"] == f"Conversion Error: {why}"
    assert reasons["w"] == f"it reads 'v', which is broken: {reasons['v']}"


def test_the_row_that_makes_a_sum_overflow_is_named(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW small AS SELECT sum(length(s))::TINYINT AS n FROM t")
    db.ingest("t", [event(i, "7" * 9) for i in range(20)])
    (reason,) = [view.broken for view in db.views() if view.name == "small"]
    assert str(reason).endswith("(the row of 't' with id = 14, s = 777777777)")


def test_a_removal_that_fails(db: ivm.Database) -> None:
    db.ingest("t", [event(1, "1"), event(2, "2")])
    db.execute("CREATE MATERIALIZED VIEW less AS SELECT (count(*) - 2)::UTINYINT AS n FROM t")
    db.ingest("t", [{"op": "d", "before": {"id": 1}}])
    (reason,) = [view.broken for view in db.views() if view.name == "less"]
    assert str(reason).endswith("(when rows of 't' were removed)")
    right(db)


READS = [
    "FROM v",
    "SELECT count(*) FROM main.w",
    "FROM plain",
    "FROM called()",
    "SELECT * FROM t WHERE id IN (SELECT i FROM w)",
    "WITH v2 AS (FROM v) FROM v2",
    "PIVOT v ON i USING count(*)",
    "SUMMARIZE v",
    "SELECT * FROM query('FROM w')",
    "INSERT INTO u SELECT id FROM v",
    "UPDATE u SET id = (SELECT max(i) FROM plain)",
    "CREATE TABLE made AS FROM called()",
    "CREATE MATERIALIZED VIEW above AS FROM v",
    "CREATE MATERIALIZED VIEW above AS FROM plain",
    "SET VARIABLE x = (SELECT max(i) FROM w)",
    "CREATE TABLE made AS PIVOT v ON i USING count(*)",
    "CALL called()",
    "COPY (FROM plain) TO '/dev/null'",
    "COPY v TO '/dev/null'",
    "VERIFY MATERIALIZED VIEW v",
    "VERIFY MATERIALIZED VIEW w",
    "REFRESH MATERIALIZED VIEW w",
    "EXECUTE asked(1)",
]


@pytest.mark.parametrize("within", [False, True])
def test_reading_a_broken_view(db: ivm.Database, within: bool) -> None:
    db.execute("PREPARE asked AS SELECT * FROM plain WHERE i > $1")
    db.ingest("t", BAD)
    for sql in READS:
        if within:
            db.execute("BEGIN")
        with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
            db.execute(sql).fetchall()
        if within:
            db.execute("ROLLBACK")
    with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
        db.execute("SELECT * FROM plain WHERE i > ?", [0])
    with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
        db.subscribe("w")


@pytest.mark.parametrize("within", [False, True])
def test_reading_beside_a_broken_view(db: ivm.Database, within: bool) -> None:
    """Also where words of a statement, or other relations, have the name of a broken view."""
    db.execute(
        "CREATE SCHEMA s; CREATE TABLE s.v (v INTEGER); CREATE VIEW fine AS FROM n;"
        "CREATE MATERIALIZED VIEW s.w AS SELECT count(*) AS w FROM s.v"
    )
    db.ingest("t", BAD)
    for sql in [
        "SELECT n AS v FROM n",
        "FROM fine",
        "FROM s.w",
        "SELECT v FROM s.v",
        "INSERT INTO s.v VALUES (1)",
        "INSERT INTO s.v SELECT n FROM fine",
        "UPDATE s.v SET v = v + 1 WHERE v > 0",
        "DELETE FROM s.v WHERE v > 9",
        "ALTER TABLE u ADD COLUMN v INTEGER",
        "SET VARIABLE v = 1",
        "CREATE TABLE made (v INTEGER, w INTEGER)",
        "DROP TABLE IF EXISTS made",
        "PRAGMA table_info('v')",
        "CREATE MATERIALIZED VIEW v2 AS SELECT s AS w FROM t",
        "PIVOT fine ON n USING count(*)",
        "DESCRIBE v",
        "EXPLAIN FROM v",
        "EXPLAIN MATERIALIZED VIEW v",
    ]:
        if within:
            db.execute("BEGIN")
        db.execute(sql).fetchall()
        if within:
            db.execute("ROLLBACK")
    assert db.execute("SELECT * FROM fine WHERE n > ?", [0]).fetchall() == [(3,)]


def test_a_trigger_that_reads_a_broken_view(db: ivm.Database) -> None:
    db.execute("CREATE TABLE c (i HUGEINT)")
    db.execute(
        "CREATE TRIGGER g AFTER INSERT ON u FOR EACH STATEMENT INSERT INTO c SELECT i FROM plain"
    )
    db.ingest("t", BAD)
    with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
        db.execute("INSERT INTO u SELECT 1")
    db.execute("DROP TRIGGER g ON u; INSERT INTO u SELECT 1")


def test_lists_of_views_say_what_is_broken(db: ivm.Database) -> None:
    assert db.execute("SHOW MATERIALIZED VIEWS").columns == ["name", "strategy", "reads", "query"]
    db.ingest("t", BAD)
    shown = db.execute("SHOW MATERIALIZED VIEWS").arrow().to_pylist()
    assert [(row["name"], row["broken"]) for row in shown] == [
        (view.name, view.broken) for view in db.views()
    ]
    found = db.execute("VERIFY MATERIALIZED VIEWS").arrow().to_pylist()
    assert [(row["view"], row["rows"], row["ok"]) for row in found] == [
        ("n", 1, True),
        ("v", None, False),
        ("w", None, False),
    ]
    assert found[1]["broken"] == shown[1]["broken"]


def test_the_shell_lists_broken_views(db: ivm.Database) -> None:
    db.ingest("t", BAD)
    query = tables_query(relations(db))
    assert query is not None
    found = {name: (kind, rows) for name, kind, rows, _ in db.execute(query).fetchall()}
    assert found["v"] == ("broken view", None)
    assert found["n"] == ("materialized view", 1)


def test_refresh_mends_a_view_and_those_above(db: ivm.Database) -> None:
    db.ingest("t", BAD)
    with pytest.raises(errors.EvaluationError, match="'v' cannot be filled: Conversion Error"):
        db.execute("REFRESH MATERIALIZED VIEW v")
    assert broken(db) == {"v", "w"}
    db.ingest("t", MENDED)
    assert broken(db) == {"v", "w"}
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert db.execute("FROM plain").fetchall() == [(7,)]
    db.ingest("t", [event(9, "9")])
    right(db)
    assert not broken(db)


def test_refresh_of_a_view_that_is_not_broken(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW whole AS {WHOLE}")
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT s || '!' AS s FROM whole")
    db.insert("t", {"id": [1], "s": ["1"]})
    with db.subscribe("above") as feed:
        for name in ("v", "whole", "n"):
            db.execute(f"REFRESH MATERIALIZED VIEW {name}")
            right(db)
        assert [feed.poll(0) for _ in range(2)][1] is None
    db.insert("t", {"id": [2], "s": ["2"]})
    right(db)


def test_refresh_wants_the_name_of_a_view(db: ivm.Database) -> None:
    with pytest.raises(errors.SqlError, match="there is no materialized view 't'"):
        db.execute("REFRESH MATERIALIZED VIEW t")
    with pytest.raises(errors.SqlError):
        db.execute("REFRESH MATERIALIZED VIEW")
    with pytest.raises(errors.SqlError):
        db.execute("REFRESH MATERIALIZED VIEW v WITH NO DATA")


def test_a_view_above_that_fails_by_itself_stays_broken(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW small AS SELECT i::TINYINT AS i FROM v")
    db.ingest("t", BAD)
    db.ingest("t", [*MENDED, event(4, "1000")])
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert broken(db) == {"small"}
    right(db)
    db.ingest("t", [event(4, "100", "u")])
    db.execute("REFRESH MATERIALIZED VIEW small")
    assert not broken(db)
    right(db)


def test_a_lower_view_that_breaks_later(db: ivm.Database) -> None:
    """It is mended first; then the upper one, which has failed by itself before."""
    db.execute("CREATE MATERIALIZED VIEW small AS SELECT i::TINYINT AS i FROM v")
    db.ingest("t", [event(1, "1000")])
    assert broken(db) == {"small"}
    db.ingest("t", BAD)
    assert broken(db) == {"small", "v", "w"}
    db.ingest("t", MENDED)
    with pytest.raises(errors.EvaluationError, match="VIEW v fills it anew"):
        db.execute("REFRESH MATERIALIZED VIEW small")
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert broken(db) == {"small"}
    db.execute("REFRESH MATERIALIZED VIEW small")
    right(db)


def test_views_that_share_what_fails(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW twin AS SELECT id, s::INTEGER AS i FROM t")
    db.execute("CREATE MATERIALIZED VIEW other AS SELECT max(s::UTINYINT) AS m FROM t")
    db.ingest("t", BAD)
    assert broken(db) == {"v", "w", "twin", "other"}
    db.ingest("t", MENDED)
    for name in ("twin", "other", "v"):
        db.execute(f"REFRESH MATERIALIZED VIEW {name}")
        right(db)
    assert not broken(db)


def test_user_writes_are_refused_as_before_and_go_on_beside(db: ivm.Database) -> None:
    for write in (
        lambda: db.execute("INSERT INTO t VALUES (1, 'x')"),
        lambda: db.insert("t", {"id": [1], "s": ["x"]}),
        lambda: db.execute("INSERT INTO t SELECT 1, 'x'"),
    ):
        with pytest.raises(errors.EvaluationError, match="Nothing was applied"):
            write()
    assert not broken(db)
    db.ingest("t", BAD)
    db.execute("INSERT INTO t VALUES (5, 'y')")
    db.execute("INSERT INTO t SELECT 6, 'z'")
    db.execute("BEGIN; DELETE FROM t WHERE id = 1; FROM n; COMMIT")
    assert db.execute("FROM n").fetchall() == [(4,)]
    right(db)


def test_a_stream_within_a_transaction_of_the_user_is_refused(db: ivm.Database) -> None:
    db.ingest("t", [])
    with pytest.raises(errors.EvaluationError, match="Nothing was applied"), db.transaction():
        db.ingest("t", BAD)
    assert not broken(db)
    assert db.execute("FROM t").fetchall() == []


def test_refresh_within_a_transaction(db: ivm.Database) -> None:
    db.ingest("t", BAD)
    found: list[Any] = []

    def ask() -> None:
        with pytest.raises(errors.EvaluationError, match="is broken"):
            db.execute("FROM w")
        found.append(db.execute("FROM n").fetchall())

    db.execute("BEGIN")
    db.execute("UPDATE t SET s = '2' WHERE id = 2")
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert db.execute("FROM w").fetchall() == [(6,)]
    db.execute("INSERT INTO t VALUES (4, '4')")
    assert db.execute("FROM w").fetchall() == [(10,)]
    other = threading.Thread(target=ask)
    other.start()
    other.join()
    assert found == [[(3,)]]
    db.execute("ROLLBACK")
    assert broken(db) == {"v", "w"}
    right(db)
    db.execute("BEGIN")
    with pytest.raises(errors.EvaluationError, match="cannot be filled"):
        db.execute("REFRESH MATERIALIZED VIEW v")
    db.execute("ROLLBACK")
    db.execute("BEGIN; UPDATE t SET s = '2' WHERE id = 2; REFRESH MATERIALIZED VIEW v; COMMIT")
    assert not broken(db)
    right(db)


def test_changefeeds_end_with_the_reason(db: ivm.Database) -> None:
    with db.subscribe("w") as feed, db.subscribe("n") as other:
        db.ingest("t", BAD[:1])
        db.ingest("t", BAD[1:])
        assert feed.poll(0) is not None
        with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
            feed.poll(0)
        assert feed.ended
        assert [other.poll(0) is not None for _ in range(3)] == [True, True, False]


def test_a_view_above_a_recomputed_one(db: ivm.Database) -> None:
    """The change marks the lower view as stale; the upper one breaks once that is recomputed."""
    db.execute(f"CREATE MATERIALIZED VIEW whole AS {WHOLE}")
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT s::INTEGER AS i FROM whole")
    assert [v.strategy for v in db.views() if v.name == "whole"] == ["whole recompute"]
    db.ingest("t", [event(1, "1"), event(2, "x")])
    assert db.execute("FROM whole").fetchall() == [("x",)]
    assert broken(db) == {"v", "w", "above"}
    db.ingest("t", [event(3, "3")])
    right(db)
    db.execute("REFRESH MATERIALIZED VIEW above")
    db.ingest("t", [event(4, "4")])
    right(db)


def test_a_change_that_only_a_stale_view_makes_fail(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW whole AS {WHOLE}")
    db.execute("CREATE MATERIALIZED VIEW d AS SELECT t.id, (t.s::INT - whole.s::INT)::TINYINT AS d"
               " FROM t, whole")  # fmt: skip
    db.ingest("t", [event(1, "0")])
    for text in ("100", "200", "300", "0"):
        db.ingest("t", [event(1, text, "u")])
    assert not broken(db)
    right(db)
    db.ingest("t", [event(0, "-1000")])
    assert broken(db) == {"d"}
    right(db)


def test_a_recomputed_view_that_fails_is_refused_when_read(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW whole AS SELECT s::INTEGER AS i FROM ({WHOLE})")
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT i + 1 AS i FROM whole")
    db.execute("DROP MATERIALIZED VIEW v CASCADE")
    db.ingest("t", [event(1, "1"), event(2, "x")])
    for sql in ("FROM whole", "FROM above", "REFRESH MATERIALIZED VIEW whole"):
        with pytest.raises(errors.EvaluationError, match="Could not convert string 'x'"):
            db.execute(sql)
    db.ingest("t", [event(3, "3")])
    assert db.execute("FROM above").fetchall() == [(4,)]
    assert not broken(db)


def test_ddl_beside_a_broken_view(db: ivm.Database) -> None:
    db.execute("CREATE VIEW below AS FROM v; CREATE MATERIALIZED VIEW x AS SELECT id FROM below")
    db.execute("CREATE VIEW free AS FROM n; CREATE MATERIALIZED VIEW y AS FROM free")
    db.ingest("t", BAD)
    db.execute("ALTER TABLE t ADD COLUMN z INTEGER")
    db.execute("ALTER TABLE u RENAME TO uu")
    with pytest.raises(errors.UnsupportedError, match="would break the materialized view"):
        db.execute("ALTER TABLE t RENAME TO tt")
    with pytest.raises(errors.UnsupportedError, match="cannot replace view 'v'"):
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id, 1 AS i FROM t")
    with pytest.raises(errors.EvaluationError, match="it reads 'v', which is broken"):
        db.execute("CREATE OR REPLACE VIEW free AS SELECT count(*) AS n FROM v")
    assert broken(db) == {"v", "w", "x"}
    right(db)
    db.execute("CREATE OR REPLACE VIEW below AS SELECT id FROM t")  # x reads it no more
    assert broken(db) == {"v", "w"}
    db.ingest("t", [event(4, "4")])
    right(db)
    db.execute("DROP MATERIALIZED VIEW w")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id, TRY_CAST(s AS INT) AS i FROM t")
    assert not broken(db)
    db.ingest("t", [event(5, "y")])
    right(db)


def test_odd_names() -> None:
    with ivm.connect() as db:
        db.execute('CREATE SCHEMA "S 1"; CREATE TABLE "S 1"."T.t" ("A b" INTEGER, "C" VARCHAR)')
        db.execute(
            'CREATE MATERIALIZED VIEW "S 1"."Ä ""v" AS SELECT "C"::INT AS "I" FROM "S 1"."T.t"'
        )
        db.ingest('"S 1"."T.t"', [{"op": "c", "after": {"A b": 1, "C": "x"}}])
        way = r'REFRESH MATERIALIZED VIEW "S 1"."Ä ""v"'
        with pytest.raises(errors.EvaluationError, match=way):
            db.execute('FROM "s 1"."Ä ""V"')
        db.execute('DELETE FROM "S 1"."T.t"')
        db.execute(way)
        assert db.execute('FROM "s 1"."Ä ""V"').fetchall() == []


def test_export_and_import_keep_the_mark(db: ivm.Database, tmp_path: Path) -> None:
    db.ingest("t", BAD)
    db.execute("DROP MACRO TABLE called")  # DuckDB imports it before the view that it names
    db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect() as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert broken(other) == {"v", "w"}
        assert other.views()[1].broken == db.views()[1].broken
        right(other)
        other.execute("DELETE FROM t WHERE id = 2")
        other.execute("REFRESH MATERIALIZED VIEW v")
        right(other)
        other.execute("INSERT INTO t VALUES (7, '7')")
        assert other.execute("FROM plain").fetchall() == [(12,)]


@pytest.mark.parametrize("closed", [True, False])
def test_the_mark_survives(tmp_path: Path, closed: bool) -> None:
    path, copy = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    with ivm.connect(path) as db:
        db.execute(TABLES)
        db.ingest("t", BAD, position=1)
        db.ingest("t", [event(4, "y")], position=2)
        reason = db.views()[1].broken
        if not closed:
            image(path, copy)
    with ivm.connect(path if closed else copy) as db:
        assert (broken(db), db.views()[1].broken) == ({"v", "w"}, reason)
        right(db)
        assert db.ingest("t", BAD, position=2).skipped
        db.ingest("t", [*MENDED, event(4, "4", "u")], position=3)
        db.execute("REFRESH MATERIALIZED VIEW v")
    with ivm.connect(path if closed else copy) as db:
        assert not broken(db)
        assert db.execute("FROM plain").fetchall() == [(11,)]


def test_a_replay_that_meets_a_failure_breaks_the_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is in the file before the record is in the log, but nothing hangs on that."""
    path, copy = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    with ivm.connect(path) as db:
        db.execute(TABLES)
        db.ingest("t", BAD[:1], position=1)
        with monkeypatch.context() as patch:
            patch.setattr(BrokenViews, "_save", lambda *_: None)
            db.ingest("t", BAD[1:], position=2)
        db.ingest("t", [event(4, "y")], position=3)
        image(path, copy)
    for _ in range(2):
        with ivm.connect(copy) as db:
            assert broken(db) == {"v", "w"}
            assert db.execute("FROM n").fetchall() == [(4,)]
            assert db.ingest("t", BAD, position=3).skipped
            right(db)


def test_what_another_program_wrote_breaks_the_views_that_fail(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with ivm.connect(path) as db:
        db.execute(TABLES)
    with duckdb.connect(str(path)) as other:
        other.execute("INSERT INTO t VALUES (1, 'x')")
    with ivm.connect(path) as db:
        assert broken(db) == {"v", "w"}
        right(db)
        db.execute("DELETE FROM t; REFRESH MATERIALIZED VIEW v")
        right(db)


def test_a_sink_of_a_broken_view_gets_the_difference_once_it_is_mended(
    db: ivm.Database, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    db.execute(f"CREATE SINK feed FROM w INTO FILES (path '{folder}', format 'jsonl')")
    db.ingest("t", BAD[:1])
    db.ingest("t", BAD[1:])
    with pytest.raises(errors.EvaluationError, match="'v', which is broken"):
        db.execute(f"CREATE SINK more FROM w INTO FILES (path '{folder}2', format 'jsonl')")
    ((_, before),) = _pending(db)
    db.ingest("t", MENDED)
    assert _pending(db) == [("feed", before)]
    db.execute("REFRESH MATERIALIZED VIEW v")
    outbox, schema = db._engine.outbox, db._engine.catalog.relation_schema("w")
    parts = [rows for _, rows in outbox.next(outbox.sinks["feed"], 0, 1000)]
    found = Counter[Any]()
    for row in [row for rows in parts for row in delta_table(rows, schema).to_pylist()]:
        found[row["i"]] += row["_weight"]
    assert +found == Counter({6: 1})


def _pending(db: ivm.Database) -> list[tuple[str, int]]:
    return [(sink.name, sink.lag_rows) for sink in db.sinks()]


def test_state_that_cannot_be_built_breaks_its_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is built at the first change after an opening, from what the tables hold by then."""
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute(TABLES)
        db.ingest("t", BAD[:1])
    with ivm.connect(tmp_path / "a.duckdb") as db:
        maintenance = db._engine.maintenance
        fetch = maintenance.compiler.fetch
        above = set(maintenance.circuit.nodes_of("w")) - set(maintenance.circuit.nodes_of("n"))

        def failing(number: int) -> Any:
            if number in above:
                raise duckdb.ConversionException("Conversion Error: no")
            return fetch(number)

        with monkeypatch.context() as patch:
            patch.setattr(maintenance.compiler, "fetch", failing)
            db.ingest("t", BAD[2:])
        assert {view.name: view.broken for view in db.views()} == {
            "n": None,
            "v": None,
            "w": "Conversion Error: no",
        }
        right(db)
        db.execute("REFRESH MATERIALIZED VIEW w")
        right(db)


def test_want_of_memory_breaks_no_view(db: ivm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    step = db._engine.maintenance.circuit.step

    def full(*args: Any) -> Any:
        step(*args)
        raise duckdb.OutOfMemoryException("Out of Memory Error: full")

    monkeypatch.setattr(db._engine.maintenance.circuit, "step", full)
    with pytest.raises(errors.EvaluationError, match="Out of Memory"):
        db.ingest("t", BAD[:1])
    monkeypatch.undo()
    assert not broken(db)
    assert db.execute("FROM t").fetchall() == []


def test_events_as_lines(db: ivm.Database) -> None:
    """Decoded events and truncates break views as others do."""
    db.ingest("t", [json.dumps(e) for e in BAD])
    assert broken(db) == {"v", "w"}
    db.ingest("t", [{"op": "t"}, event(8, "8")])
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert db.execute("FROM v").fetchall() == [(8, 8)]
