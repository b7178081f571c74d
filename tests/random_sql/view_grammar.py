"""Random SELECTs over the tables of `test_invariant`, from what is maintained by deltas and not."""

from __future__ import annotations

from hypothesis import strategies as st

_predicates = {
    "a": [
        "a.g > 1",
        "a.x < 10",
        "a.s = 'a'",
        "a.s IS NULL",
        "a.k % 2 = 0 OR a.g IS NULL",
        "a.x > 0",
    ],
    "b": ["b.n > 0", "b.d < 50", "b.g IS NOT NULL", "b.n BETWEEN -1 AND 2"],
    "c": ["c.j = 'p'", "c.day > DATE '2000-01-01'", "c.k < 5"],
}
_columns = {
    "a": ["a.k", "a.g", "a.x", "a.s", "a.g + 1", "upper(a.s)", "coalesce(a.s, '-')"],
    "b": ["b.g", "b.n", "b.d", "b.n * 2", "b.d + b.n"],
    "c": ["c.k", "c.j", "c.day", "year(c.day)"],
}
_numbers = {"a": ["a.x", "a.g", "a.k"], "b": ["b.n", "b.d"], "c": ["c.k"]}
_aggregates = ["sum", "avg", "min", "max", "count", "var_samp", "stddev_pop"]
_joins = [
    ("a JOIN b ON a.g = b.g", "ab"),
    ("a JOIN b ON a.g = b.g AND a.k > b.n", "ab"),
    ("a JOIN c ON a.k = c.k", "ac"),
    ("a JOIN a AS b ON a.g = b.k", "a"),
    ("a JOIN b ON a.g IS NOT DISTINCT FROM b.g", "ab"),
    ("a, b", "ab"),
    ("b JOIN c ON b.n < c.k", "bc"),
    ("a JOIN b ON a.g = b.g JOIN c ON c.k = a.k", "abc"),
    ("a LEFT JOIN b ON a.g = b.g", "ab"),
    ("c RIGHT JOIN a ON a.k = c.k", "ac"),
]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A SELECT that DuckDB accepts and whose answer is determined."""
    kind = draw(st.sampled_from(["flat", "grouped", "grouped", "scalar", "topk", "set", "other"]))
    source, tables = draw(st.sampled_from([(t, t) for t in "abc"] + _joins))
    where = draw(_where(tables))
    match kind:
        case "flat":
            distinct = draw(st.sampled_from(["", "DISTINCT "]))
            columns = draw(_pick(_columns, tables, 1, 3))
            return f"SELECT {distinct}{_named(columns)} FROM {source}{where}"
        case "grouped":
            keys = draw(_pick(_columns, tables, 1, 2))
            having = draw(st.sampled_from(["", " HAVING count(*) > 1", " HAVING count(*) < 3"]))
            calls = draw(_calls(tables))
            grouped = f"GROUP BY {', '.join(keys)}{having}"
            return f"SELECT {_named(keys + calls)} FROM {source}{where} {grouped}"
        case "scalar":
            return f"SELECT {_named(draw(_calls(tables)))} FROM {source}{where}"
        case "topk":
            return draw(_ranked())
        case "set":
            return draw(_set_operation())
        case _:
            return draw(_other())


def _named(columns: list[str]) -> str:
    return ", ".join(f"{column} AS o{i}" for i, column in enumerate(columns))


def _pick(
    source: dict[str, list[str]], tables: str, least: int, most: int
) -> st.SearchStrategy[list[str]]:
    choices = [column for table in tables for column in source[table]]
    return st.lists(st.sampled_from(choices), min_size=least, max_size=most, unique=True)


def _where(tables: str) -> st.SearchStrategy[str]:
    picked = _pick(_predicates, tables, 0, 2)
    return picked.map(
        lambda found: " WHERE " + " AND ".join(f"({p})" for p in found) if found else ""
    )


@st.composite
def _calls(draw: st.DrawFn, tables: str) -> list[str]:
    calls = ["count(*)"]
    for number in draw(_pick(_numbers, tables, 1, 2)):
        name = draw(st.sampled_from(_aggregates))
        distinct = draw(st.sampled_from(["", "", "DISTINCT "])) if name in ("count", "sum") else ""
        filtered = draw(st.sampled_from(["", "", f" FILTER (WHERE {_predicates[tables[0]][0]})"]))
        calls.append(f"{name}({distinct}{number}){filtered}")
    extra = draw(st.sampled_from(["", "bool_or(a.g > 1)", "bool_and(a.x < 2)", "max(a.s)"]))
    return calls + ([extra] if extra and "a" in tables else [])


@st.composite
def _ranked(draw: st.DrawFn) -> str:
    """The order is total (the key closes it), so the answer is determined."""
    order = draw(st.sampled_from(["x DESC, k", "s NULLS FIRST, k DESC", "g, k"]))
    if draw(st.booleans()):
        limit = draw(st.integers(1, 4))
        offset = draw(st.sampled_from(["", " OFFSET 1"]))
        return f"SELECT k, g, x, s FROM a ORDER BY {order} LIMIT {limit}{offset}"
    k = draw(st.integers(1, 3))
    return (
        f"SELECT k, g, x FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY {order}) AS r"
        f" FROM a) WHERE r <= {k}"
    )


@st.composite
def _set_operation(draw: st.DrawFn) -> str:
    operator = draw(st.sampled_from(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL"]))
    left = draw(st.sampled_from(["SELECT g, k FROM a", "SELECT g, g FROM a"]))
    right = draw(st.sampled_from(["SELECT g, n::INTEGER FROM b", "SELECT k, k FROM c"]))
    return f"{left} {operator} {right}"


def _other() -> st.SearchStrategy[str]:
    return st.sampled_from(
        [
            "WITH t AS (SELECT g, sum(n) AS n FROM b GROUP BY g)"
            " SELECT a.k, t.n FROM a JOIN t ON a.g = t.g",
            "SELECT g, list(n ORDER BY n) AS l FROM b GROUP BY g",
            "SELECT g, median(x) AS m FROM a WHERE x < 100 GROUP BY g",
            "SELECT k, sum(g) OVER (ORDER BY k) AS s FROM a",
            "SELECT * FROM a WHERE g IN (SELECT g FROM b)",
            "SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = a.g)",
            "SELECT g, count(*) AS n FROM a GROUP BY ROLLUP (g)",
            "SELECT g, s, sum(k) AS n, GROUPING(g, s) AS p FROM a GROUP BY CUBE (g, s)",
            "SELECT g, 'all' AS s, sum(k) AS n, 1 AS p FROM a GROUP BY CUBE (g, s, p)",
            "SELECT (SELECT max(n) FROM b) AS m, k FROM c",
            "SELECT o, sum(n) AS n FROM (SELECT g AS o, n FROM b UNION ALL SELECT k, 1 FROM c)"
            " GROUP BY o",
            "SELECT s, string_agg(k::VARCHAR, ',' ORDER BY k) AS l FROM a GROUP BY s",
        ]
    )
