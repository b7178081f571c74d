"""Random sessions of statements of every kind give what plain DuckDB gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiers import examples, seeds
from tests.torture.statement_stream import Stream

STEPS = 40


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", seeds(examples(8)))
def test_a_session_gives_what_duckdb_gives(seed: int, tmp_path: Path) -> None:
    stream = Stream(seed, tmp_path)
    try:
        stream.run(STEPS)
    except BaseException as error:
        error.add_note("\n".join(stream.told))
        raise
    finally:
        stream.close()
