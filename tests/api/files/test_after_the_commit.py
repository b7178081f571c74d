"""What fails once DuckDB has committed a change of the catalog is left to the next opening."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ivm
from ivm import errors
from ivm.engine.transactions.transaction_views import TransactionViews
from ivm.storage.log.change_log import ChangeLog
from tests.torture.patient import crash


@pytest.mark.parametrize(
    ("owner", "name"), [(TransactionViews, "adopt"), (ChangeLog, "rotate")], ids=["views", "log"]
)
def test_later_rows_are_never_logged_under_the_columns_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    """Bug: after a view's state could not be built, rows were logged in the old types, and read
    as others after a crash."""

    def odd(*_: object, **__: object) -> None:
        raise MemoryError

    path = tmp_path / "x.duckdb"
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    db.insert("t", {"a": [1], "b": [1]})
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, odd)
        with pytest.raises(errors.UnavailableError, match=r"committed.*open it again") as told:
            db.execute("ALTER TABLE t ALTER a TYPE BIGINT")
    assert "MemoryError" in str(told.value)
    later: tuple[Callable[[], object], ...] = (
        lambda: db.insert("t", {"a": [10], "b": [2]}),
        lambda: db.execute("FROM v"),
        lambda: db.execute("CREATE TABLE u (a INTEGER)"),
    )
    for work in later:
        with pytest.raises(errors.UnavailableError, match="open it again"):
            work()
    image = crash(path, tmp_path / "image")
    db.close()
    for file in (image, path):
        with ivm.connect(file) as again:
            assert again.execute("SELECT a, typeof(a) FROM t").fetchall() == [(1, "BIGINT")]
            again.insert("t", {"a": [1 << 40], "b": [2]})
            assert again.execute("FROM v ORDER BY b").fetchall() == [(1, 1), (2, 1)]
