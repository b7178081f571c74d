"""The columns of an answer that a query without a plan fixes, from DuckDB's syntax tree of it.

Law: a query has several correct answers only if its text, or a macro or plain view that it uses,
has a construct that may depend on the order of rows. The other items of the select list are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ivm.sql.parse.function_list import list_functions
from ivm.sql.plan.built_in import PEERS_ALIKE
from ivm.sql.plan.fixed_columns import FixedPart, Parts
from ivm.sql.resolve.plain_views import PlainViews
from ivm.sql.statements.text.duckdb_tree import nodes, syntax_tree
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import Cursor

# The aggregates of a multiset of values; those of extensions are not known.
_UNORDERED = frozenset(
    [
        "approx_count_distinct", "avg", "bit_and", "bit_or", "bit_xor", "bitstring_agg",
        "bool_and", "bool_or", "corr", "count", "count_if", "count_star", "countif", "covar_pop",
        "covar_samp", "decimal_average", "entropy", "favg", "fsum", "histogram", "histogram_exact",
        "kahan_sum", "kurtosis", "kurtosis_pop", "mad", "max", "mean", "median", "min", "product",
        "quantile", "quantile_cont", "quantile_disc", "regr_avgx", "regr_avgy", "regr_count",
        "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "sem",
        "skewness", "stddev", "stddev_pop", "stddev_samp", "sum", "sum_no_overflow", "sumkahan",
        "var_pop", "var_samp", "variance",
    ]
)  # fmt: skip
_UNNEST = frozenset(["unnest", "unlist"])

_Node = dict[str, Any]


def text_parts(query: str, cursor: Cursor) -> Parts | None:
    """Finds the parts of a query's answer that it fixes.

    Args:
        query: one SELECT that DuckDB accepts.
        cursor: sees the same views and macros.

    Returns:
        The parts; None if the query fixes the whole answer.
    """
    tree = syntax_tree(query, cursor)
    if tree is None:
        return ()
    texts = _Texts(cursor)
    if not texts.have(texts.looks_at_order, tree):
        return None
    return _parts(tree["statements"][0]["node"], texts)


class _Texts:
    """The macros and plain views that a query may use."""

    def __init__(self, cursor: Cursor) -> None:
        functions = list_functions(cursor)
        self._cursor = cursor
        self._ordered = functions.aggregates - _UNORDERED
        self._macros: dict[str, list[str]] = {}
        for macro in functions.macros:
            self._macros.setdefault(macro.name, []).append(macro.query)
        self._views = PlainViews(cursor)

    def have(self, asked: Callable[[_Node], bool], tree: Any) -> bool:
        """Returns whether `asked` holds for a node of the tree or of a macro or view it uses."""
        return any(node is None or asked(node) for node in self._all(tree))

    def looks_at_order(self, node: _Node) -> bool:
        """Returns whether the node's rows or value may depend on the order of its input."""
        if node.get("class") == "WINDOW":
            return self._distinguishes_peers(node)
        return (
            str(node.get("type")).startswith("LIMIT")
            or bool(node.get("sample") or node.get("distinct_on_targets"))
            or bool(node.get("key_targets"))  # WITH RECURSIVE … USING KEY
            or node.get("ref_type") in ("ASOF", "POSITIONAL")
            or _names(node) == "rowid"
            or _called(node) in self._ordered
        )

    def _distinguishes_peers(self, window: _Node) -> bool:
        """Returns whether a window's result may differ among peers, or depend on their order."""
        name = _called(window)
        plain = window["exclude_clause"] == "NO_OTHER" and not window["arg_orders"]
        by_row = "ROWS" in window["start"] + window["end"]
        return not plain or (name not in PEERS_ALIKE and (by_row or name not in _UNORDERED))

    def _all(self, tree: Any) -> Iterator[_Node | None]:
        """All nodes of the tree and of the macros and views used; None for a text without tree."""
        waiting, seen = [tree], set[str]()
        while waiting:
            below = waiting.pop()
            for node in nodes(below) if below is not None else [None]:
                yield node
                for text in self._entered(node or {}):
                    if text not in seen:
                        seen.add(text)
                        waiting.append(syntax_tree(text, self._cursor))

    def _entered(self, node: _Node) -> list[str]:
        relation = fold(str(node["table_name"])) if "table_name" in node else ""
        return [*self._macros.get(_called(node), ()), *self._views.named(relation)]


def _called(node: _Node) -> str:
    return fold(str(node.get("function_name") or ""))


def _parts(top: _Node, texts: _Texts) -> Parts:
    """The fixed parts of a query in which an order decides values, or which rows a LIMIT takes."""
    if top["type"] != "SELECT_NODE":
        return ()
    items, modifiers = top["select_list"], top["modifiers"]
    fixed, others = _split(items, texts)
    rest = [part for key, part in top.items() if key not in ("select_list", "modifiers")]
    rest += [part for modifier in modifiers for part in _limits(modifier)]
    if _is_open(rest, others, texts) or texts.have(_multiplies, [items, modifiers]):
        return ()
    if texts.have(texts.looks_at_order, modifiers) or texts.have(_is_star, items):
        return (FixedPart(frozenset()),)
    return (FixedPart(fixed),)


def _split(items: list[_Node], texts: _Texts) -> tuple[frozenset[int], set[str]]:
    """Positions of the items that depend on no order, and the aliases of the others."""
    fixed, others = set[int](), set[str]()
    for position, item in enumerate(items):
        if _is_open(item, others, texts):
            others.add(fold(item["alias"]))
        else:
            fixed.add(position)
    return frozenset(fixed), others


def _is_open(tree: Any, names: set[str], texts: _Texts) -> bool:
    """Returns whether a tree depends on an order, itself or by an item with one of these names."""
    return texts.have(texts.looks_at_order, tree) or any(_names(n) in names for n in nodes(tree))


def _names(node: _Node) -> str | None:
    """The folded name of a column reference, None for other nodes."""
    names = node.get("column_names")
    return fold(str(names[-1])) if names else None


def _limits(modifier: _Node) -> list[Any]:
    return [modifier.get("limit"), modifier.get("offset")]


def _multiplies(node: _Node) -> bool:
    """Returns whether the number of rows depends on the values selected."""
    return node.get("type") == "DISTINCT_MODIFIER" or _called(node) in _UNNEST


def _is_star(node: _Node) -> bool:
    return node.get("class") == "STAR"
