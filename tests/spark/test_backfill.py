"""First fills on Spark beside everything else: at the end the view is its query, and follows.

The oracle is VERIFY, which compares with DuckDB's answer to the user's own text.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.backfill import hand_over, verify
from ivm.backfill import job as jobs
from ivm.backfill.hand_over import HandOver, OutdatedError
from ivm.changes.rows import evaluation
from ivm.delta_ops.joins.arrange import Arrange
from ivm.engine.engine import Engine
from ivm.engine.transactions.open_changes import OpenChanges
from ivm.engine.transactions.transaction import Transaction
from ivm.session import bulk
from ivm.spark_backfill import stages
from ivm.spark_backfill.stages import Staging
from ivm.storage.arrangement.builder import RunBuilder
from ivm.storage.arrangement.run import Run
from ivm.storage.errors import EvaluationError, SqlError, UnavailableError, UnsupportedError
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.zset import add
from ivm.storage.warehouse.tables import history_pieces
from tests.support.spark import session

TABLES = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, region VARCHAR);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(12,2), weight DOUBLE);
INSERT INTO customers SELECT range, 'r' || (range % 5) FROM range(40);
INSERT INTO orders SELECT range, range % 47, (range % 997) / 7, range / 3 FROM range(3000);
"""
QUERY = """SELECT region, count(*) AS n, sum(amount) AS total, avg(weight) AS mean,
    max(amount) AS most, count(DISTINCT customer) AS customers
    FROM orders JOIN customers ON customer = customers.id GROUP BY region"""
CREATE = f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {QUERY}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    session()  # or the test is not run
    return tmp_path / "shop.duckdb"


@pytest.fixture
def db(path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(path, spark=session()) as opened:
        opened.execute(TABLES)
        yield opened


def demand_right(db: ivm.Database, *views: str) -> None:
    """The views are their queries, now and after changes of every kind."""
    for change in (
        "SELECT 1",
        "INSERT INTO orders VALUES (900001, 3, 12.5, 0.1), (900002, NULL, NULL, NULL)",
        "UPDATE orders SET customer = 4, amount = 1 WHERE id < 20",
        "DELETE FROM customers WHERE region = 'r1'",
    ):
        db.execute(change)
        for view in views or ("v",):
            ((_, count, missing, extra, ok, *_),) = db.execute(
                f"VERIFY MATERIALIZED VIEW {view}"
            ).fetchall()
            assert (ok, missing, extra) == (True, 0, 0), (view, change)
            assert count


class Gate:
    """Stops a function of the job at its first call, until it is opened.

    Args:
        patch: of the test.
        owner: the module or class of the function.
        name: its name.
    """

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        original: Callable[..., Any] = getattr(owner, name)

        def stopped(*args: Any, **kwargs: Any) -> Any:
            self.reached.set()
            assert self.open.wait(60)
            return original(*args, **kwargs)

        patch.setattr(owner, name, stopped)

    def wait(self) -> None:
        """Waits until the job is there."""
        assert self.reached.wait(60)


POINTS = [(jobs, "export_scanned"), (jobs, "run_stage"), (HandOver, "load"), (HandOver, "finish")]


@pytest.mark.full
@pytest.mark.parametrize(
    ("owner", "name"), POINTS, ids=lambda point: getattr(point, "__name__", point)
)
def test_changes_that_come_meanwhile_are_there_once(
    owner: Any, name: str, db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, owner, name)
    db.execute(CREATE)
    gate.wait()
    db.insert("orders", [{"id": 5000 + i, "customer": i % 9, "amount": i} for i in range(50)])
    db.execute("UPDATE orders SET amount = amount + 1 WHERE id % 3 = 0")
    db.delete("orders", [{"id": i} for i in range(0, 100, 7)])
    with db.transaction():
        db.execute("DELETE FROM customers WHERE id > 30")
        db.upsert("customers", [{"id": 31, "region": "new"}])
    with pytest.raises(EvaluationError, match="first fill of 'v' on Spark has not ended"):
        db.execute("SELECT * FROM v")
    assert db.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][-1] is not None
    gate.open.set()
    db.backfill("v")
    demand_right(db)
    assert not any((Path(f"{db.path}.ivm") / "backfill").iterdir())


