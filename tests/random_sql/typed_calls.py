"""Random aggregates and window functions over columns of any type.

Where rows are chosen, numbered or collected the order is closed by all columns in sight. Functions
that tell equal rows apart stand together only over one window: two would pair answers at will.
"""

from __future__ import annotations

from tests.random_sql.typed_values import EXACT, SMALL, Columns, TypedValues

ANY_CALLS = [
    "count({x})", "count(DISTINCT {x})", "min({x})", "max({x})", "count(*)", "any_value(1)",
    "list({x} ORDER BY {x})", "first({x} ORDER BY {x})", "last({x} ORDER BY {x} DESC NULLS LAST)",
    "min({x}) FILTER (WHERE {p})", "count({x}) FILTER (WHERE {p})", "arg_max({x}, {x})",
    "approx_count_distinct({x}) > 0", "list(DISTINCT {x} ORDER BY {x})", "max({x}, 2)",
    "min({x}, 2)", "histogram({x})", "list({x} ORDER BY {x} DESC) FILTER (WHERE {p})",
]  # fmt: skip
NUMBER_CALLS = [
    "sum({x})", "avg({x})", "sum(DISTINCT {x})", "median({x})", "quantile_disc({x}, 0.75)",
    "sum({x}) FILTER (WHERE {p})", "avg(DISTINCT {x})", "quantile_cont({x}, [0.25, 0.5])",
]  # fmt: skip
SMALL_CALLS = [
    "var_pop({x})", "stddev_samp({x})", "covar_samp({x}, {x})", "product({x} % 3)", "bit_and({x})",
    "bit_or({x})", "bit_xor({x})", "regr_slope({x}, {x} % 5)",
]  # fmt: skip
TEXT_CALLS = ["string_agg({x}, ',' ORDER BY {x})", "max(lower({x}))"]
TRUTH_CALLS = ["bool_and({x})", "bool_or({x})", "count_if({x})"]
RANKS = ["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)"]
PLACED = [
    "lag({x})", "lead({x}, 2)", "first_value({x})", "last_value({x})", "nth_value({x}, 2)",
    "lag({x} IGNORE NULLS)", "first_value({x} IGNORE NULLS)", "last_value({x} IGNORE NULLS)",
    "nth_value({x}, 2 IGNORE NULLS)", "lead({x} IGNORE NULLS)",
]  # fmt: skip
FRAMED = [
    "count({x})", "min({x})", "max({x})", "count(*)", "count(DISTINCT {x})", "list({x})",
    "count({x}) FILTER (WHERE {p})", "arg_max({x}, {x})",
]  # fmt: skip
SUMS = ["sum({x})", "avg({x})", "sum({x}) FILTER (WHERE {p})"]
PEERS_DIFFER = ("ORDER", "DISTINCT", "histogram", "2)")
ENDS = [
    "UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING",
    "3 FOLLOWING", "UNBOUNDED FOLLOWING",
]  # fmt: skip
EXCLUDES = ["", "", "", "CURRENT ROW", "GROUP", "TIES", "NO OTHERS"]
RANGES = [
    "1 PRECEDING AND CURRENT ROW", "2 PRECEDING AND 1 FOLLOWING",
    "UNBOUNDED PRECEDING AND 1 PRECEDING", "1 FOLLOWING AND UNBOUNDED FOLLOWING",
]  # fmt: skip


