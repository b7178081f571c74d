"""Values of other types become a column's own as DuckDB casts them, mostly without DuckDB."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.ingest.row_columns import RowColumns
from ivm.ingest.values.arrow_values import column_of
from ivm.storage.values.column import column_from_arrow
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, ones
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

CONNECTION = duckdb.connect(":memory:")
CONNECTION.execute("SET arrow_lossless_conversion = true; SET TimeZone = 'America/New_York'")

TARGETS = str.split(
    "TINYINT SMALLINT INTEGER BIGINT UINTEGER UBIGINT HUGEINT FLOAT DOUBLE BOOLEAN DATE TIMESTAMP"
    " TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TIMESTAMPTZ TIME UUID VARCHAR DECIMAL(4,2)"
    " DECIMAL(10,0) DECIMAL(18,3) DECIMAL(38,10) ENUM('a','b','2020-01-01') JSON"
)
WHOLE = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1))
REAL = st.one_of(
    st.floats(), st.floats(-1000, 1000), st.integers(-10_000, 10_000).map(lambda i: i / 1000)
)
TIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
PLACES = st.integers(0, 4)
TEXTS = st.one_of(
    st.dates().map(str), TIMES.map(str), TIMES.map(dt.datetime.isoformat), st.uuids().map(str),
    st.uuids().map(lambda u: str(u).upper()), st.sampled_from(["a", "b", "c", "", " a", "A"]),
    st.sampled_from(["2020-02-30", "2020-1-1", "0000-01-01", "12020-01-01", "2020-01-01 ", "1.5",
                     "2020-01-01 24:00:00", "2020-01-01 12:30", "2020-01-01T23:59:60",
                     "2020-01-01 00:00:00.1234567", "2020-01-01 00:00:00Z", "x\n2020-01-01",
                     "{00000000-0000-0000-0000-000000000000}", "0" * 32, "infinity", "epoch"]),
)  # fmt: skip
GIVEN: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), WHOLE),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), REAL),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(5, 1), st.integers(-99999, 99999).map(lambda i: Decimal(i).scaleb(-1))),
    (pa.decimal128(20, 4), st.integers(-(10**20) + 1, 10**20 - 1).map(
        lambda i: Decimal(i).scaleb(-4))),
    (pa.decimal128(38, 20), st.integers(-(10**21), 10**21).map(lambda i: Decimal(i).scaleb(-20))),
    (pa.date32(), st.dates()),
    (pa.timestamp("s"), TIMES),
    (pa.timestamp("us"), TIMES),
    (pa.timestamp("ns"), st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))),
    (pa.timestamp("us", "Asia/Tokyo"), TIMES),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.cases(6)
@pytest.mark.parametrize(("kind", "values"), GIVEN, ids=[str(kind) for kind, _ in GIVEN])
@given(data=st.data())
def test_what_is_converted_is_what_duckdb_makes_of_it(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.one_of(st.none(), values), max_size=4))
    array, target = pa.array(drawn, kind), data.draw(st.sampled_from(TARGETS))
    type = type_of(target)
    ours = column_of(array, type)
    if ours is None:
        return
    CONNECTION.register("given", pa.table({"v": array}))
    cast = CONNECTION.sql(f"SELECT CAST(v AS {target}) AS v FROM given").to_arrow_table()
    theirs = column_from_arrow(cast.column(0), type)
    schema, weights = (("v", type),), ones(len(drawn))
    # as texts: NaN equals itself, and a zero keeps its sign
    texts = [str(ZSet((c,), weights).to_arrow(schema).to_pylist()) for c in (ours, theirs)]
    assert texts[0] == texts[1]


ZONE = dt.timezone(dt.timedelta(hours=2))
KEY = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")
USUAL: list[tuple[str, list[Any], list[Any]]] = [
    ("DECIMAL(10,2)", [9.5, None, 2.345], [Decimal("9.50"), None, Decimal("2.35")]),
    ("DECIMAL(10,2)", [20, -1], [Decimal(20), Decimal(-1)]),
    ("DECIMAL(10,2)", [Decimal("1.5"), Decimal("1.005")], [Decimal("1.50"), Decimal("1.01")]),
    ("DECIMAL(38,2)", [20, None], [Decimal(20), None]),
    ("DOUBLE", [1, 2], [1.0, 2.0]),
    ("INTEGER", [True, False], [1, 0]),
    ("INTEGER", [1.5, 2.5], [2, 2]),
    ("DATE", ["2020-02-29", None], [dt.date(2020, 2, 29), None]),
    ("TIMESTAMP", ["2020-02-29 01:02:03.5"], [dt.datetime(2020, 2, 29, 1, 2, 3, 500_000)]),
    ("TIMESTAMP", [dt.date(2020, 2, 29)], [dt.datetime(2020, 2, 29)]),
    ("TIMESTAMPTZ", [dt.datetime(2020, 1, 1, 2, tzinfo=ZONE)],
     [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
    ("ENUM('a', 'b')", ["b", None, "a"], ["b", None, "a"]),
    ("UUID", [KEY, None], [KEY, None]),
    ("UUID", [str(KEY), None], [KEY, None]),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("type", "values", "stored"), USUAL)
def test_usual_python_values_need_no_duckdb(
    type: str, values: list[Any], stored: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ivm.connect() as db:
        db.execute(f"SET TimeZone = 'UTC'; CREATE TABLE t (i INTEGER, v {type})")
        monkeypatch.setattr(RowColumns, "_cast", None)
        db.insert("t", {"i": list(range(len(values))), "v": values})
        found = db.execute("SELECT v FROM t ORDER BY i").fetchall()
    assert [value for (value,) in found] == stored


OTHERS: list[tuple[str, list[Any], list[Any] | None]] = [
    ("INTEGER", [1.5, -0.5, 2.6], [2, 0, 3]),
    ("TINYINT", [Decimal("1.5")], [2]),
    ("TIMESTAMP", [dt.datetime(2020, 1, 1, 2, tzinfo=ZONE)], [dt.datetime(2019, 12, 31, 19)]),
    ("TIMESTAMPTZ", [dt.datetime(2020, 1, 1, 2)], [dt.datetime(2020, 1, 1, 7, tzinfo=dt.UTC)]),
    ("DATE", [dt.datetime(2020, 1, 1, 23)], [dt.date(2020, 1, 1)]),
    ("VARCHAR", [b"a\xff"], ["a\\xFF"]),
    ("VARCHAR", [1.5], ["1.5"]),
    ("VARCHAR", [dt.date(2020, 1, 1)], ["2020-01-01"]),
    ("BLOB", ["a\\x41"], [b"aA"]),
    ("BOOLEAN", [2, 0], [True, False]),
    ("BOOLEAN", ["yes", "maybe"], None),
    ("DATE", [5], None),
    ("TIMESTAMP", [5], None),
    ("TINYINT", [128], None),
    ("TINYINT", [127.5], None),
    ("FLOAT", [1e300], None),
    ("DECIMAL(4,2)", [99.999], None),
    ("DATE", ["2020-02-30"], None),
    ("ENUM('a')", ["b"], None),
    ("UUID[]", [[KEY, None], None, []], [[KEY, None], None, []]),
    ("VARCHAR", [[KEY]], [f"[{KEY}]"]),
    ("TIMETZ[]", [[dt.time(12, tzinfo=ZONE)]], [[dt.time(12, tzinfo=ZONE)]]),
    ("STRUCT(a UUID)", [{"a": KEY}], [{"a": KEY}]),
    ("UUID[]", [[5]], None),
    # a text with a comma is not two
    ("UUID", [f"{KEY},{KEY}"], None),
    ("UUID", [str(KEY), f"{KEY},{KEY}", None], None),
    ("DATE", ["2020-01-01,2020-01-02"], None),
    ("TIMESTAMP", ["2020-01-01", "2020-01-01,2020-01-02 03:04:05"], None),
    # each value is what it is alone
    ("TIMESTAMP", [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 2, tzinfo=ZONE)],
     [dt.datetime(2020, 1, 1), dt.datetime(2019, 12, 31, 19)]),
    ("TIMESTAMPTZ", [dt.datetime(2020, 1, 1, 2, tzinfo=ZONE), dt.datetime(2020, 1, 1, 2)],
     [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, 7, tzinfo=dt.UTC)]),
    ("TIMESTAMP", [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 2), None],
     [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 2), None]),
    ("TIMESTAMP[]", [[dt.datetime(2020, 1, 1)], [dt.datetime(2020, 1, 1, 2, tzinfo=ZONE)]],
     [[dt.datetime(2020, 1, 1)], [dt.datetime(2019, 12, 31, 19)]]),
    ("JSON", [{"a": [dt.time(12, tzinfo=ZONE)]}], ['{"a":["12:00:00+02"]}']),
    ("DATE", [dt.date(2020, 1, 1), 5], None),
    ("TIMETZ", [dt.time(12, tzinfo=ZONE)], [dt.time(12, tzinfo=ZONE)]),
    ("VARCHAR", [True, "a", 5, 1.5, None, b"\xff", dt.time(1, 2, 3, 500_000), Decimal("2.50"), [1]],
     ["true", "a", "5", "1.5", None, "\\xFF", "01:02:03.5", "2.50", "[1]"]),
    ("VARCHAR", [dt.time(12, tzinfo=ZONE), Decimal(1), Decimal("2.50"), Decimal("NaN")],
     ["12:00:00+02", "1", "2.50", "nan"]),
    ("INTEGER", [True, "7", 5, 2.5], [1, 7, 5, 2]),
    ("MAP(VARCHAR, INTEGER)", [{"a": 1}, {"b": 2}, {}], [{"a": 1}, {"b": 2}, {}]),
    ("JSON", [{"a": 1}, {"b": [{"c": 2}]}, [1], "[]"],
     ['{"a":1}', '{"b":[{"c":2}]}', "[1]", "[]"]),
    ("JSON", [{str(i): i} for i in range(70)], [f'{{"{i}":{i}}}' for i in range(70)]),
    ("UNION(i INTEGER, s VARCHAR)", [5, "x"], [5, "x"]),
    ("INTERVAL", [dt.timedelta(40, 3)], [dt.timedelta(40, 3)]),
    ("DOUBLE", [Decimal("Infinity"), Decimal("1e50")], [float("inf"), 1e50]),
    ("DECIMAL(4,2)", [Decimal("Infinity")], None),
    ("DATE", [np.datetime64("2020-01-01")], [dt.date(2020, 1, 1)]),
    ("INTEGER", [10**5000], None),
    # what stands for NULL elsewhere, and what has no text of its own
    ("VARCHAR", ["a", pd.NA, pd.NaT, np.datetime64("NaT"), np.datetime64("2020-01-01")],
     ["a", None, None, None, "2020-01-01"]),
    ("DATE", [np.datetime64("NaT"), np.datetime64("2020-01-01")], [None, dt.date(2020, 1, 1)]),
    ("INTEGER", [pd.NA, 1], [None, 1]),
    ("VARCHAR", [np.array([[1, 2], [3, 4]]), None], ["[[1, 2], [3, 4]]", None]),
    ("INTEGER[][]", [np.array([[1, 2], [3, 4]]), None], [[[1, 2], [3, 4]], None]),
    ("VARCHAR", [pd.Series([1])], None),
    ("VARCHAR", [pl.Series([1])], None),
    ("VARCHAR", [object()], None),
]  # fmt: skip


@pytest.mark.cases(4)
@pytest.mark.parametrize(("type", "values", "stored"), OTHERS)
def test_python_values_mean_what_duckdb_makes_of_them(
    type: str, values: list[Any], stored: list[Any] | None
) -> None:
    """Bugs: floats were cut off in integer columns, and times with a zone were taken for UTC. Arrow
    gave all values of a list one type: a datetime after a date lost its time, one with a zone was
    taken for one without, and each dict of a MAP or JSON column got the keys of all of them."""
    zone = "SET TimeZone = 'America/New_York'"
    with ivm.connect() as db, duckdb.connect() as peer:
        db.execute(f"{zone}; CREATE TABLE t (i INTEGER, v {type})")
        peer.execute(f"{zone}; CREATE TABLE t (i INTEGER, v {type})").fetchall()
        given = list(enumerate(values))
        if stored is None:
            with pytest.raises(errors.ConstraintError, match="nothing was changed"):
                db.insert("t", [{"i": i, "v": v} for i, v in given])
            with pytest.raises(duckdb.Error):
                peer.executemany("INSERT INTO t VALUES (?, ?)", given)
            return
        db.insert("t", [{"i": i, "v": v} for i, v in given])
        peer.executemany("INSERT INTO t VALUES (?, ?)", given)
        texts = "SELECT v::VARCHAR FROM t ORDER BY i"
        assert db.execute(texts).fetchall() == peer.execute(texts).fetchall()
        expected = peer.execute("SELECT v FROM t ORDER BY i").fetchall()
        assert db.execute("SELECT v FROM t ORDER BY i").fetchall() == expected
        assert expected == [(value,) for value in stored]


@pytest.mark.full
def test_a_tuple_or_an_array_of_objects_is_a_list() -> None:
    """Bug: Arrow ended the process on such values, and cut the time off a datetime."""
    values = (dt.date(2020, 1, 1), np.datetime64("2020-01-01T05:00:00"), None, np.bool_(True))
    objects = np.empty(len(values), object)
    objects[:] = values
    for row_values in (values, objects):
        with ivm.connect() as db:
            db.execute("CREATE TABLE t (v VARCHAR)")
            db.insert("t", {"v": row_values})
            texts = [("2020-01-01",), ("2020-01-01 05:00:00",), ("true",), (None,)]
            assert db.execute("FROM t ORDER BY v").fetchall() == texts


def test_pandas_times_in_nanoseconds_are_times(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"v": pd.to_datetime(["2020-01-01 10:00:00"]).astype("datetime64[ns]")})
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (v TIMESTAMP)")
        monkeypatch.setattr(RowColumns, "_cast", None)
        db.insert("t", frame)
        assert db.execute("FROM t").fetchall() == [(dt.datetime(2020, 1, 1, 10),)]


OBJECTS: list[list[Any]] = [
    [1, "x", None, float("nan")],
    [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)],
    [pd.Timestamp("2020-01-01"), 1, pd.NaT, pd.NA],
    [b"x", "y"],
    [Decimal("1.5"), 2, 0.25],
    [True, 1, "no"],
    [[1], ["a"]],
]


@pytest.mark.full
@pytest.mark.parametrize("values", OBJECTS)
def test_objects_of_a_pandas_frame_are_what_a_list_of_them_is(values: list[Any]) -> None:
    frame = pd.DataFrame({"n": range(len(values)), "v": pd.Series(values, dtype=object)})
    listed = [None if given is pd.NA or given != given else given for given in values]
    with ivm.connect() as db:
        db.execute("CREATE TABLE f (v VARCHAR, n INTEGER); CREATE TABLE l (v VARCHAR, n INTEGER)")
        db.insert("f", frame)
        db.insert("l", {"n": list(range(len(values))), "v": listed})
        assert db.execute("FROM f").fetchall() == db.execute("FROM l").fetchall()


@pytest.mark.full
def test_the_index_of_a_pandas_frame_is_no_column_unless_it_has_a_name() -> None:
    """Bug: rows that were filtered were refused."""
    frame = pd.DataFrame({"v": [1, 2, 3], "t": ["a", 1, "b"]})
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (v INTEGER PRIMARY KEY, t VARCHAR)")
        db.insert("t", frame[frame.v != 2])
        db.upsert("t", frame[["v"]][frame.v != 1])
        db.executemany("INSERT OR IGNORE INTO t VALUES (?, ?)", frame[frame.v == 2])
        assert db.execute("FROM t ORDER BY v").fetchall() == [(1, "a"), (2, None), (3, "b")]
        db.delete("t", frame[["v"]].set_index("v"))
        assert db.execute("FROM t").fetchall() == []


def test_objects_of_a_polars_frame_are_their_values() -> None:
    """Bug: their addresses were stored."""
    one = uuid.UUID(int=1)
    frame = pl.DataFrame({"t": pl.Series([one, 5], dtype=pl.Object), "u": [one, None], "n": [1, 2]})
    frame = frame.with_columns(pl.col("n").cast(pl.Int128))
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (n HUGEINT, u UUID, t VARCHAR)")
        db.insert("t", frame)
        assert db.execute("FROM t ORDER BY n").fetchall() == [(1, one, str(one)), (2, None, "5")]
        db.executemany("INSERT INTO t BY NAME SELECT $n + 2 AS n, $u AS u, $t AS t", frame)
        assert db.execute("SELECT t FROM t WHERE n > 2 ORDER BY n").fetchall() == [
            (str(one),),
            ("5",),
        ]


SERIES = [
    *[pd.Series(values, dtype=object) for values in OBJECTS],
    pd.Series([1.5, None]),
    pd.Series([[1, 2], None]),
    pl.Series([[1, 2], None]),
    pl.Series([uuid.UUID(int=1), 5], dtype=pl.Object),
]


@pytest.mark.full
@pytest.mark.parametrize("series", SERIES)
def test_a_series_in_a_dict_is_read_as_in_a_frame(series: Any) -> None:
    """Bug: lists of polars were stored as polars prints them, NaN and NA among objects as texts,
    and a datetime after a date lost its time."""
    frame: Any = pl.DataFrame if isinstance(series, pl.Series) else pd.DataFrame
    columns = {"n": list(range(len(series))), "v": series}
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (how INTEGER DEFAULT 1, n INTEGER, v VARCHAR)")
        db.insert("t", columns)
        db.executemany("INSERT INTO t VALUES (2, $n, $v)", columns)
        db.insert(
            "t",
            frame(columns).assign(how=3)
            if frame is pd.DataFrame
            else frame(columns).with_columns(how=pl.lit(3)),
        )
        found = [
            db.execute("SELECT v FROM t WHERE how = ? ORDER BY n", [how]).fetchall()
            for how in (1, 2, 3)
        ]
    assert found[0] == found[1] == found[2]


NUMBERS = np.arange(4.0)


def embeddings(given: Any) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(given), 2)


@pytest.mark.full
@pytest.mark.parametrize("call", ["insert", "executemany"])
@pytest.mark.parametrize(
    ("type", "rows"),
    [
        ("DOUBLE", lambda given: {"v": given}),
        ("DOUBLE", lambda given: {"v": pd.Series(given, copy=False)}),
        ("DOUBLE", lambda given: pd.DataFrame({"v": given}, copy=False)),
        ("DOUBLE", lambda given: pa.table({"v": given})),
        ("DOUBLE", lambda given: pa.RecordBatch.from_pydict({"v": pa.array(given)})),
        ("DOUBLE[2]", lambda given: pa.table({"v": embeddings(given)})),
        ("DOUBLE[2]", lambda given: {"v": embeddings(given)}),
    ],
)
def test_a_program_may_write_into_what_it_has_given(call: str, type: str, rows: Any) -> None:
    """Bug: that changed the rows which were not yet in the file, and views stayed as they were."""
    given = NUMBERS.copy()
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (v {type}); CREATE MATERIALIZED VIEW w AS FROM t")
        if call == "insert":
            db.insert("t", rows(given))
        else:
            db.executemany("INSERT INTO t VALUES (?)", rows(given))
        given[:] = -1
        stored = db.execute("FROM t ORDER BY v").fetchall()
        assert np.array_equal(np.array(stored).ravel(), NUMBERS)
        assert_verified(db)


@pytest.mark.full
@pytest.mark.parametrize("kind", [list, tuple, lambda parts: {"l": parts[0]}])
def test_an_iterator_may_give_one_row_or_value_again_and_again(kind: Any) -> None:
    def rows() -> Iterator[Any]:
        value = [0]
        row = kind([value])
        for value[0] in range(3):
            yield row

    with ivm.connect() as db:
        db.execute("CREATE TABLE t (l INTEGER[])")
        db.executemany(f"INSERT INTO t VALUES ({'$l' if kind([[]]) == {'l': []} else '?'})", rows())
        assert db.execute("FROM t ORDER BY l").fetchall() == [([0],), ([1],), ([2],)]


def test_an_array_of_arrays_is_a_column_of_lists() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (l INTEGER[], v VARCHAR)")
        given = np.array([[1, 2], [3, 4]])
        db.insert("t", {"l": given, "v": given})
        assert db.execute("FROM t ORDER BY l").fetchall() == [
            ([1, 2], "[1, 2]"),
            ([3, 4], "[3, 4]"),
        ]


DECIMALS = [
    None,
    *map(Decimal, str.split("0.005 1.5 0.5 -0.25 12.25 0.05 0.0 0.00 0 7 1E+2 1E-38")),
]
SHOWN = st.one_of(
    st.sampled_from(DECIMALS),
    st.lists(st.sampled_from(DECIMALS), max_size=2),
    st.fixed_dictionaries({"a": st.sampled_from(DECIMALS)}),
)


@pytest.mark.full
@given(rows=st.lists(SHOWN, min_size=1, max_size=5))
def test_decimals_become_the_texts_that_duckdb_makes_of_parameters(rows: list[Any]) -> None:
    found = []
    for side in (ivm.connect(), duckdb.connect()):
        with side:
            side.execute("CREATE TABLE t (k INTEGER, v VARCHAR)")
            side.executemany("INSERT INTO t VALUES (?, ?)", [[k, v] for k, v in enumerate(rows)])
            marks, values = ", ".join(["(9, ?)"] * len(rows)), rows
            side.execute(f"INSERT INTO t VALUES {marks}", values)
            side.execute("UPDATE t SET v = ? WHERE k = 0", rows[-1:])
            found.append(side.execute("SELECT * FROM t ORDER BY ALL").fetchall())
    assert found[0] == found[1]


@pytest.mark.parametrize("number", [np.int64(5), np.uint8(5), np.float32(5)])
def test_numbers_of_numpy_are_parameters_of_any_statement(number: Any) -> None:
    """DuckDB takes none of them; what iterates over a frame has no others."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v DOUBLE)")
        assert db.execute("SELECT $a", {"a": number}).fetchall() == [(number.item(),)]
        db.execute("INSERT INTO t VALUES (?, ? + 1), (9, ?)", [number, number, number])
        db.executemany("INSERT INTO t SELECT ? + 1, ?", [[number, number]])
        for sql in ("UPDATE t SET v = ? WHERE k = ? + 1", "DELETE FROM t WHERE v < ? AND k = ?"):
            db.executemany(sql, [(number, number), [number, number]])
        wanted = float(number)
        assert sorted(db.execute("SELECT v FROM t").fetchall())[0] == (wanted,)


