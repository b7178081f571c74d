"""What a commit leaves for DuckDB is joined now and then, of one relation at a time."""

from __future__ import annotations

from collections import Counter

import pytest

import ivm
from ivm.storage.warehouse.net_changes import LOOSE, PendingTable, PendingView
from tests.support.view_oracle import assert_verified


def test_a_commit_joins_the_batches_of_one_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    joins = Counter[int]()
    with ivm.connect() as db:
        for kind in (PendingTable, PendingView):
            join = kind.join

            def counted(part: PendingTable | PendingView, join: object = join) -> None:
                joins[db._engine.epoch] += 1
                assert callable(join)
                join(part)

            monkeypatch.setattr(kind, "join", counted)
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, s VARCHAR)")
        for name in ("v", "w", "x"):
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT s, k FROM t WHERE k >= 0")
        for k in range(3 * LOOSE):
            db.execute("INSERT INTO t VALUES (?, 'a')", [k])
            if k % 100 == 7:
                db.execute("UPDATE t SET s = 'b' WHERE k = ?", [k])
        assert set(joins.values()) == {1}
        assert len(joins) >= 6
        assert db.execute("SELECT count(*), sum(k), random() FROM v").fetchall()[0][:2] == (
            3 * LOOSE,
            sum(range(3 * LOOSE)),
        )
        for name in ("v", "w", "x"):
            assert_verified(db, name)
