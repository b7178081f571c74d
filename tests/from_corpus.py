"""Queries over t, u, w (see `plan_corpus`) and j: what may stand in FROM, and around it."""

from __future__ import annotations

from random import Random

import duckdb

from tests.plan_corpus import build

TABLES = """
CREATE TABLE j (id INTEGER, js JSON, ll INTEGER[][], ls STRUCT(a INTEGER, b VARCHAR)[], n INTEGER,
    a2 VARCHAR[2], m MAP(VARCHAR, INTEGER));
"""

QUERIES: dict[str, list[str]] = {
    "unnest": [
        "SELECT unnest(l) FROM t",
        "SELECT k, unnest(l) + 1 AS x, unnest([1, 2, 3]) AS y FROM t",
        "SELECT unnest(l), unnest(l) FROM t",
        "SELECT k, unnest(st) FROM t",
        "SELECT id, unnest(ls), unnest(ll) FROM j",
        "SELECT id, unnest(ls, recursive := true) FROM j",
        "SELECT id, unnest(ls, max_depth := 2), n FROM j",
        "SELECT id, unnest(ll, recursive := true) AS x FROM j",
        "SELECT id, unnest(ll, recursive := true) AS x, unnest(a2) AS y FROM j",
        "SELECT id, unnest(a2), unnest(map_entries(m)) FROM j",
        "SELECT unnest(l) AS x, x + k FROM t",
        "SELECT unnest(l) AS x, count(*) FROM t GROUP BY x",
        "SELECT unnest(list(k ORDER BY k)) AS x, g FROM t GROUP BY g",
        "SELECT DISTINCT unnest(l) FROM t",
        "SELECT unnest(l) AS x FROM t ORDER BY x LIMIT 3",
        "SELECT k FROM t ORDER BY unnest(l) DESC, k LIMIT 3",
        "SELECT unnest(l) AS x, count(*) OVER (PARTITION BY k) FROM t",
        "SELECT k, generate_subscripts(l, 1), unnest(l) FROM t",
        "SELECT k, unnest(range(k)), unnest(NULL) FROM t",
        "SELECT unnest(string_split(g, 'b')), unnest([]) FROM t",
        "SELECT * FROM (SELECT k, unnest(l) AS x FROM t) WHERE x > 1 AND k = 1",
        "SELECT CASE WHEN k > 1 THEN unnest(l) END FROM t",
        "SELECT unnest([1, 2])",
        "SELECT g, sum(x) FROM (SELECT g, unnest(l) AS x FROM t) GROUP BY g",
        "SELECT a.x, u.name FROM (SELECT unnest(l) AS x FROM t) a JOIN u ON a.x = u.k",
    ],
    "unnest in FROM": [
        "SELECT * FROM t, UNNEST(t.l) AS q(x)",
        "SELECT * FROM t, UNNEST(l)",
        "SELECT q, q.unnest FROM t, UNNEST(l) AS q",
        "SELECT k, x FROM t CROSS JOIN UNNEST(l) AS q(x) WHERE k > 1 AND x > 1",
        "SELECT k, x FROM t JOIN UNNEST(l) AS q(x) ON x >= k",
        "SELECT k, x FROM t LEFT JOIN UNNEST(l) AS q(x) ON TRUE",
        "SELECT k, x FROM t LEFT JOIN UNNEST(l) AS q(x) ON x > k",
        "SELECT k, x, o FROM t, UNNEST(l) WITH ORDINALITY AS q(x, o)",
        "SELECT k, x, o FROM t LEFT JOIN UNNEST(l) WITH ORDINALITY AS q(x, o) ON TRUE",
        "SELECT x FROM t, LATERAL UNNEST(l) AS q(x)",
        "SELECT u.k, x, y FROM t, u, UNNEST(t.l) AS q(x), UNNEST([x, u.k]) AS q2(y)"
        " WHERE t.k = u.k",
        "SELECT x, count(*) FROM t, UNNEST(l) AS q(x) GROUP BY x",
        "SELECT count(*) FROM t, UNNEST(l)",
        "SELECT * FROM UNNEST([1, 2, NULL]) AS q(x)",
        "SELECT t.k, x FROM UNNEST([1, 2, 3]) AS q(x) LEFT JOIN t ON t.k = x",
        "SELECT id, s.a, s.b FROM j, UNNEST(ls) AS q(s)",
        "SELECT id, x FROM j, UNNEST(ll) AS q(y), UNNEST(y) AS q2(x)",
    ],
    "range": [
        "SELECT * FROM range(3)",
        "SELECT * FROM generate_series(1, 3) AS q(i)",
        "SELECT * FROM range(DATE '2020-01-01', DATE '2020-01-05', INTERVAL 1 DAY)",
        "SELECT k, q.range FROM t, range(k) AS q",
        "SELECT k, i FROM t, range(1, t.k, 2) AS q(i)",
        "SELECT k, i FROM t LEFT JOIN generate_series(2, t.k) AS q(i) ON TRUE",
        "SELECT day, d2 FROM t, generate_series(day, day + INTERVAL 2 DAY, INTERVAL 1 DAY) q(d2)",
        "SELECT i, count(k) FROM range(4) AS q(i) LEFT JOIN t ON t.k = i GROUP BY i",
        "SELECT * FROM range(3) WITH ORDINALITY AS q(i, o)",
        "SELECT x, t.k FROM repeat('a', 3) AS q(x) JOIN t ON t.g = x",
        'SELECT key, value FROM json_each(\'{"a": 1, "b": [2]}\')',
    ],
}


def fill(cursor: duckdb.DuckDBPyConnection, seed: int, rows: int = 30) -> None:
    """Create all tables with random rows."""
    cursor.execute("SET arrow_lossless_conversion = true")
    build(cursor, seed, rows)
    cursor.execute(TABLES)
    random = Random(seed)

    def some(*values: str) -> str:
        return random.choice([*values, "NULL"])

    for number in range(rows // 2):
        values = (
            str(number % 5),
            some("""'{"a": [1, 2], "b": "x"}'""", "'[1, null]'", """'{"b": 3}'"""),
            some("[[1, 2], [3]]", "[]", "[NULL, [], [4, NULL]]"),
            some("[{'a': 1, 'b': 'x'}, NULL]", "[{'a': 2, 'b': NULL}]", "[]"),
            some("0", "1", "3"),
            some("['p', 'q']", "['r', NULL]"),
            some("MAP {'x': 1, 'y': NULL}", "MAP {}"),
        )
        cursor.execute(f"INSERT INTO j VALUES ({', '.join(values)})")
