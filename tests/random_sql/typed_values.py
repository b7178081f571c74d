"""Random expressions over columns of any type.

Nothing looks at the form of equal values (0.0 and -0.0, 1 month and 30 days): it is left open which
of them stands for a group.
"""

from __future__ import annotations

from tests.random_sql.random_choices import Choices
from tests.random_sql.random_tables import VALUES, literal

Columns = dict[str, str]  # expression → kind

EXACT = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UTINYINT", "UINTEGER")
SMALL = ("TINYINT", "SMALLINT", "UTINYINT", "INTEGER")
_SMALL = [
    "{x}::BIGINT + {y}", "{x}::BIGINT * 3 - {y}", "abs({x}::BIGINT)", "{x} % 3", "{x} / 2",
    "{x} // 2", "twice({x})", "plus_one({x})", "{x}::DOUBLE", "[{x}, {y}]",
    "{{'a': {x}, 'b': {y}}}", "least({x}, {y})",
]  # fmt: skip
_LARGE = ["{x} % 7", "{x} // 3", "greatest({x}, {y})", "{x}::DOUBLE > 1", "({x} % 100)::INTEGER"]
_FLOATS = ["isnan({x})", "greatest({x}, {y})", "{x} * 2", "{x} > {y}", "isfinite({x})"]
_DECIMALS = ["{x} > {y}", "greatest({x}, {y})", "round({x}, 1)", "{x} / 3 > 0", "{x}::VARCHAR"]
_LISTS = [
    "len({x})", "{x}[1]", "list_sort({x})", "{x} || {y}", "list_distinct({x}) = {x}", "{x}[1:2]",
    "list_transform({x}, lambda e: e IS NULL)", "list_contains({x}, {x}[1])", "list_reverse({x})",
]  # fmt: skip
_TEXTS = [
    "{x} || {y}", "upper({x})", "length({x})", "{x}[1]", "replace({x}, 'a', 'z')", "{x} || '!'",
    "string_split({x}, 'b')", "md5({x})", "{x} LIKE 'a%'", "shout({x})", "substr({x}, 2)",
    "regexp_replace({x}, '[ab]', '-')",
]  # fmt: skip
_PLAIN = ["{x}::VARCHAR", "{x} = {y}"]
CALLS: dict[str, list[str]] = {
    **dict.fromkeys(SMALL, _SMALL),
    **dict.fromkeys(set(EXACT) - set(SMALL), _LARGE),
    **dict.fromkeys(["DECIMAL(38,4)", "DECIMAL(9,2)"], _DECIMALS),
    **dict.fromkeys(["DOUBLE", "FLOAT"], _FLOATS),
    **dict.fromkeys(["INTEGER[]", "VARCHAR[]"], _LISTS),
    **dict.fromkeys(["UUID", "TIME", "BIT", "BIGNUM"], _PLAIN),
    "VARCHAR": _TEXTS,
    "DATE": [
        "year({x})", "{x} + 1", "{x} - {y}", "date_trunc('month', {x})", "last_day({x})",
        "{x} + INTERVAL '1 month'", "strftime({x}, '%Y')",
    ],
    "TIMESTAMP": ["{x}::DATE", "hour({x})", "date_trunc('day', {x})", "{x} - {y}", "epoch({x})"],
    "TIMESTAMP WITH TIME ZONE": ["epoch({x})", "{x} = {y}", "epoch_us({x})"],
    "INTERVAL": ["{x} > INTERVAL '1 day'", "{x} = {y}", "{x} <= {y}"],
    "STRUCT(a INTEGER, b VARCHAR)": ["({x}).a", "({x}).b", "{x} = {y}"],
    "MAP(VARCHAR, INTEGER)": ["cardinality({x})", "{x}['a']", "map_keys({x})"],
    "JSON": ["{x} ->> '$.a'", "json_type({x})", "json_extract({x}, '$.a')", "{x}::VARCHAR"],
    "BLOB": ["octet_length({x})", "hex({x})"],
    "mood": ["{x}::VARCHAR", "{x} < 'high'", "enum_code({x})"],
    "BOOLEAN": ["NOT {x}", "{x} AND {y}", "{x}::INTEGER"],
}  # fmt: skip
SAME = [
    "coalesce({x}, {y})", "CASE WHEN {p} THEN {x} ELSE {y} END", "nullif({x}, {y})",
    "if({p}, {y}, {x})",
]  # fmt: skip


def under(alias: str, columns: Columns) -> Columns:
    """The columns of a relation by its alias."""
    return {f"{alias}.{name}": kind for name, kind in columns.items()}


class TypedValues(Choices):
    """Makes values and predicates; who knows queries adds those that hold one."""

    def _any(self, columns: Columns) -> str:
        return self._random.choice(list(columns))

    def _scalar_query(self, columns: Columns, depth: int) -> str:
        raise NotImplementedError

    def _query_predicate(self, columns: Columns, depth: int) -> str:
        raise NotImplementedError

    def _of(self, kind: str, columns: Columns) -> str:
        """A value of a kind: a column, or a literal."""
        found = [c for c, k in columns.items() if k == kind]
        if found and self._chance(0.8):
            return self._random.choice(found)
        return self._literal(kind)

    def _literal(self, kind: str) -> str:
        if kind not in VALUES:
            return f"CAST(NULL AS {kind})"
        return literal(kind, self._random.choice(VALUES[kind]))

    def _value(self, columns: Columns, depth: int, level: int = 0) -> str:
        """A value of any kind."""
        x = self._any(columns)
        if level > 1 or self._chance(0.45):
            return x
        if depth < 2 and self._chance(0.12):
            return self._scalar_query(columns, depth)
        if self._chance(0.03):
            return "NULL"
        y, p = self._of(columns[x], columns), self._predicate(columns, 2, level + 1)
        return self._pick(*SAME, *CALLS.get(columns[x], [])).format(x=x, y=y, p=p)

    def _number(self, columns: Columns) -> str:
        found = [c for c, k in columns.items() if k in EXACT]
        return self._random.choice(found) if found else "1"

    def _predicate(self, columns: Columns, depth: int, level: int = 0) -> str:
        x = self._any(columns)
        kind = columns[x]
        y = self._of(kind, columns)
        if level > 1 or self._chance(0.4):
            sign = self._pick("=", "<", "<=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
            return f"{x} {sign} {y}"
        if depth < 2 and self._chance(0.4):
            return self._query_predicate(columns, depth)
        p, q = (self._predicate(columns, 2, level + 1) for _ in "pq")
        a, b = self._literal(kind), self._literal(kind)
        return self._pick(
            f"{x} IS NULL", f"({p} AND {q})", f"({p} OR {q})", f"NOT ({p})", f"{x} IN ({a}, {b})",
            f"{x} NOT IN ({a}, NULL)", f"{x} BETWEEN {a} AND {b}", f"({p}) IS NOT TRUE",
            f"{x} IN ({a}, {y})",
        )  # fmt: skip

    def _alike(self, columns: Columns, own: Columns) -> tuple[str, str]:
        """A column of each side, of one kind if there is one on both."""
        pairs = [
            (x, y)
            for x, k in columns.items()
            for y, o in own.items()
            if k == o or (k in EXACT and o in EXACT)
        ]
        if pairs:
            return self._random.choice(pairs)
        return self._number(columns), self._number(own)
