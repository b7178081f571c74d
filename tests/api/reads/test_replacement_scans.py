"""Python objects of the caller are read by their names, as in DuckDB.

DuckDB is the oracle: the same statements run in a plain connection, in the same frame.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import ivm
from ivm import errors

everywhere = pa.table({"a": [7]})  # a global of the module
TABLES = """
CREATE TABLE t(a BIGINT PRIMARY KEY, b BIGINT);
CREATE SCHEMA s;
CREATE TABLE s.frame(a BIGINT);
INSERT INTO t VALUES (1, 1), (2, 2);
"""
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(b) AS total FROM t"
READ = """
FROM {0}
SELECT * FROM {0} WHERE a > ?
FROM main.{0}
FROM "{0}" AS other
FROM t JOIN {0} USING (a)
SELECT (SELECT max(a) FROM {0}) FROM t
WITH {0} AS (SELECT 5) FROM {0}
FROM query('FROM {0}')
FROM query($$FROM {0}$$)
FROM query($ी$FROM {0}$ी$)
FROM query_table('{0}')
DESCRIBE {0}
SUMMARIZE {0}
PIVOT {0} ON a USING count(*)
EXPLAIN FROM {0}
FROM s.{0}
TABLE {0}
SET VARIABLE greatest = (SELECT max(a) FROM {0})
SELECT getvariable('greatest')
PREPARE p AS FROM {0} WHERE a > $1
EXECUTE p(1)
DEALLOCATE p
INSERT INTO {0} VALUES (1)
DROP TABLE {0}
"""
WRITE = """
INSERT INTO t SELECT a + 10, a FROM frame
INSERT INTO t SELECT a, a FROM frame ON CONFLICT DO UPDATE SET b = excluded.b + 1
INSERT OR REPLACE INTO t SELECT a, 9 FROM frame WHERE a > ?
INSERT INTO t SELECT a + 20, a FROM frame RETURNING *
UPDATE t SET b = -frame.a FROM frame WHERE frame.a = t.a
UPDATE t SET b = (SELECT max(a) FROM frame) WHERE a = 11
DELETE FROM t WHERE a = 12 AND b IN (FROM frame)
INSERT INTO t VALUES (1, 0) ON CONFLICT DO UPDATE SET b = (SELECT min(a) FROM frame)
INSERT INTO t VALUES (90, 0) RETURNING (SELECT count(*) FROM frame)
DELETE FROM t WHERE a = 90 RETURNING (SELECT count(*) FROM frame)
MERGE INTO t USING frame ON t.a = frame.a + 1 WHEN MATCHED THEN DELETE
MERGE INTO t USING (SELECT a + 5 AS a FROM frame) AS f ON t.a = f.a
  WHEN MATCHED THEN UPDATE SET b = 0 WHEN NOT MATCHED THEN INSERT VALUES (f.a, 50)
