"""Objects of Python read as tables: variables of the caller by their name, and registered ones."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import ivm
from ivm.errors import InputError, SqlError, UnsupportedError
from ivm.session.python_objects import table_names

ROWS = [(1, 1.5), (2, 2.5)]
GLOBAL = pa.table({"a": [7]})


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount DOUBLE)")
        yield database


def frame() -> pd.DataFrame:
    return pd.DataFrame({"id": [1, 2], "amount": [1.5, 2.5]})


TABLE = pa.table({"a": [1, 2]})
KINDS: dict[str, Callable[[], object]] = {
    "pandas": lambda: pd.DataFrame({"a": [1, 2]}),
    "series": lambda: pd.Series([1, 2], name="a"),
    "polars": lambda: pl.DataFrame({"a": [1, 2]}),
    "lazy polars": lambda: pl.DataFrame({"a": [1, 2]}).lazy(),
    "arrow table": lambda: TABLE,
    "arrow batch": lambda: TABLE.to_batches()[0],
    "arrow reader": lambda: TABLE.to_reader(),
    "arrow dataset": lambda: pyarrow.dataset.dataset(TABLE),
    "arrow scanner": lambda: pyarrow.dataset.dataset(TABLE).scanner(),
    "numpy": lambda: np.array([1, 2]),
    "dict of numpy": lambda: {"a": np.array([1, 2])},
    "list of numpy": lambda: [np.array([1, 2])],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_as_duckdb_reads_it(db: ivm.Database, kind: str) -> None:
    thing = KINDS[kind]()
    found = db.execute("SELECT * FROM thing").fetchall()
    thing = KINDS[kind]()
    assert thing is not None
    assert found == duckdb.connect().execute("SELECT * FROM thing").fetchall()
    db.register("held", KINDS[kind]())
    assert db.execute("SELECT * FROM held").fetchall() == found


def test_results_and_relations_are_read_too(db: ivm.Database) -> None:
    ours = db.sql("SELECT 5 AS a")
    streaming = db.execute("SELECT 6 AS a")
    theirs = duckdb.connect().sql("SELECT 7 AS a")
    assert [ours is None, streaming is None, theirs is None] == [False] * 3
    query = "SELECT * FROM ours UNION ALL FROM streaming UNION ALL FROM theirs"
    assert sorted(db.execute(query).fetchall()) == [(5,), (6,), (7,)]
    assert streaming.fetchall() == [(6,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM df",
        "FROM df",
        'FROM "df"',
        "SELECT * FROM orders RIGHT JOIN df USING (id)",
        "SELECT df.* FROM orders, df",
        "SELECT * FROM (SELECT * FROM df)",
        "WITH q AS (FROM df) FROM q",
        "SELECT * FROM df WHERE id > ?",
        "SUMMARIZE df",
        "DESCRIBE df",
        "EXPLAIN SELECT * FROM df",
        "SELECT (SELECT max(amount) FROM df)",
        "PIVOT df ON id USING sum(amount)",
    ],
)
def test_a_variable_is_found_wherever_a_table_may_stand(db: ivm.Database, query: str) -> None:
    df = frame()
    assert len(df)
    db.execute("INSERT INTO orders VALUES (9, 1)")
    assert db.execute(query, [0] if "?" in query else None).fetchall()


def test_changes_read_variables(db: ivm.Database) -> None:
    df = frame()
    assert len(df)
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(amount) AS s FROM orders")
    assert db.execute("INSERT INTO orders SELECT * FROM df").rowcount == 2
    assert db.execute("FROM total").fetchall() == [(4.0,)]
    merge = (
        "MERGE INTO orders USING df ON df.id = orders.id WHEN MATCHED THEN UPDATE SET amount = 9"
    )
    assert db.execute(merge).rowcount == 2
    update = "UPDATE orders SET amount = df.amount FROM df WHERE df.id = orders.id AND df.id = $1"
    assert db.execute(update, [1]).rowcount == 1
    assert db.execute("FROM total").fetchall() == [(10.5,)]
    assert db.execute("DELETE FROM orders WHERE id IN (SELECT id FROM df)").rowcount == 2
    db.execute("CREATE TABLE copied AS SELECT * FROM df")
    assert db.execute("FROM copied").fetchall() == ROWS
    assert db.execute("VERIFY MATERIALIZED VIEW total").fetchall()
    db.execute("DROP TABLE IF EXISTS df")


def test_a_table_can_be_made_of_the_variable_of_its_name(db: ivm.Database) -> None:
    df = frame()
    db.execute("CREATE TABLE df AS SELECT * FROM df")
    df["amount"] = 0.0
    assert db.execute("FROM df").fetchall() == ROWS
    db.execute("INSERT INTO df VALUES (3, 0)")
    assert db.execute("SELECT count(*) FROM df").fetchall() == [(3,)]


def test_copy_writes_a_variable(db: ivm.Database, tmp_path: object) -> None:
    df = frame()
    assert len(df)
    db.execute(f"COPY df TO '{tmp_path}/df.parquet'")
    assert db.execute(f"FROM '{tmp_path}/df.parquet'").fetchall() == ROWS


def test_relations_win(db: ivm.Database) -> None:
    orders = total = plain = here = frame()
    assert all(len(each) for each in (orders, total, plain, here))
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM orders")
    db.execute("CREATE VIEW plain AS SELECT 1 AS one")
    db.execute("CREATE TEMP TABLE here AS SELECT 2 AS two")
    assert db.execute("FROM orders").fetchall() == []
    assert db.execute("FROM total").fetchall() == [(0,)]
    assert db.execute("FROM plain").fetchall() == [(1,)]
    assert db.execute("FROM here").fetchall() == [(2,)]
    assert db.execute("WITH df AS (SELECT 3 AS x) FROM df").fetchall() == [(3,)]


def test_names_of_duckdbs_own_relations_stay(db: ivm.Database) -> None:
    sqlite_master = duckdb_tables = frame()
    assert len(sqlite_master) == len(duckdb_tables)
    assert db.execute("SELECT name FROM sqlite_master WHERE name = 'orders'").fetchall()
    assert db.execute("SELECT table_name FROM duckdb_tables WHERE table_name = 'orders'").fetchall()


def test_the_scopes_are_those_of_duckdb(db: ivm.Database) -> None:
    above = frame()
    assert len(above)

    def inner() -> list[tuple[object, ...]]:
        return db.execute("FROM above").fetchall()

    assert db.execute("FROM GLOBAL").fetchall() == [(7,)]
    with pytest.raises(SqlError, match="above does not exist"):
        inner()
    db.execute("SET python_scan_all_frames = true")
    assert inner() == ROWS
    db.execute("RESET python_scan_all_frames")
    with pytest.raises(SqlError):
        inner()
    db.execute("SET python_enable_replacements = false")
    with pytest.raises(SqlError):
        db.execute("FROM GLOBAL")
    with pytest.raises(InputError, match="true or false"):
        db.execute("SET python_enable_replacements = maybe")


@pytest.mark.parametrize(
    "name",
    [
        *("session", "statement", "params", "self", "sql", "engine", "cursor", "work", "call"),
        *("st", "duckdb", "names", "found", "table", "text", "objects"),
    ],
)
def test_our_own_variables_are_not_seen(db: ivm.Database, name: str) -> None:
    db.execute("SET python_scan_all_frames = true")
    with pytest.raises(SqlError, match="does not exist"):
        db.execute(f'SELECT * FROM "{name}"')


def test_odd_names(db: ivm.Database) -> None:
    scope = {"db": db, "odd name": frame(), 'a"b': frame(), "Ä": frame()}
    for name in ('"odd name"', '"a""b"', "Ä"):
        assert eval("db.execute(query)", scope, {"query": f"FROM {name}"}).fetchall() == ROWS
    with pytest.raises(SqlError):  # a variable's name has cases, as in DuckDB
        eval("db.execute('FROM ä')", scope)


def test_views_over_objects_are_refused_with_the_way_out(db: ivm.Database) -> None:
    df = frame()
    db.register("held", df)
    for name in ("df", "held"):
        for kind in ("VIEW", "MATERIALIZED VIEW"):
            with pytest.raises(UnsupportedError, match="CREATE TABLE … AS SELECT"):
                db.execute(f"CREATE {kind} v AS SELECT * FROM {name}")
    assert db.views() == []


def test_transactions(db: ivm.Database) -> None:
    df = frame()
    assert len(df)
    with db.transaction():
        db.execute("INSERT INTO orders VALUES (3, 3)")
        assert db.execute("SELECT count(*) FROM orders, df").fetchall() == [(2,)]
        db.execute("INSERT INTO orders FROM df")
    db.begin()
    db.execute("DELETE FROM orders WHERE id IN (SELECT id FROM df)")
    db.rollback()
    assert db.execute("SELECT count(*) FROM orders").fetchall() == [(3,)]
    db.execute("BEGIN")
    with pytest.raises(ivm.IvmError):
        db.execute("INSERT INTO orders FROM df")  # the keys are there
    db.rollback()
    assert db.execute("FROM df").fetchall() == ROWS
    db.execute("BEGIN TRANSACTION READ ONLY")
    assert db.execute("FROM df").fetchall() == ROWS
    db.commit()


def test_an_object_lives_until_its_result_is_read_and_no_longer(db: ivm.Database) -> None:
    def result() -> tuple[ivm.Result, weakref.ref[pd.DataFrame]]:
        local = pd.DataFrame({"a": range(300_000)})
        return db.execute("SELECT * FROM local"), weakref.ref(local)

    rows, alive = result()
    gc.collect()
    assert len(rows.fetchall()) == 300_000
    del rows
    db.execute("SELECT 1").fetchall()
    gc.collect()
    assert alive() is None


def test_two_results_over_variables(db: ivm.Database) -> None:
    one = pa.table({"a": range(10_000)})
    first = db.execute("FROM one")
    assert first.fetchone() == (0,)
    two = pa.table({"a": [5]})
    assert len(one) + len(two) == 10_001
    assert db.execute("FROM two").fetchall() == [(5,)]
    assert len(first.fetchall()) == 9_999


def test_prepared_statements(db: ivm.Database) -> None:
    df = frame()
    assert len(df)
    db.execute("PREPARE p AS SELECT * FROM df WHERE id = $1")
    assert db.execute("EXECUTE p(2)").fetchall() == [(2, 2.5)]
    db.execute("PREPARE i AS INSERT INTO orders VALUES (1, 1)")
    db.execute("EXECUTE i")
    assert db.execute("EXECUTE p(1)").fetchall() == [(1, 1.5)]


def test_registered_objects(db: ivm.Database) -> None:
    db.register("Held", frame())
    assert db.execute("FROM held").fetchall() == ROWS
    db.execute("INSERT INTO orders FROM held")
    db.register("orders", pa.table({"x": [1]}))  # hides the table, as in DuckDB
    assert db.execute("FROM orders").fetchall() == [(1,)]
    assert db.execute("FROM memory.main.orders").fetchall() == ROWS
    db.unregister("orders")
    db.unregister("nothing")
    assert db.execute("FROM orders").fetchall() == ROWS
    found: list[object] = []

    def other() -> None:
        try:
            found.append(db.execute("FROM held").fetchall())
        except SqlError as error:
            found.append(type(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [SqlError]  # of the session that registered it, as temporary tables are
    db.unregister("HELD")
    with pytest.raises(SqlError):
        db.execute("FROM held")
    for wrong in (3, [1, 2], None):
        with pytest.raises(ivm.IvmError):
            db.register("wrong", wrong)
    with pytest.raises(InputError):
        db.register(3, frame())  # type: ignore[arg-type]


def test_registering_is_undone_with_its_transaction(db: ivm.Database) -> None:
    db.begin()
    db.execute("INSERT INTO orders VALUES (1, 1)")
    db.register("held", frame())
    assert db.execute("SELECT count(*) FROM orders, held").fetchall() == [(2,)]
    db.rollback()
    with pytest.raises(SqlError):
        db.execute("FROM held")
    assert db.execute("FROM orders").fetchall() == []


def test_names_where_tables_stand() -> None:
    text = 'SELECT a.b, f(c) FROM "x""y" JOIN s.t USING (k), u WHERE v IN (SELECT 1 FROM g(1))'
    assert set(table_names(text)) == {'x"y', "k", "u", "c", "SELECT"}


def test_statements_without_unknown_names_look_at_no_frame(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ivm.session import python_objects

    def looked(every_frame: bool) -> None:
        raise AssertionError("a frame was looked at")

    monkeypatch.setattr(python_objects, "_scopes", looked)
    db.execute("INSERT INTO orders VALUES (1, 1)")
    db.execute("UPDATE orders SET amount = 2 WHERE id = 1")
    assert db.execute("SELECT * FROM orders WHERE id = ?", [1]).fetchall() == [(1, 2.0)]
