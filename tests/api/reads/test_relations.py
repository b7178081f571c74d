"""What `db.sql` gives: rows that can be read again and again, and by statements."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import ivm


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE t AS SELECT i AS a FROM range(3) AS r(i)")
        yield database


def test_a_relation_is_read_again_and_again(db: ivm.Database) -> None:
    relation = db.sql("SELECT * FROM t ORDER BY a")
    assert relation is not None
    db.execute("DELETE FROM t")  # it shows the snapshot of its statement
    assert relation.fetchall() == relation.fetchall() == list(relation) == [(0,), (1,), (2,)]
    assert relation.df().shape == relation.fetchdf().shape == relation.shape == (3, 1)
    assert len(relation) == relation.arrow().num_rows == relation.pl().height == 3
    assert relation.fetchnumpy()["a"].tolist() == relation.fetchnumpy()["a"].tolist() == [0, 1, 2]
    assert (relation.columns, relation.types) == (["a"], ["BIGINT"])
    assert relation.description is not None
    assert repr(relation) == repr(relation) == str(duckdb.sql("FROM range(3) AS r(a)"))
    assert "<table" in (relation._repr_html_() or "")
    assert db.sql("CREATE TABLE u (a INTEGER)") is None
    assert db.table("t").fetchall() == []


@pytest.mark.full
def test_statements_read_relations_and_results_by_their_names(db: ivm.Database) -> None:
    relation, result = db.sql("SELECT 5 AS a"), db.execute("SELECT 6 AS a")
    assert relation is not None
    for _ in range(2):
        found = db.execute("SELECT * FROM relation UNION ALL FROM result ORDER BY a").fetchall()
        assert found == [(5,), (6,)]
    db.execute("INSERT INTO t SELECT * FROM relation")
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(4,)]
    assert result.fetchall() == [(6,)]
