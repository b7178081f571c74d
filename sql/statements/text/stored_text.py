"""Definitions of views and macros as DuckDB stores them, respelled so that they parse again.

Invariant: DuckDB's own tokens decide; the content of strings and quoted names is never a keyword.
"""

from __future__ import annotations

from itertools import pairwise

from ivm.sql.statements.text.tokens import Reader, depths, tokens


def view_query(definition: str) -> str:
    """Returns the query of a CREATE VIEW: the text after its first AS outside of parentheses.

    Args:
        definition: the statement, as `duckdb_views()` shows it.
    """
    words = tokens(definition)
    head = Reader(words).index("AS")
    if head == len(words):
        return definition
    return bare_lambdas(definition[words[head].end :].strip().removesuffix(";"))


def bare_lambdas(text: str) -> str:
    """Removes the parentheses that DuckDB writes around lambdas, as in `f(l, (lambda x: x))`.

    Args:
        text: a query or an expression.
    """
    found = tokens(text)
    dropped = [
        token.start
        for i, (opening, word) in enumerate(pairwise(found))
        if opening.word == "(" and word.word == "LAMBDA"
        for token in (opening, found[i + depths(found[i:]).index(0)])
    ]
    pieces, start = [], 0
    for offset in sorted(dropped):
        pieces.append(text[start:offset])
        start = offset + 1
    return "".join([*pieces, text[start:]])
