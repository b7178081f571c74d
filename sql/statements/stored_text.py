"""Definitions of views and macros as DuckDB keeps them, in words that the parser knows.

Law: DuckDB's own tokens decide: what stands in strings and quoted names is no word and no sign.
"""

from __future__ import annotations

from itertools import pairwise

from ivm.sql.statements.tokens import CLOSING, OPENING, Token, tokens


def view_query(definition: str) -> str:
    """The query in the text of a CREATE VIEW: what follows its first AS outside of parentheses.

    Args:
        definition: the statement, as `duckdb_views()` has it.
    """
    depth = 0
    for token in tokens(definition):
        depth += (token.word in OPENING) - (token.word in CLOSING)
        if depth == 0 and token.word == "AS":
            return bare_lambdas(definition[token.end :].strip().removesuffix(";"))
    return definition


def bare_lambdas(text: str) -> str:
    """The text without the parentheses that DuckDB writes around lambdas.

    Args:
        text: of a query or an expression.
    """
    found = tokens(text)
    dropped = [
        place
        for opening, word in pairwise(found)
        if opening.word == "(" and word.word == "LAMBDA"
        for place in (opening.start, _closing(found, opening))
    ]
    kept, start = [], 0
    for place in sorted(dropped):
        kept.append(text[start:place])
        start = place + 1
    return "".join([*kept, text[start:]])


def _closing(found: list[Token], opening: Token) -> int:
    """Where the parenthesis ends that a token begins."""
    depth = 0
    for token in found[found.index(opening) :]:
        depth += (token.word in OPENING) - (token.word in CLOSING)
        if depth == 0:
            return token.start
    return opening.start
