"""Arrow rows of the table's own types: few of them are read as many are."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ivm
from ivm import errors
from ivm.ingest.arrow_rows import ArrowReader
from ivm.ingest.row_columns import RowColumns
from ivm.storage.values import dictionary
from ivm.storage.values.column import DictionaryColumn, column_from_arrow
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, ones

DAY = datetime.date(2024, 2, 29)
COLUMNS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("BIGINT", pa.int64(), [1, None, -(2**63)]),
    ("UTINYINT", pa.uint8(), [0, 255, None]),
    ("DOUBLE", pa.float64(), [-0.0, float("inf"), 1.5]),
    ("BOOLEAN", pa.bool_(), [True, False, None]),
    ("DATE", pa.date32(), [DAY, None, DAY]),
    ("TIMESTAMP", pa.timestamp("us"), [datetime.datetime(2024, 1, 1), None, None]),
    ("DECIMAL(12,2)", pa.decimal128(12, 2), [None, 3, -5]),
    ("VARCHAR", pa.string(), ["a", None, "ß"]),
    ("VARCHAR", pa.large_string(), ["", "x", None]),
    ("BLOB", pa.large_binary(), [b"\0", None, b""]),
]


@pytest.mark.parametrize(("sql", "given", "values"), COLUMNS)
@pytest.mark.parametrize("piece", [(0, 3), (0, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("form", [pa.table, pa.record_batch])
def test_few_rows_are_the_values_given(
    sql: str, given: pa.DataType, values: list[Any], piece: tuple[int, int], form: Any
) -> None:
    type = type_of(sql)
    reader = ArrowReader(lambda schema: [(4, type)])
    rows = form({"c": pa.array(values, given)}).slice(*piece)
    columns = reader.read(rows)
    assert columns is not None
    exact = pa.large_string() if given == pa.string() else given
    expected = column_from_arrow(pa.array(values[piece[0] : sum(piece)], exact), type)
    schema = (("c", type),)
    one, other = [
        ZSet((column,), ones(piece[1])).to_arrow(schema) for column in (columns[4], expected)
    ]
    assert one.equals(other)


def test_known_texts_come_as_labels_and_a_chunked_table_is_read() -> None:
    dictionary.encode(pa.array(["open", "paid"], pa.large_string()), force=True)
    reader = ArrowReader(lambda schema: [(0, type_of("VARCHAR"))])
    one = pa.table({"s": pa.array(["paid"])})
    columns = reader.read(one)
    assert columns is not None
    assert isinstance(columns[0], DictionaryColumn)
    columns = reader.read(pa.concat_tables([one, pa.table({"s": ["never seen before"]})]))
    assert columns is not None
    assert columns[0].array.to_pylist() == ["paid", "never seen before"]  # type: ignore[union-attr]


def test_a_text_that_is_no_value_of_the_type_is_refused_in_every_form() -> None:
    """Bug: large strings went into ENUM and JSON columns unchecked."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (e ENUM('a', 'b'), j JSON)")
        for text in (pa.string(), pa.large_string()):
            for bad in ({"e": "c", "j": "1"}, {"e": "a", "j": "{"}):
                rows = pa.table({name: pa.array([value], text) for name, value in bad.items()})
                with pytest.raises(errors.ConstraintError):
                    db.insert("t", rows)
            db.insert("t", pa.table({"e": pa.array(["b"], text), "j": pa.array(["[1]"], text)}))
        assert db.execute("SELECT e, j FROM t").fetchall() == [("b", "[1]")] * 2


def test_wider_decimals_are_narrowed_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [Decimal("1.50"), None, Decimal("-99999999.99"), Decimal("99999999.99")]
    wide = pa.decimal128(12, 2)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (d DECIMAL(10,2))")
        with pytest.raises(errors.ConstraintError, match="does not fit"):
            db.insert("t", pa.table({"d": pa.array([1, Decimal("100000000.00")], wide)}))
        with monkeypatch.context() as patch:
            patch.setattr(RowColumns, "_cast", None)
            db.insert("t", pa.table({"d": pa.array(values, wide)}))
        db.insert("t", pa.table({"d": pa.array([Decimal("0.005")], pa.decimal128(12, 3))}))
        found = db.execute("SELECT d FROM t").fetchall()
        assert found == [*[(value,) for value in values], (Decimal("0.01"),)]
