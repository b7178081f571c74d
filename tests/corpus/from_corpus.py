"""Queries over t, u, w (see `plan_corpus`) and j: what may stand in FROM, and around it."""

from __future__ import annotations

from random import Random

import duckdb

from tests.corpus.plan_corpus import build

TABLES = """
CREATE TABLE j (id INTEGER, js JSON, ll INTEGER[][], ls STRUCT(a INTEGER, b VARCHAR)[], n INTEGER,
    a2 VARCHAR[2], m MAP(VARCHAR, INTEGER));
CREATE MACRO plus_one(a) AS a + 1;
CREATE MACRO plus(a, b := 5) AS a + b;
CREATE MACRO spread(a) AS max(a) - min(a);
CREATE MACRO above(x) AS TABLE SELECT k, v FROM t WHERE k > x;
CREATE MACRO scaled(l, a) AS list_transform(l, lambda x: x * a);
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
    "LATERAL before a call": [
        "SELECT k, x FROM t, LATERAL UNNEST(l) AS q(x)",
        "SELECT k, i, o FROM t, LATERAL range(1, t.k) WITH ORDINALITY AS q(i, o)",
        "SELECT k, i FROM t LEFT JOIN LATERAL generate_series(2, k) AS q(i) ON i > 2",
    ],
    "json_each and json_tree in FROM": [
        "SELECT j.id, x.* FROM j, json_each(js) AS x",
        "SELECT j.id, x.* FROM j, LATERAL json_tree(js, '$.a') AS x",
        "SELECT j.id, x.key, n FROM j LEFT JOIN json_each(js, '$.a') AS x ON true",
        "SELECT j.id, x.key FROM j LEFT JOIN LATERAL json_each(js) AS x ON x.type = 'ARRAY'",
        "SELECT x, json_each.key FROM json_tree('[1, [2]]') AS x, j, json_each(j.ll)",
        "SELECT k, x.json, x.root, x.rowid AS r FROM j, json_tree(ls) AS x(k) WHERE r < 3",
        "SELECT fullkey, count(*) FROM j, json_tree(js) GROUP BY fullkey",
        "SELECT t.k, x.key, y.value FROM t JOIN j ON t.k = j.id, json_each(js) AS x,"
        " json_each(x.value) AS y",
        "SELECT key FROM json_each((SELECT max(js) FROM j))",
        "SELECT id, (SELECT count(*) FROM json_tree(js) WHERE atom IS NOT NULL) FROM j",
        "SELECT id FROM j WHERE 'a' IN (SELECT key FROM json_each(js))",
        "SELECT id, a FROM j, LATERAL (SELECT max(key) AS a FROM json_each(js)) AS x",
        "SELECT COLUMNS('key$') FROM j, json_each(js)",
    ],
    "stars and COLUMNS": [
        "SELECT * EXCLUDE (t.k, l) FROM t JOIN u ON t.k = u.k",
        "SELECT t.* EXCLUDE (k), u.* FROM t JOIN u USING (k)",
        "SELECT COLUMNS('^(k|v)$') + 1 FROM t",
        "SELECT COLUMNS(*) FROM t",
        "SELECT COLUMNS(u.*), t.g FROM t JOIN u ON t.k = u.k",
        "SELECT max(COLUMNS(* EXCLUDE (st, l, b))) FROM t",
        "SELECT COLUMNS(lambda c: c LIKE '%k') FROM t",
        "SELECT COLUMNS(['v', 'k']) FROM t",
        "SELECT coalesce(*COLUMNS(['k', 'v'])), [*COLUMNS('^[kv]$')] FROM t",
        "SELECT COLUMNS('k|v') * COLUMNS('k|v') FROM t",
        "SELECT COLUMNS('(k)') AS 'x_\\1' FROM t",
        "SELECT max(COLUMNS('k|v')) AS z FROM t",
        "SELECT * LIKE 'k%' FROM t",
        "SELECT * SIMILAR TO 'k|v' FROM t",
        "SELECT * NOT LIKE '%l%' FROM t",
        "SELECT k FROM t WHERE COLUMNS(['k', 'v']) > 1",
        "SELECT st.* FROM t",
        "SELECT k, #1, #3 FROM (SELECT v, k, g FROM t)",
        "SELECT k, v FROM t ORDER BY #2, #1 LIMIT 3",
        "SELECT t, typeof(u) FROM t LEFT JOIN u ON t.k = u.k",
        "SELECT count(u) FROM t LEFT JOIN (SELECT k FROM u) u ON t.k = u.k",
        "SELECT x: k, y: v + 1 FROM t",
        "TABLE u",
    ],
    "spellings": [
        "SELECT [x * k for x in l if x > 1], [x + 1 for x in l] FROM t",
        "SELECT 1 = ANY(l), k = ANY(l), k > ALL([1]), k <> ALL(l), k < ANY(l) FROM t",
        "SELECT k + 1 = ANY([1, NULL]), 3 <> ALL([1, NULL]), NULL = ANY([]::INTEGER[]) FROM t",
        "SELECT k FROM t WHERE k = ANY(l)",
        "SELECT l.list_sum(), g.upper().lower(), t.g.replace('a', 'b') FROM t",
        "SELECT js->'a', js->>'a', js->'a'->0, js->0, (js->>'b') = 'x' FROM j",
        "SELECT b IS TRUE, b IS NOT FALSE, b IS UNKNOWN, b IS NOT UNKNOWN FROM t",
        "SELECT k FROM t WHERE k > .5",
    ],
    "merged columns": [
        "SELECT * FROM t FULL JOIN u USING (k)",
        "SELECT k, t.k, u.k FROM t FULL JOIN u USING (k) WHERE k > 1",
        "SELECT * FROM t NATURAL FULL JOIN u",
        "SELECT k, k2, name FROM t FULL JOIN u USING (k) FULL JOIN w ON w.k2 = k",
        "SELECT k, g, name, vv FROM t FULL JOIN u USING (k)"
        " FULL JOIN (SELECT k, v AS vv FROM u) z USING (k)",
        "SELECT * FROM t RIGHT JOIN u USING (k) RIGHT JOIN (SELECT k, v AS vv FROM u) z USING (k)",
        "SELECT * FROM t LEFT JOIN u USING (k) FULL JOIN (SELECT k, v AS vv FROM u) z USING (k)",
        "SELECT k, count(*) FROM w FULL JOIN (SELECT k AS k2, k FROM u) z USING (k2) GROUP BY k",
        "SELECT * FROM w NATURAL SEMI JOIN t",
        "SELECT t.k FROM t JOIN u ON 1 = 1 AND t.k > 2",
        "SELECT t.k, u.k FROM t JOIN u ON t.v BETWEEN u.k AND u.v",
    ],
    "limits": [
        "SELECT k FROM t ORDER BY k FETCH FIRST 3 ROWS ONLY",
        "SELECT k FROM t ORDER BY k OFFSET 3 ROWS FETCH NEXT 2 ROWS ONLY",
        "SELECT k FROM t ORDER BY k LIMIT 1 + 2",
        "SELECT k FROM t ORDER BY k LIMIT ALL",
        "SELECT k FROM t ORDER BY k LIMIT 3::BIGINT OFFSET 1 + 1",
        "SELECT DISTINCT k FROM t ORDER BY k + 1 DESC LIMIT 2",
        "SELECT DISTINCT g, k FROM t ORDER BY upper(g), k LIMIT 3",
        "SELECT DISTINCT k % 2 AS m FROM t ORDER BY k % 2 + 1 LIMIT 2",
    ],
    "table functions of subqueries": [
        "SELECT k, x FROM t, UNNEST((SELECT list(v) FROM u WHERE u.k = t.k)) AS q(x)",
        "SELECT k, x FROM t LEFT JOIN UNNEST((SELECT list(v) FROM u WHERE u.k = t.k)) AS q(x)"
        " ON TRUE",
        "SELECT k, x FROM t, generate_series(1, (SELECT count(*) FROM u WHERE u.k = t.k)) AS q(x)",
        "SELECT x FROM range((SELECT max(k) FROM u)) AS q(x)",
        "SELECT x, count(*) FROM UNNEST(ARRAY(SELECT v FROM u)) AS q(x) GROUP BY x",
        "SELECT k, (SELECT sum(x) FROM range((SELECT max(u.k) FROM u WHERE u.v = t.k)) AS q(x))"
        " FROM t",
    ],
    "limits by what is no constant": [
        "SELECT k FROM t ORDER BY k, v LIMIT 10 %",
        "SELECT k, v FROM t ORDER BY v, k LIMIT 50 % OFFSET 1",
        "SELECT k, v FROM t ORDER BY v, k LIMIT 33.4 % OFFSET (SELECT count(*) FROM w"
        " WHERE small > 1)",
        "SELECT k FROM t ORDER BY v, k LIMIT (SELECT count(*) FROM u)",
        "SELECT k, v FROM t ORDER BY v, k LIMIT (SELECT max(k) FROM u)",
        "SELECT k FROM t ORDER BY v, k LIMIT 3 OFFSET (SELECT min(k) FROM u)",
        "SELECT k, v FROM t ORDER BY v DESC, k LIMIT (SELECT avg(k) FROM u)",
        "SELECT k, v FROM t ORDER BY v DESC, k LIMIT (SELECT max(d) FROM u)",
        "SELECT k, v FROM t ORDER BY v DESC, k LIMIT (SELECT '3')",
        "SELECT k FROM t ORDER BY k LIMIT (SELECT NULL)",
        "SELECT DISTINCT k FROM t ORDER BY k LIMIT 50 %",
        "SELECT k, v FROM t ORDER BY k, v LIMIT (SELECT min(k) * 10 + 20 FROM u) %",
        "SELECT k, v FROM t ORDER BY k, v LIMIT (2.5 * 10) % OFFSET 2",
        "SELECT g, sum(v) AS s FROM t GROUP BY g ORDER BY s DESC, g LIMIT 30 %",
        "SELECT k FROM t UNION SELECT k FROM u ORDER BY k LIMIT 50 %",
        "SELECT * FROM (SELECT k, v FROM t ORDER BY ALL LIMIT 40 %) x JOIN u ON u.k = x.k",
        "SELECT k FROM u WHERE k IN (SELECT k FROM t ORDER BY k LIMIT 25 %)",
        "WITH x AS (SELECT count(*) AS n FROM w) SELECT k, v FROM t ORDER BY k, v"
        " LIMIT (SELECT n FROM x)",
        "SELECT k, row_number() OVER (ORDER BY k, v) AS n FROM t ORDER BY n LIMIT 20 %",
        "SELECT k, unnest(l) AS x FROM t ORDER BY x, k LIMIT 20 %",
    ],
    "joins after a comma that read what is before it": [
        "SELECT t.k, u.v, w.g FROM t, u JOIN w ON t.k = w.k2",
        "SELECT t.k, u.v, w.g FROM t, u LEFT JOIN w ON t.k = w.k2 AND u.v = w.small",
        "SELECT t.k, u.v, w.g FROM t, u RIGHT JOIN w ON t.k = w.k2",
        "SELECT t.k, u.v, w.g FROM t, u FULL JOIN w ON t.k = w.k2 AND u.v = w.small",
        "SELECT t.k, u.v, w.g FROM t, u FULL JOIN w ON u.k = w.k2",
        "SELECT t.k, x, w.g FROM t, UNNEST(t.l) AS q(x) RIGHT JOIN w ON x = w.k2",
        "SELECT t.k, x, w.g FROM t, UNNEST(t.l) AS q(x) FULL JOIN w ON x = w.k2 AND w.small < t.v",
        "SELECT t.k, x.v, w.g FROM t, (SELECT v FROM u WHERE u.k = t.k) x RIGHT JOIN w"
        " ON x.v = w.k2",
        "SELECT t.k, x.v, w.g FROM t, (SELECT v FROM u WHERE u.k = t.k) x FULL JOIN w"
        " ON x.v = w.k2",
        "SELECT a.k, x, w.g, u.v FROM t a, UNNEST(a.l) AS q(x) RIGHT JOIN w ON x = w.k2, u"
        " WHERE u.k = a.k",
        "SELECT k, (SELECT count(*) FROM u, UNNEST(t.l) q(x) RIGHT JOIN w ON x = w.k2"
        " AND u.v = w.small) FROM t",
        "SELECT t.k, z.n, w.g FROM t, generate_series(1, t.k) AS z(n) RIGHT JOIN w ON z.n = w.k2",
    ],
    "pivot": [
        "PIVOT (SELECT k, g, v FROM t) ON g IN ('a', 'b') USING sum(v)",
        "PIVOT t ON g IN ('a', 'b') USING sum(v) AS s, count(*) AS n GROUP BY k",
        "PIVOT t ON g IN ('a', 'zz', NULL) USING count(*), max(v) GROUP BY k",
        "PIVOT t ON g IN ('a', 'b') GROUP BY k",
        "PIVOT t ON g IN ('a', 'zz') USING coalesce(sum(v), 0), round(avg(d), 1) AS m GROUP BY k",
        "PIVOT (SELECT g, k, v FROM t) ON g IN ('a', 'b') USING 2 * max(v) + 1",
        "PIVOT (SELECT g, k FROM t) ON g IN ('a') USING count(*) + 1 = 3 AS two",
        "FROM t PIVOT (round(avg(v), 1) AS mean FOR g IN ('a', 'b') GROUP BY k)",
        f"PIVOT t ON k IN ({', '.join(map(str, range(25)))}) USING coalesce(min(v), -1) GROUP BY g",
        "PIVOT (SELECT g, k, v FROM t) ON g IN ('a', 'b'), k IN (1, 2) USING sum(v)",
        "PIVOT (SELECT g, v FROM t) ON g IN ('a', 'b') USING count(v), sum(v)",
        "PIVOT t ON b IN (TRUE, FALSE), day IN (DATE '2020-01-31') USING min(v) GROUP BY g",
        "WITH x AS (SELECT k, g, v FROM t) PIVOT x ON g IN ('a') USING avg(v), list(v ORDER BY v)",
        "FROM t PIVOT (sum(v) AS s, max(v) FOR g IN ('a', 'b') GROUP BY k)",
        "FROM t PIVOT (sum(v) FOR g IN ('a' AS x, 'b') GROUP BY k)",
        "PIVOT t ON g IN ('a' AS x, 'b') USING sum(v) GROUP BY k",
        "PIVOT t ON g IN ('a' AS x, 'b' AS y), k IN (1 AS one) USING sum(v) AS s, max(v) AS m"
        " GROUP BY b",
        "SELECT x, name FROM (SELECT k, g, v FROM t) PIVOT (sum(v) FOR g IN ('a', 'b'))"
        " AS q(k, x, y) JOIN u ON q.k = u.k",
        "SELECT * FROM (PIVOT (SELECT g, k FROM t) ON g IN ('a', 'b') USING sum(k)) WHERE a > 1",
        "UNPIVOT (SELECT K, v, g FROM t) ON k, V INTO NAME n VALUE x",
        "UNPIVOT (SELECT k, v FROM u) ON k AS kk, v",
        "UNPIVOT (SELECT g, k, v FROM t) ON k + 1 AS kk, v INTO NAME n VALUE x",
        "UNPIVOT (SELECT g, k, v, b FROM t) ON (k * 2) AS s, b::BIGINT AS b INTO NAME n VALUE x",
        "FROM (SELECT g, k, v, b FROM t) PIVOT (sum(v) AS s, count(*)"
        " FOR (g, k) IN (('a', 1) AS x, ('b', 2)) b IN (true))",
        "UNPIVOT (SELECT k, v, g FROM t) ON COLUMNS(* EXCLUDE (g)) INTO NAME n VALUE x",
        "UNPIVOT (SELECT k, v, k + 1 AS a, g FROM t) ON (k, v) AS q1, (a, k)"
        " INTO NAME n VALUE x, y",
        "FROM (SELECT k, v, g FROM t) UNPIVOT (x FOR n IN (k, v))",
        "FROM (SELECT k, v, g FROM t) UNPIVOT INCLUDE NULLS (x FOR n IN (k AS 'kk', v AS vv))",
        "SELECT n, sum(x) FROM (SELECT k, v, g FROM t) UNPIVOT (x FOR n IN (k, v)) AS q GROUP BY n",
        "FROM (SELECT g, k, v FROM t) UNPIVOT (x FOR n IN (k, v)) AS q(a, b, c)",
        "PIVOT t ON g IN ('a', 'b') USING sum(v) AS s GROUP BY k"
        " ORDER BY a_s DESC, k LIMIT 2 OFFSET 1",
        "SELECT max(a) FROM (PIVOT t ON g IN ('a') USING sum(v) GROUP BY k ORDER BY k LIMIT 3)",
        "UNPIVOT (SELECT k, v FROM t) ON k, v INTO NAME n VALUE x ORDER BY ALL LIMIT 5",
        "SELECT q.c, count(*) FROM (SELECT g, k, v FROM t) UNPIVOT (x FOR n IN (k, v))"
        " AS q(a, b, c) JOIN u ON u.k = q.c WHERE q.b <> 'a' GROUP BY q.c",
    ],
    "fields and JSON": [  # an arrow between arguments is no lambda
        "SELECT id, json_array_length(js->'a') AS n, upper(js->>'b'), json_type(js->'a'->0) FROM j",
        "SELECT js.b, j.js.a, count(*) FROM j GROUP BY ALL",
        "SELECT m.x, ls[1].b, list_transform(ll, lambda x: x[1]) FROM j",
    ],
    "macros": [
        "SELECT plus_one(k), plus(k), plus(k, 2), plus(b := k, a := v) FROM t",
        "SELECT plus(plus_one(k), plus_one(v)) * 2 FROM t WHERE plus_one(k) > 2",
        "SELECT g, spread(k) FROM t GROUP BY g HAVING spread(v) > 0",
        "SELECT g FROM t GROUP BY g ORDER BY spread(k), g LIMIT 2",
        "SELECT a.k, u.name FROM above(1) AS a JOIN u ON a.k = u.k",
        "SELECT q.x FROM above(0 + 1) AS q(x, y)",
        "SELECT scaled(l, k) FROM t",
        "SELECT geomean(v), weighted_avg(v, v) FROM t",
    ],
    "asof": [  # which of equal right rows is taken, DuckDB leaves open: they are not shown
        "SELECT t.k, t.v, u.k, u.v FROM t ASOF JOIN u ON t.k = u.k AND t.v >= u.v",
        "SELECT t.k, t.v, u.v FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.v > u.v",
        "SELECT t.k, t.v, u.v FROM t ASOF LEFT JOIN u ON t.k = u.k AND u.v >= t.v",
        "SELECT t.k, t.v, u.v FROM t ASOF JOIN u ON t.k = u.k AND t.v < u.v",
        "SELECT t.k, t.d, u.d FROM t ASOF LEFT JOIN u ON t.g = u.name AND t.d >= u.d",
        "SELECT k, v, u.v FROM t ASOF LEFT JOIN u USING (k, v)",
        "SELECT t.v, u.v FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.v >= u.v AND u.name <> 'x'",
        "SELECT t.v, u.v FROM t ASOF JOIN u ON t.v >= u.v",
        "SELECT t.f, u.d FROM t ASOF LEFT JOIN u ON t.f >= u.d",
        "SELECT t.v, u.v FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.v <= u.v AND t.b",
        "SELECT t.v, u.v FROM t ASOF JOIN u ON t.k = u.k AND t.v < u.v AND t.k > 1 AND u.d > 1",
        "SELECT t.v, u.v FROM t ASOF LEFT JOIN u ON t.k IS NOT DISTINCT FROM u.k AND t.v > u.v",
        "SELECT t.f, r.f FROM t ASOF RIGHT JOIN t AS r ON t.k = r.k AND t.f >= r.f",
        "SELECT t.k, t.v, u.v FROM t ASOF RIGHT JOIN u ON t.k = u.k AND t.v < u.v",
        "SELECT t.v, u.v FROM t ASOF RIGHT JOIN u ON t.v <= u.v",
        "SELECT t.k, t.v, u.v FROM t ASOF FULL JOIN u ON t.k = u.k AND t.v > u.v",
        "SELECT t.k, t.d, u.d FROM t ASOF FULL JOIN u ON t.k = u.k AND u.d >= t.d",
        "SELECT k, v FROM t ASOF SEMI JOIN u ON t.k = u.k AND t.v >= u.v",
        "SELECT k, v FROM t ASOF ANTI JOIN u ON t.k = u.k AND t.v < u.v",
        "SELECT t.g, count(u.ts), max(u.ts) FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.day >= u.ts"
        " GROUP BY t.g",
    ],
    "listed rows": [
        "SELECT k, x FROM t, (VALUES (t.k), (t.v), (NULL)) AS q(x)",
        "SELECT k, n, x FROM t CROSS JOIN LATERAL (VALUES ('k', k), ('v', v)) AS q(n, x)"
        " WHERE x > 1",
        "SELECT k, x FROM t LEFT JOIN LATERAL (VALUES (k), (v)) AS q(x) ON TRUE",
        "SELECT k, x FROM t LEFT JOIN LATERAL (VALUES (k), (v)) AS q(x) ON x > 2",
        "SELECT t.k, x FROM t JOIN u ON t.k = u.k, (VALUES (t.v), (u.v), (1)) AS q(x)",
        "SELECT k, x FROM t, LATERAL (SELECT k * 2 UNION ALL (SELECT v UNION ALL SELECT 7)) q(x)",
        "SELECT k, m FROM t, LATERAL (SELECT k AS m UNION ALL SELECT count(v) FROM u"
        " WHERE u.k = t.k)",
        "SELECT k, x FROM t, (SELECT x + 1 FROM (VALUES (k), (v)) AS q(x)) AS r(x)",
        "SELECT k, x, y FROM t, (VALUES (k), (v)) AS q(x), (VALUES (x), (t.v)) AS r(y)",
        "SELECT k, (SELECT count(*) FROM (VALUES (k), (v)) AS q(x), (VALUES (x), (t.k)) AS r(y)"
        " WHERE y > 1) FROM t",
        "SELECT x, count(*) FROM t, (VALUES (k), (v)) AS q(x) GROUP BY x",
    ],
    "correlated unnest": [
        "SELECT k, x FROM t, (SELECT unnest(t.l) AS x)",
        "SELECT k, (SELECT sum(x) FROM UNNEST(t.l) AS q(x)) FROM t",
        "SELECT k, (SELECT sum(x) FROM range(t.k) AS q(x)) FROM t",
        "SELECT k, x FROM t LEFT JOIN LATERAL (SELECT unnest(t.l) AS x) ON TRUE",
        "SELECT k FROM t WHERE k IN (SELECT unnest(t.l))",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(l) AS q(x) JOIN u ON u.k = x)",
        "SELECT * FROM above(1) WHERE k IN (SELECT k FROM u)",
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
