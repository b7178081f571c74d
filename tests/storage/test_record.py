"""Records hold once what an update keeps, and texts that repeat; those of old formats are read."""

from __future__ import annotations

import base64
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from ivm.storage.log.change import Record, TableChange
from ivm.storage.log.change_log import ChangeLog
from ivm.storage.log.reading import read_records
from ivm.storage.log.record import TableCodes, decode, encode
from ivm.storage.values import dictionary
from ivm.storage.values.column import DictionaryColumn
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.types import Schema, type_of
from ivm.storage.values.zset import ZSet, from_arrow
from ivm.storage.warehouse.duckdb.duck import describe, run, table
from tests.support.type_values import NAMES, select_values

_OF_FORMAT_1 = (
    b"c-r#}^VRk7cjsat6YLd%&`z)ag8{=R7zLwX6pVsVFbYP&C>RB!U=)mkQ7{Sy9hd~AtCiC7i*gf7l&lmCbrh6R5=#=3"
    b"5{pygGgE*fN-0T7K*7YclGLL3)Pnrv44|L^P$W4cF*6U!25QJjEe3L`l|ZIMM=JsK0>wT3LR{TlgOp-*6rz>#5_3~Q"
    b"f?<w9&K{0X!IH%EVkDK(u}ZPAwYAwnjVHad_$N6tLR<)?;50Iu87{(vB*z3*0j3$5(R|K~M(5|HK7cYo0~tGjG<0l("
    b"frmkifsKKcfdk0m0qbF5kN{E&aKpHOd>#fCpbF4PN(>MSpg4vBD2M564!HRcAc5vY2`qY<kj%vvB-nxoUEQDBJxq5w"
    b"PIYB5q6Qih7BiTz$TE@|un6VAaKx?}CSIDCpORmEgT$DSATuV=0W2m2(8L7@!~_G5n7|bS8b^1(`ogcVTa6KWn4u<a"
    b"Ml5E+5;p^`;0Ffe1rkG1fIuiR5*dmdXf(PwdMGlI7>a6slYe~TNi+ihEZtzY"
)
_OF_FORMAT_2 = (
    b"c-r#}^VRk7cjsat6C4(S&^E9Cg8{=R7zLwX6pVsVFbYP&C>RB!U=)mkQ7{Sy9hd~AtCiC7i*gf7l&lntbQF|Q5=#=35{py"
    b"gGgE*fN-0T7K*7YclGLL3)Pnrv44|L^P$W4cF*6U!25QJjEe3L`l|ZIMM=JsK0>wT3LR{TlgOp-*6rz>#5_3~Qf?<w9&K{"
    b"0X!IH%EVkDK(u}ZPAwY3NKH1m0DO`GJ(2yr2lLZM-7X1ITt;4DTcn-MC?$jFT5cV;v?KQHwGlnENj*a4)WqZ<r73}Osy46"
    b"F<sKo$>J4-10?kWzpf#s%c_Ft7ksfW}f{fLH*<ISfEK1|-Kp00-QB2#`Q?q68MbOi1RU2MPlgJ|h-&CewwR9&iNq=P;rM8"
    b"xs~iOc=5-Ig)}Fp&S^J*j2;COY`zm@{4bf7#9*`#sxZn#f1QxxB!8;V89U<xZ+@yMSR_QzS3J7jM&2rHGwl?F%yx%8E{1a"
    b"FeopO7>)u2!jX~4aO6Ov(Z$ijk&(o3Oy0t5>A~|e8vw^VUeN"
)


def _encoded(change: TableChange, tables: TableCodes) -> bytes:
    return b"".join(encode(Record(1, (change,)), tables))


