"""Broken views in particular cases: odd rows, names, statements, and failures of other kinds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm import errors
from ivm.engine.feeds.changefeed import delta_table
from ivm.engine.views.broken_views import BrokenViews
from ivm.shell.listing import relations, tables_query
from ivm.storage.state.header import remove_states
from ivm.storage.warehouse.opening.side_folder import side_folder
from tests.cdc.broken_tables import BAD, MENDED, TABLES, WHOLE, broken, event, right
from tests.support.crash_image import image

pytestmark = pytest.mark.full(smoke=12)


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute(TABLES)
        yield opened


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


@pytest.mark.full
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


def test_the_shell_lists_broken_views(db: ivm.Database) -> None:
    db.ingest("t", BAD)
    query = tables_query(relations(db))
    assert query is not None
    found = {name: (kind, rows) for name, kind, rows, _ in db.execute(query).fetchall()}
    assert found["v"] == ("broken view", None)
    assert found["n"] == ("materialized view", 1)


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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
    outbox, schema = db._engine.outbox, db._engine.catalog.version.relation_schema("w")
    parts = [rows for _, rows in outbox.next(outbox.sinks["feed"], 0, 1000)]
    found = Counter[Any]()
    for row in [row for rows in parts for row in delta_table(rows, schema).to_pylist()]:
        found[row["i"]] += row["_weight"]
    assert +found == Counter({6: 1})


def _pending(db: ivm.Database) -> list[tuple[str, int]]:
    return [(sink.name, sink.lag_rows) for sink in db.sinks()]


@pytest.mark.full
def test_state_that_cannot_be_built_breaks_its_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is built at the first change after an opening, from what the tables hold by then."""
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute(TABLES)
        db.ingest("t", BAD[:1])
    remove_states(side_folder(tmp_path / "a.duckdb"))
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


@pytest.mark.parametrize("name", ["v AS b", "v b", "main.v AS b", "fine", "v"])
def test_a_query_whose_plan_duckdb_cannot_tell(db: ivm.Database, name: str) -> None:
    """USING KEY: the names that DuckDB lists instead have the alias behind them."""
    db.execute("CREATE VIEW fine AS FROM v AS b")
    sql = (
        f"WITH RECURSIVE r(id, i) USING KEY (id) AS (SELECT id, i FROM {name} UNION "
        "SELECT id, i + 1 FROM r WHERE i < 3) FROM r"
    )
    db.execute(sql)
    db.ingest("t", BAD)
    with pytest.raises(errors.EvaluationError, match="the view 'v' is broken"):
        db.execute(sql)
