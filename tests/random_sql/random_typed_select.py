"""Random SELECTs over columns of any type and over views, each answer determined.

The types of what nested queries give come from DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.random_sql.typed_calls import TypedCalls
from tests.random_sql.typed_values import EXACT, Columns, under

Describe = Callable[[str], Columns]  # a query's columns; raises what DuckDB raises

JOINS = ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]
SETS = ["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL", "UNION BY NAME",
        "UNION ALL BY NAME"]  # fmt: skip


class TypedSelect(TypedCalls):
    """One random query.

    Args:
        random: decides everything.
        relations: name → column → kind, what FROM may name.
        describe: gives the columns of a query.
    """

    def __init__(self, random: Random, relations: dict[str, Columns], describe: Describe) -> None:
        super().__init__(random)
        self._relations = dict(relations)
        self._describe = describe
        self.text = self._query(0)

    # -- subqueries -----------------------------------------------------------------------------

    def _inner(self, columns: Columns, depth: int) -> tuple[str, Columns]:
        """FROM and WHERE of a subquery, most often correlated with the outer columns."""
        source, own = self._from(depth + 1)
        x, y = self._alike(columns, own)
        where = self._pick(
            "", f" WHERE {y} = {x}", f" WHERE {y} = {x}", f" WHERE {y} < {x}",
            f" WHERE {y} IS NOT DISTINCT FROM {x}",
            f" WHERE {y} = {x} AND {self._predicate(own, depth + 1, 1)}",
            f" WHERE {self._predicate(own | columns, depth + 1, 1)}",
        )  # fmt: skip
        return f"FROM {source}{where}", own

    def _scalar_query(self, columns: Columns, depth: int) -> str:
        source, own = self._inner(columns, depth)
        x = self._any(own)
        if self._chance(0.25):
            return f"(SELECT {x} {source} ORDER BY 1 {self._pick('', 'DESC')} LIMIT 1)"
        calls = self._group_calls(own[x])
        return f"(SELECT {self._filled(self._pick(*calls), own, x)} {source})"

    def _query_predicate(self, columns: Columns, depth: int) -> str:
        source, own = self._inner(columns, depth)
        x, y = self._alike(columns, own)
        return self._compared(x, y, source)

    # -- FROM -----------------------------------------------------------------------------------

    def _from(self, depth: int) -> tuple[str, Columns]:
        text, columns = self._item(depth)
        for _ in range(self._random.choice([0, 0, 1, 1, 2] if depth < 2 else [0])):
            text, columns = self._joined(text, columns, depth)
        return text, columns

    def _item(self, depth: int) -> tuple[str, Columns]:
        alias = self._fresh("r")
        if depth < 2 and self._chance(0.25):
            query = self._query(depth + 1)
            return f"({query}) AS {alias}", under(alias, self._describe(query))
        name = self._pick(*self._relations)
        return f"{name} AS {alias}", under(alias, self._relations[name])

    def _joined(self, text: str, columns: Columns, depth: int) -> tuple[str, Columns]:
        choice = self._random.random()
        if choice < 0.1:
            return self._unnested(text, columns)
        if choice < 0.2 and depth < 2:
            return self._lateral(text, columns, depth)
        item, own = self._item(depth)
        x, y = self._alike(columns, own)
        if choice < 0.28:
            asof = self._pick("ASOF JOIN", "ASOF LEFT JOIN")
            alias = self._fresh("q")
            z, q = self._alike(columns, own)
            keys = f"(SELECT DISTINCT {y} AS q, {q} AS e FROM {item}) AS {alias}"
            on = f"{x} {self._pick('>=', '>', '<', '<=')} {alias}.q"
            on += f" AND {z} = {alias}.e" if self._chance(0.6) else ""
            if "AND" not in on:
                keys = f"(SELECT DISTINCT {y} AS q FROM {item}) AS {alias}"
            return f"{text} {asof} {keys} ON {on}", columns | {f"{alias}.q": own.get(y, "INTEGER")}
        kind = self._pick(*JOINS)
        on = f"{x} {self._pick('=', '=', '=', '=', '<', '>=', 'IS NOT DISTINCT FROM')} {y}"
        if self._chance(0.3):
            x, y = self._alike(columns, own)
            on += f" AND {x} {self._pick('=', '<=', '<>', '>')} {y}"
        if self._chance(0.25):
            on += f" AND {self._predicate(columns | own, 2, 1)}"
        kept = columns if kind in ("SEMI JOIN", "ANTI JOIN") else columns | own
        return f"{text} {kind} {item} ON {on}", kept

    def _unnested(self, text: str, columns: Columns) -> tuple[str, Columns]:
        documents = [c for c, k in columns.items() if k == "JSON"]
        if documents and self._chance(0.5):
            return self._json_rows(text, columns, self._random.choice(documents))
        alias = self._fresh("n")
        lists = [(c, k) for c, k in columns.items() if k.endswith("[]")]
        if lists and self._chance(0.7):
            x, kind = self._random.choice(lists)
            call, kind = f"UNNEST({x})", kind.removesuffix("[]")
        else:
            x, kind = self._number(columns), "BIGINT"
            call = f"generate_series(1, least({x}, 4)::BIGINT)"
        join = self._pick(f", {call} AS {alias}(n)", f" LEFT JOIN {call} AS {alias}(n) ON true")
        return text + join, columns | {f"{alias}.n": kind}

    def _json_rows(self, text: str, columns: Columns, x: str) -> tuple[str, Columns]:
        alias = self._fresh("n")
        path = self._pick("", "", ", '$.a'", ", '$[0]'")
        call = f"{self._pick('json_each', 'json_tree')}({x}{path}) AS {alias}"
        join = self._pick(f", {call}", f" LEFT JOIN {call} ON true",
                          f" LEFT JOIN LATERAL {call} ON {alias}.key = 'a'")  # fmt: skip
        own = {"key": "VARCHAR", "value": "JSON", "type": "VARCHAR", "id": "UBIGINT"}
        return text + join, columns | under(alias, own)

    def _lateral(self, text: str, columns: Columns, depth: int) -> tuple[str, Columns]:
        source, own = self._inner(columns, depth)
        alias, x = self._fresh("l"), self._any(own)
        kind = own[x]
        query = self._pick(
            f"SELECT {x} AS z {source}", f"SELECT max({x}) AS z {source}",
            f"SELECT {x} AS z {source} ORDER BY 1 LIMIT 2", f"SELECT DISTINCT {x} AS z {source}",
        )  # fmt: skip
        join = self._pick(f", LATERAL ({query}) AS {alias}",
                          f" LEFT JOIN LATERAL ({query}) AS {alias} ON true")  # fmt: skip
        return text + join, columns | {f"{alias}.z": kind}

    # -- queries --------------------------------------------------------------------------------

    def _query(self, depth: int) -> str:
        choice = self._random.random()
        if depth == 0 and choice < 0.12:
            return self._with()
        if depth < 2 and choice < 0.24:
            return self._set_operation(depth)
        if depth < 2 and choice < 0.28:
            return self._recursive()
        return self._select(depth)

    def _select(self, depth: int) -> str:
        source, columns = self._from(depth)
        where = f" WHERE {self._predicate(columns, depth)}" if self._chance(0.5) else ""
        kind = self._pick("flat", "flat", "grouped", "grouped", "grouped", "window", "window",
                          "first", "first on")  # fmt: skip
        count = self._random.randint(1, 4)
        names = [f"o{i}" for i in range(count)]
        distinct = tail = ""
        if kind == "grouped":
            items, tail = self._grouped(columns, count)
        elif kind == "window":
            items, tail = self._windowed(columns, count)
        else:
            items = [self._value(columns, depth) for _ in range(count)]
            if kind == "first":
                tail = self._ordered(names)
            elif kind == "first on":
                order = self._random.sample(names, count)
                distinct = f"DISTINCT ON ({order[0]}) "
                tail = f" ORDER BY {self._sorted(order)}"
            elif self._chance(0.25):
                distinct = "DISTINCT "
        listed = ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
        return f"SELECT {distinct}{listed} FROM {source}{where}{tail}"

    def _ordered(self, names: list[str]) -> str:
        offset = self._pick("", "", " OFFSET 1", " OFFSET 3")
        limit = self._pick("1", "3", "7")
        if self._chance(0.15):
            return f" ORDER BY {self._sorted(names[:1])} LIMIT {limit} WITH TIES"
        order = self._random.sample(names, len(names))
        return f" ORDER BY {self._sorted(order)} LIMIT {limit}{offset}"

    def _set_operation(self, depth: int) -> str:
        left = self._select(depth + 1)
        kinds = list(self._describe(left).values())
        source, columns = self._from(depth + 1)
        items = []
        for kind in kinds:
            close = [c for c, k in columns.items() if k == kind or (k in EXACT and kind in EXACT)]
            items.append(
                self._random.choice(close)
                if close
                else self._pick("NULL", self._of(kind, {"NULL": "?"}))
            )
        listed = ", ".join(f"{item} AS o{i}" for i, item in enumerate(items))
        where = f" WHERE {self._predicate(columns, depth)}" if self._chance(0.5) else ""
        right = f"SELECT {listed} FROM {source}{where}"
        a, b = (left, right) if self._chance(0.5) else (right, left)
        return f"({a}) {self._pick(*SETS)} ({b})"

    def _with(self) -> str:
        query = self._query(1)
        self._relations["x"] = self._describe(query)
        try:
            body = self._select(1)
            if self._chance(0.4):
                body = f"({body}) UNION ALL ({body})"
        finally:
            del self._relations["x"]
        return f"WITH x AS {self._pick('', 'MATERIALIZED ')}({query}) {body}"

    def _recursive(self) -> str:
        """Reachability over pairs, which may run in a circle."""
        sources = [
            name for name, columns in self._relations.items() if {"i", "j"} <= columns.keys()
        ]
        start, step = self._pick(*sources), self._pick(*sources)
        word, item = self._pick("UNION|e.k", "UNION|e.k", "UNION|least(r.b + 1, 9)").split("|")
        pairs = "(SELECT i, try_cast(j AS BIGINT) % 10 AS k FROM {})"
        extra = self._pick("", " WHERE r.a > 0", " WHERE e.k IS NOT NULL")
        first, edges = pairs.format(start), pairs.format(step)
        return (
            f"WITH RECURSIVE r(a, b) AS (SELECT i, k FROM {first} AS s {word} SELECT r.a, {item}"
            f" FROM r JOIN {edges} AS e ON e.i = r.b{extra}) SELECT a AS o0, b AS o1 FROM r"
        )
