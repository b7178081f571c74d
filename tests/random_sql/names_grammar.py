"""Random SELECTs over the tables of the plan corpus: names that collide, all clauses, nesting.

Not every query is valid; DuckDB decides. Orders are total wherever they choose rows.
"""

from __future__ import annotations

from random import Random

NUMBERS = {"t": ["k", "v", "d"], "u": ["k", "v", "d"], "w": ["k2", "small"]}
ALIASES = ["k", "v", "g", "x", "y", "name"]
AGGREGATES = [
    "count(*)", "count({x})", "sum({x})", "min({x})", "max({x})", "avg({x})",
    "count(DISTINCT {x})", "sum({x}) FILTER (WHERE {p})", "bool_or({p})", "median({x})",
]  # fmt: skip
JOINS = ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


class Query:
    """One random query.

    Args:
        seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.text, _ = self._select(0)
        if self._chance(0.15):
            self.text += f" ORDER BY ALL LIMIT {self._pick(1, 3, 7)}"

    def _pick(self, *options: object) -> str:
        return str(self._random.choice(options))

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _number(self, columns: list[str], depth: int = 0) -> str:
        if depth > 2 or self._chance(0.5):
            return self._random.choice(columns)
        x, y = self._number(columns, depth + 1), self._number(columns, depth + 1)
        p = self._predicate(columns, depth + 1)
        return self._pick(
            "1", "2", "1.5", "NULL", f"({x} + {y})", f"({x} - {y})", f"{x} * {y}", f"-{x}",
            f"coalesce({x}, {y})", f"CASE WHEN {p} THEN {x} ELSE {y} END", f"abs({x})",
            f"({x})::DOUBLE", f"({x})::DECIMAL(12,2)", f"nullif({x}, {y})", f"{x} // {y}",
        )  # fmt: skip

    def _predicate(self, columns: list[str], depth: int = 0) -> str:
        x, y = self._number(columns, depth + 1), self._number(columns, depth + 1)
        if depth > 2 or self._chance(0.4):
            comparison = self._pick("=", "<", "<=", "<>", "IS DISTINCT FROM")
            return f"{x} {comparison} {y}"
        p, q = self._predicate(columns, depth + 1), self._predicate(columns, depth + 1)
        return self._pick(
            f"{x} IS NULL", f"{x} IS NOT NULL", f"({p} AND {q})", f"({p} OR {q})", f"NOT ({p})",
            f"{x} IN (1, 2, 3)", f"{x} NOT IN (1, NULL)", f"{x} BETWEEN {y} AND 3",
        )  # fmt: skip

    def _from(self, depth: int) -> tuple[str, list[str]]:
        names = self._random.sample(
            ["t", "u", "w", "a", "b", "c"], self._random.choice([1, 1, 2, 3])
        )
        text = ""
        columns: list[str] = []
        for name in names:
            item, own = self._item(name, depth)
            text += self._joined(item, own, columns) if text else item
            columns += own
        return text, columns + [c.split(".")[1] for c in columns]

    def _item(self, name: str, depth: int) -> tuple[str, list[str]]:
        if depth < 2 and self._chance(0.2):
            query, outputs = self._select(depth + 1)
            return f"({query}) AS {name}", [f"{name}.{c}" for c in outputs]
        table = name if name in NUMBERS else self._pick(*NUMBERS)
        return f"{table} AS {name}", [f"{name}.{c}" for c in NUMBERS[table]]

    def _joined(self, item: str, own: list[str], columns: list[str]) -> str:
        if self._chance(0.3):
            using = f"JOIN {item} USING ({self._pick('k', 'v', 'd')})"
            plain = [f", {item}", f" CROSS JOIN {item}", f" NATURAL JOIN {item}"]
            return self._pick(*plain, f" {using}", f" LEFT {using}")
        on = f"{self._pick(*columns)} = {self._pick(*own)}"
        if self._chance(0.3):
            on += f" AND {self._predicate(columns + own, 2)}"
        return f" {self._pick(*JOINS)} {item} ON {on}"

    def _select(self, depth: int) -> tuple[str, list[str]]:
        source, columns = self._from(depth)
        grouped = self._chance(0.4)
        items, tail = self._groups(columns) if grouped else (self._items(columns), "")
        names = self._names(len(items))
        listed = ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
        where = f" WHERE {self._predicate(columns)}" if self._chance(0.5) else ""
        distinct = "DISTINCT " if self._chance(0.15) else ""
        return f"SELECT {distinct}{listed} FROM {source}{where}{tail}", names

    def _items(self, columns: list[str]) -> list[str]:
        return [self._number(columns) for _ in range(self._random.randint(1, 3))]

    def _names(self, count: int) -> list[str]:
        return [
            name if self._chance(0.6) else f"{name}{i}x"
            for i, name in enumerate(self._random.sample(ALIASES, count))
        ]

    def _groups(self, columns: list[str]) -> tuple[list[str], str]:
        keys = [self._number(columns, 1) for _ in range(self._random.choice([0, 1, 1, 2]))]
        calls = [
            self._pick(*AGGREGATES).format(
                x=self._number(columns, 1), p=self._predicate(columns, 2)
            )
            for _ in range(self._random.choice([1, 1, 2]))
        ]
        tail = ""
        if keys:
            ordinals = ", ".join(str(i + 1) for i in range(len(keys)))
            tail = f" GROUP BY {self._pick('ALL', ordinals, ', '.join(keys))}"
        if self._chance(0.3):
            having = self._pick("count(*) > 1", f"max({self._pick(*columns)}) > 1")
            tail += f" HAVING {having}"
        return keys + calls, tail