@pytest.mark.full
def test_large_integers_are_no_bytes() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (v BLOB)")
        for given in (lambda: db.executemany("INSERT INTO t VALUES (?)", [[2**63]]),
                      lambda: db.insert("t", {"v": [2**63]})):  # fmt: skip
            with pytest.raises(ivm.errors.IvmError, match="Unimplemented type for cast"):
                given()
        assert db.execute("FROM t").fetchall() == []


DURATIONS = [86_401, -86_399, -3 * 86_400 - 1, 40 * 86_400, 15, -1]


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_durations_of_a_frame_are_split_as_duckdb_splits_them(unit: str) -> None:
    """Bug: by Arrow's durations, which have no days, 24 hours came of a day."""
    values = np.array([*DURATIONS, "NaT"], "timedelta64[s]").astype(f"timedelta64[{unit}]")
    values[4:5] //= 10 if unit == "s" else 7
    frame = pd.DataFrame({"v": values})
    with duckdb.connect() as peer, ivm.connect() as db:
        for each in (db, peer):
            each.execute("CREATE TABLE t (v INTERVAL)")
        peer.execute("INSERT INTO t FROM frame")
        wanted = peer.execute("SELECT v::VARCHAR FROM t ORDER BY ALL").fetchall()
        assert ("1 month 10 days",) in wanted
        for given in (frame, {"v": values}, {"v": frame["v"]}):
            for many in (False, True):
                db.execute("DELETE FROM t")
                if many:
                    db.executemany("INSERT INTO t VALUES ($v)", given)
                else:
                    db.insert("t", given)
                assert db.execute("SELECT v::VARCHAR FROM t ORDER BY ALL").fetchall() == wanted


