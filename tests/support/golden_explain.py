"""Golden EXPLAINs: the plan that maintains a view, in `tests/golden/explain/<name>.txt`.

To write one anew, delete it and run its test once, which fails; then look at what it wrote.
"""

from __future__ import annotations

import re

import pytest

import ivm
from tests.support import ROOT

FOLDER = ROOT / "tests" / "golden" / "explain"
_STATE = re.compile(r"  [\d,]+ rows?, [\d.]+ \w+")
_REASON = re.compile(r"(  \[[a-z ]+): [^\]]*\]")


def check(db: ivm.Database, name: str, query: str) -> None:
    """The view has no whole recompute, and is maintained as the golden file says."""
    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    (info,) = [view for view in db.views() if view.name == name]
    assert info.strategy != "whole recompute", info.reason
    lines = db.execute(f"EXPLAIN MATERIALIZED VIEW {name}").fetchall()
    db.execute(f"DROP MATERIALIZED VIEW {name}")  # nodes shared with others are told otherwise
    tree = "\n".join(str(row[-1]) for row in lines) + "\n"
    plan = _REASON.sub(r"\1]", _STATE.sub("", tree))
    path = FOLDER / f"{name}.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(plan)
        pytest.fail(f"{path} was not there and is written: look at it")
    assert plan == path.read_text()
