"""What the memory knows of the positions is what their table says, whatever transactions do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from tests.cdc.orders import ORDERS, content, created
from tests.tiers import examples

batches = st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 9))
acts = st.one_of(
    batches.map(lambda batch: ("ingest", batch)),
    st.sampled_from([("BEGIN", None), ("COMMIT", None), ("ROLLBACK", None), ("reopen", None)]),
)


@pytest.mark.full
@given(st.lists(acts, max_size=25))
@settings(max_examples=examples(30))
def test_a_batch_is_skipped_if_and_only_if_the_table_has_its_position(
    drawn: list[tuple[str, tuple[str, int] | None]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.duckdb"
        db = ivm.connect(file)
        db.execute(ORDERS)
        db.ingest("orders", [], position=0)  # makes the tables of the records
        for act, batch in drawn:
            if batch is not None:
                stored = dict(content(db, "SELECT source, position FROM _ivm.positions"))
                found = db.ingest("orders", [created(1)], source=batch[0], position=batch[1])
                assert found.skipped == (stored.get(batch[0], 0) >= batch[1])
            elif act == "reopen":
                db.close()
                db = ivm.connect(file)
            elif (act == "BEGIN") != db.in_transaction:
                db.execute(act)
        db.close()


def test_whoever_reads_without_a_lock_misses_no_row_that_changes() -> None:
    with ivm.connect() as db:
        db.execute(ORDERS)
        db.ingest("orders", [], position=1)
        small = db._session().engine.small
        [table] = [name for name in small._mirrors if "positions" in name]
        read = small._mirrors[table]
        db.ingest("orders", [], position=2)
        assert [row[2] for row in small.rows(table) or []] == [2]
        assert [row[2] for row in read.values()] == [1]
