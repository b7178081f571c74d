"""LIMIT and ROW_NUMBER ≤ k against DuckDB on random streams; ties by all columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.ordered.topk import TopK
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.values import thresholds
from ivm.storage.values.ordering.order import OrderKey
from tests.support.operator_bench import Bench, drive, order_key_sql, streams, types_of, zset
from tests.tiers import examples

TYPES = types_of("INTEGER", "VARCHAR", "DECIMAL(9,2)")
ALL = "c0 ASC NULLS LAST, c1 ASC NULLS LAST, c2 ASC NULLS LAST"


def bench(
    partition: list[int], order: list[OrderKey], limit: int | None, offset: int, rank: bool
) -> Bench:
    terms = [order_key_sql(k) for k in order]
    by = f"PARTITION BY {', '.join(f'c{p}' for p in partition)}" if partition else ""
    end = "" if limit is None else f"AND n <= {offset + limit}"
    columns = "*" if rank else "* EXCLUDE n"
    sql = f"""SELECT {columns} FROM (SELECT *, row_number() OVER ({by}
        ORDER BY {", ".join([*terms, ALL])}) AS n FROM i0) WHERE n > {offset} {end}"""
    return Bench(
        lambda c, s: c.add(
            "op", lambda _: TopK(TYPES, partition, order, limit, offset, rank_column=rank), s
        ),
        [TYPES],
        sql,
    )


ORDERS = [
    [OrderKey(2, True, False)],
    [OrderKey(1, False, True), OrderKey(2, True, True)],
    [],
]


@pytest.mark.cases(3)
@pytest.mark.parametrize("few", [0, 4])
@pytest.mark.parametrize("partition", [[], [0], [1, 0]])
@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None, max_examples=examples(8))
@given(data=st.data())
def test_follows_duckdb(
    partition: list[int], order: list[OrderKey], few: int, data: st.DataObject
) -> None:
    """Also (few = 0) where the rows after are worked out from those before."""
    limit = data.draw(st.sampled_from([0, 1, 2, 3, None]))
    offset = data.draw(st.sampled_from([0, 0, 1, 2]))
    under_test = bench(partition, order, limit, offset, data.draw(st.booleans()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "TOPK_PARTITIONS", few)
        drive(under_test, data.draw(streams(TYPES)))


def test_rows_behind_the_head_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    under_test = bench([], [OrderKey(2, True, False)], 2, 0, False)
    rows = [((str(i), "'a'", f"{i}.00"), 1) for i in range(5)]
    assert len(under_test.step([zset(TYPES, rows)])) == 2
    with monkeypatch.context() as patch:
        patch.setattr(Arrangement, "first", None)  # calling it would fail
        for weight in (1, -1):
            behind = zset(TYPES, [(("9", "'z'", "2.99"), weight), (rows[0][0], -weight)])
            assert len(under_test.step([behind])) == 0
    # a row that ties with the last by the first order key, and comes before it by the others
    assert len(under_test.step([zset(TYPES, [(("1", "'a'", "3.00"), 1)])])) == 2
    assert len(under_test.step([zset(TYPES, [(rows[4][0], -1)])])) == 2


def test_rows_behind_the_limit_change_nothing() -> None:
    under_test = bench([0], [OrderKey(2, True, False)], 1, 0, False)
    assert len(under_test.step([zset(TYPES, [(("1", "'a'", "1.10"), 1)])])) == 1
    assert len(under_test.step([zset(TYPES, [(("1", "'b'", "0.01"), 1)])])) == 0
    assert len(under_test.step([zset(TYPES, [(("1", "'a'", "1.10"), -1)])])) == 2
