"""The suites on Spark: what is captured is computed, and what is wrong is seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance import turso
from tests.conformance.captures import Captures
from tests.conformance.on_spark import compared, compute, right, spark_table
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=1)

SUITE = """
test sums {
    CREATE TABLE t (g TEXT, v INTEGER, d DOUBLE);
    CREATE MATERIALIZED VIEW sums AS SELECT g, sum(v) AS s, sum(d) AS d FROM t GROUP BY g;
    CREATE MATERIALIZED VIEW above AS SELECT s + 1 AS s FROM sums;
    CREATE MATERIALIZED VIEW tied AS SELECT g, v FROM t ORDER BY g LIMIT 2;
    CREATE MATERIALIZED VIEW untyped AS SELECT CAST(v AS VARIANT) AS v FROM t;
    CREATE MATERIALIZED VIEW whole AS SELECT mode(v) OVER () AS m FROM t;
    INSERT INTO t VALUES ('a', 1, 0.1), ('a', 2, 0.2), ('a', 3, 0.3), ('b', 4, -0.0);
    SELECT s FROM above;
}
expect {
    7
    5
}

test again {
    CREATE TABLE t (g TEXT, v INTEGER, d DOUBLE);
    CREATE MATERIALIZED VIEW sums AS SELECT g, sum(v) AS s, sum(d) AS d FROM t GROUP BY g;
    INSERT INTO t VALUES ('a', 1, 0.1), ('a', 2, 0.2), ('a', 3, 0.3), ('b', 4, -0.0);
    DROP VIEW sums;
}
expect {
}
"""


def captured(place: Path, every: int = 1) -> Captures:
    """The captures of the suite, which passes."""
    (place / "tiny.sqltest").write_text(SUITE)
    captures = Captures(place / "captures", every)
    captures.folder.mkdir()
    outcomes = list(turso.run(place, captures))
    assert [outcome.verdict for outcome in outcomes] == ["pass", "pass"], outcomes
    return captures


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    return captured(tmp_path_factory.mktemp("tiny"))


@pytest.mark.full
def test_views_of_a_suite_have_duckdbs_rows_on_spark(captures: Captures) -> None:
    session()  # or it is not run
    outcomes = compute(captures)
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    assert verdicts["wrong"] == verdicts["error"] == 0, outcomes
    assert verdicts["equal"] + verdicts["rounded"] + verdicts["open"] == 3
    assert verdicts["refused"] == verdicts["no plan"] == 1
    assert right(outcomes) == 0.75
    assert "VARIANT" in spark_table(outcomes)
    kept = [folder for folder in captures.folder.iterdir() if folder.is_dir()]
    assert len(kept) == 3  # `sums` of both tests is one


def test_a_share_is_taken_and_the_rest_is_told(tmp_path: Path) -> None:
    verdicts = Counter(note["verdict"] for note in captured(tmp_path, every=2).notes())
    assert 0 < verdicts["left out"] < 4
    assert sum(verdicts.values()) == 5


def test_what_is_wrong_is_seen(captures: Captures) -> None:
    taken = [note["detail"] for note in captures.notes() if note["verdict"] == "taken"]
    asked = [captures.read(name) for name in taken]
    (sums,) = (one for one in asked if "SUM(d)" in one.query)
    (tied,) = (one for one in asked if "LIMIT" in one.query)
    a, b = sorted(sums.wanted)
    assert a[:2] == ("a", "6")
    assert compared(sums, [b, a]) == ("equal", "")
    (last,) = {"0.6", "0.6000000000000001"} - {a[2]}  # by the order of addition
    assert compared(sums, [b, ("a", "6", last)]) == ("rounded", "")
    for rows in ([b, ("a", "6", "0.600001")], [b, ("a", "7", "0.6")], [a, b, b], [a], []):
        assert compared(sums, rows)[0] == "wrong", rows
    others = [("a", "1"), ("a", "3")]
    assert compared(replace(tied, wanted=[], planned=others), others) == ("open", "")
    assert compared(replace(tied, wanted=[], planned=others[:1]), others)[0] == "wrong"
    assert compared(replace(tied, wanted=others, query="FROM t"), others[:1])[0] == "wrong"
