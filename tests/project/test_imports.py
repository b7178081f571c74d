"""What `import ivm` brings along, and that it leaves the garbage collector as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHORT = "ivm.connect().execute('SELECT 1').fetchall()"
HEAVY = ("polars", "pyspark", "rich", "typer", "confluent_kafka", "psycopg", "starlette")


def told_by(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_short_program_does_not_wait_for_what_it_does_not_use() -> None:
    found = f"import sys, ivm; {SHORT}; print(sorted(sys.modules.keys() & {set(HEAVY)}))"
    assert told_by(found) == "[]"


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_is_as_it_was(collects: bool) -> None:
    before = "gc.enable()" if collects else "gc.disable()"
    assert told_by(f"import gc; {before}; import ivm; print(gc.isenabled())") == str(collects)


def test_it_is_so_also_where_the_import_fails() -> None:
    program = """
import gc, sys
sys.modules["duckdb"] = None
try:
    import ivm
except ImportError:
    print(gc.isenabled())
"""
    assert told_by(program) == "True"