WITH gone AS (DELETE FROM t WHERE a IN (SELECT a + 20 FROM frame) RETURNING *) FROM gone
DELETE FROM t USING frame WHERE t.a = frame.a + 10
INSERT INTO t SELECT * FROM nothing
"""


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect(":memory:") as database:
        database.execute(TABLES + VIEW)
        yield database


def _statements(text: str) -> list[str]:
    return text.strip().replace("\n  ", " ").split("\n")


def _views(db: ivm.Database) -> list[Any]:
    return db.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()


def _outcome(connection: Any, sql: str, frame: Any, nothing: Any = 3) -> Any:
    """The rows, or the kind of error, in a frame that has the objects."""
    try:
        found = connection.execute(sql, [1] if "?" in sql else None).fetchall()
    except (duckdb.Error, ivm.errors.IvmError):
        return "error"
    changes = sql.split()[0] in ("INSERT", "UPDATE", "DELETE", "MERGE", "COPY")
    return sorted(found) if "RETURNING" in sql or not changes else found


@pytest.mark.full
def test_statements_read_a_frame_as_in_duckdb(db: ivm.Database) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    with duckdb.connect() as plain:
        plain.execute(TABLES)
        for sql in _statements(READ.format("frame")):
            for _ in range(3):  # also once the text is known, and perhaps answered from memory
                ours, theirs = _outcome(db, sql, frame), _outcome(plain, sql, frame)
                if "EXPLAIN" in sql:
                    ours, theirs = len(ours) > 0, len(theirs) > 0
                assert ours == theirs, sql
    assert _views(db) == []


def test_changes_read_a_frame_as_in_duckdb(db: ivm.Database) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    with duckdb.connect() as plain:
        plain.execute(TABLES)
        for sql in _statements(WRITE):
            assert _outcome(db, sql, frame) == _outcome(plain, sql, frame), sql
            stored = "SELECT a, b FROM t ORDER BY ALL"
            assert db.execute(stored).fetchall() == plain.execute(stored).fetchall(), sql
            assert (
                db.execute("FROM v").fetchall()
                == plain.execute("SELECT count(*), sum(b) FROM t").fetchall()
            )
    assert _views(db) == []


@pytest.mark.full
def test_every_kind_of_object(db: ivm.Database) -> None:
    """DuckDB reads each, by name and registered; the rows are those of a plain connection."""
    table = pa.table({"a": [1, 2]})
    objects: dict[str, Any] = {
        "pandas_frame": pd.DataFrame({"a": [1, None], "t": ["x", None]}),
        "polars_frame": pl.DataFrame({"a": [1, 2], "t": ["x", None]}),
        "lazy_frame": pl.DataFrame({"a": [1, 2]}).lazy(),
        "arrow_table": table,
        "batch": table.to_batches()[0],
        "dataset": ds.dataset(table),
        "scanner": ds.dataset(table).scanner(),
        "numbers": np.arange(3),
        "matrix": np.arange(6).reshape(2, 3),
        "dict_of_arrays": {"k": np.arange(2), "x": np.array([0.5, 1.5])},
        "list_of_arrays": [np.arange(2), np.arange(2)],
    }
    for name, scanned in objects.items():
        scope: dict[str, Any] = {"db": db, "plain": duckdb.connect(), name: scanned}
        exec(f"ours = db.execute('FROM {name}').fetchall()", scope)
        exec(f"theirs = plain.execute('FROM {name}').fetchall()", scope)
        db.register("given", scanned)
        registered = db.execute("FROM given").fetchall()
        assert scope["ours"] == scope["theirs"] == registered != [], name
        db.unregister("given")


def test_results_are_tables(db: ivm.Database) -> None:
    """As relations are in DuckDB: again and again, with their types, and still to be read."""
    totals = db.sql("SELECT b, sum(a) AS total, [b] AS list FROM t GROUP BY b")
    for _ in range(2):
        found = db.sql("SELECT max(total), typeof(any_value(total)), max(list) FROM totals")
        assert found is not None
        assert found.fetchall() == [(2, "HUGEINT", [2])]
    assert totals is not None
    assert sorted(totals.fetchall()) == [(1, 1, [1]), (2, 2, [2])]
    done = db.execute("CREATE TABLE u(a INT)")
    with pytest.raises(errors.InputError, match="done"):
        db.execute("FROM done")
    assert done.kind == "done"


@pytest.mark.full
def test_prepared_statements_that_are_not_there(db: ivm.Database) -> None:
    for sql in ("EXECUTE nothing", "EXPLAIN EXECUTE nothing(1)"):
        with pytest.raises(errors.InputError, match="no prepared statement 'nothing'"):
            db.execute(sql)


@pytest.mark.full
def test_an_interrupted_statement_lets_its_object_go(db: ivm.Database) -> None:
    scope = {"db": db, "frame": pd.DataFrame({"a": np.arange(100_000)})}
    long = "db.execute('SELECT sum(sin(x.a * y.a)) FROM frame x, frame y, frame z').fetchall()"
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        exec(long, scope)
    timer.join()
    assert _views(db) == []
    assert _forgotten(scope)


@pytest.mark.full
def test_a_reader_is_read_once(db: ivm.Database) -> None:
    """The statement that reads it gets all rows; the next gets an error, not no rows."""
    reader = pa.table({"a": [5, 6]}).to_reader()
    assert db.execute("INSERT INTO t SELECT a, a FROM reader RETURNING a").fetchall() == [
        (5,),
        (6,),
    ]
    with pytest.raises(errors.InputError, match="consumed"):
        db.execute("FROM reader").fetchall()
    assert reader is not None


@pytest.mark.full
@pytest.mark.parametrize("kind", ["an integer", "a list", "a dict of lists", "a record array"])
def test_objects_that_are_no_tables(db: ivm.Database, kind: str) -> None:
    records = np.array([(1, 2.0)], dtype=[("x", "i4"), ("y", "f8")])
    what = {"an integer": 1, "a list": [1], "a dict of lists": {"a": [1]}}.get(kind, records)
    with pytest.raises(errors.InputError, match="what"):
        db.execute("FROM what")
    with pytest.raises(errors.InputError, match="cannot be read as a table"):
        db.register("given", what)
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "known"),
    [
        ("SELECT * FROM t JOIN v ON t.a = v.n", True),
        ("FROM main.t", True),
        ("FROM s.frame", False),  # main may have no frame
        ("FROM everywhere", False),
        ("FROM query_table('everywhere')", False),
        ("FROM query('FROM everywhere')", False),
        ("WITH everywhere AS (SELECT 1) FROM everywhere", True),
    ],
)
def test_queries_of_relations_alone_look_at_no_frame(
    db: ivm.Database, sql: str, known: bool
) -> None:
    db.execute(sql)
    assert db._engine.definitions.relations.names_relations_alone(sql) == known


@pytest.mark.full
def test_objects_that_fail(db: ivm.Database) -> None:
    """Their errors are the caller's to mend, not faults of ours."""
    nothing, pair = None, (1, 2)
    for odd in (nothing, pair, object(), pa.array):
        with pytest.raises(errors.InputError, match="cannot be read as a table"):
            db.register("given", odd)
    lazy = pl.LazyFrame({"a": ["x"]}).select(pl.col("b"))
    with pytest.raises(errors.InputError, match="cannot be read as a table"):
        db.execute("FROM lazy")
    assert lazy is not None

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise ValueError("the source has failed")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    with pytest.raises(errors.InputError, match="the source has failed"):
        db.execute("INSERT INTO t SELECT a + 100, a FROM reader")
    assert reader is not None
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


