"""Queries over tables t, u and w that the binder must plan, by feature."""

from __future__ import annotations

from random import Random

import duckdb

TABLES = """
CREATE TABLE t (k INTEGER, g VARCHAR, v BIGINT, d DECIMAL(10,2), f DOUBLE, b BOOLEAN, day DATE,
    st STRUCT(x INTEGER, y VARCHAR), l INTEGER[]);
CREATE TABLE u (k INTEGER, name VARCHAR, v BIGINT, ts TIMESTAMP, d DECIMAL(12,3));
CREATE TABLE w (K2 INTEGER, g VARCHAR, "Odd Name" INTEGER, small SMALLINT);
CREATE VIEW plain AS SELECT g, sum(v) AS total FROM t GROUP BY g;
CREATE VIEW renamed(p, q) AS SELECT k, name FROM u WHERE v > 2;
"""

QUERIES: dict[str, list[str]] = {
    "projection": [
        "SELECT k FROM t",
        "SELECT * FROM t",
        "FROM t",
        "SELECT t.* FROM t",
        "SELECT * EXCLUDE (st, l) FROM t",
        "SELECT * EXCLUDE (st) REPLACE (k + 1 AS k) FROM t",
        "SELECT * RENAME (k AS kk) FROM t",
        "SELECT k, k, k + 1 FROM t",
        "SELECT K, G FROM T",
        'SELECT "Odd Name", k2 FROM w',
        "SELECT main.t.k FROM main.t",
        "SELECT x.k FROM t AS x",
        "SELECT a, b FROM t AS x(a, b)",
        "SELECT v / k, v // 2, v % 3, -v, v * d, d + 1, f * 2, 1.5 * d FROM t",
        "SELECT 1, 1.5, 'x', NULL, TRUE, 1e3, 12345678901, DATE '2020-01-01' FROM t",
        "SELECT k + 1 AS x, x * 2 AS y FROM t",
        "SELECT k AS v, v AS k FROM t",
        "SELECT CASE WHEN k > 2 THEN 'big' WHEN k IS NULL THEN 'none' ELSE g END FROM t",
        "SELECT CASE k WHEN 1 THEN 1 ELSE 2.5 END FROM t",
        "SELECT CAST(v AS INTEGER), v::VARCHAR, TRY_CAST(g AS INTEGER), d::DECIMAL(12,4) FROM t",
        "SELECT coalesce(k, 0), nullif(k, 1), ifnull(v, k), if(b, 1, 2), greatest(k, v) FROM t",
        "SELECT upper(g), g || 'x', length(g), substr(g, 1, 1), concat(g, k), trim(g) FROM t",
        "SELECT g LIKE 'a%', g ILIKE 'A%', g NOT LIKE '%b', regexp_matches(g, 'a'), g ~ 'a' FROM t",
        "SELECT k IN (1, 2, NULL), k NOT IN (1, 2), k BETWEEN 1 AND 3, k IS NULL, NOT b FROM t",
        "SELECT k IS DISTINCT FROM v, k IS NOT DISTINCT FROM v, k = v, k <> v FROM t",
        "SELECT st.x, t.st.y, st['x'], (st).y, l[1], l[1:2], len(l) FROM t",
        "SELECT list_transform(l, lambda x: x + k), list_filter(l, lambda x: x > 1) FROM t",
        "SELECT {'a': k, 'b': g}, [k, 2], struct_pack(z := k), MAP {'k': k} FROM t",
        "SELECT day + INTERVAL 1 DAY, day - INTERVAL '2 months', day - DATE '2020-01-01' FROM t",
        "SELECT year(day), extract(month FROM day), date_trunc('month', day), dayname(day) FROM t",
        "SELECT extract(dow FROM day), date_part('doy', day), dayofweek(day) FROM t",
        "SELECT date_diff('day', day, ts::DATE), strftime(ts, '%Y-%m') FROM t, u",
        "SELECT round(d, 1), abs(v), floor(f), sqrt(abs(f)), log10(abs(f) + 1), k ^ 2 FROM t",
        "SELECT k & 1, k | 2, k << 1, xor(k, 3), ~k FROM t WHERE k >= 0",
        "SELECT md5(g), hash(k), bit_count(k), chr(65 + k) FROM t",
        "SELECT 'it''s', E'tab\\t', 1_000 FROM t",
        "SELECT (k) AS k2, ((k + 1)) * 2, -(-k), (k + 1) * (v - 1) FROM t",
    ],
    "filter": [
        "SELECT k FROM t WHERE v > 3",
        "SELECT k FROM t WHERE v > 3 AND (g = 'a' OR b) AND NOT k = 2",
        "SELECT k FROM t WHERE (k = 1 AND b) OR (k = 1 AND NOT b AND g = 'a') OR (b AND k = 1)",
        "SELECT k FROM t WHERE (k = 1 AND v > 2) OR k = 1",
        "SELECT t.k FROM t, u WHERE (t.k = u.k AND g = 'a' AND name = 'b') "
        "OR (t.k = u.k AND g IN ('b', 'c') AND (name = 'a' OR name IS NULL))",
        "SELECT t.k FROM t JOIN u ON (t.v = 1 AND u.v BETWEEN 0 AND 2) OR (t.v = 2 AND u.v = 1)",
        "SELECT t.k, u.k FROM t LEFT JOIN u ON (t.k = u.k AND t.b) OR (t.k = u.k AND u.v > 2)",
        "SELECT k + 1 AS x FROM t WHERE x > 2",
        "SELECT k + 1 AS v FROM t WHERE v > 2",
        "SELECT k FROM t WHERE b",
        "SELECT k FROM t WHERE FALSE",
        "SELECT k FROM t WHERE NULL",
        "SELECT k FROM t WHERE d > 1.5 AND f < 1 AND g IN ('a', 'b')",
        "FROM t SELECT k WHERE k IS NOT NULL",
    ],
    "join": [
        "SELECT t.k, u.name FROM t JOIN u ON t.k = u.k",
        "SELECT * FROM t JOIN u ON t.k = u.k",
        "SELECT * FROM t JOIN u USING (k)",
        "SELECT k, t.k, u.k FROM t JOIN u USING (k)",
        "SELECT * FROM t JOIN u USING (k, v)",
        "SELECT t.k, name FROM t NATURAL JOIN u",
        "SELECT t.k, name FROM t, u WHERE t.k = u.k AND t.v > u.v",
        "SELECT t.k, name FROM t JOIN u ON t.k = u.k AND t.v < u.v AND t.g = 'a'",
        "SELECT t.k, name FROM t CROSS JOIN u",
        "SELECT t.k, name FROM t JOIN u ON t.k < u.k",
        "SELECT t.k, name FROM t JOIN u ON TRUE",
        "SELECT t.k, name FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k",
        "SELECT a.k, b.k FROM t a JOIN t b ON a.k = b.v",
        "SELECT a.k, b.k FROM t a, t b WHERE a.k = b.v AND a.v = b.k",
        "SELECT t.k FROM t JOIN u ON t.k = u.k JOIN w ON u.k = w.k2",
        "SELECT t.k FROM t, u, w WHERE t.k = u.k AND u.k = w.k2 AND t.g = w.g",
        "SELECT t.k FROM t JOIN (u JOIN w ON u.k = w.k2) ON t.k = w.k2",
        "SELECT t.k, w.g FROM t, u LEFT JOIN w ON u.k = w.k2 WHERE t.k = u.v",
        "SELECT count(*) FROM t, u RIGHT JOIN w ON u.k = w.k2",
        "SELECT * FROM u JOIN w ON u.k = w.small",
        "SELECT t.k FROM t JOIN u ON t.k = u.v",
        "SELECT t.k FROM t JOIN u ON t.d = u.d",
        "SELECT t.k FROM t JOIN u ON t.day = u.ts",
        "SELECT t.k FROM t JOIN u ON t.f = u.v",
        "SELECT t.k FROM t JOIN u ON t.d = u.k",
        "SELECT t.k FROM t JOIN w ON t.k + 1 = w.k2 * 2",
        "SELECT t.k FROM t JOIN u ON t.k = u.k OR t.v = u.v",
        "SELECT * FROM t JOIN u ON t.k = u.k WHERE t.v + u.v > 5 AND u.name = 'x' AND t.g = 'a'",
        "SELECT u.* FROM t JOIN u USING (k)",
        "SELECT x.k, w.g FROM (SELECT k FROM t) x JOIN w ON x.k = w.k2",
        "SELECT count(*) FROM t JOIN u USING (k) JOIN w ON w.k2 = k",
    ],
    "outer join": [
        "SELECT t.k, u.name FROM t LEFT JOIN u ON t.k = u.k",
        "SELECT * FROM t LEFT JOIN u USING (k)",
        "SELECT t.k, u.name FROM t RIGHT JOIN u ON t.k = u.k AND t.v > 2",
        "SELECT t.k, u.name FROM t FULL JOIN u ON t.k = u.k",
        "SELECT * FROM t SEMI JOIN u ON t.k = u.k",
        "SELECT * FROM t ANTI JOIN u USING (k)",
        "SELECT t.k FROM t LEFT JOIN u ON t.k = u.k WHERE u.k IS NULL",
        "SELECT t.k, u.name FROM t LEFT JOIN u ON t.k = u.k AND t.g = 'a' WHERE t.v > 1",
        "SELECT g, count(u.k) FROM t LEFT JOIN u USING (k) GROUP BY g",
        "SELECT t.k, u.name FROM t LEFT JOIN u ON t.k = u.k AND t.v < u.v",
        "SELECT t.k, u.name FROM t LEFT JOIN u ON t.k = u.k AND u.v > 1 AND t.v > 1",
        "SELECT t.k, u.name FROM t LEFT JOIN u ON t.v < u.v",
        "SELECT t.k, u.name FROM t LEFT JOIN u ON TRUE",
        "SELECT t.k, u.name FROM t LEFT JOIN u ON FALSE",
        "SELECT t.k, u.name FROM t LEFT JOIN u ON t.k IS NOT DISTINCT FROM u.k",
        "SELECT t.k, u.name, w.g FROM t LEFT JOIN u ON t.k = u.k LEFT JOIN w ON u.v = w.k2",
        "SELECT t.k, u.name, w.g FROM t LEFT JOIN u ON t.k = u.k JOIN w ON t.v = w.k2",
        "SELECT t.k, u.name, w.g FROM t FULL JOIN u ON t.k = u.k AND t.v = u.v"
        " LEFT JOIN w ON t.k = w.k2 WHERE t.v > 1",
        "SELECT t.k, u.k FROM t FULL JOIN u ON t.k = u.k AND t.v < u.v",
        "SELECT t.k, u.k FROM t RIGHT JOIN u ON t.k = u.k WHERE t.k IS NULL AND u.v > 1",
        "SELECT * FROM t ANTI JOIN u ON t.k = u.k AND t.v < u.v WHERE t.v > 1",
        "SELECT k FROM t SEMI JOIN u ON t.k = u.k AND u.v > 1 AND t.v > 1",
        "SELECT k FROM t SEMI JOIN u ON t.v < u.v",
        "SELECT u.name, sum(t.v), count(t.k) FROM u LEFT JOIN t ON t.k = u.k GROUP BY u.name",
        "SELECT a.k, b.k FROM t a LEFT JOIN t b ON a.k = b.v",
        "SELECT x.k, y.c FROM t x LEFT JOIN (SELECT k, count(*) c FROM u GROUP BY k) y USING (k)",
    ],
    "aggregate": [
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM t WHERE FALSE",
        "SELECT sum(v), avg(v), min(v), max(v), count(v), count() FROM t WHERE FALSE",
        "SELECT g, count(*) FROM t GROUP BY g",
        "SELECT g, sum(v), avg(d), min(f), max(day), count(k) FROM t GROUP BY g",
        "SELECT g, sum(k), sum(d), avg(k), sum(f) FROM t GROUP BY g",
        "SELECT g, var_pop(k), var_samp(k), variance(k), stddev(k) FROM t GROUP BY g",
        "SELECT stddev_pop(v), stddev_samp(d) FROM t",
        "SELECT g, bool_and(b), bool_or(b), count_if(k > 1), bool_and(k > 1) FROM t GROUP BY g",
        "SELECT g, count(DISTINCT k), sum(DISTINCT v), avg(DISTINCT k) FROM t GROUP BY g",
        "SELECT g, count(*) FILTER (WHERE k > 1), sum(v) FILTER (WHERE b) FROM t GROUP BY g",
        "SELECT sum(v + 1) * 2, sum(v) + count(*), max(k) - min(k) FROM t",
        "SELECT g, sum(v) / count(*) AS r FROM t GROUP BY g",
        "SELECT k + 1, count(*) FROM t GROUP BY k + 1",
        "SELECT (k + 1) * 2, count(*) FROM t GROUP BY (k + 1)",
        "SELECT k + 1 AS x, count(*) FROM t GROUP BY x",
        "SELECT k + 1 AS x, count(*) FROM t GROUP BY 1",
        "SELECT v AS k, count(*) FROM t GROUP BY v",
        "SELECT g, k, count(*) FROM t GROUP BY ALL",
        "SELECT 1 AS one, count(*) FROM t WHERE FALSE GROUP BY ALL",
        "SELECT g, 'x', count(*) FROM t WHERE FALSE GROUP BY ALL",
        "SELECT NULL AS n, max(k) AS m FROM t GROUP BY 1 HAVING m IS NOT NULL",
        "SELECT g, sum(k) + 1, k % 2 FROM t GROUP BY ALL",
        "SELECT count(*) FROM t GROUP BY g",
        "SELECT g FROM t GROUP BY g",
        "SELECT g, upper(g), count(*) FROM t GROUP BY g",
        "SELECT 'x', count(*) FROM t GROUP BY 'x'",
        "SELECT 5 AS c, count(*) FROM t WHERE FALSE GROUP BY c",
        "SELECT g, count(*) c FROM t GROUP BY g HAVING count(*) > 2",
        "SELECT g, count(*) c FROM t GROUP BY g HAVING c > 2 AND max(v) > 1",
        "SELECT g AS v, sum(k) FROM t GROUP BY g HAVING v > 'a'",
        "SELECT max(v) AS k FROM t GROUP BY k HAVING k > 2",
        "SELECT sum(v) AS v FROM t HAVING v > 3",
        "SELECT count(*) FROM t HAVING count(*) > 100000",
        "SELECT g, sum(CASE WHEN b THEN v ELSE 0 END) FROM t GROUP BY g",
        "SELECT year(day) y, month(day), sum(d) FROM t GROUP BY y, month(day)",
        "SELECT st.x, count(*) FROM t GROUP BY st.x",
        "SELECT st, l, count(*) FROM t GROUP BY st, l",
        "SELECT f, count(*) FROM t GROUP BY f",
        "SELECT t.g, u.name, sum(t.v * u.v) FROM t JOIN u USING (k) GROUP BY t.g, u.name",
        "SELECT g, mean(v), count(DISTINCT g) FROM t GROUP BY g",
        "SELECT max(g), min(b) FROM t",
        "SELECT any_value(1) FROM t",
    ],
    "group recompute": [
        "SELECT g, list(k ORDER BY k) FROM t GROUP BY g",
        "SELECT g, string_agg(g, ',' ORDER BY g), count(*) FROM t GROUP BY g",
        "SELECT g, median(v), quantile_cont(v, 0.25), mode(b) FROM t WHERE b GROUP BY g",
        "SELECT g, list(DISTINCT k ORDER BY k), string_agg(DISTINCT g, '-') FROM t GROUP BY g",
        "SELECT g, bit_and(k), bit_or(k), bit_xor(k) FROM t GROUP BY g",
        "SELECT g, max(k, 2), histogram(k) FROM t GROUP BY g",
        "SELECT g, approx_count_distinct(k) FROM t GROUP BY g",
        "SELECT list(k ORDER BY k, v) FROM t",
        "SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY v) FROM t GROUP BY g",
        "SELECT g, list(k ORDER BY k) FILTER (WHERE k > 1) FROM t GROUP BY g",
        "SELECT g, arg_max(v, v), arg_min(k, k) FROM t GROUP BY g",
        "SELECT g, array_agg(v ORDER BY v DESC NULLS FIRST) FROM t GROUP BY g HAVING count(*) > 1",
    ],
    "distinct and set operations": [
        "SELECT DISTINCT g FROM t",
        "SELECT DISTINCT g, k % 2 FROM t",
        "SELECT DISTINCT * FROM t",
        "SELECT k FROM t UNION ALL SELECT k FROM u",
        "SELECT k FROM t UNION SELECT k FROM u",
        "SELECT k FROM t UNION ALL SELECT v FROM u UNION ALL SELECT k2 FROM w",
        "SELECT k, d FROM t UNION ALL SELECT small, 1 FROM w",
        "SELECT k FROM t INTERSECT SELECT k FROM u",
        "SELECT k FROM t INTERSECT ALL SELECT k FROM u",
        "SELECT k FROM t EXCEPT SELECT k FROM u",
        "SELECT k FROM t EXCEPT ALL SELECT k FROM u",
        "SELECT k, g FROM t UNION ALL BY NAME SELECT g, k2 AS k FROM w",
        "SELECT k FROM t UNION ALL BY NAME SELECT v FROM u",
        "(SELECT k FROM t) UNION ALL (SELECT k FROM u WHERE v > 2)",
        "SELECT k FROM t UNION ALL SELECT k FROM u ORDER BY k LIMIT 3",
        "SELECT * FROM (SELECT k FROM t UNION ALL SELECT k FROM u) ORDER BY 1 LIMIT 4",
        "SELECT NULL AS x FROM t UNION ALL SELECT k FROM t",
        "SELECT DISTINCT g FROM t ORDER BY g LIMIT 2",
    ],
    "order and limit": [
        "SELECT k FROM t ORDER BY k",
        "SELECT k FROM t ORDER BY k LIMIT 5",
        "SELECT k FROM t ORDER BY k DESC LIMIT 5",
        "SELECT k FROM t ORDER BY k NULLS FIRST LIMIT 3",
        "SELECT k FROM t ORDER BY k LIMIT 3 OFFSET 2",
        "SELECT k FROM t ORDER BY k OFFSET 4",
        "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 4",
        "SELECT k + 1 AS x FROM t ORDER BY x DESC LIMIT 4",
        "SELECT -k AS v FROM t ORDER BY v LIMIT 4",
        "SELECT k, v FROM t ORDER BY 2, 1 LIMIT 4",
        "SELECT k, v FROM t ORDER BY ALL LIMIT 4",
        "SELECT k, v FROM t ORDER BY ALL DESC LIMIT 4",
        "SELECT k FROM t ORDER BY k + 0 LIMIT 4",
        "SELECT g, sum(v) s FROM t GROUP BY g ORDER BY s DESC, g LIMIT 2",
        "SELECT g FROM t GROUP BY g ORDER BY count(*) DESC, g LIMIT 2",
        "SELECT * FROM (SELECT k, v FROM t ORDER BY k, v LIMIT 3) WHERE v > 0",
        "SELECT k FROM t LIMIT 0",
        "SELECT DISTINCT ON (g) g, k FROM t ORDER BY g, k",
        "SELECT DISTINCT ON (g) k, g FROM t ORDER BY k DESC",
        "VALUES (1, 'a'), (2, NULL) ORDER BY 1 LIMIT 1",
    ],
    "row number": [
        "SELECT * FROM (SELECT g, v, row_number() OVER (PARTITION BY g ORDER BY v) rn FROM t)"
        " WHERE rn <= 2",
        "SELECT g, v FROM (SELECT g, v, row_number() OVER (PARTITION BY g ORDER BY v DESC) rn"
        " FROM t) WHERE rn = 1",
        "SELECT g, v FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY v) <= 2",
        "SELECT g, v, row_number() OVER (ORDER BY v, g, k, d, f) AS rn FROM t"
        " QUALIFY rn BETWEEN 2 AND 4",
        "SELECT g, k % 2, row_number() OVER (PARTITION BY g, k % 2 ORDER BY v + 1 DESC) r FROM t"
        " QUALIFY 2 >= r AND v > 1",
        "SELECT g, sum(v) s FROM t GROUP BY g"
        " QUALIFY row_number() OVER (ORDER BY sum(v) DESC, g) <= 2",
        "SELECT * FROM (SELECT v, row_number() OVER (ORDER BY v) rn FROM t) WHERE rn = 3 AND v > 0",
    ],
    "window": [
        "SELECT k, sum(v) OVER (PARTITION BY g) FROM t",
        "SELECT k, v, sum(v) OVER (PARTITION BY g ORDER BY k) FROM t",
        "SELECT k, rank() OVER (PARTITION BY g ORDER BY k), dense_rank() OVER (ORDER BY v) FROM t",
        "SELECT v, lag(v) OVER (PARTITION BY g ORDER BY v) FROM t",
        "SELECT k, count(*) OVER () FROM t",
        "SELECT v, lag(v) OVER (ORDER BY v) a, lead(v) OVER (ORDER BY v) b FROM t",
        "SELECT v, lag(v) OVER (ORDER BY v), row_number() OVER (ORDER BY v),"
        " rank() OVER (ORDER BY v), lead(v, 2, 0) OVER (ORDER BY v) FROM t",
        "SELECT g, v, ntile(3) OVER (PARTITION BY g ORDER BY v), sum(v) OVER (PARTITION BY g || 'x'"
        " ORDER BY v * 2 ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "SELECT g, sum(v), sum(sum(v)) OVER (ORDER BY g) FROM t GROUP BY g",
        "SELECT k, max(v) OVER w, min(v) OVER w FROM t WINDOW w AS (PARTITION BY g)",
        "SELECT k, v - avg(v) OVER (PARTITION BY g) AS x FROM t",
        "SELECT g, v FROM t QUALIFY rank() OVER (PARTITION BY g ORDER BY v) <= 2",
        "SELECT k, first_value(v) OVER (PARTITION BY g ORDER BY v) FROM t",
    ],
    "grouping sets": [
        "SELECT g, k, count(*), sum(v) FROM t GROUP BY ROLLUP (g, k)",
        "SELECT g, k, count(*), GROUPING(g, k), GROUPING_ID(k) FROM t GROUP BY g, CUBE (k, b)",
        "SELECT g FROM t GROUP BY GROUPING SETS ((g, k), g, (), ROLLUP (k, b))",
        "SELECT g FROM t GROUP BY GROUPING SETS ((g, k), g), GROUPING SETS ((b), ())",
        "SELECT g, max(v) FROM t GROUP BY GROUPING SETS (CUBE (g, k), GROUPING SETS (g, k))",
        "SELECT g, max(v) FROM t GROUP BY GROUPING SETS (g, g)",
        "SELECT count(*) FROM t GROUP BY ()",
        "SELECT g, count(*), avg(d) FROM t WHERE k > 90 GROUP BY ROLLUP (g)",
        "SELECT g, k, b, count(*) FROM t GROUP BY ROLLUP ((g, k), b)",
        "SELECT k + 1, GROUPING(k + 1), count(*) FROM t GROUP BY ROLLUP (k + 1)",
        "SELECT k AS z, GROUPING(z), k + 1, count(*) FROM t GROUP BY ROLLUP (z)",
        "SELECT g, k, count(*) FROM t GROUP BY ROLLUP (1, 2)",
        "SELECT g, GROUPING() FROM t GROUP BY CUBE (g, k)",
        "SELECT g, GROUPING(g) FROM t GROUP BY g",
        "SELECT g, sum(v), median(v) FROM t GROUP BY CUBE (g, b) HAVING GROUPING(g) = 0",
        "SELECT g, k, v FROM (SELECT g, k, sum(v) AS v FROM t GROUP BY ROLLUP (g, k)) WHERE k > 1",
        "SELECT g, k, count(*), rank() OVER (PARTITION BY GROUPING(g) ORDER BY sum(v))"
        " FROM t GROUP BY CUBE (g, k)",
        "SELECT g, sum(v) FROM t GROUP BY ALL HAVING k > 1",
        "SELECT k + 1 AS x, count(*) FROM t GROUP BY ALL HAVING x > 1",
        "SELECT g, sum(v) FROM t GROUP BY ALL HAVING k + 1 > 1 AND g || 'x' <> 'ax'",
        "SELECT 1, 'x' FROM t GROUP BY ALL",
    ],
    "nesting": [
        "WITH x AS (SELECT k, v FROM t WHERE v > 1) SELECT k, count(*) FROM x GROUP BY k",
        "WITH x AS (SELECT k FROM t), y AS (SELECT k + 1 AS j FROM x)"
        " SELECT * FROM x JOIN y ON x.k = y.j",
        "WITH x(a, b) AS MATERIALIZED (SELECT k, v FROM t) SELECT a.a, b.b FROM x a, x b"
        " WHERE a.a = b.b",
        "WITH t AS (SELECT 1 AS k) SELECT * FROM t",
        "SELECT * FROM (SELECT g, count(*) FROM t GROUP BY g)",
        'SELECT "count_star()" + 1 FROM (SELECT count(*) FROM t GROUP BY g)',
        "SELECT avg(c) FROM (SELECT count(*) AS c FROM t GROUP BY g) s",
        "SELECT * FROM (SELECT k, k FROM t)",
        "SELECT * FROM (VALUES (1, 'a'), (2, NULL), (NULL, 'c')) v(x, y) JOIN t ON t.k = v.x",
        "SELECT col0 FROM (VALUES (1), (2.5))",
        "VALUES (1, 'a'), (2, NULL)",
        "SELECT 1",
        "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y'",
        "SELECT * FROM plain WHERE total > 3",
        "SELECT p, q FROM renamed JOIN plain ON q = g",
        "SELECT x.g, y.total FROM plain x JOIN plain y USING (g)",
        "WITH a AS (SELECT g, sum(v) s FROM t GROUP BY g), b AS (SELECT g, max(k) m FROM t"
        " GROUP BY g) SELECT a.g, s, m FROM a JOIN b ON a.g = b.g WHERE s > m",
        "SELECT c, count(*) FROM (SELECT g, count(*) c FROM t GROUP BY g) GROUP BY c",
        "SELECT x.a FROM (SELECT k AS a FROM (SELECT k FROM t WHERE k > 1)) x WHERE x.a < 4",
        "FROM (FROM t SELECT k, v) SELECT k WHERE v > 1",
    ],
}

