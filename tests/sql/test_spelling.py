"""The words of a query mean what they mean in small letters, in capitals and in both.

Every query of the corpora is written in small letters, its quoted names and texts aside: it must
have the plan that the query has, and a view by it follows its tables as DuckDB does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import duckdb
import pytest

from ivm.sql.plan.render import render
from ivm.sql.statements.text.tokens import tokens
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.corpus import from_corpus, plan_corpus, recursion_corpus, subquery_corpus, window_corpus
from tests.support import plans

pytestmark = pytest.mark.full(smoke=12)

Groups = dict[str, list[str]]
_QUOTED = re.compile(r'"[^"]*"')


def flat(groups: Groups) -> list[str]:
    return [query for group in groups.values() for query in group]


def recursion_tables(cursor: duckdb.DuckDBPyConnection, seed: int) -> None:
    cursor.execute(recursion_corpus.TABLES)


WINDOWS = window_corpus.INDEXED + window_corpus.RECOMPUTED + window_corpus.OPEN
CORPORA: dict[str, tuple[Callable[..., None], list[str]]] = {
    "plan": (plan_corpus.build, flat(plan_corpus.QUERIES)),
    "window": (plan_corpus.build, WINDOWS),
    "subquery": (plan_corpus.build, flat(subquery_corpus.QUERIES)),
    "from": (from_corpus.fill, flat(from_corpus.QUERIES)),
    "recursion": (recursion_tables, flat(recursion_corpus.QUERIES)),
}


def spelt(query: str, words: Callable[[str], str]) -> str:
    """The query with its words, quoted names and literals aside, as `words` writes them."""
    made, end = [], 0
    for token in tokens(query):
        made += [query[end : token.start], words(token.text) if token.word else token.text]
        end = token.end
    return "".join(made) + query[end:]


def planned(query: str, cursor: Cursor) -> str:
    """The SQL of the query's plan, names in small letters: they may be written as in the query."""
    sql = render(plans.planned(query, cursor))
    return _QUOTED.sub(lambda name: name[0].lower(), sql).lower()


@pytest.fixture(scope="module")
def cursors() -> Iterator[dict[str, Cursor]]:
    open_ = {corpus: duckdb.connect() for corpus in CORPORA}
    for corpus, (build, _) in CORPORA.items():
        build(open_[corpus], 3)
    yield dict(open_)
    for connection in open_.values():
        connection.close()


@pytest.mark.parametrize(
    ("corpus", "query"), [(c, q) for c, (_, queries) in CORPORA.items() for q in queries]
)
def test_small_letters_plan_the_same(cursors: dict[str, Cursor], corpus: str, query: str) -> None:
    cursor = cursors[corpus]
    assert planned(spelt(query, str.lower), cursor) == planned(query, cursor)