@pytest.mark.full
def test_variables_of_ours_are_not_seen(db: ivm.Database) -> None:
    """These are names of locals and globals in the frames that run a statement."""
    for name in ("session", "statement", "params", "self", "text", "duckdb", "cursor", "probe"):
        with pytest.raises(errors.SqlError, match=f"Table with name {name} does not exist"):
            db.execute(f"SELECT * FROM {name}")


@pytest.mark.full
def test_a_variable_that_is_no_table_is_named(db: ivm.Database) -> None:
    """Bug: its name was that of a table which does not exist, as if it were misspelled."""
    dicts, columns, path = [{"a": 1}], {"a": [1]}, "x.csv"
    texts = {"dicts": "list", "columns": "dict", "path": "str"}
    for name, kind in texts.items():
        for sql in (
            f"SELECT count(*) FROM {name}",
            f"INSERT INTO t SELECT * FROM {name}",
            f"CREATE TABLE made AS FROM {name}",
            f"UPDATE t SET b = 0 WHERE a IN (FROM {name})",
        ):
            with pytest.raises(errors.SqlError, match=r"does not exist!\nthe Python") as caught:
                db.execute(sql)
            assert str(caught.value).count(f"{name!r} ({kind}) cannot be read as a table") == 1
    with pytest.raises(errors.SqlError) as found:
        db.execute("SELECT 1 FROM dicts")
    assert found.value.position == len("SELECT 1 FROM ")
    frame = pa.table({"a": [1]})
    with pytest.raises(errors.SqlError) as found:
        db.execute("ALTER TABLE frame ADD COLUMN b INT")
    assert "Python" not in str(found.value)
    assert (dicts, columns, path, frame) is not None
    db.execute("SET GLOBAL python_enable_replacements = false")
    with pytest.raises(errors.SqlError) as found:
        db.execute("SELECT 1 FROM dicts")
    assert "Python" not in str(found.value)


