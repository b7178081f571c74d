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
    "fields that are named by columns": [
        "SELECT k, to_json(struct_pack(k, g)), struct_pack(t.v, x := k)::VARCHAR FROM t",
        'SELECT struct_keys(struct_pack(K2, "odd name")), struct_pack(#2), typeof(row(k2)) FROM w',
        "SELECT [struct_pack((k))], struct_pack(*COLUMNS('^[kv]$')), g.struct_pack(k) FROM t",
        "SELECT to_json(q), to_json(r) FROM (SELECT struct_pack(a, g) AS q, v FROM t AS t(a)) r",
        "SELECT json_object('k', struct_pack(k)), to_json(struct_pack(AB)) FROM (SELECT k, v AS Ab"
        " FROM t)",
        "SELECT to_json(struct_pack(g, n)) FROM (SELECT g, count(*) AS n FROM t GROUP BY g)",
    ],
    "a filtered star with an alias": [
        "SELECT * NOT LIKE '%k%' AS val FROM u",
        "SELECT * ILIKE 'V' AS x, * NOT SIMILAR TO 'k|na.*' AS y FROM u WHERE x > 1",
        "SELECT x + 1 FROM (SELECT (* LIKE 'v') AS x FROM u)",
        "SELECT COLUMNS(* EXCLUDE (st, l) REPLACE (k + 1 AS k)), k FROM t",
        "SELECT COLUMNS(* RENAME (name AS called)) FROM u",
        "SELECT COLUMNS(* REPLACE (k * 2 AS k)) FROM (SELECT k, g FROM t) NATURAL JOIN"
        " (SELECT k, name FROM u)",
        "SELECT (* EXCLUDE (st, l)), NOT (* LIKE 'k%') AS z FROM t",
        "SELECT t.* EXCLUDE (g, d, f, b, day, st, l, v) AS z FROM t",
    ],
    "literals": [
        "SELECT typeof(.34), typeof(-.5), .5 + k, sum(.25), typeof(1_0.5), 34. FROM t GROUP BY k",
    ],
    "an index of what is computed below": [
        "SELECT x[2], count(*) FROM (SELECT string_split(g || ',c', ',') AS x FROM t) GROUP BY ALL",
        "SELECT k FROM (SELECT string_split(g, 'b') AS x, k FROM t) WHERE x[1] = 'a'",
        "SELECT x[1], x[-1], x[2:], x[1:1], x[k + 1] FROM (SELECT upper(g) AS x, k FROM t)",
        "SELECT m['a'], x[7] FROM (SELECT MAP {'a': k} AS m, MAP([7, 6], [v, 3]) AS x FROM t)",
        "SELECT j[0], j[-1], j['a'], j[1] FROM (SELECT [k, v]::JSON AS j FROM t)",
        "SELECT x[1], x[2] FROM (SELECT row(k, g) AS x FROM t)",
        "SELECT x[1][2], x[2][-1] FROM (SELECT [l, [k, 2]] AS x FROM t)",
        "WITH q AS (SELECT l || [9] AS x, st FROM t) SELECT x[1] + x[-1], st['x'], x[1 + 1] FROM q",
        "SELECT if(k > 1, 1, 2), COLUMNS('^k|v$') + 1, len(ARRAY(SELECT v FROM u)) FROM t",
    ],
    "spellings": [
        "SELECT v::NUMERIC, g::VARCHAR(17), f::NUMERIC(10), CAST(f AS DEC), g::CHAR(1) FROM t",
        "SELECT [v]::NUMERIC[], {'a': k}::STRUCT(a NUMERIC), k::INT1, d::DEC(5) FROM t",
        "SELECT st IS NOT NULL, l IS NULL, NOT st IS NULL FROM t",
        "SELECT ARRAY[k, v], ARRAY[[k], [1, 2]], ARRAY[1, 2.5], ARRAY[]::INT[] FROM t",
        "SELECT unnest(ARRAY[k, v]) FROM t",
        "SELECT k IN [1, 2, NULL], k NOT IN [1, 3], g IN ['a', 'b'], k IN l, 'a' IN g FROM t",
        "SELECT k FROM t WHERE k IN [1, 3] AND NOT g IN ['b']",
        "SELECT x'A0ff', X'00' || x'', k FROM t",
        "SELECT g LIKE 'a%' ESCAPE g[1], g ILIKE 'A$%' ESCAPE '$', g LIKE 'b' ESCAPE '' FROM t",
        "SELECT g.upper().lower(), (g).upper(), ('a' || g).length(), t.g.upper() FROM t",
        "SELECT g.trim('a'), g.trim(), l.list_transform(lambda x: x + k).len() FROM t",
        "SELECT (CASE WHEN b THEN g END).upper(), (k + v).abs() FROM t",
        "SELECT {'k': k}.struct_extract('k'), l.list_transform(lambda x: x.abs().sqrt()) FROM t",
        "SELECT list_transform([g], lambda x: x.upper().trim('A')), [x.abs() for x in l] FROM t",
        "SELECT l.list_transform(lambda k: k.abs() + k), list_filter([st], lambda z: z.x.abs() > v)"
        " FROM t",
        "SELECT k + 1 AS x, v FROM t WHERE alias.x > 1 ORDER BY alias.x, v LIMIT 3",
        "SELECT k + 1 AS v, count(*) AS n FROM t GROUP BY alias.v HAVING alias.n > 1",
        "SELECT g, v, rank() OVER (ORDER BY v) AS r FROM t QUALIFY alias.r < 5",
        "SELECT x.k, v FROM (t JOIN (SELECT DISTINCT k FROM u) AS d USING (k)) AS x",
        "SELECT * FROM (w JOIN u ON k2 = k) AS x (a, b) WHERE a > 1",
    ],
    "json arrows": [
        f'SELECT {arrows} FROM (SELECT k, \'{{"a": {{"b": [1, 2]}}}}\'::JSON AS j FROM t)'
        for arrows in (
            "j->'a'->>'b'",
            "j->'a'->'b'->>1",
            "j->'a'->'b'->1",
            "j->'a'->>'b'->>'$[1]'",
            "(j->'a'->>'b') || 'x', k",
            "j->>'a'->'b'->>'$[0]'",
            "j->lower('A')->>'b', j->'$..b', json_extract(j, '$..b')",
        )
    ],
    "values in WITH": [
        "WITH m(k, name) AS (VALUES (1, 'a'), (2, 'b')) SELECT t.v, name FROM t JOIN m USING (k)",
        "WITH m AS (VALUES (1, 'a'), (2, 'b')) SELECT v, col1 FROM t JOIN m ON k = col0",
        "WITH m(x) AS MATERIALIZED (VALUES (1), (1), (NULL)) SELECT k FROM t WHERE k IN (FROM m)",
        "WITH RECURSIVE r(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM r WHERE i < 3)"
        " SELECT i, v FROM r JOIN t ON i = k",
        "WITH a AS (VALUES (1)), b(y) AS (VALUES (3), (1) ORDER BY 1 LIMIT 1) FROM a, b, w",
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
    "range join": [
        "SELECT t.k, u.v FROM t JOIN u ON t.k < u.v",
        "SELECT t.k, t.v, u.d FROM t, u WHERE t.v >= u.d AND t.d < u.v",
        "SELECT t.f, u.d FROM t JOIN u ON t.f > u.d",
        "SELECT a.f, b.f FROM t a JOIN t b ON a.f <= b.f",
        "SELECT t.g, u.name FROM t JOIN u ON t.g < u.name WHERE t.k = 1",
        "SELECT t.day, u.ts FROM t JOIN u ON u.ts >= t.day",
        "SELECT t.k, u.v FROM t JOIN u ON t.v BETWEEN u.k AND u.v",
        "SELECT t.k, u.v FROM t JOIN u ON t.d BETWEEN u.k AND u.d",
        "SELECT t.k, u.v FROM t JOIN u ON t.k BETWEEN u.v - 1 AND u.v + 1 AND t.g <> u.name",
        "SELECT t.k, u.v FROM t JOIN u ON t.v NOT BETWEEN u.k AND u.v",
        "SELECT t.k, u.v FROM t JOIN u ON t.k = u.k AND t.v BETWEEN u.v - 2 AND u.v",
        "SELECT t.k, u.v FROM t JOIN u ON t.k = u.k AND t.d > u.d AND t.v < u.v",
        "SELECT t.k, u.v, t.l FROM t JOIN u ON t.k = u.k AND t.d > u.d",
        "SELECT t.k, t.l FROM t JOIN u ON t.v > u.v",
        "SELECT a.k, b.k FROM t a JOIN t b ON a.k < b.v AND b.k < a.v",
        "SELECT a.k, b.k FROM t a JOIN t b ON a.g IS NOT DISTINCT FROM b.g AND a.v < b.v",
        "SELECT t.k, u.v FROM t JOIN u ON t.k >= u.k AND (u.v IS NULL OR t.k < u.v)",
        "SELECT t.k, u.d FROM t JOIN u ON t.k = u.k AND t.v > u.v AND (t.d < u.d OR u.d IS NULL)",
        "SELECT t.k, u.d FROM t JOIN u ON t.k = u.k AND t.v > u.v AND (t.v <= u.d OR u.d IS NULL)",
        "SELECT t.k, t.v, u.v FROM u LEFT JOIN t ON t.k < u.k AND (t.v IS NULL OR t.v + 1 > u.v)",
        "SELECT k FROM t WHERE v > (SELECT avg(v) FROM u)",
        "SELECT k, v, (SELECT avg(v) FROM u) AS mean FROM t WHERE v > mean",
        "SELECT k FROM t WHERE v < (SELECT 0.8 * sum(v) FROM u WHERE u.k = t.k)",
        "SELECT g FROM t GROUP BY g HAVING sum(d) > (SELECT sum(d) * 0.1 FROM t)",
        "SELECT k, v FROM t WHERE f >= (SELECT min(f) FROM t WHERE b)",
        "SELECT t.k, u.v FROM t LEFT JOIN u ON t.v < u.v",
        "SELECT t.k, u.v FROM t LEFT JOIN u ON t.v BETWEEN u.k AND u.v",
        "SELECT t.k, u.v FROM t LEFT JOIN u ON t.k = u.k AND t.d >= u.d AND t.b",
        "SELECT t.k, u.v FROM t RIGHT JOIN u ON t.d >= u.d",
        "SELECT t.k, t.g, u.name FROM t RIGHT JOIN u ON t.g >= u.name AND t.k > 1",
        "SELECT t.k, u.v FROM t FULL JOIN u ON t.v > u.v",
        "SELECT t.f, u.v FROM t FULL JOIN u ON t.k = u.k AND t.f > u.d",
        "SELECT k, f FROM t SEMI JOIN u ON t.f > u.d",
        "SELECT k, f FROM t ANTI JOIN u ON t.k = u.k AND t.f <= u.d",
        "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.v > t.v AND u.d < t.d)",
        "SELECT k, v FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v > t.v)",
        "SELECT k, v FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.ts::DATE <= t.day)",
        "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.name || 'a' > t.g)",
        "SELECT k, v FROM t WHERE v > ALL (SELECT v FROM u WHERE u.k = t.k)",
        "SELECT k, v FROM t WHERE v >= ANY (SELECT d FROM u)",
    ],
    "aggregate": [
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM t WHERE FALSE",
        "SELECT sum(v), avg(v), min(v), max(v), count(v), count() FROM t WHERE FALSE",
        "SELECT g, count(*) FROM t GROUP BY g",
        "SELECT g, sum(v), avg(d), min(f), max(day), count(k) FROM t GROUP BY g",
        "SELECT g, sum(k), sum(d), avg(k), sum(f) FROM t GROUP BY g",
        "SELECT g, avg(day), avg(DISTINCT day), avg(day::TIMESTAMPTZ) FROM t GROUP BY g",
        "SELECT avg(ts), avg(ts::TIME), avg(ts::TIMESTAMP_MS) FILTER (v > 1) FROM u",
        "SELECT g, var_pop(k), var_samp(k), variance(k), stddev(k) FROM t GROUP BY g",
        "SELECT stddev_pop(v), stddev_samp(d) FROM t",
        "SELECT g, bool_and(b), bool_or(b), count_if(k > 1), bool_and(k > 1) FROM t GROUP BY g",
        "SELECT g, count(DISTINCT k), sum(DISTINCT v), avg(DISTINCT k) FROM t GROUP BY g",
        "SELECT sum(NULL), avg(NULL), bit_or(NULL), bit_and(NULL), bit_xor(NULL), sum(v) FROM t",
        "SELECT g, sum(NULL), avg(NULL), bit_or(NULL) FROM t GROUP BY g",
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
        "SELECT v, k FROM t ORDER BY t.* LIMIT 4",
        "SELECT name FROM u ORDER BY * EXCLUDE (name), name LIMIT 4",
        "SELECT name, v FROM u ORDER BY COLUMNS('k|v') + 1 DESC, name NULLS FIRST LIMIT 4",
        "SELECT name, v FROM u UNION SELECT g, k FROM t ORDER BY COLUMNS(*) LIMIT 4",
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
        # A constant that is grouped by is NULL where a set leaves it out, wherever it is written.
        "SELECT 'x' AS z, z || 'y', k, count(*) FROM t GROUP BY ROLLUP (z, k) HAVING z IS NULL",
        "SELECT k, 1 + 1 AS z, GROUPING(k, z), coalesce(k, 1 + 1) FROM t GROUP BY CUBE (z, k)",
        "SELECT g, count(*) FROM t WHERE k > 90 GROUP BY GROUPING SETS ((g, 'x'), ('y'), ())",
        "SELECT 1 AS z, max(v + 1), k + 1, k IN (1, 2) FROM t GROUP BY CUBE (k, z)",
        "SELECT NULL AS z, k IS NULL, count(*) FROM t GROUP BY CUBE (k, z) ORDER BY k, z LIMIT 4",
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

QUERIES["conditions of equal columns"] = [
    "SELECT * FROM t JOIN (SELECT k, sum(v) AS s FROM u GROUP BY k) q ON q.k = t.k WHERE t.k = 2",
    "SELECT t.v, s FROM t LEFT JOIN (SELECT k, count(*) AS s FROM u GROUP BY k) q USING (k) "
    "WHERE k IN (1, 3)",
    "SELECT t.v, s FROM (SELECT k, count(*) AS s FROM u GROUP BY k) q RIGHT JOIN t USING (k) "
    "WHERE t.k > 1 AND NOT t.k = 3",
    "SELECT t.k, q.k FROM t FULL JOIN (SELECT DISTINCT k FROM u) q ON t.k = q.k AND t.k = 2",
    "SELECT t.k, s FROM t LEFT JOIN (SELECT k, count(*) AS s FROM u GROUP BY k) q "
    "ON t.k IS NOT DISTINCT FROM q.k WHERE t.k > 1 OR t.k = 0",
    "SELECT t.k, s FROM t LEFT JOIN (SELECT v, count(*) AS s FROM u GROUP BY v) q "
    "ON t.k = q.v AND t.v = q.v WHERE t.v BETWEEN 1 AND 3",
    "SELECT v FROM t WHERE k = 1 AND k IN (SELECT k FROM u GROUP BY k HAVING count(*) > 1)",
    "SELECT v FROM t WHERE k <> 1 AND NOT EXISTS (SELECT 1 FROM (SELECT DISTINCT k FROM u) q "
    "WHERE q.k = t.k)",
    "SELECT a.g, n FROM t a, (SELECT g, count(*) AS n FROM t GROUP BY g) b, "
    "(SELECT DISTINCT g FROM w) c WHERE a.g = b.g AND b.g = c.g AND c.g > 'a'",
    "SELECT t.f, n FROM t JOIN (SELECT f, count(*) AS n FROM t GROUP BY f) q ON q.f = t.f "
    "WHERE t.f = 0",
]

QUERIES["what the reader spells otherwise"] = [
    "SELECT k IS NOT NULL AS q, b IS NOT TRUE AS r, k IS NOT DISTINCT FROM v AS s FROM t",
    "SELECT b IS NOT FALSE AS q, NOT k IS NULL AS r, NOT (b IS FALSE) AS s FROM t",
    "SELECT max(k) IS NOT NULL AS q FROM t GROUP BY g",
    "SELECT +k AS p, +3 AS q, - + k AS r, +(k + v) AS s FROM t WHERE +k > +1",
    "SELECT day + INTERVAL '15 min' AS a, day + INTERVAL '1h', INTERVAL '1.5 days' AS c FROM t",
    "SELECT day - INTERVAL '7d', day + INTERVAL '1day', day + INTERVAL '100 ms' FROM t "
    "WHERE day > DATE '2020-01-01' - INTERVAL '1 mon'",
    "SELECT sum(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '2d' PRECEDING AND CURRENT ROW) FROM u",
    "SELECT time_bucket(INTERVAL '12 hrs', ts) AS b, count(*) FROM u GROUP BY 1",
    "PIVOT (SELECT g, t.k AS m, u.v FROM t JOIN u ON u.k = t.k) ON m IN (1, 2) USING sum(v) "
    "GROUP BY g",
    "SELECT t.K, u.K, u.V AS V FROM t JOIN u ON t.K = u.K",
    "SELECT K, k, K AS k FROM t",
]

QUERIES["names that USING merges, of a further table, too"] = [
    "SELECT v, w.g FROM t JOIN u USING (v) JOIN (SELECT k2 AS v, g FROM w) w ON w.g = t.g",
    "SELECT k FROM t FULL JOIN u USING (k) LEFT JOIN (SELECT k2 AS k, g FROM w) w ON w.g = t.g",
    "SELECT k, count(*) FROM t RIGHT JOIN u USING (k) JOIN (FROM w SELECT k2 AS k) w ON w.k = u.v "
    "GROUP BY k",
    "SELECT k FROM t SEMI JOIN u USING (k) LEFT JOIN (SELECT k2 AS k, g FROM w) w ON w.g = t.g",
    "SELECT k FROM (SELECT k2 AS k, g FROM w) w JOIN (t JOIN u USING (k)) ON w.g = t.g",
]

QUERIES["columns named as an outer table"] = [
    "SELECT k FROM t WHERE EXISTS (FROM (SELECT k AS t, v FROM u) x WHERE x.t = t.k)",
    "SELECT k, (SELECT sum(v) FROM (SELECT k AS t, v FROM u) WHERE t = t.k) FROM t",
    "SELECT k, (SELECT count(*) FROM (SELECT name AS t, v FROM u) WHERE t.v > v) FROM t",
    "SELECT k FROM t WHERE k NOT IN (SELECT v FROM (SELECT [k] AS t, v FROM u) WHERE v = t.v)",
    "SELECT t.k, x.v FROM t LEFT JOIN LATERAL (SELECT v FROM (SELECT k AS t, v FROM u) "
    "WHERE t = t.k ORDER BY v LIMIT 1) x ON TRUE",
    "SELECT k, (SELECT sum((SELECT count(*) FROM w WHERE k2 = t.k)) FROM (SELECT k AS t FROM u)) "
    "FROM t",
    "SELECT k, (SELECT max(t.x) FROM (SELECT st AS t FROM t)) FROM t",
]

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
    "SELECT (SELECT sum(t.v + (SELECT max(v) FROM u))) FROM t": "an aggregate of a subquery",
    "SELECT sum(v) OVER w FROM t WINDOW w AS (ORDER BY (SELECT max(v) FROM u))": "subquery",
    "WITH RECURSIVE r(n) USING KEY (n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 3)"
    " SELECT * FROM r": "USING KEY",
    "WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT n + 1 FROM r)"
    " SELECT * FROM r LIMIT 3": "LIMIT without ORDER BY over a recursive query",
    "WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT n + 1 FROM r)"
    " SELECT DISTINCT n FROM r LIMIT 3": "LIMIT without ORDER BY over a recursive query",
    "SELECT 1 AS z, l[1] FROM t GROUP BY ROLLUP (l, z)": "beside constants in GROUPING SETS",
    "SELECT b IS TRUE, TRUE AS z FROM t GROUP BY CUBE (b, z)": "beside constants in GROUPING SETS",
    "SELECT (SELECT max(v) FROM u) AS z FROM t GROUP BY CUBE (z)": "a value of another query",
    "SELECT k, m FROM t, LATERAL (SELECT 1 AS m UNION ALL SELECT max(v) FROM u WHERE u.k = t.k)"
    " WHERE k > 0": "no row there in DuckDB",
    "SELECT k, (SELECT DISTINCT max(v) FROM u WHERE u.k = t.k) FROM t": "no row there",
    "SELECT k, ARRAY(SELECT max(v) FROM u WHERE u.k = t.k) FROM t": "no row there",
    "SELECT k, (SELECT max(u.v) FROM (SELECT max(v) FROM u WHERE u.k = t.k), u) FROM t": "no row",
    "SELECT x FROM t, LATERAL (SELECT v FROM u WHERE u.k = t.k GROUP BY CUBE (v)) q(x)": "no row",
    "SELECT k FROM t WHERE 3 IN (SELECT max(v) FROM u WHERE u.k = t.k EXCEPT SELECT 3)": "no row",
    "SELECT [INTERVAL 1 DAY] AS x FROM t LIMIT 10%": "LIMIT by what is no constant",
    "SELECT 1 FROM t GROUP BY ALL HAVING k > 1": "GROUP BY ALL",
    "SELECT rowid FROM t": "rowid",
    "SELECT upper(g COLLATE NOCASE) FROM t": "COLLATE",
    "SELECT * FROM t POSITIONAL JOIN u": "POSITIONAL",
    "SELECT to_json(struct_pack(count(*))) FROM t": "no plain name",
    "SELECT k AS q, to_json(struct_pack(q)) FROM t": "no plain name",
    'SELECT to_json(struct_pack("(k + 1)")) FROM (SELECT k + 1 FROM t)': "no plain name",
    "SELECT list_transform(l, lambda z: struct_pack(z))::VARCHAR FROM t": "no plain name",
    "SELECT t.k, u.k FROM t JOIN BY (TYPE single) u ON t.k = u.k": "a SINGLE join",
    "SELECT * FROM t JOIN BY (TYPE mark) u ON t.k = u.k": "a MARK join",
    "PIVOT t ON f IN (1, 2) USING sum(v) GROUP BY g": "PIVOT",
    "PIVOT t ON k IN (1, 2) USING sum(v) FILTER (WHERE b) GROUP BY g": "PIVOT",
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
