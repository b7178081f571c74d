"""Files of sqllogictest: statements that pass or fail, queries and the rows they must give.

Lines that control RisingWave's own test machine (`sleep`, `system`, `control`) and records for it
alone (`onlyif`) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Record:
    """A statement or query of a file.

    Attributes:
        place: file and line.
        sql: its text.
        rows: the lines expected of a query, None for a statement.
        fails: the statement is expected to fail.
    """

    place: str
    sql: str
    rows: tuple[str, ...] | None = None
    fails: bool = False


def records(path: Path, root: Path) -> Iterator[Record]:
    """The records of a file and of those it includes, in order.

    Args:
        path: the file.
        root: places are given relative to it.
    """
    lines = path.read_text().splitlines()
    at = 0
    passed_over = False
    while at < len(lines):
        words = lines[at].split()
        start, at = at, at + 1
        if not words:
            continue
        if words[0] == "include":
            for included in sorted(path.parent.glob(words[1])):
                yield from records(included, root)
        elif words[0] == "onlyif":
            passed_over = True
        elif words[0] in ("statement", "query"):
            while at < len(lines) and lines[at].strip():
                at += 1
            if not passed_over:
                place = f"{path.relative_to(root)}:{start + 1}"
                yield _record(place, words, lines[start + 1 : at])
            passed_over = False


def _record(place: str, words: list[str], body: list[str]) -> Record:
    if words[0] == "statement":
        return Record(place, "\n".join(body), None, words[1] == "error")
    end = body.index("----") if "----" in body else len(body)
    return Record(place, "\n".join(body[:end]), tuple(body[end + 1 :]))