def test_the_frame_is_the_callers(db: ivm.Database) -> None:
    """Locals, then globals, as in DuckDB; the callers' callers only by its setting."""
    hidden = pa.table({"a": [1]})
    read = "FROM hidden"

    def inner() -> Any:
        return db.execute(read).fetchall()

    def closure() -> Any:
        return (hidden.num_rows, db.execute(read).fetchall())

    with pytest.raises(errors.SqlError, match="hidden does not exist"):
        inner()
    assert closure() == (1, [(1,)])
    assert db.execute("FROM everywhere").fetchall() == [(7,)]
    db.execute("SET python_scan_all_frames = true")
    assert inner() == [(1,)]
    db.execute("RESET python_scan_all_frames")
    with pytest.raises(errors.SqlError, match="hidden does not exist"):
        inner()
    db.execute("SET GLOBAL python_enable_replacements = false")
    with pytest.raises(errors.SqlError, match="everywhere does not exist"):
        db.execute("FROM everywhere")
    db.execute("PRAGMA python_enable_replacements = 1")
    assert db.execute("FROM everywhere").fetchall() == [(7,)]
    with pytest.raises(errors.InputError, match="BOOL"):
        db.execute("SET python_enable_replacements = 'perhaps'")


@pytest.mark.full
def test_a_local_hides_a_global(db: ivm.Database) -> None:
    everywhere = pa.table({"a": [8]})
    assert db.execute("FROM everywhere").fetchall() == [(8,)]
    assert everywhere.num_rows == 1


@pytest.mark.full
def test_tables_win(db: ivm.Database) -> None:
    t = v = pa.table({"other": ["x"]})
    assert db.execute("FROM t ORDER BY a").fetchall() == [(1, 1), (2, 2)]
    assert db.execute("FROM v").fetchall() == [(2, 3)]
    assert t is v


@pytest.mark.full
def test_names_with_marks_that_are_no_letters(db: ivm.Database) -> None:
    scope = {"db": db, "बिक्री": pa.table({"a": [1, 2]})}
    exec("rows = db.execute('FROM बिक्री').fetchall()", scope)
    assert scope["rows"] == [(1,), (2,)]


@pytest.mark.full
def test_quoted_names_and_letter_case(db: ivm.Database) -> None:
    """A variable's name counts as it is written."""
    frame = pa.table({"a": [1]})
    scope = {"db": db, 'my "own" frame': frame}
    exec("""rows = db.execute('FROM "my ""own"" frame"').fetchall()""", scope)
    assert scope["rows"] == [(1,)]
    for spelling in ("FRAME", '"Frame"'):
        with pytest.raises(errors.SqlError, match="does not exist"):
            db.execute(f"FROM {spelling}")


@pytest.mark.full
def test_tables_are_made_of_objects(db: ivm.Database) -> None:
    """Also under the variable's own name; from then on the table wins."""
    frame = pd.DataFrame({"a": [1, 2]})
    assert db.execute("CREATE TABLE frame AS FROM frame").fetchall() == [(2,)]
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(a) FROM frame")
    frame = pd.DataFrame({"a": [100]})
    assert db.execute("FROM w").fetchall() == [(3,)]
    assert db.execute("FROM frame").fetchall() == [(1,), (2,)]
    db.execute("CREATE TEMP TABLE short AS SELECT * FROM everywhere")
    assert db.execute("FROM short").fetchall() == [(7,)]
    assert len(frame) == 1


