"""Aggregates without an incremental form: the touched groups through their own SQL."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.aggregates.group_recompute import GroupRecompute
from ivm.storage.errors import EvaluationError
from ivm.storage.warehouse.duckdb import duck
from tests.support.operator_bench import Bench, Duck, drive, streams, types_of, zset
from tests.tiers import examples

TYPES = types_of("VARCHAR", "INTEGER")

QUERIES: list[tuple[list[int], str]] = [
    ([0], "SELECT c0, median(c1) FROM {} GROUP BY c0"),
    ([0], "SELECT c0, list(c1 ORDER BY c1), mode(c1 ORDER BY c1) FROM {} GROUP BY c0"),
    ([0, 1], "SELECT c0, c1, string_agg(c0, '-') FROM {} GROUP BY c0, c1"),
    ([], "SELECT median(c1), count(*) FROM {}"),
    ([0], "SELECT c0, c1, sum(c1) OVER (PARTITION BY c0) FROM {}"),
]


def bench(partition: list[int], query: str) -> Bench:
    cursor = Duck.cursor()
    empty_table = "(SELECT NULL::VARCHAR AS c0, NULL::INTEGER AS c1)"
    types = tuple(t for _, t in duck.describe(cursor, query.format(empty_table)))
    cursor.close()
    sql = query.format("delta")
    return Bench(
        lambda c, s: c.add(
            "op", lambda _: GroupRecompute(TYPES, partition, sql, types, Duck.cursor), s
        ),
        [TYPES],
        query.format("i0"),
    )


@pytest.mark.parametrize(("partition", "query"), QUERIES)
@settings(deadline=None, max_examples=examples(6))
@given(data=st.data())
def test_follows_duckdb(partition: list[int], query: str, data: st.DataObject) -> None:
    drive(bench(partition, query), data.draw(streams(TYPES)))


def test_only_touched_groups_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    under_test = bench(*QUERIES[0])
    rows = [((f"'{i}'", "1"), 1) for i in range(20)]
    under_test.step([zset(TYPES, rows)])
    seen = []
    whole = duck.evaluate

    def spy(cursor, sql, inputs, output):  # type: ignore[no-untyped-def]
        seen.append(len(inputs["delta"][0]))
        return whole(cursor, sql, inputs, output)

    monkeypatch.setattr(duck, "evaluate", spy)
    under_test.step([zset(TYPES, [(("'7'", "2"), 1)])])
    assert seen == [1, 2]


def test_errors_come_in_duckdbs_words() -> None:
    under_test = bench([0], "SELECT c0, sum(c0::INTEGER) FROM {} GROUP BY c0")
    with pytest.raises(EvaluationError, match="Could not convert string 'x' to INT32"):
        under_test.step([zset(TYPES, [(("'x'", "2"), 1)])])