@pytest.mark.full
def test_the_state_is_the_one_that_duckdb_builds(db: ivm.Database) -> None:
    db.execute(CREATE)
    db.backfill("v")
    with ivm.connect() as other:
        other.execute(TABLES)
        other.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        ours, theirs = states(db), states(other)
    assert len(ours) > 2
    assert ours == theirs


def states(db: ivm.Database) -> list[Any]:
    """What each stateful operator of view v holds, comparable."""
    engine: Engine = db._engine
    circuit = engine.maintenance.circuit
    found: list[Any] = []
    for number in circuit.nodes_of("v"):
        operator = circuit.node(number).operator
        if not operator.stateful:
            continue
        assert circuit.node(number).hydrated
        if isinstance(operator, Arrange):
            rows = consolidate(add(list(operator.after.batches())), operator.types)
        else:
            rows = add(list(operator.contents(lambda _: iter(()))))
        schema = tuple((f"c{i}", t) for i, t in enumerate(operator.types))
        values = [*rows.to_arrow(schema).to_pylist(), *[{"w": w} for w in rows.weights.tolist()]]
        found.append((operator.describe(), operator.state_rows(), sorted(map(repr, values))))
    return found


VIEWS = {
    "scalar": "SELECT count(*) AS n, sum(weight) AS s FROM orders",
    "top": "SELECT customer, amount, id FROM orders ORDER BY amount DESC, id LIMIT 7",
    "outer": "SELECT o.id, region FROM orders o LEFT JOIN customers c ON c.id = customer",
    "windowed": """SELECT id, customer, rank() OVER (PARTITION BY customer ORDER BY amount) AS r
        FROM orders""",
    "distinct_": "SELECT DISTINCT customer, amount > 50 AS big FROM orders",
    "lists": "SELECT customer, list(id ORDER BY id) AS ids FROM orders GROUP BY customer",
    "texts": "SELECT id, upper(region) AS r, region || '!' AS s FROM customers WHERE id % 3 <> 1",
    "nested": """SELECT region, (SELECT max(amount) FROM orders WHERE customer = c.id) AS m
        FROM customers c""",
    "twice": "SELECT a.id, b.id AS other FROM customers a JOIN customers b USING (region)",
}


@pytest.mark.full
def test_views_of_every_kind_and_over_each_other(db: ivm.Database) -> None:
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (backfill = 'spark') AS {query}")
    for name in VIEWS:
        db.backfill(name)
    db.execute(
        "CREATE MATERIALIZED VIEW above WITH (backfill = 'spark') AS"
        " SELECT s, count(*) AS n FROM windowed JOIN texts ON texts.id = customer GROUP BY s"
    )
    db.backfill("above")
    demand_right(db, "above", *VIEWS)


@pytest.mark.full
def test_closed_in_the_middle_it_goes_on_where_it_was(
    db: ivm.Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, HandOver, "load")
    db.execute(CREATE)
    gate.wait()
    threading.Timer(0.5, gate.open.set).start()
    db.insert("orders", {"id": [7001], "customer": [1], "amount": [3]})
    db.close()
    monkeypatch.undo()
    computed: list[bool] = []
    run_stage = stages.run_stage

    def counted(spark: Any, frames: Any, staging: Staging, given: Any, at: int) -> None:
        computed.append(not staging.is_done(given[at]))
        run_stage(spark, frames, staging, given, at)

    monkeypatch.setattr(jobs, "run_stage", counted)
    with ivm.connect(path, spark=session()) as again:
        assert again.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][-1] == "not running"
        again.insert("orders", {"id": [7002], "customer": [2], "amount": [3]})
        again.flush()
        again.backfill("v")
        demand_right(again)
    assert computed
    assert not any(computed)


@pytest.mark.full
def test_a_change_that_the_log_lacks_begins_it_anew(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, HandOver, "finish")
    db.execute(CREATE)
    gate.wait()
    with db.transaction():  # its commit is DuckDB's
        db.execute("CREATE TABLE other (a INTEGER)")
        db.execute("DELETE FROM orders WHERE id < 500")
    db.execute("ALTER TABLE customers ADD COLUMN note VARCHAR DEFAULT 'x'")
    gate.open.set()
    db.backfill("v")
    demand_right(db)


