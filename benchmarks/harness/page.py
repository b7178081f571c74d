"""A benchmark's table in Markdown: printed line by line, and kept if that is asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.harness.report import machine

RESULTS = Path(__file__).parents[1] / "results"


class Page:
    """A page, which begins with the machine.

    Args:
        name: of the file in `benchmarks/results`.
    """

    def __init__(self, name: str) -> None:
        self._path = RESULTS / name
        self._lines: list[str] = []
        self.add(machine(), "")

    def add(self, *lines: str) -> None:
        """Prints lines."""
        self._lines += lines
        print(*lines, sep="\n", flush=True)

    def keep(self) -> None:
        """Writes the file."""
        self._path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")


def with_keep(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, of which `keep` says whether the page is to be kept."""
    parser.add_argument("--keep", action="store_true", help="write the table to benchmarks/results")
    return parser.parse_args()