@pytest.mark.full
@pytest.mark.parametrize("type", ["DOUBLE", "FLOAT", "BOOLEAN"])
def test_large_integers_are_what_duckdb_makes_of_parameters(type: str) -> None:
    """Bug: by their texts they became infinite in a batch, and were no booleans."""
    values = [0, 2**63, 2**64 + 1, -(2**127)]
    db, peer = ivm.connect(), duckdb.connect()
    for each in (db, peer):
        each.execute(f"CREATE TABLE t (k INTEGER PRIMARY KEY, v {type})")
    db.insert("t", {"k": [0, 1, 2, 3], "v": values})
    db.executemany("INSERT INTO t VALUES (?, ?)", [(k + 4, v) for k, v in enumerate(values)])
    peer.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate([*values, *values])))
    wanted = peer.execute("FROM t ORDER BY k").fetchall()
    assert db.execute("FROM t ORDER BY k").fetchall() == wanted
    for large in (2**128, -(10**400)):
        with pytest.raises(ivm.errors.ConstraintError, match="too large"):
            db.insert("t", {"k": [9], "v": [large]})
        with pytest.raises(ivm.errors.InputError, match="too large"):
            db.executemany("UPDATE t SET v = ? WHERE k = ?", [(large, 1), (1, 2)])
    assert db.execute("FROM t ORDER BY k").fetchall() == wanted
    db.close()