@pytest.mark.full
def test_rows_are_copied_out(db: ivm.Database, tmp_path: Any) -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    db.execute(f"COPY (FROM frame) TO '{tmp_path}/rows.parquet'")
    assert db.execute(f"FROM '{tmp_path}/rows.parquet'").fetchall() == [(1,), (2,)]
    assert len(frame) == 2


@pytest.mark.parametrize(
    "make", ["VIEW w AS", "MATERIALIZED VIEW w AS", "OR REPLACE VIEW v2 AS", "MACRO m() AS TABLE"]
)
def test_no_view_reads_an_object(db: ivm.Database, make: str) -> None:
    """The way out works."""
    frame = pd.DataFrame({"a": [1, 2]})
    with pytest.raises(errors.UnsupportedError, match='CREATE TABLE "frame" AS FROM "frame"'):
        db.execute(f"CREATE {make} SELECT sum(a) FROM frame")
    db.register("given", frame)
    with pytest.raises(errors.UnsupportedError, match="load it into a table"):
        db.execute(f"CREATE {make} SELECT sum(a) FROM given")
    db.execute('CREATE TABLE "frame" AS FROM "frame"')
    db.execute(f"CREATE {make} SELECT sum(a) FROM frame")


@pytest.mark.full
def test_a_transaction_reads_objects(db: ivm.Database) -> None:
    """It goes on after them, and a ROLLBACK leaves nothing of them."""
    frame = pd.DataFrame({"a": [1, 2, 3]})
    for end in ("ROLLBACK", "COMMIT"):
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (9, 9)")  # on the fast path, before DuckDB is needed
        db.execute("INSERT INTO t SELECT a + 10, a FROM frame")
        assert db.execute("SELECT a FROM frame JOIN t USING (a) ORDER BY a").fetchall() == [
            (1,),
            (2,),
        ]
        assert db.execute("FROM v").fetchall() == [(6, 18)]
        db.execute(end)
        assert _views(db) == []
    assert db.execute("FROM v").fetchall() == [(6, 18)]
    assert len(frame) == 3


def _forgotten(scope: dict[str, Any]) -> bool:
    """Returns whether nothing but the scope holds its frame."""
    alive = weakref.ref(scope.pop("frame"))
    gc.collect()
    return alive() is None


@pytest.mark.full
def test_a_failed_statement_leaves_no_object(db: ivm.Database) -> None:
    scope = {"db": db, "frame": pd.DataFrame({"a": [1, 5]})}
    with pytest.raises(errors.ConstraintError):
        exec("db.execute('INSERT INTO t SELECT a, a FROM frame')", scope)
    assert _views(db) == []
    assert _forgotten(scope)
    scope["frame"] = pd.DataFrame({"a": [1, 5]})
    db.execute("BEGIN")
    with pytest.raises(errors.InputError):
        exec("db.execute('SELECT error(a::VARCHAR) FROM frame').fetchall()", scope)
    db.execute("ROLLBACK")
    assert _views(db) == []
    assert db.execute("FROM v").fetchall() == [(2, 3)]
    assert _forgotten(scope)


@pytest.mark.full
@pytest.mark.parametrize("sql", ["FROM frame", "SELECT f.a FROM frame AS f, t, v WHERE t.a = 1"])
def test_an_object_lives_until_its_rows_are_read(db: ivm.Database, sql: str) -> None:
    """A result streams from it, alone or beside a table; then it is let go."""
    scope = {"db": db, "sql": sql, "frame": pd.DataFrame({"a": np.arange(200_000)})}
    exec("result = db.execute(sql)", scope)
    assert not _forgotten(scope)
    assert sum(a for (a,) in scope["result"]) == 199_999 * 100_000
    assert _views(db) == []
    scope["frame"] = pd.DataFrame({"a": [1]})
    exec("result = db.execute(sql).fetchall()", scope)
    assert _forgotten(scope)


