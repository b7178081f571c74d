"""Definitions of views and macros as DuckDB keeps them, in words that the parser knows.

Law: DuckDB's own tokens decide: what stands in strings and quoted names is no word and no sign.
"""

from __future__ import annotations

from itertools import pairwise

from ivm.sql.statements.tokens import Reader, depths, tokens


def view_query(definition: str) -> str:
    """The query in the text of a CREATE VIEW: what follows its first AS outside of parentheses.

    Args:
        definition: the statement, as `duckdb_views()` has it.
    """
    words = tokens(definition)
    head = Reader(words).place("AS")
    if head == len(words):
        return definition
    return bare_lambdas(definition[words[head].end :].strip().removesuffix(";"))


def bare_lambdas(text: str) -> str:
    """The text without the parentheses that DuckDB writes around lambdas.

    Args:
        text: of a query or an expression.
    """
    found = tokens(text)
    dropped = [
        token.start
        for i, (opening, word) in enumerate(pairwise(found))
        if opening.word == "(" and word.word == "LAMBDA"
        for token in (opening, found[i + depths(found[i:]).index(0)])
    ]
    kept, start = [], 0
    for place in sorted(dropped):
        kept.append(text[start:place])
        start = place + 1
    return "".join([*kept, text[start:]])
