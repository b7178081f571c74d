"""Updates of some columns of tables with constraints and indexes: the file has what DuckDB has.

A flush writes the columns alone that changed, in place where no index or constraint is in the way.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ivm.storage.values import thresholds
from tests.support.duckdb_twin import Twin
from tests.tiers import examples

TABLE = """
CREATE TABLE p (k INTEGER PRIMARY KEY); INSERT INTO p VALUES (0), (1), (2);
CREATE TABLE t (
    id INTEGER PRIMARY KEY, u INTEGER{u}, a INTEGER, b VARCHAR{b}, x DOUBLE{x}, k INTEGER {k}
);
INSERT INTO t SELECT i, i * 10, i % 3, 'b' || i, i / 2, i % 2 FROM range(12) r(i);
{more}
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n, sum(x) AS x, max(u) AS u FROM t GROUP BY a
"""
INDEXES = ["", "CREATE INDEX by_a ON t (a)", "CREATE UNIQUE INDEX by_b ON t (b)",
           "CREATE INDEX by_sum ON t ((a + id))", "CREATE INDEX by_two ON t (x, a)"]  # fmt: skip
SETS = ["a = a + 1", "x = x + 0.5", "x = 1 - x", "x = 0", "u = u + 1000", "b = b || 'x'",
        "a = a", "k = 2", "u = NULL", "x = NULL", "b = upper(b)", "a = id"]  # fmt: skip

keys = st.integers(0, 14)
wheres = st.one_of(
    st.builds("id = {}".format, keys),
    st.builds("id IN ({}, {}, {})".format, keys, keys, keys),
    st.builds("id >= {}".format, keys),
)
updates = st.builds(
    "UPDATE t SET {} WHERE {}".format,
    st.lists(st.sampled_from(SETS), min_size=1, max_size=3, unique_by=lambda s: s[0]).map(
        ", ".join
    ),
    wheres,
)
others = st.one_of(
    st.builds("DELETE FROM t WHERE {}".format, wheres),
    st.builds("INSERT OR IGNORE INTO t SELECT {0}, {0} * 10, 1, 'b{0}', 0.5, 1".format, keys),
    st.builds(
        "UPDATE t SET x = s.k, a = 7 FROM (SELECT unnest([1, 2, {}]) AS k) s WHERE id = k".format,
        st.integers(3, 14),
    ),
)


CONSTRAINTS = {
    "": "",
    "u": " UNIQUE",
    "b": " CHECK (length(b) < 90)",
    "x": " CHECK (x < 9 OR a > 2)",
}
PARENT = "REFERENCES p (k)"
CHILD = "CREATE TABLE c (k INTEGER REFERENCES t (id)); INSERT INTO c VALUES (1), (5)"


@pytest.mark.cases(2)
@pytest.mark.parametrize("small", [0, 256])
@settings(max_examples=examples(40), deadline=None)
@given(
    history=st.lists(st.lists(st.one_of(updates, updates, others), max_size=5), max_size=4),
    index=st.sampled_from(INDEXES),
    constrained=st.sampled_from(["", *CONSTRAINTS]),
    parent=st.sampled_from(["", PARENT]),
    child=st.sampled_from(["", CHILD]),
)
@example(
    history=[["UPDATE t SET a = a + 1 WHERE id IN (1, 5, 3)"]],
    index="",
    constrained="",
    parent=PARENT,
    child=CHILD,
)
def test_the_file_has_what_duckdb_has(
    small: int,
    history: list[list[str]],
    index: str,
    constrained: str,
    parent: str,
    child: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rules = {name: CONSTRAINTS[name] if name == constrained else "" for name in "ubx"}
    setup = TABLE.format(**rules, k=parent, more="; ".join(filter(None, [index, child])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "APPENDED_ROWS", small)
        patch.setattr(thresholds, "UPDATED_ROWS", 0)
        twin = Twin(setup, VIEWS, path=Path(tmp_path_factory.mktemp("partial")) / "t.duckdb")
        for statements in history:
            for sql in statements:
                twin.run(sql)
            twin.reopen()
            twin.check()
        twin.db.close()
        twin.duck.close()
