"""The tags by which PostgreSQL says what a statement has done."""

from __future__ import annotations

from ivm.session.results.result import Result
from ivm.sql.statements import parse as st

_COUNTED = {"insert": "INSERT 0", "update": "UPDATE", "delete": "DELETE", "merge": "MERGE"}
_FIRST = frozenset(("CREATE", "DROP", "ALTER", "SHOW", "EXPLAIN", "REFRESH", "VERIFY"))


def tag_of(statement: st.Statement, result: Result, rows: int) -> str:
    """The tag of a statement.

    Args:
        statement: that was run.
        result: its result.
        rows: sent to the client.
    """
    if isinstance(statement, st.Dml):
        count = rows if result.kind == "rows" else max(result.rowcount, 0)
        if statement.kind == "copy":
            return f"COPY {count}"
        if statement.kind == "truncate":
            return "TRUNCATE TABLE"
        verb = _COUNTED.get(statement.kind)
        return f"{verb or _verb(statement.text)} {count}"
    if isinstance(statement, st.TransactionControl):
        return statement.action.upper()
    if isinstance(statement, st.Query) and statement.kind in ("select", "with", "from", "values"):
        return f"SELECT {rows}"
    return _words(statement.text) if result.kind != "rows" else f"SELECT {rows}"


def _verb(text: str) -> str:
    return text.split(None, 1)[0].upper()


def _words(text: str) -> str:
    """The first words of a statement that PostgreSQL would have in its tag."""
    words = [word.upper() for word in text.split(None, 6)[:6]]
    words = [w for w in words if w not in ("OR", "REPLACE", "TEMP", "TEMPORARY", "UNIQUE")]
    if words[1:2] == ["MATERIALIZED"]:
        return " ".join([words[0], "MATERIALIZED VIEW"])
    if words[0] in _FIRST and len(words) > 1:
        return f"{words[0]} {words[1]}"
    return words[0]