QUERIES["recursion"] = [
    "WITH RECURSIVE r(k) AS (SELECT k FROM u UNION SELECT t.v FROM t JOIN r ON t.k = r.k) FROM r",
    "WITH RECURSIVE r(x, y) AS (SELECT k, v FROM t UNION SELECT x, u.v FROM r, u WHERE y = u.k "
    "AND u.d > 1) SELECT u.name, y FROM r JOIN u ON u.k = x WHERE x > 1 AND y < 9",
    "WITH RECURSIVE r(x, g, n) AS (SELECT k, g, 0 FROM t UNION ALL SELECT w.small, w.g || r.g, "
    "n + 1 FROM r JOIN w ON w.k2 = x WHERE n < 2) SELECT x, count(*), max(n) FROM r GROUP BY x",
    "WITH RECURSIVE r AS (SELECT DISTINCT k, 0 AS n FROM w JOIN t ON k2 = k UNION ALL SELECT k, "
    "n + 1 FROM r WHERE n < 3), s AS (SELECT max(n) AS top FROM r) SELECT k, n FROM r, s "
    "WHERE n = top",
    "WITH RECURSIVE p(a, b) AS (SELECT k, v FROM u UNION SELECT x.a, y.b FROM p x JOIN p y "
    "ON x.b = y.a) SELECT p.a, q.b FROM p JOIN p q ON p.b = q.a AND p.a < q.b",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) "
    "SELECT i, name FROM n LEFT JOIN u ON u.k = i",
]

