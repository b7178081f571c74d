"""Small Parquet files that Arrow reads have the rows that DuckDB reads in them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm import errors
from ivm.changes import insert_select
from ivm.changes.rows import small_files
from ivm.changes.rows.small_files import small_rows
from ivm.storage.values.types import Schema, type_of
from tests.support.change_ways import demand_fast
from tests.support.duckdb_twin import Twin
from tests.tiers import examples


def _scaled(scale: int, value: int) -> Decimal:
    return Decimal(value).scaleb(-scale)


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "BOOLEAN": (pa.bool_(), st.booleans()),
    "TINYINT": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "SMALLINT": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "INTEGER": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "BIGINT": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "FLOAT": (pa.float32(), st.floats(width=32)),
    "DOUBLE": (pa.float64(), st.floats()),
    "VARCHAR": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    "DATE": (pa.date32(), st.dates()),
    "TIMESTAMP": (pa.timestamp("us"), st.datetimes()),
    **{
        f"DECIMAL({digits},{scale})": (
            pa.decimal128(digits, scale),
            st.integers(1 - 10 ** min(digits, 9), 10 ** min(digits, 9) - 1).map(
                partial(_scaled, scale)
            ),
        )
        for digits, scale in [(3, 2), (9, 0), (18, 4), (38, 5)]
    },
}
OTHERS = {
    "unsigned": pa.array([1], pa.uint8()),
    "milliseconds": pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("ms")),
    "nanoseconds": pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("ns")),
    "zone": pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("us", "UTC")),
    "bytes": pa.array([b"x"]),
    "duration": pa.array([datetime.timedelta(1)]),
    "dictionary": pa.array(["x"]).dictionary_encode(),
    "large text": pa.array(["x"], pa.large_string()),
    "list": pa.array([[1]]),
    "struct": pa.array([{"a": 1}]),
    "nothing": pa.array([None]),
}


def schema_of(names: list[str]) -> Schema:
    return tuple([(f"c{i}", type_of(name)) for i, name in enumerate(names)])


def demand_same(file: Path, names: list[str]) -> None:
    schema = schema_of(names)
    found = small_rows(str(file), schema)
    assert found is not None
    listed = ", ".join(f"CAST(c{i} AS {name}) AS c{i}" for i, name in enumerate(names))
    with duckdb.connect() as plain:
        wanted = plain.execute(f"SELECT {listed} FROM read_parquet('{file}')").fetchall()
        plain.register("shown", found.to_arrow(schema))
        assert repr(plain.execute("FROM shown").fetchall()) == repr(wanted)


@pytest.mark.full
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_any_file_of_these_types_has_duckdbs_rows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    names = data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    count = data.draw(st.integers(0, 5))
    arrays = [
        pa.array(data.draw(st.lists(st.none() | values, min_size=count, max_size=count)), type)
        for type, values in [TYPES[name] for name in names]
    ]
    file = tmp_path_factory.mktemp("small") / "rows.parquet"
    table = pa.table({f"c{i}": array for i, array in enumerate(arrays)})
    pq.write_table(table, file, row_group_size=data.draw(st.integers(1, 5)))
    demand_same(file, names)


@pytest.mark.parametrize("name", TYPES)
def test_what_duckdb_writes_is_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / "rows.parquet"
    value = "'2020-01-31'" if name in ("DATE", "TIMESTAMP") else "1"
    query = f"SELECT CAST({value} AS {name}) AS c0 UNION ALL SELECT NULL"
    duckdb.execute(f"COPY ({query}) TO '{file}'").fetchall()
    demand_same(file, [name])


def test_values_are_cast_to_the_columns_types(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    duckdb.execute(f"COPY (SELECT 7, 1.25, 'x') TO '{file}'").fetchall()  # named as written
    schema = schema_of(["BIGINT", "DOUBLE", "VARCHAR"])
    found = small_rows(str(file), schema)
    assert found is not None
    assert found.to_arrow(schema).to_pylist() == [{"c0": 7, "c1": 1.25, "c2": "x"}]


@pytest.mark.parametrize("form", OTHERS)
def test_other_forms_are_left_to_duckdb(tmp_path: Path, form: str) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"c0": OTHERS[form]}), file)
    assert small_rows(str(file), schema_of(["VARCHAR"])) is None


def test_what_is_large_wrong_or_gone_is_left_to_duckdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, text = tmp_path / "rows.parquet", schema_of(["VARCHAR"])
    assert small_rows(str(file), text) is None
    offsets = pa.array(["é"]).buffers()[1]
    wrong = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xff")])
    pq.write_table(pa.table({"c0": wrong}), file)
    assert small_rows(str(file), text) is None
    file.write_bytes(file.read_bytes()[:-9])
    assert small_rows(str(file), text) is None
    pq.write_table(pa.table({"c0": ["a", "b"]}), file)
    assert small_rows(str(file), schema_of(["VARCHAR", "VARCHAR"])) is None
    assert small_rows(str(file), text) is not None
    for limit in ("MOST_ROWS", "MOST_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(small_files, limit, 1)
            assert small_rows(str(file), text) is None


def test_copy_reads_what_duckdb_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        pq.write_table(pa.table({"k": [number], "v": ["x"]}), tmp_path / f"{number}.parquet")
    monkeypatch.chdir(tmp_path)
    view = "CREATE MATERIALIZED VIEW n AS SELECT v, count(*) AS n FROM t GROUP BY v"
    both = Twin("CREATE TABLE t (k INTEGER PRIMARY KEY, v VARCHAR)", view)
    demand_fast(both, "COPY t FROM '0.parquet'")
    with monkeypatch.context() as patch:
        patch.setattr(insert_select, "small_rows", lambda *_: None)
        demand_fast(both, "COPY t FROM '1.parquet'")
    both.db.execute("SET enable_external_access = false")
    both.duck.execute("SET enable_external_access = false")
    assert not both.run("COPY t FROM '2.parquet'")
    with pytest.raises(errors.IvmError, match="disabled by configuration"):
        both.db.execute("COPY t FROM '2.parquet'")
    both.check()
