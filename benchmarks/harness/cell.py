"""One cell in a process of its own, so that its peak memory is its own.

The database file and the change stream are made beforehand; the clock sees the engine only.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from benchmarks.harness import stream
from benchmarks.harness.cells import Cell


def main() -> None:
    """Measure the cell given as JSON: {"cell": {...}, "file": path, "stream": path}."""
    order = json.loads(sys.argv[1])
    cell = Cell(**{**order["cell"], "views": tuple(order["cell"]["views"])})
    engine = importlib.import_module(f"benchmarks.harness.{cell.engine}")
    transactions = stream.read(Path(order["stream"]))
    print(json.dumps(engine.measure(cell, Path(order["file"]), transactions)))


if __name__ == "__main__":
    main()
