"""Random SELECTs over the whole of SQL: subqueries, windows, set operations, recursion, UNNEST, …

Not every query is valid; DuckDB decides. Where rows are chosen or numbered the order is closed by
all columns in sight, so that each answer is determined. Everything is a number; lists are hashed.
"""

from __future__ import annotations

from random import Random

from tests.random_sql.random_choices import Choices

TABLES = {"t": ["k", "v", "d"], "u": ["k", "v", "d"], "w": ["k2", "small"]}
PLAIN = [
    "count(*)", "count({x})", "sum({x})", "min({x})", "max({x})", "avg({x})", "count(DISTINCT {x})",
    "sum(DISTINCT {x})", "sum({x}) FILTER (WHERE {p})", "bool_or({p})", "median({x})",
    "stddev_pop({x})", "quantile_cont({x}, 0.25)", "any_value(1)", "covar_pop({x}, {y})",
    "bit_xor({x}::BIGINT)", "arg_max({x}, {x})", "first({x} ORDER BY {x})",
    "(hash(list({x} ORDER BY {x})) % 1000)::INT", "(hash(max({x}, 2)) % 1000)::INT",
    "(hash(string_agg({x}::VARCHAR, ',' ORDER BY {x})) % 1000)::INT",
    "(hash(histogram({x}::INTEGER)) % 1000)::INT",
]  # fmt: skip
RANKS = ["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)"]
PLACED = [
    "lag({x})", "lead({x}, 2)", "lag({x}, 1, 0)", "first_value({x})", "last_value({x})",
    "nth_value({x}, 2)", "lag({x} IGNORE NULLS)", "first_value({x} IGNORE NULLS)",
    "last_value({x} IGNORE NULLS)", "nth_value({x}, 2 IGNORE NULLS)",
    "lead({x}, 2, 0 IGNORE NULLS)",
]  # fmt: skip
FRAMED = [
    "sum({x})", "count({x})", "avg({x})", "min({x})", "max({x})", "count(*)",
    "sum({x}) FILTER (WHERE {p})", "count(DISTINCT {x})", "list({x})", "sum(DISTINCT {x})",
    "count(DISTINCT {x}) FILTER (WHERE {p})", "any_value({x})", "mode({x})", "median({x})",
    "avg(DISTINCT {x})", "string_agg(({x})::VARCHAR, '-')",
]  # fmt: skip
FRAMES = [
    "", "", "", "ROWS 2 PRECEDING", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
    "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES", "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP",
    "ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES",
]  # fmt: skip
RANGES = ["RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING"]


