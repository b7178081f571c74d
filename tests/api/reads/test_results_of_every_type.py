"""Results of every type have DuckDB's Python values, also those that are read late or returned."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import ivm
from ivm.serve.pg.values.columns import Wanted, value_bytes
from ivm.shell.display.cell_text import json_lines, texts
from tests.support.type_values import NAMES, select_values
from tests.tiers import TIER

ENUMS = [
    *[name for name in NAMES if "ENUM" in name or "VARIANT" in name],
    *("ENUM('x', 'y')[2]", "ENUM('x', 'y')[][]", "STRUCT(e ENUM('x', 'y'))[]"),
    *("TUPLE(INTEGER, VARCHAR)", "STRUCT(q TUPLE(INTEGER, TUPLE(VARCHAR)))[]"),
]
SOME = list(dict.fromkeys((*ENUMS, *NAMES[:: 9 if TIER == "quick" else 1])))
OWN = {
    "ENUM('x', 'y')[2]": "(VALUES (['x', NULL]), (['y', 'x']), (NULL)) AS v(v)",
    "ENUM('x', 'y')[][]": "(VALUES ([[]]), ([['x'], NULL]), (NULL)) AS v(v)",
    "TUPLE(INTEGER, VARCHAR)": "(VALUES ((1, 'a')), ((NULL, 'b')), (NULL)) AS v(v)",
    "STRUCT(q TUPLE(INTEGER, TUPLE(VARCHAR)))[]": "(VALUES ([{'q': (1, ('a',))}]), (NULL)) AS v(v)",
    "STRUCT(e ENUM('x', 'y'))[]": "(VALUES ([{'e': 'y'}]), ([]), (NULL)) AS v(v)",
}


def setup(name: str) -> str:
    values = f"SELECT v::{name} AS v FROM {OWN[name]}" if name in OWN else select_values(name)
    return (
        f"CREATE TABLE src AS SELECT row_number() OVER () AS id, v FROM ({values});"
        f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {name}, w {name});"
    )


@pytest.fixture(params=SOME)
def pair(request: Any) -> Iterator[tuple[ivm.Database, duckdb.DuckDBPyConnection]]:
    with ivm.connect() as db, closing(duckdb.connect()) as peer:
        for each in (db, peer):
            each.execute(setup(request.param))
        yield db, peer


def shown(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


def demand_same(pair: tuple[ivm.Database, duckdb.DuckDBPyConnection], sql: str) -> None:
    db, peer = pair
    assert shown(db.execute(sql).fetchall()) == shown(peer.execute(sql).fetchall()), sql


def test_returned_rows(pair: tuple[ivm.Database, duckdb.DuckDBPyConnection]) -> None:
    for sql in (
        "INSERT INTO t SELECT id, v, v FROM src RETURNING *",
        "UPDATE t SET w = v WHERE id = (SELECT min(id) FROM src WHERE v IS NULL) RETURNING *",
        "UPDATE t SET w = v WHERE id >= 1 RETURNING w, v, [v]",
        "DELETE FROM t WHERE id = 2 RETURNING v",
        "DELETE FROM t RETURNING *",
    ):
        demand_same(pair, sql)


@pytest.mark.full
def test_rows_that_are_read_after_another_statement(
    pair: tuple[ivm.Database, duckdb.DuckDBPyConnection],
) -> None:
    db, peer = pair
    for where in ("", "WHERE v IS NULL", "WHERE v IS NOT NULL", "WHERE false"):
        sql = f"SELECT v, [v], {{'a': v}} FROM src {where}"
        late, printed = db.execute(sql), db.execute(sql)
        assert len(db.execute("SELECT 1").fetchall()) == 1
        assert str(printed)  # DuckDB's box
        assert shown(late.fetchall()) == shown(peer.execute(sql).fetchall()), sql


@pytest.mark.full
def test_types_and_frames(pair: tuple[ivm.Database, duckdb.DuckDBPyConnection]) -> None:
    """Of rows in memory, of a view and of a table, and of those that are read late."""
    db, peer = pair
    db.execute("CREATE MATERIALIZED VIEW mv AS SELECT id, v FROM src")
    peer.execute("CREATE VIEW mv AS SELECT id, v FROM src")
    for each in (db, peer):
        each.execute("INSERT INTO t SELECT id, v, NULL FROM src")
    for sql in ("SELECT v, id, v AS V FROM mv WHERE id < 3 ORDER BY id", "FROM t WHERE id = 1"):
        wanted = frame(peer.execute(sql))
        for _ in range(2):
            assert frame(db.execute(sql)) == wanted
        late = db.execute(sql)
        db.execute("SELECT 1").fetchall()
        types = [str(type) for type in peer.sql(sql).types]
        assert late._relation().types == types  # type: ignore[union-attr]
        assert frame(late) == wanted


def frame(result: Any) -> Any:
    """What a result is in pandas, or the error; the text, as NaN is not equal to itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas has some for DuckDB
            made = result.df()
    except (duckdb.Error, ivm.errors.IvmError) as error:
        return type(error).__name__.startswith(("Not", "Unsupported"))
    return list(made.columns), list(map(str, made.dtypes)), repr(made.to_dict("list"))


@pytest.mark.full
def test_texts_of_the_shell(pair: tuple[ivm.Database, duckdb.DuckDBPyConnection]) -> None:
    db, peer = pair
    peer.execute("SET TimeZone = 'UTC'")
    for where in ("", "WHERE v IS NULL"):
        wanted = peer.execute(f"SELECT v::VARCHAR FROM src {where}").fetchall()
        result = db.execute(f"SELECT v FROM src {where}")
        assert texts(result.held(), result.types, "UTC") == [[text for (text,) in wanted]]


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in ENUMS if "ENUM('x'" in name])
@pytest.mark.parametrize("where", ["", "WHERE v IS NULL"])
def test_enums_inside_of_values_are_written_as_texts_are(name: str, where: str) -> None:
    """To JSON, and to clients of PostgreSQL."""
    with ivm.connect() as db:
        db.execute(setup(name))
        as_text = name.replace("ENUM('x', 'y')", "VARCHAR")
        own = held(db, f"SELECT v FROM src {where}")
        others = held(db, f"SELECT v::{as_text} AS v FROM src {where}")
        assert list(json_lines(["v"], own)) == list(json_lines(["v"], others))
        sent = value_bytes(own, [Wanted(name, False)], "UTC")
        assert sent == value_bytes(others, [Wanted(as_text, False)], "UTC")


def held(db: ivm.Database, sql: str) -> pa.Table:
    table = db.execute(sql).held()
    assert isinstance(table, pa.Table)
    return table