@pytest.mark.full
def test_integers_have_the_bits_that_duckdb_gives_parameters() -> None:
    rows = [[k, v] for k, v in enumerate([1, True, 2**40, "101", None, b"1"])]
    for many in ([rows[:1]], [rows[:3]], [rows[1:4], rows[4:]]):
        found = []
        for side in (ivm.connect(), duckdb.connect()):
            with side:
                side.execute("CREATE TABLE t (k INTEGER, v BIT)")
                for some in many:
                    side.executemany("INSERT INTO t VALUES (?, ?)", some)
                found.append(side.execute("FROM t ORDER BY k").fetchall())
        assert found[0] == found[1]


LEAVES: list[Any] = [
    *(None, 1, 1.5, 2**40, 2**70, True, "x", "3", b"ab", dt.date(2020, 1, 1), dt.time(3)),
    *(dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC), dt.timedelta(days=1)),
    *(Decimal("1.5"), Decimal(1), Decimal(".25"), pd.Timedelta("1 days 00:00:01")),
]
NESTED = str.split(
    "VARCHAR[] VARCHAR[][] STRUCT(a!VARCHAR) STRUCT(a!VARCHAR[]) MAP(VARCHAR,VARCHAR) VARCHAR JSON"
    " INTEGER[] DOUBLE[] BOOLEAN[] DATE[] TIMESTAMP[] TIMESTAMPTZ[] INTERVAL[] STRUCT(a!TIMESTAMP)"
)


