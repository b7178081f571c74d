"""Queries with subqueries over tables t, u and w of `plan_corpus`, by form."""

from __future__ import annotations

QUERIES: dict[str, list[str]] = {
    "scalar": [
        "SELECT k, (SELECT max(v) FROM u) FROM t",
        "SELECT k, (SELECT count(*) FROM u WHERE v > 100) FROM t",
        "SELECT k, (SELECT max(u.v) FROM u WHERE u.k = t.k) FROM t",
        "SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k) AS n FROM t",
        "SELECT k, (SELECT count(*) + 1 FROM u WHERE u.k = t.k AND u.v > 1) FROM t",
        "SELECT k, (SELECT sum(u.v) FROM u WHERE u.k = t.k) * 2 + t.v FROM t",
        "SELECT k, (SELECT sum(u.v + t.v) FROM u WHERE u.k = t.k) FROM t",
        "SELECT k, (SELECT count(*) FROM u WHERE u.v < t.v) FROM t",
        "SELECT k, (SELECT min(u.v) FROM u WHERE u.k = t.k AND u.v >= t.k) FROM t",
        "SELECT k, (SELECT count(*) FROM u WHERE u.k IS NOT DISTINCT FROM t.k) FROM t",
        "SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k OR t.v IS NULL) FROM t",
        "SELECT k, (SELECT sum(u.v) FROM u WHERE u.k = t.k + 1) FROM t",
        "SELECT k, (SELECT sum(u.v) FROM u WHERE u.k + 1 = t.v) FROM t",
        "SELECT d, (SELECT count(*) FROM u WHERE u.d = t.d) FROM t",
        "SELECT v, (SELECT count(*) FROM w WHERE w.k2 = t.v) FROM t",
        "SELECT f, (SELECT count(*) FROM u WHERE u.v > t.f) FROM t",
        "SELECT k, (SELECT t.k + 1) FROM t",
        "SELECT k, (SELECT t.k + v) FROM t",
        "SELECT k + 1 AS j, (SELECT count(*) FROM u WHERE u.k = j) FROM t",
        "SELECT k, (SELECT list(u.v ORDER BY u.v) FROM u WHERE u.k = t.k) FROM t",
        "SELECT k, (SELECT count(DISTINCT u.v) FROM u WHERE u.k = t.k) FROM t",
        "SELECT k, (SELECT max(x.c) FROM (SELECT name, count(*) AS c FROM u WHERE u.k = t.k"
        " GROUP BY name) x) FROM t",
        "SELECT k, (SELECT u.v FROM u WHERE u.k = t.k ORDER BY u.v DESC, u.name LIMIT 1) FROM t",
        "SELECT k, (SELECT u.v FROM u WHERE u.k < t.k ORDER BY u.v LIMIT 1 OFFSET 1) FROM t",
        "SELECT k, (SELECT name FROM u ORDER BY name LIMIT 1) FROM t",
        "SELECT k, (SELECT c FROM (SELECT k, count(*) AS c FROM u GROUP BY k) x"
        " WHERE x.k = t.k) FROM t",
        "SELECT k, (SELECT name FROM u WHERE FALSE) FROM t",
        "SELECT k, (SELECT DISTINCT g FROM w WHERE w.g = t.g) FROM t",
        "SELECT (SELECT max(v) FROM t) - (SELECT min(v) FROM u)",
        "SELECT k, (SELECT st.x + count(*) FROM u WHERE u.k = t.st.x) FROM t",
        "SELECT k, (SELECT sum(c) FROM (VALUES (1), (t.k), (NULL)) x(c)) FROM t",
        "SELECT k, (VALUES (t.k * 2)) FROM t",
        "SELECT k, (WITH x AS (SELECT v FROM u WHERE u.k = t.k) SELECT sum(a.v * b.v)"
        " FROM x a, x b) FROM t",
        "SELECT k, (SELECT sum(v) FROM (SELECT v FROM u WHERE u.k = t.k UNION ALL"
        " SELECT small FROM w WHERE w.k2 = t.k)) FROM t",
        "SELECT k, (SELECT sum(v) FROM (SELECT v FROM u WHERE u.k = t.k EXCEPT"
        " SELECT small FROM w WHERE w.k2 <= t.k)) FROM t",
        "SELECT k, (SELECT count(*) FROM (SELECT v FROM u WHERE u.k = t.k INTERSECT ALL"
        " SELECT small FROM w WHERE w.k2 = t.k)) FROM t",
        "SELECT k, (SELECT count(*) FROM u LEFT JOIN w ON u.k = w.k2 AND w.small = t.k"
        " WHERE u.v = t.v) FROM t",
        "SELECT k, (SELECT count(w.g) FROM u RIGHT JOIN w ON u.k = w.k2 AND u.v = t.v) FROM t",
        "SELECT k, (SELECT count(*) FROM (SELECT * FROM u WHERE v = t.v) x"
        " FULL JOIN (SELECT * FROM w WHERE k2 = t.k) y ON x.k = y.k2) FROM t",
        "SELECT k, (SELECT count(*) FROM u SEMI JOIN w ON u.k = w.k2 WHERE u.v = t.v) FROM t",
        "SELECT k, (SELECT count(*) FROM u JOIN w ON u.v = w.k2 + t.k) FROM t",
        "SELECT k, (SELECT sum(u.v) FROM u JOIN w ON u.v + w.k2 > t.k) FROM t",
        "SELECT k, (SELECT max(n) FROM (SELECT v, row_number() OVER (ORDER BY v, name) AS n FROM u"
        " WHERE u.k = t.k)) FROM t",
        "SELECT k, (SELECT sum(s) FROM (SELECT sum(v) OVER (PARTITION BY name) AS s FROM u"
        " WHERE u.k = t.k)) FROM t",
    ],
    "where scalar": [
        "SELECT k FROM t WHERE v = (SELECT max(v) FROM t)",
        "SELECT k FROM t WHERE v > (SELECT avg(v) FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE v >= (SELECT avg(x.v) FROM t x WHERE x.g = t.g)",
        "SELECT k FROM t WHERE (SELECT count(*) FROM u WHERE u.k = t.k) = 0",
        "SELECT k FROM t WHERE (SELECT count(*) FROM u WHERE u.k = t.k) BETWEEN 1 AND 4",
        "SELECT k FROM t WHERE (SELECT bool_or(b) FROM t x WHERE x.k = t.k)",
        "SELECT t.k, u.v FROM t, u WHERE t.k = u.k AND u.v = (SELECT min(x.v) FROM u x"
        " WHERE x.k = t.k)",
        "SELECT k FROM t WHERE v > (SELECT sum(u.v) FROM u WHERE u.k = t.k) OR g = 'a'",
    ],
    "exists": [
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "SELECT * FROM t WHERE NOT EXISTS (FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u)",
        "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE v > 100)",
        "SELECT k FROM t WHERE EXISTS (SELECT * FROM u WHERE u.k = t.k AND u.v <> t.v)",
        "SELECT k FROM t WHERE EXISTS (SELECT * FROM u WHERE u.k = t.k AND u.v <> t.v)"
        " AND NOT EXISTS (SELECT * FROM u WHERE u.k = t.k AND u.v <> t.v AND name = 'x')",
        "SELECT k FROM t WHERE EXISTS (SELECT * FROM u WHERE u.v < t.v)",
        "SELECT k FROM t WHERE EXISTS (SELECT max(v) FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k HAVING count(*) > 2)",
        "SELECT k FROM t WHERE EXISTS (SELECT name FROM u WHERE u.k = t.k GROUP BY name"
        " HAVING count(*) > 1)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k LIMIT 1)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u, w WHERE u.k = t.k AND w.k2 = u.v)",
        "SELECT k, EXISTS (SELECT 1 FROM u JOIN w ON u.v + w.k2 > t.k) FROM t",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS"
        " (SELECT 1 FROM w WHERE w.k2 = u.v AND w.small = t.k))",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND NOT EXISTS"
        " (SELECT 1 FROM w WHERE w.k2 = u.v AND w.small = t.k))",
        "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE NOT EXISTS"
        " (SELECT 1 FROM w WHERE w.k2 = u.k AND w.g = t.g))",
        "SELECT k FROM t WHERE EXISTS (SELECT k FROM u WHERE u.k = t.k UNION ALL"
        " SELECT small FROM w WHERE w.k2 = t.k)",
        "SELECT k FROM t WHERE k = 1 OR EXISTS (SELECT 1 FROM u WHERE u.v = t.v)",
        "SELECT k, EXISTS (SELECT 1 FROM u WHERE u.k = t.k) FROM t",
        "SELECT k, NOT EXISTS (SELECT 1 FROM u WHERE u.v > t.v), EXISTS (FROM u) FROM t",
        "SELECT k, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.k = t.k) THEN 'in'"
        " WHEN (SELECT count(*) FROM w WHERE w.k2 = t.v) > 0 THEN 'w' ELSE g END FROM t",
        "SELECT x.k FROM (SELECT DISTINCT k FROM t) x WHERE EXISTS (FROM u WHERE u.k = x.k)",
    ],
    "in": [
        "SELECT k FROM t WHERE k IN (SELECT k FROM u)",
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u)",
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)",
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u WHERE FALSE)",
        "SELECT k FROM t WHERE k IN (SELECT u.k FROM u WHERE u.v = t.v)",
        "SELECT k FROM t WHERE k NOT IN (SELECT u.k FROM u WHERE u.v = t.v)",
        "SELECT k FROM t WHERE k NOT IN (SELECT u.k FROM u WHERE u.v < t.v)",
        "SELECT k FROM t WHERE NOT k IN (SELECT k2 FROM w WHERE w.g = t.g)",
        "SELECT k FROM t WHERE v + 1 IN (SELECT k FROM u)",
        "SELECT k FROM t WHERE d IN (SELECT d FROM u)",
        "SELECT k FROM t WHERE k IN (SELECT v FROM u)",
        "SELECT k FROM t WHERE (k, v) IN (SELECT k, v FROM u)",
        "SELECT k FROM t WHERE (k, v) NOT IN (SELECT k, v FROM u)",
        "SELECT k FROM t WHERE 1 IN (SELECT k FROM u)",
        "SELECT k FROM t WHERE NULL IN (SELECT k FROM u)",
        "SELECT k FROM t WHERE k IN (VALUES (1), (2), (NULL))",
        "SELECT k FROM t WHERE k NOT IN (VALUES (1), (NULL))",
        "SELECT k, k IN (SELECT k FROM u) FROM t",
        "SELECT k, k NOT IN (SELECT k FROM u WHERE k IS NOT NULL), k IN (SELECT NULL) FROM t",
        "SELECT k, k IN (SELECT u.k FROM u WHERE u.v = t.v) AS i FROM t",
        "SELECT k, k IN (SELECT u.k FROM u WHERE u.v < t.v) AS i FROM t",
        "SELECT k, (k, v) IN (SELECT k, v FROM u), (k, v) NOT IN (SELECT k, v FROM u"
        " WHERE k = 1) FROM t",
        "SELECT k FROM t WHERE k IN (SELECT k FROM u) OR v IN (SELECT v FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE k IN (SELECT DISTINCT k FROM u UNION SELECT k2 FROM w)",
        "SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE v IN (SELECT small FROM w WHERE"
        " w.k2 = t.k))",
        "SELECT k FROM t WHERE k IN (SELECT k FROM u ORDER BY v, k LIMIT 3)",
        "SELECT k FROM t WHERE k IN (SELECT u.k FROM u WHERE u.v >= t.v ORDER BY u.k LIMIT 2)",
        "SELECT k FROM t WHERE (k IN (SELECT k FROM u)) IS NULL",
        "SELECT k FROM t WHERE k IN (SELECT k + t.v FROM u WHERE u.v = 1)",
        "SELECT k FROM t WHERE (SELECT max(v) FROM u) IN (SELECT v FROM u)",
        "SELECT k, (SELECT max(v) FROM u WHERE u.k = t.k) NOT IN (SELECT small FROM w) FROM t",
        "SELECT k FROM t WHERE (SELECT max(v) FROM u WHERE u.k = t.k) IN (SELECT v FROM u"
        " WHERE u.v < t.v)",
        "SELECT k FROM t WHERE (k, (SELECT max(v) FROM u)) IN (SELECT k, v FROM u)",
        "SELECT k FROM t WHERE (EXISTS (FROM u WHERE u.k = t.k)) IN (SELECT b FROM t)",
        "SELECT k FROM t WHERE (k, v) IN (SELECT (k, v) FROM u)",
        "SELECT k, row(k, v) NOT IN (SELECT row(k, v) FROM u) FROM t",
    ],
    "any and all": [
        "SELECT k FROM t WHERE v = ANY (SELECT v FROM u)",
        "SELECT k FROM t WHERE v > ANY (SELECT v FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE v > ALL (SELECT v FROM u)",
        "SELECT k FROM t WHERE v >= ALL (SELECT v FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE v < ALL (SELECT v FROM u WHERE v IS NOT NULL AND v > t.k)",
        "SELECT k FROM t WHERE v <> ALL (SELECT v FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE v <> ANY (SELECT v FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE v = ALL (SELECT v FROM u WHERE u.k = t.k)",
        "SELECT k, v < ANY (SELECT v FROM u), v <= ALL (SELECT v FROM u WHERE u.k = t.k),"
        " v = ALL (SELECT v FROM u WHERE u.k = t.k), v <> ANY (SELECT v FROM u) FROM t",
        "SELECT k, (k, v) = ANY (SELECT k, v FROM u) FROM t",
        "SELECT k FROM t WHERE f <= ANY (SELECT d FROM u WHERE u.k = t.k)",
        "SELECT k, (SELECT max(v) FROM u WHERE u.k = t.k) > ALL (SELECT v FROM u"
        " WHERE u.k < t.k) FROM t",
        "SELECT k FROM t WHERE (SELECT max(v) FROM u WHERE u.k = t.k) = ANY (SELECT small FROM w)",
        "SELECT k FROM t WHERE (k, v) < ANY (SELECT (k, v) FROM u)",
        "SELECT k, (k, v) >= ALL (SELECT (k, v) FROM u WHERE u.k = t.k) FROM t",
    ],
    "grouped": [
        "SELECT g, count(*), (SELECT max(v) FROM u) FROM t GROUP BY g",
        "SELECT k, count(*), (SELECT count(*) FROM u WHERE u.k = t.k) FROM t GROUP BY k",
        "SELECT k, max(v) AS m, (SELECT count(*) FROM u WHERE u.v = m) FROM t GROUP BY k",
        "SELECT g, count(*) FROM t GROUP BY g HAVING count(*) > (SELECT count(*) FROM w"
        " WHERE w.g = t.g)",
        "SELECT g FROM t GROUP BY g HAVING g IN (SELECT g FROM w)",
        "SELECT g FROM t GROUP BY g HAVING EXISTS (SELECT 1 FROM w WHERE w.g = t.g) OR g = 'ab'",
        "SELECT g, sum(v) FROM t GROUP BY g HAVING sum(v) > (SELECT avg(v) * 4 FROM t)",
        "SELECT sum((SELECT max(u.v) FROM u WHERE u.k = t.k)) FROM t",
        "SELECT g, count(*) FILTER (WHERE EXISTS (FROM u WHERE u.k = t.k)) FROM t GROUP BY g",
        "SELECT g, list((SELECT max(u.v) FROM u WHERE u.k = t.k) ORDER BY k) FROM t GROUP BY g",
        "SELECT (SELECT max(u.v) FROM u WHERE u.k = t.k) AS m, count(*) FROM t GROUP BY m",
        "SELECT k IN (SELECT k FROM u) AS i, count(*) FROM t GROUP BY i",
        "SELECT k IN (SELECT k FROM u) AS i, count(*) FROM t GROUP BY ALL",
        "SELECT count(*) + (SELECT count(*) FROM u) FROM t",
        "SELECT count(*) FROM t HAVING count(*) > (SELECT count(*) FROM w)",
        "SELECT k, (SELECT sum(c) FROM (SELECT k, count(*) AS c FROM u GROUP BY k) x"
        " WHERE x.k <= t.k) FROM t GROUP BY k",
        "SELECT g, k, count(*), (SELECT count(*) FROM w WHERE w.g = t.g) FROM t"
        " GROUP BY ROLLUP (g, k)",
    ],
    "GROUP BY ALL": [
        "SELECT g, (SELECT max(v) FROM u) AS m, count(*) FROM t GROUP BY ALL",
        "SELECT (SELECT max(v) FROM u) AS m, count(*) FROM t WHERE k > 100 GROUP BY ALL",
        "SELECT g, (SELECT max(v) FROM u WHERE u.name = g) AS m, count(*) FROM t GROUP BY ALL",
        "SELECT u.v, (SELECT list((m, n)) FROM (SELECT u.v AS m, count(*) AS n FROM t"
        " WHERE t.k > u.k GROUP BY ALL) x) FROM u",
    ],
    "order, distinct, windows": [
        "SELECT k, v FROM t ORDER BY (SELECT max(u.v) FROM u WHERE u.k = t.k), k, v LIMIT 4",
        "SELECT DISTINCT k, (SELECT count(*) FROM u WHERE u.k = t.k) FROM t",
        "SELECT DISTINCT ON (g) g, (SELECT count(*) FROM u WHERE u.k = t.k) AS n FROM t"
        " ORDER BY g, n, k, v",
        "SELECT k, v, sum((SELECT max(u.v) FROM u WHERE u.k = t.k)) OVER (PARTITION BY g) FROM t",
        "SELECT k, v FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY v, k, d, f)"
        " <= (SELECT count(*) FROM w WHERE w.k2 = 1)",
        "SELECT g, v FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY v) = 1"
        " AND v IN (SELECT v FROM u)",
        "SELECT k FROM t WHERE k IN (SELECT k FROM u) UNION ALL"
        " SELECT v FROM t WHERE NOT EXISTS (FROM u WHERE u.v = t.v)",
    ],
    "array": [
        "SELECT k, ARRAY(SELECT v FROM u ORDER BY v) FROM t",
        "SELECT k, [v, (SELECT count(*) FROM u WHERE u.v < t.v)] FROM t",
        "SELECT [(SELECT max(v) FROM u WHERE u.k = t.k), v, (SELECT min(k) FROM u)] FROM t",
        "SELECT list_value((SELECT max(v) FROM u), k), ARRAY[k, (SELECT min(v) FROM u)] FROM t",
        "SELECT k, [(SELECT max(v) FROM u WHERE u.k = t.k)] FROM t",
        "SELECT k, ARRAY(SELECT v FROM u WHERE u.k = t.k ORDER BY v DESC) FROM t",
        "SELECT k, ARRAY(SELECT -v AS v FROM u WHERE u.k = t.k ORDER BY v) FROM t",
        "SELECT k, ARRAY(SELECT -v AS z FROM u WHERE u.k = t.k ORDER BY z LIMIT 3) FROM t",
        "SELECT k, ARRAY(SELECT v FROM u WHERE u.k = t.k ORDER BY 1 DESC NULLS FIRST) FROM t",
        "SELECT k, ARRAY(SELECT v FROM u WHERE u.k = t.k ORDER BY name, v LIMIT 2) FROM t",
        "SELECT k, ARRAY(SELECT v::VARCHAR FROM u WHERE u.k = t.k ORDER BY t.k - v) FROM t",
        "SELECT k, ARRAY(SELECT DISTINCT v FROM u WHERE u.k = t.k ORDER BY v + 1) FROM t",
        "SELECT k, ARRAY(SELECT name AS v FROM u WHERE u.k = t.k GROUP BY name"
        " ORDER BY count(*) DESC, name) FROM t",
        "SELECT k, ARRAY(SELECT k2 FROM w UNION SELECT u.v FROM u WHERE u.k = t.k"
        " ORDER BY k2 DESC LIMIT 3) FROM t",
        "SELECT k, ARRAY((SELECT k2 FROM w UNION SELECT u.v FROM u ORDER BY k2 + 1)) FROM t",
        "SELECT k, ARRAY(SELECT k2 FROM w UNION ALL SELECT u.v FROM u WHERE u.k < t.k"
        " ORDER BY ALL DESC) FROM t",
        "SELECT k, ARRAY(WITH x AS (SELECT v FROM u WHERE u.k = t.k) SELECT v FROM x"
        " ORDER BY v) FROM t",
        # ALL is by the first column of the FROM clause; DuckDB leaves the order within it open.
        "SELECT k, ARRAY(SELECT -u.k FROM u WHERE u.k < t.k ORDER BY ALL DESC) FROM t",
        "SELECT k, ARRAY(SELECT DISTINCT u.k FROM u JOIN w ON u.k = k2 WHERE u.v = t.v"
        " ORDER BY ALL DESC NULLS FIRST) FROM t",
        "SELECT k, list_sort(ARRAY(SELECT v FROM u WHERE u.k <= t.k ORDER BY ALL LIMIT 3)) FROM t",
        "SELECT k, ARRAY(SELECT v FROM u WHERE u.k = t.k ORDER BY COLUMNS('^v') DESC, 1) FROM t",
        "SELECT g, len(ARRAY(SELECT v FROM u WHERE u.v > max(t.k) ORDER BY ALL)) FROM t GROUP BY g",
        "SELECT k, (SELECT max(COLUMNS('^v')) FROM u WHERE u.k = t.k) FROM t",
        "SELECT ARRAY(SELECT {'k': k, 'v': v} FROM t ORDER BY k, v)",
        "SELECT k FROM t WHERE list_contains(ARRAY(SELECT u.k FROM u WHERE u.v > t.v), t.k)",
        "SELECT k, list_sort(ARRAY(SELECT v FROM u WHERE u.k = t.k)) FROM t",
        "SELECT g, len(ARRAY(SELECT v FROM u WHERE u.v > count(t.k))) FROM t GROUP BY g",
    ],
    "aggregates of the query around": [
        "SELECT (SELECT sum(t.v)) FROM t",
        "SELECT k, (SELECT sum(t.v)) FROM t GROUP BY k",
        "SELECT k, (SELECT sum(t.v) FROM u WHERE u.k = t.k LIMIT 1) FROM t GROUP BY k",
        "SELECT k, (SELECT max(u.v) FROM u WHERE u.k = t.k HAVING max(u.v) > sum(t.v))"
        " FROM t GROUP BY k",
        "SELECT k, (SELECT count(t.v) + max(u.v) FROM u) FROM t GROUP BY k",
        "SELECT k, (SELECT list(x) FROM (SELECT sum(t.v) AS x FROM u)) FROM t GROUP BY k",
        "SELECT k FROM t GROUP BY k HAVING EXISTS (SELECT 1 FROM u WHERE u.v > sum(t.v))",
        "SELECT k FROM t GROUP BY k HAVING EXISTS (SELECT 1 FROM u GROUP BY u.k"
        " HAVING sum(u.v) > sum(t.v))",
        "SELECT k, (SELECT count(*) FROM u HAVING count(t.v) > 1) FROM t GROUP BY k",
        "SELECT k, (SELECT sum(t.v) FILTER (WHERE t.v > 1) FROM u LIMIT 1) FROM t GROUP BY k",
        "SELECT k, (SELECT (SELECT sum(t.v)) FROM u LIMIT 1) FROM t GROUP BY k",
        "SELECT k, (SELECT (SELECT sum(u.v)) FROM u LIMIT 1) FROM t GROUP BY k",
        "SELECT k, (SELECT (SELECT sum(u.v + t.k)) FROM u LIMIT 1) FROM t GROUP BY k",
        "SELECT k, (SELECT count(DISTINCT t.v) + 1) FROM t GROUP BY ALL",
        "SELECT k, (SELECT list(t.v ORDER BY t.v DESC)) FROM t GROUP BY k",
        "SELECT g FROM t GROUP BY g HAVING sum(v) IN (SELECT sum(t.v) + u.v * 0 FROM u)",
        "SELECT g, sum(v) FROM t GROUP BY g ORDER BY (SELECT sum(t.v)), g LIMIT 2",
    ],
    "join conditions": [
        "SELECT t.k, u.v FROM t JOIN u ON t.k = u.k AND EXISTS (SELECT 1 FROM w WHERE w.k2 = t.v"
        " AND w.small = u.v)",
        "SELECT t.k, u.v FROM t JOIN u ON t.v = (SELECT max(small) FROM w WHERE w.k2 = u.k)",
        "SELECT t.k, u.v FROM t LEFT JOIN u ON t.k = u.k AND u.v IN (SELECT small FROM w)",
        "SELECT t.k, u.v FROM t LEFT JOIN u ON t.k = u.k AND EXISTS (FROM w WHERE w.k2 = t.v)",
        "SELECT t.k, u.v FROM t LEFT JOIN u ON EXISTS (FROM w WHERE w.k2 = t.k AND small = u.v)",
        "SELECT t.k, u.v FROM t RIGHT JOIN u ON t.k = u.k AND t.v > (SELECT min(small) FROM w)",
        "SELECT t.k, u.v FROM t FULL JOIN u ON t.k = u.k AND t.v IN (SELECT small FROM w)",
        "SELECT t.k FROM t SEMI JOIN u ON t.k = u.k AND EXISTS (FROM w WHERE w.k2 = u.v)",
        "SELECT t.k FROM t ANTI JOIN u ON EXISTS (FROM w WHERE w.k2 = u.v AND w.small = t.k)",
        "SELECT t.k, u.v FROM t FULL JOIN u ON t.k = u.k AND EXISTS (SELECT 1 FROM w"
        " WHERE w.k2 = t.v AND w.small = u.v)",
        "SELECT t.k, u.v FROM t FULL JOIN u ON t.k + u.k IN (SELECT small FROM w"
        " WHERE w.k2 <= t.v + u.v)",
    ],
    "lateral": [
        "SELECT * EXCLUDE (st, l) FROM t, LATERAL (SELECT t.k + 1 AS j) x",
        "SELECT t.k, x.v FROM t, LATERAL (SELECT u.v FROM u WHERE u.k = t.k) x",
        "SELECT t.k, x.v FROM t, (SELECT u.v FROM u WHERE u.k = t.k) x",
        "SELECT t.k, x.v FROM t CROSS JOIN LATERAL (SELECT u.v FROM u WHERE u.k = t.k"
        " ORDER BY u.v DESC, u.name LIMIT 2) x",
        "SELECT t.k, x.v FROM t LEFT JOIN LATERAL (SELECT u.v FROM u WHERE u.k = t.k"
        " ORDER BY u.v LIMIT 1) x ON TRUE",
        "SELECT t.k, x.v FROM t LEFT JOIN LATERAL (SELECT u.v FROM u WHERE u.k = t.k) x"
        " ON x.v > t.v",
        "SELECT t.k, x.c FROM t JOIN LATERAL (SELECT count(*) AS c FROM u WHERE u.k = t.k) x"
        " ON x.c > 1",
        "SELECT t.k, x.c, x.m FROM t LEFT JOIN LATERAL (SELECT count(*) AS c, max(v) AS m FROM u"
        " WHERE u.v < t.v) x ON TRUE",
        "SELECT t.k, x.c FROM t, LATERAL (SELECT count(*) AS c FROM u WHERE u.k = t.k) x",
        "SELECT t.k, x.s, y.q FROM t, u, LATERAL (SELECT t.k + u.k AS s) x,"
        " LATERAL (SELECT s + 1 AS q) y WHERE t.v = u.v",
        "SELECT t.k, w.g, x.s FROM t, w JOIN LATERAL (SELECT t.k + w.k2 AS s) x ON x.s > 2",
        "SELECT t.k, x.name, x.n FROM t, LATERAL (SELECT name, count(*) AS n FROM u"
        " WHERE u.k >= t.k GROUP BY name) x",
        "SELECT t.k, x.v FROM t, LATERAL (SELECT DISTINCT u.v FROM u WHERE u.k <= t.k) x",
        "SELECT t.k, x.v, x.r FROM t, LATERAL (SELECT v, rank() OVER (ORDER BY v) AS r FROM u"
        " WHERE u.k = t.k) x",
        "SELECT t.k, x.a FROM t, LATERAL (SELECT t.k AS a UNION ALL SELECT t.v) x",
        "SELECT t.k, y.c FROM t, LATERAL (SELECT u.k, u.v FROM u WHERE u.k = t.k) x,"
        " LATERAL (SELECT count(*) AS c FROM w WHERE w.k2 = x.v AND w.small >= t.k) y",
        "SELECT t.k FROM t WHERE EXISTS (SELECT 1 FROM u, LATERAL (SELECT w.g FROM w"
        " WHERE w.k2 = u.k AND w.small = t.v) x)",
        "SELECT t.k, (SELECT count(*) FROM u, LATERAL (SELECT w.g FROM w WHERE w.k2 = u.k"
        " AND w.g = t.g) x) FROM t",
    ],
    "unnest": [
        "SELECT k, (SELECT sum(x) FROM unnest(t.l) AS y(x)) FROM t",
        "SELECT k, (SELECT count(*) FROM generate_series(1, t.k) AS s(i)) FROM t",
        "SELECT k FROM t WHERE k IN (SELECT unnest(t.l))",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM t x, unnest(x.l) AS y(i) WHERE x.k = t.k"
        " AND i > t.k)",
        "SELECT u.k, x.i FROM u CROSS JOIN LATERAL (SELECT i FROM generate_series(1, u.k) s(i)) x",
        "SELECT k, (SELECT max(i) FROM (SELECT unnest(l) AS i, v FROM t x WHERE x.k = t.k)) FROM t",
    ],
    "deep": [
        "SELECT k, (SELECT max((SELECT count(*) FROM w WHERE w.k2 = u.v)) FROM u"
        " WHERE u.k = t.k) FROM t",
        "SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k AND u.v = (SELECT max(small) FROM w"
        " WHERE w.k2 = t.k)) FROM t",
        "SELECT k, (SELECT (SELECT max(w.small) FROM w WHERE w.k2 = x.k AND w.g = t.g)"
        " FROM (SELECT count(u.k) AS k FROM u WHERE u.v = t.v) x) FROM t",
        "SELECT k FROM t WHERE v > (SELECT avg(u.v) FROM u WHERE u.k = t.k AND u.name IN"
        " (SELECT g FROM w WHERE w.k2 = u.k))",
        "SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE NOT EXISTS (SELECT 1 FROM w"
        " WHERE w.k2 = u.k AND w.small < (SELECT max(x.v) FROM t x WHERE x.k = t.k)))",
        "SELECT k, (SELECT sum((SELECT sum(w.small + u.v + t.v) FROM w WHERE w.k2 = u.k))"
        " FROM u WHERE u.v = t.v) FROM t",
        "SELECT k, (k + (SELECT max(v) FROM u)) IN (SELECT v + (SELECT min(small) FROM w)"
        " FROM u) FROM t",
    ],
}