class TypedCalls(TypedValues):
    """Makes grouped and windowed select lists."""

    def _sorted(self, names: list[str]) -> str:
        return ", ".join(f"{n}{self._pick('', '', ' DESC', ' NULLS FIRST')}" for n in names)

    # -- aggregates -----------------------------------------------------------------------------

    def _group_calls(self, kind: str) -> list[str]:
        calls = list(ANY_CALLS)
        if kind in EXACT or kind.startswith("DECIMAL") or kind in ("DOUBLE", "FLOAT"):
            calls += NUMBER_CALLS * 2
        if kind in SMALL:
            calls += SMALL_CALLS
        return calls + {"VARCHAR": TEXT_CALLS * 2, "BOOLEAN": TRUTH_CALLS * 2}.get(kind, [])

    def _filled(self, call: str, columns: Columns, x: str) -> str:
        return call.format(x=x, p=self._predicate(columns, 2, 1))

    def _call(self, columns: Columns) -> str:
        x = self._any(columns)
        return self._filled(self._pick(*self._group_calls(columns[x])), columns, x)

    def _grouped(self, columns: Columns, count: int) -> tuple[list[str], str]:
        """Keys and calls, and what follows WHERE."""
        keys = [self._any(columns) for _ in range(self._random.randint(0, count - 1))]
        keys = list(dict.fromkeys(keys))
        calls = [self._call(columns) for _ in range(count - len(keys))]
        having = self._pick("count(*) > 1", "count(*) < 3", "count(*) % 2 = 0")
        tail = f" HAVING {having}" if self._chance(0.3) else ""
        if not keys:
            return calls, tail
        listed = ", ".join(keys)
        group = self._pick(
            listed, listed, listed, "ALL", f"ROLLUP ({listed})", f"CUBE ({listed})",
            f"GROUPING SETS (({listed}), ({keys[0]}), ())", f"GROUPING SETS (({listed}), ())",
        )  # fmt: skip
        return keys + calls, f" GROUP BY {group}{tail}"

    # -- windows --------------------------------------------------------------------------------

    def _windowed(self, columns: Columns, count: int) -> tuple[list[str], str]:
        """Columns and calls, and what follows WHERE."""
        partition = self._partition(columns)
        order = self._sorted(self._random.sample(list(columns), len(columns)))
        window = f"{partition}ORDER BY {order}"
        return [self._item_over(columns, window) for _ in range(count)], self._qualify(
            columns, window
        )

    def _item_over(self, columns: Columns, window: str) -> str:
        if self._chance(0.3):
            return self._any(columns)
        return self._peers_alike(columns) if self._chance(0.35) else self._placed(columns, window)

    def _qualify(self, columns: Columns, window: str) -> str:
        if self._chance(0.7):
            return ""
        if self._chance(0.4):
            return f" QUALIFY row_number() OVER ({window}) {self._pick('<= 2', '= 1', '< 4')}"
        by = self._sorted([self._any(columns)])
        rank = self._pick("rank()", "dense_rank()")
        return f" QUALIFY {rank} OVER ({self._partition(columns)}ORDER BY {by}) <= 2"

    def _partition(self, columns: Columns) -> str:
        if self._chance(0.3):
            return ""
        keys = self._random.sample(list(columns), 1 if self._chance(0.8) else min(2, len(columns)))
        return f"PARTITION BY {', '.join(keys)} "

    def _placed(self, columns: Columns, window: str) -> str:
        """A function that tells equal rows apart, over a window that is closed by all columns."""
        if self._chance(0.35):
            return f"{self._pick(*RANKS)} OVER ({window})"
        x = self._any(columns)
        exact = columns[x] in EXACT or columns[x].startswith("DECIMAL")
        calls = PLACED if self._chance(0.45) else FRAMED + SUMS * 2 * exact
        call = self._filled(self._pick(*calls), columns, x)
        return f"{call} OVER ({window} {self._frame() if self._chance(0.6) else ''})"

    def _frame(self) -> str:
        start = self._random.randrange(len(ENDS) - 1)
        end = self._random.randrange(max(start, 1), len(ENDS))
        return f"{self._pick('ROWS', 'ROWS', 'GROUPS')} BETWEEN {ENDS[start]} AND {ENDS[end]}" + (
            self._exclude()
        )

    def _exclude(self) -> str:
        what = self._pick(*EXCLUDES)
        return f" EXCLUDE {what}" if what else ""

    def _peers_alike(self, columns: Columns) -> str:
        """A function that gives rows which tie one value."""
        x, partition = self._any(columns), self._partition(columns)
        calls = [c for c in self._group_calls(columns[x]) if not any(w in c for w in PEERS_DIFFER)]
        call = self._filled(self._pick(*calls), columns, x)
        numbers = [c for c, k in columns.items() if k in EXACT or k.startswith("DECIMAL(9")]
        if not self._chance(0.75):
            return f"{call} OVER ({partition})"
        if numbers and self._chance(0.5):
            by = self._sorted([self._random.choice(numbers)])
            exclude = self._pick("", "", " EXCLUDE GROUP")
            frame = f"RANGE BETWEEN {self._pick(*RANGES)}{exclude}"
            return f"{call} OVER ({partition}ORDER BY {by} {frame})"
        if self._chance(0.4):
            call = self._pick("rank()", "dense_rank()", "percent_rank()", "cume_dist()")
        return f"{call} OVER ({partition}ORDER BY {self._sorted([self._any(columns)])})"
