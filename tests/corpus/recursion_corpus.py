"""Recursive queries over e (edges), n (nodes) and s (sources) that the binder must plan."""

from __future__ import annotations

TABLES = """
CREATE TABLE e (a INTEGER, b INTEGER, w BIGINT, c DOUBLE);
CREATE TABLE n (k INTEGER, name VARCHAR, cost DECIMAL(8,2));
CREATE TABLE s (k INTEGER);
CREATE VIEW dag AS SELECT a, b, w FROM e WHERE a < b;
"""

R = "WITH RECURSIVE r(k) AS (SELECT k FROM s UNION "
RI = "WITH RECURSIVE r(k, i) AS (SELECT k, 0 FROM s UNION ALL "
REACH = R + "SELECT b FROM e JOIN r ON a = k) "
CLOSURE = "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION SELECT x, b FROM t JOIN e ON y = a) "

QUERIES: dict[str, list[str]] = {
    "reachability": [
        REACH + "SELECT * FROM r",
        REACH + "SELECT count(*), sum(k) FROM r",
        REACH + "SELECT r.k, name FROM r LEFT JOIN n ON n.k = r.k",
        REACH + "SELECT x.k, y.k FROM r x JOIN r y ON x.k < y.k",
        REACH + "SELECT k FROM n WHERE k NOT NULL EXCEPT SELECT k FROM r",
        REACH + "SELECT k FROM r ORDER BY k DESC LIMIT 2",
        REACH + "SELECT a, b FROM e SEMI JOIN r ON a = k",
        REACH + "SELECT n.k FROM n ANTI JOIN r ON n.k = r.k",
        "WITH RECURSIVE r AS (SELECT 1 AS k UNION SELECT b FROM e, r WHERE a = k AND w > 0) FROM r",
        "WITH RECURSIVE r(k) AS (FROM (VALUES (1), (2)) UNION SELECT e.b FROM r JOIN e "
        "ON r.k = e.a) FROM r",
        f"SELECT name FROM n WHERE k > 1 UNION ALL FROM ({REACH} SELECT k::VARCHAR FROM r)",
    ],
    "closure": [
        CLOSURE + "SELECT * FROM t",
        CLOSURE + "SELECT x, count(*) FROM t GROUP BY x",
        CLOSURE + "SELECT x FROM t WHERE x = y",
        CLOSURE + "SELECT * FROM t WHERE x = 2",
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION SELECT p.x, q.y FROM t p JOIN t q "
        "ON p.y = q.x) FROM t",
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION SELECT p.x, q.y FROM t p, t q, e m "
        "WHERE p.y = m.a AND m.b = q.x) FROM t",
        "WITH RECURSIVE t AS (FROM e UNION SELECT t.a, e.b, t.w, e.c FROM t JOIN e ON t.b = e.a) "
        "SELECT a, b, count(*) FROM t GROUP BY ALL",
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION (SELECT x, b FROM t JOIN e ON y = a "
        "UNION ALL SELECT y, x FROM t)) FROM t",
    ],
    "hops": [
        "WITH RECURSIVE d(k, hops) AS (SELECT k, 0 FROM s UNION SELECT b, hops + 1 FROM d JOIN e "
        "ON a = k WHERE hops < 5) SELECT k, min(hops) FROM d GROUP BY k",
        "WITH RECURSIVE d(k, far) AS (SELECT k, 0::BIGINT FROM s UNION SELECT b, far + w FROM d "
        "JOIN e ON a = k AND far + w BETWEEN 0 AND 9) "
        "SELECT k, min(far), count(*) FROM d GROUP BY k",
        "WITH RECURSIVE d(k, c) AS (SELECT k, 0.0::DOUBLE FROM s UNION SELECT b, round(d.c + e.c) "
        "FROM d JOIN e ON a = k WHERE abs(d.c + e.c) < 4) SELECT * FROM d",
    ],
    "paths": [
        "WITH RECURSIVE p(x, y, path) AS (SELECT a, b, a || '-' || b FROM dag UNION ALL "
        "SELECT x, b, path || '-' || b FROM p JOIN dag ON a = y) FROM p",
        "WITH RECURSIVE p(y, path) AS (SELECT k, [k] FROM s UNION ALL SELECT b, list_append(path, "
        "b) FROM p JOIN e ON a = y WHERE NOT list_contains(path, b) AND len(path) < 4) FROM p",
        "WITH RECURSIVE p(y, path) AS (SELECT k, [k] FROM s UNION SELECT b, list_append(path, b) "
        "FROM p JOIN e ON a = y WHERE NOT list_contains(path, b) AND len(path) < 4) FROM p",
    ],
    "bill of materials": [
        "WITH RECURSIVE m(part, child, many) AS (SELECT a, b, w FROM dag UNION ALL SELECT part, b, "
        "many * w FROM m JOIN dag ON a = child) SELECT part, child, sum(many) FROM m GROUP BY ALL",
        "WITH RECURSIVE m(part, many) AS (SELECT k, 1::BIGINT FROM s UNION ALL SELECT b, many * w "
        "FROM m JOIN dag ON a = part) SELECT sum(many * cost), count(*) FROM m "
        "JOIN n ON n.k = part",
        "WITH RECURSIVE m(part, many) AS (SELECT k, 1::BIGINT FROM s UNION ALL SELECT b, "
        "sum(many * w)::BIGINT FROM m JOIN dag ON a = part GROUP BY b) FROM m",
    ],
    "same generation": [
        "WITH RECURSIVE g(x, y) AS (SELECT p.b, q.b FROM e p JOIN e q ON p.a = q.a UNION "
        "SELECT p.b, q.b FROM g JOIN e p ON p.a = g.x JOIN e q ON q.a = g.y) FROM g WHERE x < y",
    ],
    "several": [
        REACH + ", back(k) AS (SELECT k FROM s UNION SELECT a FROM e JOIN back ON b = k) "
        "SELECT k FROM r INTERSECT SELECT k FROM back",
        REACH + ", t(x, y) AS (SELECT k, k FROM r UNION SELECT x, b FROM t JOIN e ON a = y "
        "JOIN r ON r.k = b) SELECT * FROM t",
        REACH + ", plain AS (SELECT max(k) AS top FROM r) SELECT r.k FROM r, plain WHERE k < top",
        "WITH RECURSIVE o AS (SELECT max(k) AS top FROM s), r(k) AS (SELECT top FROM o UNION "
        "SELECT b FROM e JOIN r ON a = k JOIN o ON b <> top) SELECT * FROM r, o",
        "WITH RECURSIVE x AS (SELECT 1 UNION ALL SELECT k FROM s) SELECT * FROM x",
        R + "SELECT b FROM (WITH RECURSIVE q(a, b) AS (SELECT a, b FROM e UNION SELECT q.a, e.b "
        "FROM q JOIN e ON q.b = e.a) FROM q) AS q JOIN r ON q.a = k) FROM r",
    ],
    "filter": [
        CLOSURE + "SELECT y FROM t WHERE x = 2 AND y > 1",
        CLOSURE + "SELECT y FROM t WHERE y = 2",
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION SELECT p.x, q.y FROM t p JOIN t q "
        "ON p.y = q.x) SELECT y FROM t WHERE x < 2",
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION (SELECT x, b FROM t JOIN e ON y = a "
        "UNION ALL SELECT y, x FROM t)) SELECT y FROM t WHERE x = 1",
        "WITH RECURSIVE t(x, y, i) AS (SELECT a, b, 0 FROM e UNION ALL (SELECT x, b, i + 1 FROM t "
        "LEFT JOIN e ON y = a WHERE i < 2 UNION ALL SELECT x, k, 4 FROM t JOIN s ON k = y "
        "WHERE i < 2)) SELECT * FROM t WHERE x <> 3 AND i > 0",
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION (SELECT x, b FROM t JOIN e ON y = a "
        "UNION ALL SELECT k, k FROM n)) SELECT * FROM t WHERE x = 1",
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION SELECT x, count(*) FROM t GROUP BY x) "
        "SELECT y FROM t WHERE x = 1",
    ],
    "join": [
        RI + "SELECT e.b, i + 1 FROM r LEFT JOIN e ON a = k WHERE i < 3) FROM r",
        R + "SELECT coalesce(r.k, n.k) FROM n LEFT JOIN r ON r.k + 1 = n.k) FROM r",
        R + "SELECT coalesce(r.k, n.k) FROM r RIGHT JOIN n ON r.k = n.k AND n.cost > 1) FROM r",
        R + "SELECT n.k FROM n ANTI JOIN r ON n.k = r.k WHERE n.k < 3) FROM r",
        R + "SELECT n.k FROM n SEMI JOIN r ON n.k = r.k + 1) FROM r",
        R + "SELECT n.k FROM n SEMI JOIN r ON n.k = r.k + 1 AND n.cost > r.k) FROM r",
        R + "FROM ((SELECT b FROM e SEMI JOIN r ON a = k) "
        "UNION ALL (SELECT n.k FROM n SEMI JOIN r ON n.k = r.k + 1))) FROM r",
        R + "SELECT b FROM (FROM e SEMI JOIN s ON e.w = s.k) AS e JOIN r ON a = k) FROM r",
        R + "SELECT b FROM r JOIN e ON a = k ANTI JOIN n ON n.k = b) FROM r",
        R + "SELECT coalesce(p.k, q.k + 1) FROM r p FULL JOIN (SELECT k + 1 AS k FROM r "
        "WHERE k < 4) q ON p.k = q.k) FROM r",
        R + "SELECT coalesce(p.k, q.k + 1) FROM r p RIGHT JOIN (SELECT k + 1 AS k FROM r "
        "WHERE k < 4) q ON p.k = q.k) FROM r",
        R + "SELECT coalesce(r.k, n.k) FROM r FULL JOIN n ON r.k = n.k AND n.cost > 1) FROM r",
        R + "SELECT w FROM e JOIN r ON a = k) FROM r",
        R + "SELECT r.k FROM r, n WHERE n.k > r.k) FROM r",
        "WITH RECURSIVE r(k, name) AS (SELECT k, name FROM n UNION SELECT r.k, n.name FROM r JOIN "
        "e ON r.k = a JOIN n ON n.k = b WHERE n.name LIKE 'a%' OR n.name IS NULL) FROM r",
    ],
    "aggregate": [
        R + "SELECT DISTINCT b FROM e JOIN r ON a = k) FROM r",
        RI + "SELECT DISTINCT b, i + 1 FROM e JOIN r ON a = k WHERE i < 4) FROM r",
        RI + "SELECT max(b), i + 1 FROM e JOIN r ON a = k WHERE i < 4 GROUP BY i) FROM r",
        "WITH RECURSIVE r(k) AS (SELECT max(k) FROM s UNION SELECT max(b) FROM e JOIN r ON a = k) "
        "FROM r",
        R + "SELECT count(*) FROM e JOIN r ON a = k) FROM r",
        RI + "SELECT count(*), max(i) + 1 FROM r WHERE i < 3 AND k > 0 HAVING max(i) < 3) FROM r",
        "WITH RECURSIVE r(c, i) AS (SELECT c, 0 FROM e UNION ALL SELECT sum(c), i + 1 FROM r "
        "WHERE i < 3 GROUP BY i) FROM r",
        "WITH RECURSIVE r(k, l) AS (SELECT k, 0 FROM s UNION SELECT k + 1, len(list(k)) FROM r "
        "WHERE k < 5 GROUP BY k) FROM r",
    ],
    "set operation": [
        R + "(SELECT b FROM e JOIN r ON a = k EXCEPT SELECT k FROM n)) FROM r",
        R + "(SELECT b FROM e JOIN r ON a = k INTERSECT SELECT k + 1 FROM r)) FROM r",
        RI + "(SELECT b, i + 1 FROM e JOIN r ON a = k WHERE i < 3 EXCEPT ALL SELECT k, 2 FROM n)) "
        "FROM r",
        R + "(SELECT b FROM e JOIN r ON a = k UNION ALL SELECT k FROM n WHERE cost > 2)) FROM r",
    ],
    "order": [
        R + "SELECT b FROM (SELECT b FROM e JOIN r ON a = k ORDER BY b LIMIT 1)) FROM r",
        R + "SELECT b FROM (SELECT b, row_number() OVER (PARTITION BY a ORDER BY b, k) AS nr "
        "FROM e JOIN r ON a = k) WHERE nr <= 2) FROM r",
        RI + "SELECT k + 1, sum(i) OVER w + lag(k, 1, 0) OVER w FROM r WHERE k < 4 "
        "WINDOW w AS (PARTITION BY k % 2 ORDER BY k, i)) FROM r",
        RI + "SELECT b, rank() OVER (ORDER BY b, w) FROM r JOIN e ON a = k WHERE i = 0) FROM r",
        RI + "SELECT k + 1, nr FROM (SELECT k, count(*) OVER (PARTITION BY k % 2) AS nr FROM r "
        "WHERE k < 4)) FROM r",
    ],
    "subquery": [
        R + "SELECT b FROM e WHERE a IN (SELECT k FROM r)) FROM r",
        R + "SELECT b FROM e WHERE EXISTS (SELECT 1 FROM r WHERE k = a AND k < b)) FROM r",
        R + "SELECT k FROM n WHERE k < 4 AND NOT EXISTS (SELECT 1 FROM r WHERE r.k = n.k)) FROM r",
        R + "SELECT k FROM n WHERE k NOT IN (SELECT k FROM r WHERE k IS NOT NULL)) FROM r",
        R + "SELECT b FROM e WHERE a = (SELECT max(k) FROM r)) FROM r",
        R + "SELECT (SELECT max(b) FROM e WHERE a = r.k) FROM r) FROM r",
        R + "SELECT (SELECT count(*) FROM e JOIN r AS q ON a = q.k WHERE b = r.k) FROM r) FROM r",
        R + "SELECT b FROM r, LATERAL (SELECT b FROM e WHERE a = r.k)) FROM r",
        REACH + "SELECT k, (SELECT count(*) FROM r WHERE r.k > n.k) FROM n WHERE k IN (FROM r)",
    ],
    "correlated": [
        "SELECT k, (WITH RECURSIVE q(x) AS (SELECT n.k UNION SELECT b FROM e JOIN q ON a = x) "
        "SELECT count(*) FROM q) FROM n",
        "SELECT k, (WITH RECURSIVE q(x) AS (SELECT k FROM s UNION SELECT b FROM e JOIN q ON a = x "
        "WHERE b <> n.k) SELECT max(x) FROM q) FROM n",
        "SELECT k, x, c FROM n, LATERAL (WITH RECURSIVE q(x, i) AS (SELECT n.k, 0 UNION ALL "
        "SELECT b, i + 1 FROM e JOIN q ON a = x WHERE i < n.cost AND i < 3) "
        "SELECT x, count(*) AS c FROM q GROUP BY x)",
        "SELECT k FROM n WHERE EXISTS (WITH RECURSIVE q(x) AS (SELECT n.k UNION SELECT b FROM e "
        "JOIN q ON a = x) SELECT 1 FROM q JOIN s ON s.k = x)",
        "SELECT k FROM n WHERE k NOT IN (WITH RECURSIVE q(x, y) AS (SELECT a, b FROM e WHERE "
        "a > n.k UNION SELECT p.x, q.y FROM q p JOIN q ON p.y = q.x) SELECT y FROM q WHERE y > 0)",
        "SELECT k, (WITH RECURSIVE q(x) AS (SELECT n.k UNION SELECT max(b) FROM e JOIN q ON a = x "
        "GROUP BY x) SELECT sum(x) FROM q) FROM n",
        "SELECT k, (WITH RECURSIVE q(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM q WHERE x < n.k) "
        "SELECT sum(x) FROM q) FROM n",
    ],
    "types": [
        "WITH RECURSIVE r(k) AS (SELECT k::VARCHAR FROM s UNION SELECT b FROM e JOIN r "
        "ON a = k::INTEGER) FROM r",
        "WITH RECURSIVE r(c) AS (SELECT c FROM e UNION SELECT -c FROM r) FROM r",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1.5 FROM r WHERE n < 9) FROM r",
        R + "SELECT unnest([k + 1, k + 2]) FROM r WHERE k < 5) FROM r",
        RI + "SELECT x, i + 1 FROM r, unnest(range(k)) AS u(x) WHERE i < 3) FROM r",
    ],
    "constant": [
        "WITH RECURSIVE r(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < 6) FROM r",
        "WITH RECURSIVE r(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < 6) "
        "SELECT r.k, name FROM r JOIN n ON n.k = r.k",
    ],
}
