"""What `import ivm` brings along."""

from __future__ import annotations

import subprocess
import sys

SHORT = "ivm.connect().execute('SELECT 1').fetchall()"
HEAVY = ("polars", "pyspark", "rich", "typer", "confluent_kafka", "psycopg", "starlette")


def test_a_short_program_does_not_wait_for_what_it_does_not_use() -> None:
    program = f"import sys, ivm; {SHORT}; print(sorted(sys.modules.keys() & {set(HEAVY)}))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
