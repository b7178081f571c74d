"""A table of texts with views of which some fail on texts that are no numbers."""

from __future__ import annotations

from typing import Any

import pytest

import ivm
from ivm import errors
from tests.support.view_oracle import assert_same_rows

TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, s VARCHAR);
CREATE TABLE u (id INTEGER PRIMARY KEY);
CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t;
CREATE MATERIALIZED VIEW v AS SELECT id, s::INTEGER AS i FROM t;
CREATE MATERIALIZED VIEW w AS SELECT sum(i) AS i FROM v;
CREATE VIEW plain AS SELECT i + 1 AS i FROM w;
CREATE MACRO called() AS TABLE FROM plain
"""
WHOLE = "SELECT list(s ORDER BY id)[-1] AS s FROM t"
"""The last text; recomputed whole."""


def event(id: int, text: Any, op: str = "c") -> dict[str, Any]:
    return {"op": op, "after": {"id": id, "s": text}}


BAD, MENDED = [event(1, "1"), event(2, "x"), event(3, "3")], [event(2, "2", "u")]


def broken(db: ivm.Database) -> set[str]:
    return {view.name for view in db.views() if view.broken}


def right(db: ivm.Database) -> None:
    """What is not broken holds its query's answer; what is broken says so."""
    for view in db.views():
        if view.broken is None:
            stored = db.execute(f'FROM "{view.name}"').fetchall()
            assert_same_rows(stored, db.execute(view.sql).fetchall(), view.name)
        else:
            with pytest.raises(errors.EvaluationError, match=r"is broken: .*REFRESH MATERIALIZED"):
                db.execute(f'FROM "{view.name}"')
