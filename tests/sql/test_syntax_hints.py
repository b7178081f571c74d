"""Errors of syntax say what may be meant, and say nothing where nothing is likely."""

from __future__ import annotations

import pytest

import ivm
from ivm import errors

MEANT = [
    ("SELEC 1", "did you mean SELECT?"),
    ("SELECT * FORM t", "did you mean FROM?"),
    ("CREATE MATERIALISED VIEW v AS SELECT 1", "did you mean MATERIALIZED?"),
    ("CREATE MATERIALIZED v AS SELECT 1", "is VIEW missing behind it?"),
    (
        "COMMENT ON MATERIALIZED VIEW v IS 'told'",
        "is TABLE meant in the place of MATERIALIZED VIEW?",
    ),
    ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t GRUOP BY a", "did you mean GROUP?"),
    ("SELECT a b c FROM t", "is a comma missing before it?"),
    ("SELECT 'é'; CREATE TABLE ü(a INT b INT)", "is a comma missing before it?"),
    ("INSERT INTO t VALUES (1 2)", "is a comma missing before it?"),
    ("SELECT (1", "is a closing parenthesis missing?"),
    ("SELECT 1)", "is an opening parenthesis missing?"),
]


@pytest.mark.parametrize(("script", "says"), MEANT)
def test_what_may_be_meant(script: str, says: str) -> None:
    with ivm.connect() as db, pytest.raises(errors.SqlError) as caught:
        db.execute(script)
    assert str(caught.value).endswith(f"; {says}")


@pytest.mark.parametrize(
    "script",
    [
        "SELECT a,, b FROM t",
        "SELECT a FROM t WHERE",
        "SELECT 1 +",
        "CREATE TEMP MATERIALIZED VIEW v AS SELECT 1",
    ],
)
def test_nothing_is_made_up(script: str) -> None:
    with ivm.connect() as db, pytest.raises(errors.SqlError, match=r"column \d+\)$"):
        db.execute(script)