@pytest.mark.full
@pytest.mark.parametrize("by_load", [False, True])
def test_a_change_that_the_log_lacks_beside_the_export_begins_it_anew(
    by_load: bool, db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_ROWS", 9)
    monkeypatch.setattr(evaluation, "MOST_ROWS", 9)
    gate = Gate(monkeypatch, jobs, "export_scanned")
    db.execute(CREATE)
    gate.wait()
    if by_load:
        db.execute("INSERT INTO orders SELECT range, 3, 1, 2 FROM range(3000, 9000)")
    else:
        with db.transaction():  # its commit is DuckDB's
            db.execute("CREATE TABLE other (a INTEGER)")
            db.execute("DELETE FROM orders WHERE id < 500")
    gate.open.set()
    db.backfill("v")
    demand_right(db)


def waits_for_a_commit(patch: pytest.MonkeyPatch, engine: Engine) -> threading.Event:
    """Is set once a job has asked again and again for the end of a change of the catalog."""
    known, waits, asked = engine.meaning, threading.Event(), itertools.count(1)

    def told() -> object:
        found = known()
        in_job = threading.current_thread().name.startswith("ivm-backfill")
        if found is None and in_job and next(asked) == 3:
            waits.set()
        return found

    patch.setattr(engine, "meaning", told)
    return waits


@pytest.mark.full
def test_a_snapshot_that_is_taken_beside_a_load_is_not_used(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_ROWS", 9)
    monkeypatch.setattr(evaluation, "MOST_ROWS", 9)
    loading = Gate(monkeypatch, Transaction, "rebuild")
    first = Gate(monkeypatch, jobs, "pinned")
    db.execute(CREATE)
    first.wait()
    load = threading.Thread(
        target=db.execute, args=("INSERT INTO orders SELECT range, 3, 1, 2 FROM range(3000, 9000)",)
    )
    load.start()
    loading.wait()
    waits = waits_for_a_commit(monkeypatch, db._engine)
    first.open.set()
    assert waits.wait(60)  # the snapshot is outdated, and the next one waits for the load
    loading.open.set()
    load.join()
    db.backfill("v")
    demand_right(db)


@pytest.mark.full
@pytest.mark.parametrize(
    ("owner", "name"),
    [(jobs.BackfillJob, "_bound"), (jobs.BackfillJob, "_bind"), (jobs, "export_scanned")],
    ids=lambda point: getattr(point, "__name__", point),
)
def test_an_alter_that_is_not_committed_is_not_seen(
    owner: Any, name: str, db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bound or exported beside it, the query would read other columns once it is rolled back."""
    db.execute("CREATE TABLE t (id BIGINT, unused BIGINT, a BIGINT, b BIGINT)")
    db.execute("INSERT INTO t SELECT range, 7, range * 10, range * 100 FROM range(5)")
    begun = Gate(monkeypatch, owner, name)
    db.execute(
        "CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS"
        " SELECT a, count(*) AS n FROM t GROUP BY a"
    )
    begun.wait()
    db.execute("BEGIN; ALTER TABLE t DROP COLUMN unused")
    waits = waits_for_a_commit(monkeypatch, db._engine)
    begun.open.set()
    assert waits.wait(60)
    with pytest.raises(UnavailableError, match="waits for this transaction: COMMIT first"):
        db.backfill("v")
    db.execute("ROLLBACK")
    db.backfill("v")
    demand_right(db)


@pytest.mark.full
def test_a_view_that_is_not_committed_is_not_filled(db: ivm.Database) -> None:
    db.execute("BEGIN")
    db.execute(CREATE)
    with pytest.raises(UnavailableError, match="COMMIT first"):
        db.backfill("v")
    db.execute("ROLLBACK")
    assert not list((Path(f"{db.path}.ivm") / "backfill").glob("*"))


@pytest.mark.full
def test_definitions_below_the_view_change_meanwhile(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE VIEW chosen AS SELECT id, customer, amount FROM orders WHERE amount > 50")
    db.execute("CREATE MACRO bonus(a) AS a + 1")
    gates = [Gate(monkeypatch, HandOver, name) for name in ("load", "finish")]
    db.execute(
        "CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS"
        " SELECT customer, count(*) AS n, max(bonus(amount)) AS m FROM chosen GROUP BY customer"
    )
    gates[0].wait()
    db.execute("CREATE OR REPLACE VIEW chosen AS SELECT id, customer, amount FROM orders"
               " WHERE weight < 500")  # fmt: skip
    gates[0].open.set()
    gates[1].wait()
    db.execute("CREATE OR REPLACE MACRO bonus(a) AS a + 1000")
    gates[1].open.set()
    db.backfill("v")
    demand_right(db)


@pytest.mark.full
def test_dropped_replaced_or_refreshed_meanwhile(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, jobs, "run_stage")
    for name in ("gone", "now", "other"):
        db.execute(CREATE.replace(" v ", f" {name} "))
    gate.wait()
    db.execute("DROP MATERIALIZED VIEW gone")
    db.execute("REFRESH MATERIALIZED VIEW now")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW other AS SELECT count(*) AS n FROM orders")
    demand_right(db, "now", "other")
    gate.open.set()
    for name in ("gone", "now", "other"):
        engine: Engine = db._engine
        found = engine.jobs.find(jobs.KIND, name)
        assert found is not None
        assert found.join(60)
    demand_right_again(db)
    assert not any((Path(f"{db.path}.ivm") / "backfill").iterdir())


@pytest.mark.full
def test_what_a_fill_writes_beside_a_refresh_is_not_there_twice(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: rows written between the beginning of its transaction and its DELETE stayed."""
    load, tried = Gate(monkeypatch, HandOver, "load"), threading.Event()
    write, begin = HandOver._in_transaction, OpenChanges.begin_in_duckdb

    def written(self: HandOver, *args: Any) -> None:
        try:
            write(self, *args)
        except OutdatedError:
            tried.set()
            raise
        if db._engine.warehouse.cursor().execute("SELECT count(*) FROM v").fetchone() != (0,):
            tried.set()

    def begun(self: OpenChanges) -> None:
        begin(self)
        monkeypatch.setattr(OpenChanges, "begin_in_duckdb", begin)
        self._cursor.execute("FROM v").fetchall()  # from here on it sees no more
        load.open.set()
        assert tried.wait(60)

    monkeypatch.setattr(HandOver, "_in_transaction", written)
    db.execute(  # without sums of DOUBLE, for which all rows are written once more
        "CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS"
        " SELECT customer, count(*) AS n FROM orders GROUP BY customer"
    )
    load.wait()
    monkeypatch.setattr(OpenChanges, "begin_in_duckdb", begun)
    db.execute("REFRESH MATERIALIZED VIEW v")
    demand_right(db)
    db.backfill("v")  # which has nothing to do, and no error to tell


@pytest.mark.full
@pytest.mark.parametrize(
    "replaced",
    [
        f"CREATE OR REPLACE {CREATE.removeprefix('CREATE ')}",
        f"DROP MATERIALIZED VIEW v; {CREATE}",
        f"BEGIN; DROP MATERIALIZED VIEW v; {CREATE}; COMMIT",
    ],
)
def test_a_view_that_is_created_anew_as_it_was_has_all_rows(
    replaced: str, db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fill of the former one has written into a table that is there no more."""
    loaded = Gate(monkeypatch, HandOver, "catch_up")
    db.execute(CREATE)
    loaded.wait()
    db.execute(replaced)
    loaded.open.set()
    db.backfill("v")
    demand_right(db)


@pytest.mark.full
def test_no_transaction_refreshes_what_is_being_filled(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Gate(monkeypatch, HandOver, "load")
    db.execute(CREATE)
    load.wait()
    db.execute("BEGIN")
    with pytest.raises(UnavailableError, match="COMMIT first"):
        db.execute("REFRESH MATERIALIZED VIEW v")
    db.execute("ROLLBACK")
    load.open.set()
    db.backfill("v")
    demand_right(db)


def demand_right_again(db: ivm.Database) -> None:
    db.execute("INSERT INTO orders VALUES (900009, 3, 12.5, 0.1)")
    assert all(row[4] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


@pytest.mark.full(smoke=1)
def test_a_change_on_which_the_view_fails_breaks_it(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, HandOver, "catch_up")
    query = "SELECT id, CAST(region[2:] AS INTEGER) AS number FROM customers"
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {query}")
    gate.wait()
    db.execute("INSERT INTO customers VALUES (99, 'rx')")  # nobody can refuse it yet
    gate.open.set()
    with pytest.raises((EvaluationError, UnavailableError), match="'x'"):
        db.backfill("v")
    with pytest.raises(EvaluationError, match=r"broken: .*'x'"):
        db.execute("FROM v")
    db.execute("DELETE FROM customers WHERE id = 99")
    db.execute("REFRESH MATERIALIZED VIEW v")
    demand_right(db)


def fail_a_fill(db: ivm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creates the view, and lets its fill fail until the patch is undone."""

    def fail(*_: object) -> None:
        raise OSError("no space left on the lake")

    monkeypatch.setattr(jobs, "run_stage", fail)
    db.execute(CREATE)
    with pytest.raises(UnavailableError, match="no space left on the lake"):
        db.backfill("v")


@pytest.mark.full
def test_a_failure_leaves_its_reason_and_is_tried_again(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_a_fill(db, monkeypatch)
    shown = db.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][-1]
    assert "failed: OSError: no space left on the lake" in shown
    monkeypatch.undo()
    db.backfill("v")
    demand_right(db)


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "ended", ["DROP MATERIALIZED VIEW v", "REFRESH MATERIALIZED VIEW v",
              "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 AS x FROM orders"]
)  # fmt: skip
def test_a_fill_that_has_failed_leaves_nothing_once_its_view_is_otherwise_there(
    ended: str, db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_a_fill(db, monkeypatch)
    log = db._engine.warehouse.log
    assert log is not None
    assert set(log.held) == {"v"}
    db.execute(ended)
    assert not log.held
    assert not any((Path(f"{db.path}.ivm") / "backfill").iterdir())
    db.execute("INSERT INTO orders VALUES (900009, 3, 12.5, 0.1)")
    assert all(row[4] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


@pytest.mark.full(smoke=1)
def test_rows_on_which_the_query_fails_are_told(db: ivm.Database) -> None:
    db.execute("INSERT INTO customers VALUES (77, 'rx')")
    query = "SELECT id, CAST(region[2:] AS INTEGER) AS number FROM customers"
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {query}")
    with pytest.raises(UnavailableError, match="Could not convert string 'x' to INT32"):
        db.backfill("v")


@pytest.mark.full
def test_a_row_that_cannot_be_read_is_named(db: ivm.Database, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,v\n1,1.5\n")
    (tmp_path / "2.csv").write_text("id,v\n10,3\n11,bad\n")
    db.execute(f"CREATE TABLE c FROM CSV '{tmp_path}/*.csv' WITH (stored = false)")
    db.execute("CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS SELECT * FROM c")
    with pytest.raises(UnavailableError, match=r"Line: 3.*'DOUBLE'.*file = \S*2\.csv"):
        db.backfill("v")


HIGH = """CREATE TABLE high (id INTEGER, x BIGINT, region VARCHAR);
INSERT INTO high VALUES (1, 5, 'r2'), (2, 9223372036854775807, 'r3'), (3, NULL, NULL);"""


@pytest.mark.full
@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, x FROM high WHERE x + 100 > 3 AND x < 10",
        """SELECT h.region, count(*) AS n FROM high h JOIN customers c ON c.region = h.region
            WHERE x + 100 > 3 AND x < 10 GROUP BY h.region""",
    ],
)
def test_values_at_which_duckdb_need_not_look(query: str, db: ivm.Database) -> None:
    db.execute(HIGH)
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {query}")
    db.backfill("v")
    demand_right(db, "v")
    assert db.execute("VERIFY MATERIALIZED VIEW v USING SPARK").fetchall()[0][4]


@pytest.mark.full
def test_what_overflows_is_told_in_duckdbs_words(db: ivm.Database) -> None:
    db.execute(HIGH)
    db.execute(
        "CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS SELECT id, x + 1 AS y FROM high"
    )
    with pytest.raises(UnavailableError, match=r"Overflow in addition of INT64 \(9223372036854"):
        db.backfill("v")


@pytest.mark.full
@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT id, own(id) AS x FROM orders", r"own\(\) is no function of DuckDB's own"),
        ("SELECT id, mode(amount) OVER () AS x FROM orders", "recomputed whole"),
        ("SELECT 1::VARIANT AS x FROM orders", "VARIANT"),
        ("SELECT id FROM customers WHERE region::mood = 'r1'", r"mood is no type of DuckDB's own"),
        ('SELECT json_transform(region, \'{"a": "mood[]"}\') AS x FROM customers', "structure"),
        ("SELECT [region::s.mood] AS x FROM customers", r"s\.mood is no type of DuckDB's own"),
    ],
)
def test_what_spark_cannot_fill_is_refused_at_once(
    query: str, named: str, db: ivm.Database
) -> None:
    db.create_function(ivm.Function("own", lambda x: x, ["BIGINT"], "BIGINT"))
    db.execute("CREATE TYPE mood AS ENUM ('r1'); CREATE SCHEMA s; CREATE TYPE s.mood AS mood")
    with pytest.raises(UnsupportedError, match=named):
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {query}")
    assert db.views() == []


@pytest.mark.full
def test_a_database_in_memory_and_misspelt_options_are_refused() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        with pytest.raises(UnsupportedError, match="no file"):
            db.execute("CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS FROM t")
        for option in ("backfil = 'spark'", "backfill = 'flink'", "backfill 'spark'", ""):
            with pytest.raises(SqlError, match=r"backfill and tick|expected|backfill is"):
                db.execute(f"CREATE MATERIALIZED VIEW v WITH ({option}) AS FROM t")
        db.execute("create materialized view v with (BackFill = 'DuckDB') as from t")
        assert [view.name for view in db.views()] == ["v"]


@pytest.mark.full
@pytest.mark.parametrize("package", ["pandas", "pyspark.sql"])
def test_a_package_that_is_missing_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute(TABLES)
        db.execute(CREATE)
        with pytest.raises(UnavailableError, match=rf"{package}.*pip install 'ivmdb\[spark\]'"):
            db.backfill("v")


@pytest.mark.full
def test_verified_by_spark(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    text = "VERIFY MATERIALIZED VIEW v USING SPARK"
    assert db.execute(text).fetchall() == [("v", 5, 0, 0, True)]
    db.insert("orders", {"id": [9001], "customer": [1], "amount": [3]})
    assert db.execute(text).fetchall() == [("v", 5, 0, 0, True)]
    engine: Engine = db._engine
    engine.warehouse.cursor().execute("UPDATE v SET n = n + 1 WHERE region = 'r2'").fetchall()
    assert db.execute(text).fetchall() == [("v", 5, 1, 1, False)]
    db.execute("BEGIN")
    with pytest.raises(UnsupportedError, match="end the transaction"):
        db.execute(text)
    db.execute("ROLLBACK")


@pytest.mark.full
def test_a_view_is_dropped_while_spark_verifies_it(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compared is as of the begin, when the view was there."""

    def drop(*_: object) -> None:
        with db.connection() as other:
            other.execute("DROP MATERIALIZED VIEW v")

    db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    monkeypatch.setattr(verify, "demand_files", drop)
    found = db.execute("VERIFY MATERIALIZED VIEW v USING SPARK").fetchall()
    assert found == [("v", 5, 0, 0, True)]
    assert not db.views()


@pytest.mark.full
def test_progress_is_told(db: ivm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, jobs, "run_stage")
    db.execute(CREATE)
    gate.wait()
    threading.Timer(0.3, gate.open.set).start()
    seen: list[str] = []
    db.backfill("v", on_progress=lambda progress: seen.append(progress.text()))
    assert any(text.startswith("stage 1 of 3") for text in seen)
    assert seen[-1] == "done"
    began = time.monotonic()
    db.backfill("v")  # it is filled: nothing to wait for
    assert time.monotonic() - began < 5


@pytest.mark.full
@pytest.mark.parametrize("piece", [history_pieces.PIECE_BYTES, 1000], ids=["whole", "in pieces"])
def test_tables_that_stay_in_their_files(
    db: ivm.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(history_pieces, "PIECE_BYTES", piece)
    for table in ("customers", "orders"):
        file = f"'{tmp_path}/{table}.parquet' (ROW_GROUP_SIZE 2048)"
        db.execute(f"COPY {table} TO {file}; DROP TABLE {table}")
    for table, columns in (
        ("customers", "id BIGINT PRIMARY KEY, region VARCHAR"),
        ("orders", "id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(12,2), weight DOUBLE"),
    ):
        files = f"FROM PARQUET '{tmp_path}/{table}.parquet' WITH (stored = false)"
        db.execute(f"CREATE TABLE {table} ({columns}) {files}")
    db.execute("DELETE FROM orders WHERE id % 10 = 3; UPDATE orders SET amount = 3 WHERE id = 4")
    db.execute(CREATE)
    db.execute("DELETE FROM orders WHERE id = 8")
    db.backfill("v")
    (verdict,) = db.execute("VERIFY MATERIALIZED VIEW v USING SPARK").fetchall()
    assert verdict[4]
    demand_right(db, "v")


@pytest.mark.full
@pytest.mark.parametrize("option", ["true", "'src'"])
def test_files_that_tell_their_names(option: str, db: ivm.Database, tmp_path: Path) -> None:
    place = f"'{tmp_path}/customers.parquet'"
    db.execute(f"COPY customers TO {place}; DROP TABLE customers")
    db.execute(
        f"CREATE TABLE customers FROM PARQUET {place} WITH (stored = false, filename = {option})"
    )
    named = {"true": "filename"}.get(option, "src")
    given = [name for name, *_ in db.execute("DESCRIBE customers").fetchall()]
    assert given == ["id", "region", named]
    db.execute(
        "CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS"
        f" SELECT region, count(DISTINCT {named}) AS n FROM customers GROUP BY region"
    )
    db.backfill("v")
    (verdict,) = db.execute("VERIFY MATERIALIZED VIEW v").fetchall()
    assert verdict[4]


MANY_VIEWS = {
    "joined": QUERY,
    "ordered": "SELECT region, id, amount FROM customers JOIN (SELECT id AS number, customer, "
    "amount FROM orders QUALIFY row_number() OVER (PARTITION BY customer ORDER BY amount, id) < 3) "
    "ON customers.id = customer",
    "extremes": "SELECT customer, min(weight) AS a, max(amount) AS b, arg_max(id, amount) AS c, "
    "list(id ORDER BY id) AS d FROM orders GROUP BY customer",
    "twice": "SELECT a.id, b.amount FROM orders AS a JOIN orders AS b ON a.customer = b.id",
    "texts": "SELECT region, customer FROM customers JOIN (SELECT 'r' || customer AS name, customer"
    " FROM orders) ON region = name",
}


@pytest.mark.full
@pytest.mark.parametrize("name", MANY_VIEWS)
def test_stages_that_spark_sorts_make_runs_as_they_come(
    name: str, db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "SORTED_ROWS", 100)
    monkeypatch.setattr(stages, "PART_ROWS", 700)
    found: list[tuple[int, bool]] = []
    original = RunBuilder.run

    def watched(builder: RunBuilder) -> Run:
        run = original(builder)
        found.append((len(run), builder.ascends))
        return run

    monkeypatch.setattr(RunBuilder, "run", watched)
    db.execute("INSERT INTO orders SELECT 10000 + range, NULL, NULL, 'nan' FROM range(300)")
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {MANY_VIEWS[name]}")
    db.backfill("v")
    large = [ascends for rows, ascends in found if rows > 100]
    assert large
    assert all(large)
    demand_right(db)


@pytest.mark.full
def test_changes_are_written_to_the_view_while_it_catches_up(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_over, "_MOST_PENDING", 5)
    gate = Gate(monkeypatch, HandOver, "catch_up")
    db.execute(CREATE)
    gate.wait()
    written: list[int] = []
    original = HandOver._write

    def watched(self: HandOver, part: Any) -> None:
        written.append(part.rows)
        original(self, part)

    monkeypatch.setattr(HandOver, "_write", watched)
    for i in range(40):
        db.execute("UPDATE orders SET amount = amount + 1 WHERE id % 40 = ?", [i])
    db.execute("DELETE FROM customers WHERE id % 5 = 2; INSERT INTO customers VALUES (77, 'r9')")
    gate.open.set()
    db.backfill("v")
    assert len(written) > 10
    assert max(written) < 5 + 2 * 6
    demand_right(db)
