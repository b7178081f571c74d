"""Results print as DuckDB's do, and can be read afterwards."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

import ivm
from ivm.errors import InputError

QUERIES = [
    "SELECT 1 AS a, 'x' AS b, NULL AS c",
    "SELECT i, i * 1.5 AS half FROM range(100) r(i) ORDER BY i",
    "SELECT [1, NULL] AS l, {'a': 1} AS s, MAP {'k': 2} AS m, INTERVAL 1 DAY AS i",
    "SELECT 170141183460469231731687303715884105727 AS h, 1.25::DECIMAL(5, 2) AS d",
    "SELECT TIMESTAMP '2024-01-01 10:00:00' AS t, DATE '2024-01-01' AS d, '101'::BIT AS b",
    "SELECT 1 AS a WHERE false",
]


@pytest.mark.full
@pytest.mark.parametrize("query", QUERIES)
def test_a_result_prints_as_duckdbs_and_keeps_its_rows(query: str) -> None:
    with ivm.connect() as db:
        result = db.execute(query)
        peer = duckdb.connect()
        assert repr(result) == str(peer.sql(query))
        assert result._repr_html_() == peer.sql(query)._repr_mimebundle_()["text/html"]
        assert repr(result) == str(peer.sql(query))
        assert result.fetchall() == peer.execute(query).fetchall()


def test_show_prints_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    with ivm.connect() as db:
        result = db.execute("SELECT i FROM range(30) r(i) ORDER BY i")
        result.fetchone()
        result.show(max_rows=4)
        shown = capsys.readouterr().out
        theirs = duckdb.sql("SELECT i FROM range(1, 30) r(i) ORDER BY i")
        assert theirs is not None
        theirs.show(max_rows=4)
        assert shown == capsys.readouterr().out
        assert len(result.fetchall()) == 29
        assert repr(result) == "no rows are left"


def test_what_has_no_rows_says_what_it_did() -> None:
    with ivm.connect() as db:
        created = db.execute("CREATE TABLE t (a INTEGER)")
        assert (repr(created), created._repr_html_(), created.description) == ("done", None, None)
        assert "2" in repr(db.execute("INSERT INTO t VALUES (1), (2)"))
        assert db.sql("DELETE FROM t WHERE a = 1") is None


@pytest.mark.full
def test_sql_and_table_give_rows() -> None:
    with ivm.connect() as db:
        db.execute('CREATE TABLE "odd name" (a INTEGER); INSERT INTO "odd name" VALUES (1)')
        found = db.sql('SELECT a + ? FROM "odd name"', [1])
        assert found is not None
        assert found.fetchall() == [(2,)]
        assert db.table('"odd name"').fetchall() == [(1,)]
        assert db.table("memory.main.odd name").fetchall() == [(1,)]


def test_rows_become_numpy_arrays_as_duckdbs() -> None:
    query = "SELECT i, CASE WHEN i < 2 THEN i END AS n, i::VARCHAR AS s FROM range(3) r(i)"
    with ivm.connect() as db:
        ours, theirs = db.execute(query).fetchnumpy(), duckdb.execute(query).fetchnumpy()
        assert list(ours) == list(theirs)
        for name, array in theirs.items():
            assert ours[name].dtype == array.dtype
            assert np.ma.getmaskarray(ours[name]).tolist() == np.ma.getmaskarray(array).tolist()
            assert ours[name].tolist() == array.tolist()
        assert db.execute("CREATE TABLE t (a INTEGER)").fetchnumpy() == {}


def test_a_result_that_cannot_be_read_cannot_be_printed() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t AS SELECT '7' AS a FROM range(100000) UNION ALL SELECT 'x'")
        result = db.execute("SELECT a::INTEGER FROM t")
        with pytest.raises(InputError, match="x"):
            repr(result)


@pytest.mark.full
@pytest.mark.parametrize("count", [-1, "x", 2.5, 1 << 70])
def test_what_is_no_number_of_rows_is_refused(count: Any) -> None:
    """Bug: it was called a fault of the program."""
    with ivm.connect() as db:
        result = db.execute("SELECT i FROM range(3) r(i)")
        for given in (result, db.cursor().execute("SELECT 1")):
            with pytest.raises(InputError, match="number of rows, 0 or more"):
                given.fetchmany(count)
        for shown in ({"max_rows": count}, {"max_width": count}):
            with pytest.raises(InputError, match="rows and characters, 0 or more"):
                result.show(**shown)
        two: Any = np.int64(2)
        assert result.fetchmany(two) == [(0,), (1,)]