def _are_same(a: ZSet, b: ZSet, schema: Schema) -> bool:
    rows, types = np.arange(len(a)), [type for _, type in schema]
    return (
        len(a) == len(b)
        and np.array_equal(a.weights, b.weights)
        and bool(same_row(a.columns, rows, b.columns, rows, types).all())
    )


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("held", [(0, 1), (0,), (1,)])
def test_columns_that_an_update_keeps_are_there_once(name: str, held: tuple[int, ...]) -> None:
    with duckdb.connect() as duck:
        run(duck, "SET arrow_lossless_conversion = true")
        query = select_values(name, numbered=True)
        schema = describe(duck, query)
        rows = from_arrow(table(duck, query), schema)
    tables, other = TableCodes({"t": schema}), rows.take(np.arange(len(rows))[::-1].copy())
    for new in (0, 1):
        columns = tuple([(other if i == new else rows).columns[i] for i in (0, 1)])
        change = TableChange("t", rows.project(held), held, ZSet(columns, rows.weights))
        payload = _encoded(change, tables)
        found = decode(memoryview(payload), tables).changes[0]
        assert _are_same(found.added, change.added, schema)
        assert _are_same(found.removed, change.removed, tuple([schema[i] for i in held]))
        copied = TableChange("t", change.removed, held, change.added.take(np.arange(len(rows))))
        is_shorter = len(payload) < len(_encoded(copied, tables))
        assert is_shorter == (1 - new in held)


@pytest.mark.parametrize("different", [1, 2, 255, 256, 257, 300, 10_000])
@pytest.mark.parametrize("nulls", [False, True])
def test_texts_that_repeat_are_there_once(different: int, nulls: bool) -> None:
    count = 20_000
    texts = [f"text number {i % different}" for i in range(count)]
    values = [None if nulls and i % 3 == 0 else text for i, text in enumerate(texts)]
    codes = dictionary.encode(pa.array(values, pa.large_string()), force=True)
    assert codes is not None
    schema, ones = (("s", type_of("VARCHAR")),), np.ones(count, np.int64)
    rows, tables = ZSet((DictionaryColumn(codes),), ones), TableCodes({"t": schema})
    payload = _encoded(TableChange("t", rows.slice(0, 0), (0,), rows), tables)
    found = decode(memoryview(payload), tables).changes[0].added
    assert found.to_arrow(schema).column(0).to_pylist() == values
    assert (len(payload) < 4 * count) == (different <= 300)


@pytest.mark.parametrize("old_segment", [_OF_FORMAT_1, _OF_FORMAT_2])
def test_a_segment_of_an_old_format_is_read_and_followed(
    tmp_path: Path, old_segment: bytes
) -> None:
    segment = tmp_path / "log-00000000000000000001.seg"
    segment.write_bytes(zlib.decompress(base64.b85decode(old_segment)))
    types = {"id": "INTEGER", "name": "VARCHAR", "tags": "INTEGER[]"}
    schema = tuple([(name, type_of(sql)) for name, sql in types.items()])
    old: list[dict[str, Any]] = [
        {"id": 1, "name": "one", "tags": [1]},
        {"id": 2, "name": None, "tags": None},
    ]
    new = [{"id": 1, "name": "uno", "tags": [1]}, {"id": 2, "name": "dos", "tags": []}]
    log = ChangeLog.open(tmp_path, database_id="db", base_epoch=0)
    log.rotate({"t": schema})
    arrow = pa.schema([(name, type.memory) for name, type in schema])
    rows = from_arrow(pa.Table.from_pylist(old, arrow), schema)
    log.append(Record(4, (TableChange("t", rows, (0, 1, 2), rows),)))
    log.close()
    with closing(ChangeLog.open(tmp_path, database_id="db", base_epoch=0)) as again:
        records = read_records(again.folder, 0)
        first, second, third, fourth = [record.changes[0] for record in records]
    short = [{"id": row["id"], "name": row["name"]} for row in old]
    assert first.added.to_arrow(schema).to_pylist() == old
    assert second.removed.to_arrow(schema[:2]).to_pylist() == short
    assert second.added.to_arrow(schema).to_pylist() == new
    assert third.removed.to_arrow(schema).to_pylist() == new[:1]
    assert fourth.removed.to_arrow(schema).to_pylist() == old
    assert fourth.added.to_arrow(schema).to_pylist() == old
