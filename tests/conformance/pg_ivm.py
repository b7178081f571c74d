"""pg_ivm's regression script: what stands outside of BEGIN … ROLLBACK stays, each block is a test.

A block runs in a fresh database, statement by statement; if DuckDB can say all of it, it runs once
more as one transaction that is rolled back. Data-modifying CTEs run as one transaction: updates and
deletes see what was there before, so they come before the inserts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.conformance.captures import Captures, Keep, kept_at
from tests.conformance.dialect import split
from tests.conformance.judge import Step, judge
from tests.conformance.outcome import Outcome
from tests.conformance.pair import Pair, Rows
from tests.conformance.text_form import cell, number

_CREATE = re.compile(r"SELECT pgivm\.create_immv\(\s*'(.*?)',\s*'(.*)'\)$", re.S)
_CHANGE = re.compile(r"\bAS\s*\((?=INSERT|UPDATE|DELETE)", re.I)


def run(folder: Path, captures: Captures | None = None) -> Iterator[Outcome]:
    """The whole script.

    Args:
        folder: `pg_ivm` of the suites.
        captures: keep the views.
    """
    stood: list[Step] = []
    for block in _blocks(folder):
        keep = kept_at(captures, "pg_ivm", block[0].place)
        if len(block) == 1 and not block[0].sql.upper().startswith("BEGIN"):
            yield from _alone(stood, block[0], keep)
        else:
            steps = [step for step in block[:-1] if step.sql.upper() != "BEGIN"]
            yield from _block(stood, steps, keep)


def _alone(stood: list[Step], step: Step, keep: Keep | None) -> Iterator[Outcome]:
    """A statement outside of a block; what changed something stays."""
    with _after(stood, keep) as pair:
        found = judge(pair, "pg_ivm", step)
    if found is not None:
        yield found
        if found.verdict != "fail" and not step.fails and step.expected is None:
            stood.append(step)


def _block(stood: list[Step], block: list[Step], keep: Keep | None) -> Iterator[Outcome]:
    with _after(stood, keep) as pair:
        outcomes = list(_outcomes(pair, block))
    yield from outcomes
    if all(outcome.verdict in ("pass", "as DuckDB") for outcome in outcomes):
        with _after(stood) as pair:
            begin = Step(block[0].place, "BEGIN", "postgres")
            held = [replace(step, place=f"{step.place} held") for step in block]
            yield from _outcomes(pair, [begin, *held, replace(begin, sql="ROLLBACK")])
            # What was there before is there again.
            for view in pair.db.views():
                text = f"SELECT * FROM {view.name}"
                yield from _outcomes(pair, [Step(f"{block[0].place} after", text, "postgres")])


def _outcomes(pair: Pair, steps: list[Step]) -> Iterator[Outcome]:
    for step in steps:
        found = judge(pair, "pg_ivm", step)
        if found is not None:
            yield found


def _after(stood: list[Step], keep: Keep | None = None) -> Pair:
    pair = Pair(keep)
    for step in stood:
        judge(pair, "pg_ivm", step)
    return pair


# -- the script ---------------------------------------------------------------------------------


def _blocks(folder: Path) -> Iterator[list[Step]]:
    """Statements outside of blocks alone, blocks from BEGIN to ROLLBACK."""
    block: list[Step] = []
    for step in _steps(folder):
        block.append(step)
        word = step.sql.upper()
        if word == "ROLLBACK" or (block[0].sql.upper() != "BEGIN"):
            yield block
            block = []


def _steps(folder: Path) -> Iterator[Step]:
    text = (folder / "sql" / "pg_ivm.sql").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("\\"))
    output = (folder / "expected" / "pg_ivm.out").read_text()
    statements = split(text, "postgres")
    at = 0
    for position, statement in enumerate(statements):
        found = output.find(statement, at)
        at = at if found < 0 else found + len(statement)
        following = statements[position + 1] if position + 1 < len(statements) else "\0"
        end = output.find(following, at)
        answer = output[at:end] if found >= 0 and end >= 0 else ""
        place = f"{position + 1}: {' '.join(statement.split())[:60]}"
        for sql in _ours(statement):
            yield _step(place, sql, answer)


def _step(place: str, sql: str, answer: str) -> Step:
    lines = answer.splitlines()
    rule = next((i for i, line in enumerate(lines) if re.fullmatch(r"[-+]+", line)), None)
    if rule is None or not sql.upper().startswith("SELECT"):
        return Step(place, sql, "postgres", "ERROR:" in answer and "immv" not in sql)
    end = next(i for i, line in enumerate(lines) if re.match(r"\(\d+ rows?\)", line))
    names = [name.strip() for name in lines[rule - 1].split("|")]
    shown = [i for i, name in enumerate(names) if not name.startswith("__ivm_")]
    cells = [[number(v.strip()) for v in line.split("|")] for line in lines[rule + 1 : end]]
    wanted = sorted([row[i] for i in shown] for row in cells)

    def expected(found: Rows) -> bool:
        return sorted(_written(row) for row in found) == wanted

    return Step(place, sql, "postgres", False, expected)


def _written(row: tuple[Any, ...]) -> list[str]:
    return ["" if v is None else number(cell(v)) for v in row]


def _ours(statement: str) -> list[str]:
    """The statement without what is pg_ivm's own, and a statement that changes much in several."""
    if made := _CREATE.match(statement):
        query = made[2].replace("''", "'").rstrip("; ")
        return [f"CREATE MATERIALIZED VIEW {made[1]} AS {query}"]
    changes = [_change(statement, found.end()) for found in _CHANGE.finditer(statement)]
    order = ("UPDATE", "DELETE", "INSERT")
    return sorted(changes, key=lambda c: order.index(c[:6].upper())) or [statement]


def _change(statement: str, start: int) -> str:
    """The text up to the parenthesis that closes, without RETURNING."""
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(statement[end], 0)
        end += 1
    return re.sub(r"\s+RETURNING\s+\w+\s*$", "", statement[start : end - 1])
