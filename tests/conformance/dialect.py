"""A statement of another database in DuckDB's SQL, written for both databases of a pair."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.tokenizer_core import TokenType

from tests.conformance.windows_in_from import replace_windows

logging.getLogger("sqlglot").setLevel(logging.ERROR)

# What says how RisingWave runs a statement, not what the statement means.
_NO_MEANING = re.compile(
    r"^\s*(flush|set|wait|recover|explain|create\s+index|drop\s+index|alter\s+system)\b", re.I
)
_CLAUSES = re.compile(r"\b(append\s+only|emit\s+on\s+window\s+close)\b|\bwith\s*\([^()]*\)", re.I)
_MACRO = re.compile(
    r"create\s+function\s+(\w+)\(([^)]*)\).*?\$\$\s*(select\s.*?);?\s*\$\$", re.I | re.S
)
_MADE = re.compile(r"create\s+(?:materialized\s+view|table)\s+(?:if\s+not\s+exists\s+)?(\w+)", re.I)


@dataclass(frozen=True)
class Statement:
    """A statement for the database under test and for plain DuckDB.

    Attributes:
        ours: with materialized views.
        plain: the same with plain views.
        made: the relation that it creates, "" if none.
        view: that relation is a materialized view.
    """

    ours: str
    plain: str
    made: str = ""
    view: bool = False


class NotTranslatedError(Exception):
    """DuckDB's SQL has no words for it.

    Args:
        reason: why.
        sql: the statement.
    """

    def __init__(self, reason: str, sql: str) -> None:
        super().__init__(reason)
        found = _MADE.search(sql)
        self.made = found[1] if found else ""


def translate(sql: str, dialect: str) -> Statement | None:
    """The statement in DuckDB's SQL, None if it has no meaning there.

    Raises:
        NotTranslatedError: it does not parse.
    """
    if dialect == "risingwave" and _NO_MEANING.match(sql):
        return None
    if macro := _MACRO.match(sql):
        names = ", ".join(part.split()[0] for part in macro[2].split(","))
        text = f"CREATE MACRO {macro[1]}({names}) AS ({macro[3]})"
        return Statement(text, text)
    text = _CLAUSES.sub("", sql).strip().rstrip(";").replace("'HH:", "'HH12:")
    try:
        tree = sqlglot.parse_one(text, read=dialect)
    except sqlglot.ParseError as error:
        raise NotTranslatedError(f"sqlglot: {_plain(error)} IN {sql}", sql) from error
    if isinstance(tree, exp.Command):
        raise NotTranslatedError(f"sqlglot does not read: {sql}", sql)
    if isinstance(tree, exp.Alter):  # DuckDB reads it as PostgreSQL does
        return Statement(text, text)
    if ties := _with_ties(tree, sql):
        return ties
    return statement(_doubles(_first_values(replace_windows(tree)), dialect))


def statement(tree: exp.Expr) -> Statement:
    """A parsed statement for both databases."""
    if isinstance(tree, exp.Create) and tree.find(exp.MaterializedProperty):
        exists = "IF NOT EXISTS " if tree.args.get("exists") else ""
        head = f"VIEW {exists}{tree.this.sql('duckdb')} AS {_text(tree.expression)}"
        ours, plain = f"CREATE MATERIALIZED {head}", f"CREATE {head}"
        return Statement(ours, plain, _name(tree), view=True)
    if isinstance(tree, exp.Drop) and tree.args.get("materialized"):
        tree.set("materialized", False)
        plain = _text(tree)
        return Statement(plain.replace("DROP VIEW", "DROP MATERIALIZED VIEW", 1), plain)
    made = _name(tree) if isinstance(tree, exp.Create) else ""
    return Statement(_text(tree), _text(tree), made)


def _name(tree: exp.Expr) -> str:
    table = tree.find(exp.Table)
    return table.name if table is not None else ""


def _text(tree: exp.Expr) -> str:
    return tree.sql("duckdb", unsupported_level=ErrorLevel.IGNORE)


def _plain(error: Exception) -> str:
    return re.sub(r"\x1b\[\d*m", "", str(error)).splitlines()[0]


def _with_ties(tree: exp.Expr, sql: str) -> Statement | None:
    """A view that ends with WITH TIES, which DuckDB does not have and sqlglot drops."""
    fetch = tree.find(exp.Fetch)
    if fetch is None or "with ties" not in sql.lower():
        return None
    query = tree.expression if isinstance(tree, exp.Create) else None
    if not isinstance(query, exp.Select) or fetch.parent is not query:
        raise NotTranslatedError("DuckDB has no WITH TIES", sql)
    plain = tree.copy()
    order = plain.expression.args["order"].pop()
    plain.expression.args["limit"].pop()
    rank = exp.Window(this=exp.Rank(), order=order)
    plain.expression.set(
        "qualify", exp.Qualify(this=exp.LTE(this=rank, expression=fetch.args["count"].copy()))
    )
    found = statement(tree)
    return Statement(f"{found.ours} WITH TIES", statement(plain).plain, _name(tree), view=True)


def _doubles(tree: exp.Expr, dialect: str) -> exp.Expr:
    """SQLite's REAL has eight bytes."""
    if dialect == "sqlite":
        for node in tree.find_all(exp.DataType):
            if node.this == exp.DataType.Type.FLOAT:
                node.set("this", exp.DataType.Type.DOUBLE)
    return tree


def _first_values(tree: exp.Expr) -> exp.Expr:
    """first_value and last_value as aggregates, which DuckDB calls first and last."""
    for node in list(tree.find_all(exp.FirstValue, exp.LastValue)):
        if not isinstance(node.parent, exp.Window):
            name = "first" if isinstance(node, exp.FirstValue) else "last"
            node.replace(exp.Anonymous(this=name, expressions=[node.this.copy()]))
    return tree


def split(text: str, dialect: str) -> list[str]:
    """The statements of a script, without the comments before them."""
    found, start = [], None
    for token in sqlglot.tokenize(text, read=dialect):
        if token.token_type == TokenType.SEMICOLON:
            if start is not None:
                found.append(text[start : token.start])
            start = None
        elif start is None:
            start = token.start
    return found if start is None else [*found, text[start:].rstrip()]