@pytest.mark.full
def test_a_result_that_has_been_read_says_so(db: ivm.Database) -> None:
    """Bug: it had no columns, the error said."""
    found, made = db.execute("SELECT a, b FROM t"), db.execute("BEGIN; ROLLBACK")
    assert len(found.fetchall()) == 2
    with pytest.raises(errors.InputError, match="its rows have been read"):
        db.execute("FROM found")
    with pytest.raises(errors.InputError, match="it has no columns"):
        db.execute("FROM made")
    assert made.kind == "done"


@pytest.mark.full
def test_an_open_result_is_detached_by_the_next_statement(db: ivm.Database) -> None:
    frame = pd.DataFrame({"a": np.arange(200_000)})
    first = db.execute("FROM frame")
    assert first.fetchone() == (0,)
    frame = pd.DataFrame({"a": [-1]})
    assert db.execute("FROM frame").fetchall() == [(-1,)]
    assert len(first.fetchall()) == 199_999
    assert len(frame) == 1


@pytest.mark.full
def test_each_thread_reads_its_own(db: ivm.Database) -> None:
    found: dict[int, Any] = {}

    def read(number: int) -> None:
        mine = pa.table({"a": [number]})
        found[number] = []
        for _ in range(20):
            found[number] += db.execute("FROM mine").fetchall()
        assert mine.num_rows == 1

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [(n,)] * 20 for n in range(4)}


def test_registered_objects_are_of_their_session(db: ivm.Database) -> None:
    """As a temporary view is: another thread does not see them; a table of the name is hidden."""
    db.register("given", pd.DataFrame({"a": [1]})).register("t", pd.DataFrame({"x": ["hidden"]}))
    assert db.execute("FROM given").fetchall() == [(1,)]
    assert db.execute("FROM t").fetchall() == [("hidden",)]
    assert db.execute("FROM v").fetchall() == [(2, 3)]
    assert db.execute("INSERT INTO s.frame FROM given").fetchall() == [(1,)]
    refused: list[BaseException] = []

    def read() -> None:
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
        try:
            db.execute("FROM given")
        except errors.SqlError as error:
            refused.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert "given does not exist" in str(refused[0])
    db.unregister("t").unregister("given").unregister("given")
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
    with pytest.raises(errors.SqlError, match="given does not exist"):
        db.execute("FROM given")


def test_registering_in_a_transaction(db: ivm.Database) -> None:
    """A ROLLBACK undoes it, as in DuckDB."""
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (3, 3)")
    db.register("given", pd.DataFrame({"a": [1]}))
    assert db.execute("SELECT count(*) FROM t, given").fetchall() == [(3,)]
    db.execute("ROLLBACK")
    with pytest.raises(errors.SqlError, match="given does not exist"):
        db.execute("FROM given")
    db.execute("CREATE VIEW plain AS SELECT 1 AS given")  # a column, and nothing is registered
    assert db.execute("FROM v").fetchall() == [(2, 3)]


@pytest.mark.full
def test_odd_names(db: ivm.Database) -> None:
    for name in ("", 3, None):
        with pytest.raises(errors.InputError, match="a name as text"):
            db.register(name, everywhere)  # type: ignore[arg-type]
    db.execute("CREATE TEMP TABLE short(a INT)")
    with pytest.raises(errors.InputError, match="already exists"):
        db.register("short", everywhere)
    assert db.execute("FROM short").fetchall() == []


@pytest.mark.full
def test_a_closed_database(db: ivm.Database) -> None:
    db.close()
    with pytest.raises(errors.UnavailableError, match="closed"):
        db.register("given", everywhere)


@pytest.mark.full
def test_cursors_read_objects(db: ivm.Database) -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    with db.cursor() as cursor:
        assert cursor.execute("SELECT sum(a) FROM frame").fetchall() == [(3,)]
    assert len(frame) == 2
