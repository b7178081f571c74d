"""What is written to attached databases is in their files when they are let go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import ivm


def detach(db: ivm.Database) -> None:
    db.execute("DETACH other")


def checkpoint(db: ivm.Database) -> None:
    db.execute("CHECKPOINT Other")
    assert db.execute("SELECT count(*) FROM other.t").fetchall() == [(5000,)]


def close(db: ivm.Database) -> None:
    db.close()


@pytest.mark.parametrize("mode", ["", " (RECOVERY_MODE NO_WAL_WRITES)"])
@pytest.mark.parametrize("way", [detach, checkpoint, close])
def test_what_was_written_is_in_the_file(
    tmp_path: Path, mode: str, way: Callable[[ivm.Database], None]
) -> None:
    file = tmp_path / "other.duckdb"
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute(f"ATTACH '{file}' AS other{mode}")
        db.execute("CREATE TABLE other.t AS FROM range(5000) AS r(a)")
        way(db)
        wal = Path(f"{file}.wal")
        assert not wal.exists() or not wal.stat().st_size
        copy = tmp_path / "copy.duckdb"
        copy.write_bytes(file.read_bytes())
    with duckdb.connect(copy) as plain:
        assert plain.execute("SELECT count(*) FROM t").fetchall() == [(5000,)]