class Select(Choices):
    """One random query.

    Args:
        seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(Random(seed))
        self.text, _ = self._query(0, [])

    # -- expressions ----------------------------------------------------------------------------

    def _number(self, columns: list[str], depth: int, level: int = 0) -> str:
        """A number over the columns; `depth` counts nested queries, `level` nested expressions."""
        if level > 1 or self._chance(0.6):
            return self._random.choice(columns)
        if depth < 2 and self._chance(0.2):
            return self._scalar_query(columns, depth)
        x, y = (self._number(columns, depth, level + 1) for _ in "xy")
        p = self._predicate(columns, depth, level + 1)
        return self._pick(
            "1", "NULL", f"({x} + {y})", f"({x} - {y})", f"coalesce({x}, {y})", f"abs({x})",
            f"CASE WHEN {p} THEN {x} ELSE {y} END", f"nullif({x}, {y})", f"({x})::DOUBLE",
            f"list_sum([{x}, {y}])",
        )  # fmt: skip

    def _predicate(self, columns: list[str], depth: int, level: int = 0) -> str:
        x, y = (self._number(columns, depth, level + 1) for _ in "xy")
        if level > 1 or self._chance(0.4):
            return f"{x} {self._pick('=', '<', '<=', '<>', 'IS DISTINCT FROM')} {y}"
        if depth < 2 and self._chance(0.5):
            return self._query_predicate(x, columns, depth)
        p, q = (self._predicate(columns, depth, level + 1) for _ in "pq")
        return self._pick(
            f"{x} IS NULL", f"({p} AND {q})", f"({p} OR {q})", f"NOT ({p})", f"{x} IN (1, 2, 3)",
            f"{x} NOT IN (1, NULL)", f"{x} BETWEEN {y} AND 3",
        )  # fmt: skip

    def _inner(self, columns: list[str], depth: int) -> tuple[str, list[str]]:
        """FROM and WHERE of a subquery, most often correlated with the outer columns."""
        source, own = self._from(depth + 1, columns)
        outer = self._random.choice(columns)
        inner = self._random.choice(own)
        where = self._pick(
            "", f" WHERE {inner} = {outer}", f" WHERE {inner} = {outer}",
            f" WHERE {inner} < {outer}",
            f" WHERE {inner} = {outer} AND {self._predicate(own, depth + 1, 1)}",
            f" WHERE {self._predicate(own + columns, depth + 1, 1)}",
        )  # fmt: skip
        return f"FROM {source}{where}", own

    def _scalar_query(self, columns: list[str], depth: int) -> str:
        source, own = self._inner(columns, depth)
        call = self._pick("count(*)", "sum({x})", "max({x})", "min({x})", "avg({x})")
        call = call.format(x=self._number(own, depth + 1, 1))
        if self._chance(0.25):
            x = self._number(own, depth + 1, 1)
            rows = f"SELECT {x} {source} ORDER BY 1 {self._pick('', 'DESC')}"
            return self._pick(f"({rows} LIMIT 1)", f"(ARRAY({rows}))[2]")
        return f"(SELECT {call} {source})"

    def _query_predicate(self, x: str, columns: list[str], depth: int) -> str:
        source, own = self._inner(columns, depth)
        y = self._number(own, depth + 1, 1)
        return self._compared(x, y, source)

    # -- FROM -----------------------------------------------------------------------------------

    def _from(self, depth: int, outer: list[str]) -> tuple[str, list[str]]:
        text, columns = self._item(depth)
        for _ in range(self._random.choice([0, 0, 1, 1, 2] if depth < 2 else [0])):
            text, columns = self._joined(text, columns, depth)
        return text, columns

    def _item(self, depth: int) -> tuple[str, list[str]]:
        alias = self._fresh("r")
        if depth < 2 and self._chance(0.2):
            query, names = self._query(depth + 1, [])
            return f"({query}) AS {alias}", [f"{alias}.{c}" for c in names]
        table = self._pick(*TABLES)
        return f"{table} AS {alias}", [f"{alias}.{c}" for c in TABLES[table]]

    def _joined(self, text: str, columns: list[str], depth: int) -> tuple[str, list[str]]:
        if self._chance(0.15):
            alias = self._fresh("n")
            bound = f"least({self._random.choice(columns)}::BIGINT, 4)"
            call = self._pick(f"generate_series(1, {bound})", f"UNNEST(range({bound}))")
            return f"{text}, {call} AS {alias}(n)", [*columns, f"{alias}.n"]
        if depth < 2 and self._chance(0.15):
            return self._lateral(text, columns, depth)
        item, own = self._item(depth)
        x, y = self._random.choice(columns), self._random.choice(own)
        if self._chance(0.08):
            # Which of equal keys is met would be open, so the key alone is looked at.
            kind, alias = self._pick("", "LEFT", "RIGHT", "FULL"), own[0].split(".")[0]
            keys = f"(SELECT DISTINCT {y} AS q FROM {item}) AS {alias}"
            met = f"{x} {self._pick('>=', '>', '<=', '<')} {alias}.q"
            return f"{text} ASOF {kind} JOIN {keys} ON {met}", [*columns, f"{alias}.q"]
        kind = self._pick("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN")
        nested = self._pick("1", "2", "2")
        more = f" AND {self._predicate(columns + own, int(nested), 1)}" if self._chance(0.3) else ""
        kept = columns if kind == "SEMI JOIN" else columns + own
        z = self._random.choice(own)
        met = self._pick(
            f"{x} = {y}", f"{x} = {y}", f"{x} = {y}", f"{x} < {y}", f"{x} >= {y}",
            f"{x} BETWEEN {y} AND {z}", f"{x} > {y} AND {x} <= {z} + 1",
        )  # fmt: skip
        return f"{text} {kind} {item} ON {met}{more}", kept

    def _lateral(self, text: str, columns: list[str], depth: int) -> tuple[str, list[str]]:
        source, own = self._inner(columns, depth)
        alias, x = self._fresh("l"), self._number(own, depth + 1, 1)
        query = self._pick(
            f"SELECT {x} AS z {source}", f"SELECT max({x}) AS z {source}",
            f"SELECT {x} AS z {source} ORDER BY 1 LIMIT 2",
        )  # fmt: skip
        join = self._pick(
            f", LATERAL ({query}) AS {alias}", f" LEFT JOIN LATERAL ({query}) AS {alias} ON true"
        )
        return text + join, [*columns, f"{alias}.z"]

    # -- queries --------------------------------------------------------------------------------

    def _query(self, depth: int, outer: list[str]) -> tuple[str, list[str]]:
        if depth == 0 and self._chance(0.12):
            return self._with()
        if depth < 2 and self._chance(0.12):
            return self._set_operation(depth)
        if depth < 2 and self._chance(0.05):
            return self._recursive()
        return self._select(depth, outer, self._random.randint(1, 3))

    def _select(self, depth: int, outer: list[str], count: int) -> tuple[str, list[str]]:
        source, columns = self._from(depth, outer)
        where = f" WHERE {self._predicate(columns, depth)}" if self._chance(0.5) else ""
        kind = self._pick("flat", "flat", "grouped", "grouped", "window", "window", "first")
        names = [f"o{i}" for i in range(count)]
        if kind == "grouped":
            items, tail = self._grouped(columns, depth, count)
        elif kind == "window":
            items, tail = self._windowed(columns, depth, count)
        else:
            items = [self._number(columns, depth) for _ in range(count)]
            tail = self._ordered(names) if kind == "first" else ""
        listed = ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
        distinct = "DISTINCT " if kind == "flat" and self._chance(0.2) else ""
        return f"SELECT {distinct}{listed} FROM {source}{where}{tail}", names

    def _ordered(self, names: list[str]) -> str:
        order = ", ".join(f"{n}{self._pick('', ' DESC', ' NULLS FIRST')}" for n in names)
        offset = self._pick("", "", " OFFSET 1")
        return f" ORDER BY {order} LIMIT {self._pick('1', '3', '7', '40 %')}{offset}"

    def _grouped(self, columns: list[str], depth: int, count: int) -> tuple[list[str], str]:
        keys = [self._random.choice(columns) for _ in range(self._random.randint(0, count - 1))]
        keys = list(dict.fromkeys(keys))
        calls = [self._call(PLAIN, columns, depth) for _ in range(count - len(keys))]
        having = f" HAVING {self._call(['count(*)', 'max({x})'], columns, 2)} > 1"
        tail = having if self._chance(0.3) else ""
        if not keys:
            return calls, tail
        listed = ", ".join(keys)
        group = self._pick(
            listed, listed, "ALL", f"ROLLUP ({listed})", f"CUBE ({listed})",
            f"ROLLUP ('x', {listed})", f"GROUPING SETS (({listed}), ({keys[0]}), ())",
        )  # fmt: skip
        return keys + calls, f" GROUP BY {group}{tail}"

    def _call(self, calls: list[str], columns: list[str], depth: int) -> str:
        x, y = self._number(columns, max(depth, 1), 1), self._random.choice(columns)
        return self._pick(*calls).format(x=x, y=y, p=self._predicate(columns, 2, 1))

    def _windowed(self, columns: list[str], depth: int, count: int) -> tuple[list[str], str]:
        """One window that tells equal rows apart at most: two would pair their answers at will."""
        calls = [self._window(columns)] + [self._peers_alike(columns) for _ in range(count - 1)]
        tail = ""
        if self._chance(0.25):
            calls[0], rank = self._random.choice(columns), self._pick("rank()", "dense_rank()")
            order = ", ".join(self._random.sample(columns, 1))
            tail = f" QUALIFY {rank} OVER ({self._partition(columns)}ORDER BY {order}) <= 2"
            if self._chance(0.5) and count == 1:
                tail = f" QUALIFY row_number() OVER ({self._total(columns)}) <= 2"
        elif count > 1 and self._chance(0.5):
            calls[1] = self._random.choice(columns)
        return calls, tail

    def _partition(self, columns: list[str]) -> str:
        return f"PARTITION BY {self._random.choice(columns)} " if self._chance(0.7) else ""

    def _total(self, columns: list[str]) -> str:
        """A window whose order is closed by all columns in sight."""
        shuffled = self._random.sample(columns, len(columns))
        order = ", ".join(f"{c}{self._pick('', ' DESC', ' NULLS FIRST')}" for c in shuffled)
        return f"{self._partition(columns)}ORDER BY {order}"

    def _peers_alike(self, columns: list[str]) -> str:
        """A function that gives rows which tie one value."""
        x, frame = self._random.choice(columns), self._pick("", "", *RANGES)
        order = f"ORDER BY {x} {self._pick('', 'DESC')} {frame}" if self._chance(0.7) else ""
        call = self._call([*FRAMED[:6], "count(DISTINCT {x})"], columns, 2)
        if order and not frame and self._chance(0.4):
            call = self._pick("rank()", "dense_rank()", "percent_rank()", "cume_dist()")
        return f"{call} OVER ({self._partition(columns)}{order})"

    def _window(self, columns: list[str]) -> str:
        if self._chance(0.3):
            return self._peers_alike(columns)
        if self._chance(0.3):
            return f"{self._pick(*RANKS)} OVER ({self._total(columns)})"
        call = self._call(PLACED if self._chance(0.4) else FRAMED, columns, 2)
        window = f"{call} OVER ({self._total(columns)} {self._pick(*FRAMES)})"
        return f"(hash({window}) % 1000)::INT" if call.startswith("list") else window

    def _set_operation(self, depth: int) -> tuple[str, list[str]]:
        count = self._random.randint(1, 2)
        left, names = self._select(depth + 1, [], count)
        right, _ = self._select(depth + 1, [], count)
        word = self._pick(
            "UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"
        )
        return f"({left}) {word} ({right})", names

    def _with(self) -> tuple[str, list[str]]:
        cte, names = self._query(1, [])
        TABLES["x"] = names
        try:
            query, outputs = self._select(1, [], 2)
        finally:
            del TABLES["x"]
        materialized = self._pick("", "MATERIALIZED ", "NOT MATERIALIZED ")
        return f"WITH x AS {materialized}({cte}) {query}", outputs

    def _recursive(self) -> tuple[str, list[str]]:
        """Reachability over pairs, which may run in a circle."""
        start, step = self._pick("t", "u"), self._pick("t", "u")
        word, item = self._pick(
            "UNION|e.v", "UNION|e.v", "UNION|least(r.b + 1, 9)", "UNION ALL|e.v + 10"
        ).split("|")
        return (
            f"WITH RECURSIVE r(a, b) AS (SELECT k, v FROM {start} {word} SELECT r.a, {item}"
            f" FROM r JOIN {step} AS e ON e.k = r.b) SELECT a AS o0, b AS o1 FROM r",
            ["o0", "o1"],
        )
