"""Random queries over views: where memory answers, it gives DuckDB's rows, types and values."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm.reads import reads
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_reads_from_state import oracle
from tests.corpus.plan_corpus import build
from tests.random_sql.names_grammar import Query
from tests.random_sql.random_select import Select
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=1)

SOON = 5.0  # seconds that an answer is worth waiting for
MANY = 3000  # rows of an answer that is still worth comparing


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ivm.Database]:
    """The tables of the random queries are views of tables with other names."""
    file: Path = tmp_path_factory.mktemp("reads") / "x.duckdb"
    with duckdb.connect(str(file)) as connection:
        build(connection, seed=1, rows=14)
        for name in ("t", "u", "w"):
            connection.execute(f"ALTER TABLE {name} RENAME TO {name}0")
    with pytest.MonkeyPatch.context() as patch, ivm.connect(file, threads=1) as opened:
        patch.setattr(reads, "_WORTHWHILE", 1)
        for name in ("t", "u", "w"):
            opened.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT * FROM {name}0")
        yield opened


def text_of(seed: int) -> str:
    """Two grammars: names and clauses, and the whole of SELECT."""
    return (Query if seed % 3 == 0 else Select)(seed).text


def answer_of(db: ivm.Database, text: str) -> tuple[list[Any], list[str]] | None:
    """DuckDB's rows and types; None if it refuses the query, or they are late or too many."""
    db.flush()
    cursor = db._engine.warehouse.cursor()
    stop = threading.Timer(SOON, cursor.interrupt)
    stop.start()
    try:
        found = cursor.execute(text).fetchall()
        types = [str(column[1]) for column in cursor.description or ()]
        return (found, types) if len(found) <= MANY else None
    except duckdb.Error:
        return None
    finally:
        stop.cancel()


def change(db: ivm.Database, random: Random) -> None:
    """Deletes some rows of a table, and inserts some of the others once more."""
    table = random.choice(["t0", "u0", "w0"])
    part = random.randrange(5)
    db.execute(f"DELETE FROM {table} WHERE rowid % 5 = {part}")
    if random.random() < 0.8:
        db.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid % 4 = {part % 4}")


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9))
def test_a_random_query(db: ivm.Database, seed: int) -> None:
    text = text_of(seed)
    if seed % 4 == 0:
        change(db, Random(seed))
    wanted = answer_of(db, text)
    if wanted is None:
        return
    result = db.execute(text)
    if isinstance(result, StateResult):
        assert result.types == wanted[1], text
        assert Counter(map(repr, result.fetchall())) == Counter(map(repr, wanted[0])), text


@pytest.mark.full
def test_memory_answers_many_of_them(db: ivm.Database) -> None:
    """If it answered few, the test above would see nothing."""
    from_memory = asked = 0
    for seed in range(60):
        text = text_of(seed)
        if answer_of(db, text) is not None:
            asked += 1
            from_memory += isinstance(db.execute(text), StateResult)
    assert asked > 40
    assert from_memory > 0.1 * asked
    assert oracle(db, "SELECT count(*) FROM t").fetchone() is not None
