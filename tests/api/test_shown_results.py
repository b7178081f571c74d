"""Results and relations: how they print, and the forms in which DuckDB's users read them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pytest

import ivm

QUERY = "SELECT i, i::VARCHAR AS t, [i] AS l, NULL AS n FROM range(3) AS r(i)"


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        yield database


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "SELECT 1 AS a WHERE false",
        "FROM range(200)",
        "SELECT sum(i) AS s, 'x<y' AS t FROM range(9) AS r(i)",
        "SELECT INTERVAL 1 DAY AS d, 1.5::DECIMAL(9, 2) AS n, DATE '2024-01-01' AS day, true AS b",
    ],
)
def test_a_result_prints_as_duckdbs_and_keeps_its_rows(db: ivm.Database, query: str) -> None:
    result = db.execute(query)
    theirs = duckdb.connect().sql(query)
    assert str(result) == str(theirs).rstrip()
    html = result._repr_html_()
    assert html is not None
    assert html.startswith('<table class="dataframe">')
    assert "x<y" not in html
    assert result.fetchall() == duckdb.connect().execute(query).fetchall()


def test_what_is_read_already_is_not_shown(db: ivm.Database) -> None:
    result = db.execute("FROM range(3)")
    assert result.fetchone() == (0,)
    assert "0" not in [cell.strip("│ ") for cell in repr(result).split("\n")]
    assert result.fetchall() == [(1,), (2,)]


def test_results_without_rows(db: ivm.Database, capsys: pytest.CaptureFixture[str]) -> None:
    done = db.execute("CREATE TABLE t (a INTEGER)")
    assert repr(done) == "<ivm.Result: done>"
    assert done._repr_html_() is None
    assert done.description is None
    assert "Count" in repr(db.execute("INSERT INTO t VALUES (1)"))
    assert db.sql("CREATE TABLE u (a INTEGER)") is None
    done.show()
    assert capsys.readouterr().out == "<ivm.Result: done>\n"


def test_a_failed_result_has_a_repr(db: ivm.Database) -> None:
    result = db.execute(
        "SELECT CAST(CASE WHEN i = 250000 THEN 'x' ELSE '1' END AS INTEGER) "
        "FROM range(300000) AS r(i)"
    )
    with pytest.raises(ivm.IvmError):
        result.fetchall()
    assert "cannot be read" in repr(result)
    assert result._repr_html_() is None


def test_show(db: ivm.Database, capsys: pytest.CaptureFixture[str]) -> None:
    result = db.execute("SELECT i, NULL AS n FROM range(50) AS r(i)")
    result.show(max_rows=4, null_value="—")
    theirs = duckdb.connect().sql("SELECT i, NULL AS n FROM range(50) AS r(i)")
    ours = capsys.readouterr().out
    theirs.show(max_rows=4, null_value="—")
    assert ours.split() == capsys.readouterr().out.split()
    assert len(result.fetchall()) == 50


def test_the_forms_of_a_result(db: ivm.Database) -> None:
    theirs = duckdb.connect()
    numbers = db.execute(QUERY).fetchnumpy()
    for name, expected in theirs.execute(QUERY).fetchnumpy().items():
        assert np.ma.allequal(np.ma.getmaskarray(numbers[name]), np.ma.getmaskarray(expected))
        assert [str(x) for x in numbers[name]] == [str(x) for x in expected]
    for name in ("df", "fetchdf", "fetch_df", "to_df"):
        assert getattr(db.execute(QUERY), name)().shape == (3, 4)
    for name in ("arrow", "to_arrow_table", "fetch_arrow_table"):
        assert getattr(db.execute(QUERY), name)().num_rows == 3
    assert sum(len(batch) for batch in db.execute("FROM range(10)").to_arrow_reader(3)) == 10
    assert max(len(batch) for batch in db.execute("FROM range(10)").to_arrow_reader(3)) == 3
    described = db.execute(QUERY).description
    assert described is not None
    expected = theirs.execute(QUERY).description
    assert expected is not None
    assert [(d[0], str(d[1])) for d in described][:3] == [(d[0], str(d[1])) for d in expected][:3]
    assert db.execute("CREATE TABLE t (a INTEGER)").fetchnumpy() == {}


def test_a_relation_is_read_again_and_again(db: ivm.Database) -> None:
    db.execute("CREATE TABLE t AS SELECT i AS a FROM range(3) AS r(i)")
    relation = db.sql("SELECT * FROM t ORDER BY a")
    assert relation is not None
    rows = [(0,), (1,), (2,)]
    db.execute("DELETE FROM t")  # it shows the snapshot of its statement
    assert relation.fetchall() == relation.fetchall() == list(relation) == rows
    assert relation.df().shape == relation.fetchdf().shape == relation.shape == (3, 1)
    assert len(relation) == relation.arrow().num_rows == relation.pl().height == 3
    assert relation.fetchnumpy()["a"].tolist() == [0, 1, 2]
    assert (relation.columns, relation.types) == (["a"], ["BIGINT"])
    assert relation.description[0][0] == "a"
    assert repr(relation) == str(duckdb.sql("SELECT i AS a FROM range(3) AS r(i)")).rstrip()
    assert relation._repr_html_()
    assert sum(len(batch) for batch in relation.to_arrow_reader(2)) == 3
    assert db.execute("SELECT sum(a) FROM relation").fetchall() == [(3,)]
    with_parameters = db.sql("SELECT ? + 1 AS a", [1])
    assert with_parameters is not None
    assert with_parameters.fetchall() == [(2,)]


def test_a_table_by_its_name(db: ivm.Database) -> None:
    db.execute('CREATE TABLE "odd.name" (a INTEGER)')
    db.execute("CREATE SCHEMA s")
    db.execute("CREATE TABLE s.t AS SELECT 1 AS a")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM s.t")
    assert db.table('"odd.name"').fetchall() == []
    assert (
        db.table("s.t").fetchall() == db.table("v").fetchall() == db.view("v").fetchall() == [(1,)]
    )
    with pytest.raises(ivm.errors.SqlError):
        db.table("nothing")
    assert repr(db) == "<ivm.Database ':memory:'>"
    db.checkpoint()