REFUSED: dict[str, str] = {
    "SELECT k, ARRAY(SELECT v FROM u WHERE u.k = t.k ORDER BY ALL) FROM t": "ORDER BY ALL",
    "SELECT (SELECT sum(t.v + (SELECT max(v) FROM u))) FROM t": "an aggregate of a subquery",
    "SELECT sum(v) OVER w FROM t WINDOW w AS (ORDER BY (SELECT max(v) FROM u))": "subquery",
    "WITH RECURSIVE r(n) USING KEY (n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 3)"
    " SELECT * FROM r": "USING KEY",
    "SELECT 'x' AS z, count(*) FROM t GROUP BY ROLLUP (z)": "a constant in GROUPING SETS",
    "SELECT l FROM t LIMIT 10%": "LIMIT by what is no constant over nested values",
    "SELECT 1 FROM t GROUP BY ALL HAVING k > 1": "GROUP BY ALL",
    "SELECT rowid FROM t": "rowid",
    "SELECT g COLLATE NOCASE FROM t": "COLLATE",
    "SELECT * FROM t POSITIONAL JOIN u": "POSITIONAL",
    "PIVOT t ON f IN (1, 2) USING sum(v) GROUP BY g": "PIVOT",
}


def build(cursor: duckdb.DuckDBPyConnection, seed: int, rows: int = 40) -> None:
    """Create the tables with random rows: few distinct values, NULLs and duplicates."""
    cursor.execute(TABLES)
    random = Random(seed)

    def some(*values: object) -> object:
        return random.choice([*values, None])

    for _ in range(rows):
        x = random.choice([-1.5, 0.0, -0.0, 0.1, 2.25, None])
        cursor.execute(
            "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [some(0, 1, 2, 3), some("a", "b", "ab"), some(1, 2, 3, 70), some("1.50", "-2", "3"), x,
             some(True, False), some("2020-01-31", "2021-06-01"), some({"x": 1, "y": "q"}),
             some([1, 2], [3], [])],
        )  # fmt: skip
        cursor.execute(
            "INSERT INTO u VALUES (?, ?, ?, ?, ?)",
            [some(1, 2, 3, 4), some("x", "a", "b"), some(1, 2, 3),
             some("2020-01-31 00:00:00", "2021-06-01 12:00:00"), some("1.5", "3", "4.125")],
        )  # fmt: skip
    for _ in range(rows // 4):
        cursor.execute(
            "INSERT INTO w VALUES (?, ?, ?, ?)",
            [some(1, 2, 3), some("a", "b"), some(1, 2), some(1, 2, 3)],
        )