def nested(leaves: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Any]]:
    """Strategies of values of one form each."""
    lists = st.lists(leaves, max_size=2)
    structs = st.fixed_dictionaries({"a": leaves})
    return [lists, structs, st.fixed_dictionaries({"a": lists}), st.lists(lists, max_size=2)]


@pytest.mark.full
@pytest.mark.parametrize("type", NESTED)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_nested_values_are_what_duckdb_makes_of_parameters(type: str, data: st.DataObject) -> None:
    """Beside values of other kinds, too, whose strings Python would write otherwise."""
    leaves = st.sampled_from(LEAVES)
    forms = [leaves, *nested(leaves)]
    if "STRUCT" not in type:  # DuckDB makes no struct of its MAP, and a batch does
        lists = st.lists(st.sampled_from([1, 2]), max_size=2)
        forms.append(st.fixed_dictionaries({"key": lists, "value": lists}))
    form = data.draw(st.sampled_from(forms))
    rows = [[k, v] for k, v in enumerate(data.draw(st.lists(form, min_size=2, max_size=4)))]
    outcomes: list[Any] = []
    for side in (ivm.connect(), duckdb.connect()):
        with side:
            side.execute(f"CREATE TABLE t (k INTEGER, v {type.replace('!', ' ')})")
            try:
                side.executemany("INSERT INTO t VALUES (?, ?)", rows)
            except (errors.IvmError, duckdb.Error):
                outcomes.append("refused")
            else:
                outcomes.append(side.execute("SELECT *, v::VARCHAR FROM t ORDER BY k").fetchall())
    assert outcomes[0] == outcomes[1], rows
