"""Random sessions of statements of every kind give what plain DuckDB gives."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.tiers import TIER, examples
from tests.torture.statement_stream import Stream

FIRST = Random().randrange(10**9) if TIER == "fuzz" else 0
SEEDS = range(FIRST, FIRST + examples(8))
STEPS = 40


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_gives_what_duckdb_gives(seed: int, tmp_path: Path) -> None:
    stream = Stream(seed, tmp_path)
    try:
        stream.run(STEPS)
    except BaseException as error:
        error.add_note("\n".join(stream.told))
        raise
    finally:
        stream.close()
