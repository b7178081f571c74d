"""Statements for the changes of rows that a key, a look at all, or a query of DuckDB's finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.duckdb_twin import Twin

TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, n TINYINT DEFAULT 7, s VARCHAR DEFAULT 'd',
                x DOUBLE CHECK (x < 1000), m DECIMAL(9,2) NOT NULL DEFAULT 1);
CREATE TABLE pair (a VARCHAR, b UTINYINT, v INTEGER, PRIMARY KEY (a, b));
CREATE TABLE plain (k INTEGER, v VARCHAR);
CREATE TABLE u (i INTEGER, w VARCHAR, c DOUBLE);
INSERT INTO t SELECT i, i, 's' || i, i / 2, i FROM range(12) r(i);
INSERT INTO t VALUES (77, NULL, NULL, NULL, 0);
INSERT INTO pair VALUES ('x', 1, 10), ('x', 2, 20), ('it''s', 1, 30);
INSERT INTO plain VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
INSERT INTO u SELECT 2 * i, chr(97 + i::INTEGER), i / 4 FROM range(9) r(i);
INSERT INTO u VALUES (NULL, 'none', 1);
CREATE MACRO odd(i) AS i % 2 = 1;
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT n % 2 AS odd, count(*) AS c, sum(m) AS m FROM t GROUP BY 1;
CREATE MATERIALIZED VIEW w AS SELECT t.s, v, b FROM t JOIN pair ON n = b
"""
NAMES = ("t", "pair", "plain", "u")
MERGE = "MERGE INTO t USING u ON id = i"
BY_KEY: list[tuple[str, Any]] = [
    ("UPDATE t SET n = i + 1, s = w || s FROM u WHERE id = i", None),
    ("UPDATE t AS k SET n = k.n + 1, x = NULL FROM u AS o WHERE o.i = k.id AND o.c > 0.5", None),
    ("UPDATE t SET n = i + ?, s = ? FROM u WHERE id = i AND c > ? AND s <> w", [3, "z", 0.5]),
    ("UPDATE t SET n = i + $p FROM u WHERE id = i AND c > $q", {"p": 1, "q": 0.5}),
    (
        "UPDATE t SET m = q.a FROM (SELECT i AS a, w FROM u) q WHERE id = q.a RETURNING id, m",
        None,
    ),
    ("UPDATE t SET m = a FROM (SELECT 3, 9.999) q(k, a) WHERE t.id = q.k RETURNING *", None),
    ("WITH c AS (SELECT 4 AS k) UPDATE t SET n = c.k + 1 FROM c WHERE c.k = t.id", None),
    ("UPDATE t SET n = o.n + 1 FROM t AS o WHERE t.id = o.id", None),
    ("UPDATE t SET n = 5 FROM (SELECT 100 AS k) q WHERE id = k", None),
    ("UPDATE t SET n = 5 FROM u WHERE id = i AND false", None),
    ("UPDATE t SET n = c FROM u WHERE id = i AND u.c > 0.5 AND (u.w = ? OR U.i <> 2)", ["b"]),
    ("UPDATE t SET n = c FROM u WHERE id = i AND c > 0.5 AND W <> 'd' AND \"C\" < n", None),
    (
        "UPDATE t AS k SET n = 1 FROM u q WHERE k.id = q.i AND q.c BETWEEN $a AND $b AND k.n > 0"
        " AND q.w IS NOT NULL",
        {"a": 0, "b": 9},
    ),
    (
        'DELETE FROM t USING u AS "O" WHERE id = i AND o."c" IN (0.5, 1.5, NULL)'
        " AND \"O\".w LIKE '%a%'",
        None,
    ),
    (
        "UPDATE pair SET v = 7 FROM (SELECT 'x' AS k, 2 AS l) q WHERE a = k AND b = l",
        None,
    ),
    ("UPDATE t SET n = q.c FROM v AS q WHERE t.id = q.odd", None),
    ("UPDATE t SET x = c, n = i IS DISTINCT FROM 2 FROM u WHERE id = i", None),
    ("UPDATE t SET x = c FROM u WHERE id = i AND x IS DISTINCT FROM c RETURNING id, x", None),
    (
        "UPDATE t SET n = b, s = a || w FROM u JOIN pair ON u.i = b * 2 AND pair.v < 25"
        " WHERE id = i",
        None,
    ),
    (
        "UPDATE t AS k SET n = p.b + ?, s = P.A FROM u q, pair p, (SELECT DISTINCT k FROM plain) d"
        " WHERE q.i = k.id AND p.b = q.i / 2 AND d.k = p.b AND q.c > ? AND p.v < 25"
        " RETURNING k.id, s",
        [1, 0.1],
    ),
    ("DELETE FROM t USING u LEFT JOIN pair AS p ON p.b = u.i WHERE id = i AND p.v IS NULL", None),
    ("UPDATE t SET n = j FROM u, LATERAL (SELECT u.i + 1 AS j) l WHERE l.j = t.id", None),
    ("DELETE FROM t USING u AS a FULL JOIN u AS b ON a.i = b.i + 2 WHERE t.id = b.i", None),
    (
        "UPDATE t SET n = $n FROM u ASOF JOIN (SELECT i, c AS z FROM u) q ON u.i > q.i"
        " WHERE id = q.i AND q.z > $z",
        {"n": 3, "z": 1},
    ),
    ("DELETE FROM t USING u, WHERE t.id = u.i", None),
    (
        "WITH c(k, d) AS (VALUES (4, 'x'), (5, 'y')) UPDATE t SET s = d FROM c JOIN u ON k = i"
        " WHERE id = c.k",
        None,
    ),
    ("DELETE FROM t USING u WHERE id = i", None),
    ("DELETE FROM t USING u WHERE id = i AND t.x IS NOT DISTINCT FROM u.c * 2", None),
    ("DELETE FROM t USING u WHERE id = i AND n > c + 3 RETURNING *", None),
    ("DELETE FROM t USING (VALUES (1), (1), (2)) q(k) WHERE t.id = q.k RETURNING id", None),
    ("DELETE FROM pair USING u WHERE a = w AND b = i", None),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT i FROM u WHERE c > 1)", None),
    (
        "UPDATE t AS k SET n = n + 1 WHERE n > ? AND K.id IN (FROM u SELECT 2 * i - 3) RETURNING *",
        [0],
    ),
    ("WITH big AS (SELECT i FROM u WHERE i > 3) UPDATE t SET n = 0 WHERE id IN (FROM big)", None),
    ("UPDATE t SET n = 2 WHERE EXISTS (FROM u WHERE u.i = t.id)", None),
    (
        'UPDATE t k SET n = 2 WHERE n > 0 AND EXISTS (SELECT 1 FROM u AS "O"'
        ' WHERE o.c > ? AND K."id" = "O" . i AND o.w IS NOT NULL) RETURNING id',
        [0.5],
    ),
    (
        "DELETE FROM t WHERE EXISTS (SELECT * FROM (SELECT i + 2 AS j FROM u) q WHERE q.j = t.id)",
        None,
    ),
    ('DELETE FROM t WHERE "id" IN (SELECT i + $a FROM u UNION ALL SELECT i FROM u)', {"a": 2}),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET n = i, s = w", None),
    (f"{MERGE} WHEN MATCHED AND c > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET x = c", None),
    (f"{MERGE} WHEN MATCHED THEN DO NOTHING", None),
    (f"{MERGE} WHEN MATCHED AND x IS DISTINCT FROM c THEN UPDATE SET x = c", None),
    (
        "MERGE INTO t USING (SELECT 50 AS id, 5 AS n) q ON t.id = q.id"
        " WHEN NOT MATCHED AND n > 1 THEN INSERT (id, n) VALUES (id, n)",
        None,
    ),
    ("UPDATE t SET s = k FROM (SELECT 3 AS id, 'k' AS k, 2.5 AS x) q WHERE t.id = q.id", None),
    (
        f"{MERGE} AND i IS NOT NULL WHEN NOT MATCHED AND i > 13 THEN INSERT (s, id) VALUES (w, i)",
        None,
    ),
    (
        "MERGE INTO t AS k USING (SELECT i + ? AS id, c AS x FROM u WHERE i > ?) q ON q.id = k.id"
        " WHEN MATCHED THEN UPDATE SET x = q.x + k.x"
        " WHEN NOT MATCHED BY TARGET THEN INSERT (id, x, m) VALUES (q.id, q.x * 2, 3)",
        [1, 2],
    ),
    (
        "MERGE INTO t USING (SELECT i + 5, 1, 'n', 2.5, 1 FROM u WHERE i > 3) q(id, n, s, x, m)"
        " ON t.id = q.id WHEN MATCHED THEN UPDATE SET s = q.s WHEN NOT MATCHED THEN INSERT",
        None,
    ),
    (
        "MERGE INTO pair USING (SELECT 'x' AS a, 1 AS b UNION ALL SELECT 'y', 3) q"
        " ON pair.a = q.a AND pair.b = q.b WHEN MATCHED AND pair.v > 5 THEN DELETE"
        " WHEN NOT MATCHED AND q.b = 3 THEN INSERT VALUES (q.a, q.b, 4)",
        None,
    ),
]
"""The key index finds the rows for those of a source."""
LOOKED: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 1, s = s || '!' WHERE n > 2", None),
    ("UPDATE t SET n = n + 1 WHERE x < 3 OR s LIKE '%1' RETURNING id, n, s AS text", None),
    ("UPDATE T AS k SET N = k.n + 1, x = NULL WHERE K.Id BETWEEN 3 AND 6", None),
    ("UPDATE t SET m = m * ?, s = ? WHERE n IN (?, ?) AND length(s) > ?", [2, "z", 1, 2, 1]),
    ("UPDATE t SET m = $m WHERE n >= $n AND $n IS NOT NULL", {"m": 3, "n": 2}),
    ("UPDATE t SET n = 1 WHERE n -- only the third, WHERE\n = 3 /* RETURNING */ AND id > 3", None),
    ("UPDATE t SET n = 9 WHERE false", None),
    ("UPDATE t SET n = 9 WHERE n IS NOT DISTINCT FROM NULL OR n IS NOT DISTINCT FROM 3", None),
    ("UPDATE t SET n = 9 WHERE upper(s) LIKE '%1' OR abs(id - 5) % 4 = ?", [1]),
    ("UPDATE t SET n = 9 WHERE n IS NULL RETURNING *", None),
    ("UPDATE pair SET v = v + 1 WHERE v > 10", None),
    ("UPDATE pair SET v = b WHERE a LIKE 'it%'", None),
    ("DELETE FROM t WHERE n = 1", None),
    ("DELETE FROM t AS k WHERE k.x > 2 AND k.s <> 's7' RETURNING k.id, m", None),
    ("DELETE FROM t WHERE id % ? = ?", [3, 1]),
    ("DELETE FROM pair WHERE b = 1 OR a = 'x'", None),
]
"""Kernels find the rows among all in the key index."""
QUERIED: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 1 WHERE id IN (SELECT n FROM u)", None),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT i FROM u WHERE u.w <> s AND i > ?) AND m > 0", [1]),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT i::DOUBLE FROM u)", None),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT i FROM u) AND n IN (SELECT b FROM pair)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (SELECT 1 FROM u WHERE i = id)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (SELECT max(i) FROM u WHERE u.i = t.id)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.id LIMIT 0)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (SELECT 1 FROM t WHERE t.id = t.n)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.n = t.id AND o.m > t.m)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (SELECT 1 FROM u, pair WHERE u.i = t.id)", None),
    ("UPDATE t SET n = 1 WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.i = t.id)", None),
    ("UPDATE t SET n = 1 WHERE main.t.id IN (SELECT i FROM u)", None),
    ("DELETE FROM pair WHERE a IN (SELECT w FROM u)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (FROM u WHERE u.i = t.id AND u.w <> t.s)", None),
    ("UPDATE t SET n = 1 WHERE id = (SELECT max(id) FROM t)", None),
    ("UPDATE t SET n = 1 WHERE n = (SELECT max(n) FROM t AS o WHERE o.id < t.id)", None),
    ("UPDATE main.t SET n = 1 WHERE main.t.n = 3", None),
    ("UPDATE t SET n = 1 WHERE odd(id)", None),
    ("UPDATE t SET n = 9", None),
    ("DELETE FROM t WHERE s LIKE 's%' AND substr(s, 2)::INTEGER > 4", None),
    ("DELETE FROM t WHERE n IN (SELECT b FROM pair) OR n IS NULL", None),
    ("UPDATE t SET s = w FROM u WHERE n + 1 = u.i", None),
    ("UPDATE t SET n = o.c FROM u AS o WHERE o.i = t.id + 2 AND o.w > 'b' RETURNING id", None),
    ("UPDATE pair SET v = q.k FROM (SELECT 2 AS k) q WHERE b = q.k", None),
    ("DELETE FROM t USING u WHERE n = u.i AND u.c < 2", None),
    ("DELETE FROM t USING u AS o WHERE t.id > o.i + 4 RETURNING t.id", None),
    ("DELETE FROM t USING (VALUES (1), (1)) q(k) WHERE n = k", None),
    ("UPDATE t SET n = (SELECT max(b) FROM pair) FROM u WHERE id = i", None),
    ("UPDATE t SET n = (VALUES (2)), s = w FROM u WHERE id = i RETURNING *", None),
    ("UPDATE t SET n = (SELECT max(i) FROM u) WHERE n = 1", None),
    ("UPDATE t SET x = (SELECT sum(c) FROM u WHERE i < t.id), s = s || n", None),
    (
        "UPDATE t AS k SET s = (FROM pair SELECT max(a) WHERE b = k.n AND v > ?), n = n + ?,"
        " x = (SELECT avg(n) FROM t AS o WHERE o.id <> k.id) WHERE k.id IN (SELECT i FROM u)",
        [5, 1],
    ),
    ("WITH c AS (SELECT 5 AS z) UPDATE t SET n = (SELECT z + id FROM c) WHERE id = 3", None),
    (
        "UPDATE t SET m = (SELECT p.v + u.i FROM pair p LIMIT 1) FROM u, plain WHERE id = i AND k=1"
        " AND v IS NULL",
        None,
    ),
    ("UPDATE t SET n = (SELECT b FROM pair WHERE pair.v = t.n * 10) WHERE id < 4", None),
    ("UPDATE t SET n = 1 FROM u, pair WHERE id = i AND b = i", None),
    ("UPDATE t SET n = p.v FROM u, pair p WHERE t.id = u.i AND t.n = p.b AND p.a = 'x'", None),
    ("DELETE FROM t USING u CROSS JOIN pair AS p WHERE id = i AND b = n RETURNING id, s", None),
    ("DELETE FROM t USING u JOIN pair ON c < v WHERE n = i", None),
    ("DELETE FROM t USING u JOIN pair ON left(a, 1) = 'x' WHERE id = i AND n = b", None),
    ("UPDATE t SET s = z FROM (SELECT 2 AS y, 'q' AS z) q, u WHERE n = y AND i = id", None),
    ("UPDATE t SET n = p.b FROM u POSITIONAL JOIN pair p WHERE id = i AND p.v < 99", None),
]
"""DuckDB finds the rows."""
NATIVE: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 1 FROM u WHERE id = c", None),
    ("UPDATE t SET n = 1 FROM u WHERE id = i OR id = 1", None),
    ("UPDATE t SET n = 1 FROM (VALUES (1), (1)) q(k) WHERE id = k", None),
    ("UPDATE t SET n = DEFAULT FROM u WHERE id = i", None),
    ("UPDATE t SET id = 100 FROM u WHERE id = i AND i = 2", None),
    ("UPDATE plain SET v = 'x' FROM u WHERE k = i + 1", None),
    ("MERGE INTO t USING u ON id = i WHEN NOT MATCHED BY SOURCE THEN DELETE", None),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET s = w RETURNING merge_action, id", None),
    ("MERGE INTO t USING (SELECT 3 AS id) q USING (id) WHEN MATCHED THEN DELETE", None),
    ("UPDATE t SET n = DEFAULT WHERE n = 1", None),
    ("UPDATE t SET n = (SELECT max(i) FROM u) - 10 WHERE n = 1", None),
    ("UPDATE t SET n = 1 FROM u, plain JOIN pair ON b = i WHERE t.id = u.i", None),
    ("UPDATE t SET id = (SELECT 100) WHERE n = 2", None),
    ("UPDATE t SET id = id + 100 WHERE n = 2", None),
    ("UPDATE t SET s = w FROM u WHERE n >= u.i AND u.i = 0 AND t.id = t.n", None),
    ("UPDATE plain SET v = 'x' WHERE k = 1", None),
    ("DELETE FROM plain WHERE k IS NULL", None),
    ("UPDATE t SET n = 1 FROM u, pair WHERE n = u.i AND v > 10", None),
    ("UPDATE t SET n = i FROM u JOIN u AS o USING (i) WHERE t.id = o.i AND i > 2", None),
    ("UPDATE t SET n = q.i FROM u NATURAL JOIN (SELECT i FROM u) q WHERE id = q.i", None),
    ("DELETE FROM t USING u AS a FULL JOIN u AS b USING (i) WHERE t.id = b.i", None),
]
"""DuckDB makes the change."""
WRONG: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 300 FROM u WHERE id = i", None),
    ("UPDATE t SET n = n + 127 FROM u WHERE id = i", None),
    ("UPDATE t SET m = NULL FROM u WHERE id = i", None),
    ("UPDATE t SET x = 5000 FROM u WHERE id = i", None),
    ("UPDATE t SET nope = 1 FROM u WHERE id = i", None),
    ("WITH t AS (SELECT 3 AS k) UPDATE t SET n = 9 FROM t AS q WHERE id = q.k", None),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT i, w FROM u)", None),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT nope FROM u)", None),
    ("UPDATE t SET n = __ivm_key WHERE id IN (SELECT i FROM u)", None),
    ("UPDATE t SET n = c WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.id)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (SELECT 1 FROM u WHERE u.i = nope.id)", None),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT i::VARCHAR FROM u)", None),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT w::INTEGER FROM u)", None),
    ("UPDATE t SET n = 300 WHERE id IN (SELECT i FROM u)", None),
    ("UPDATE t SET n = 1 FROM u WHERE id = nope", None),
    ("UPDATE t SET n = 1 FROM u JOIN pair ON b = t.n WHERE id = i", None),
    ("UPDATE t SET n = 1 FROM u, u WHERE t.id = u.i", None),
    ("DELETE FROM t USING u, plain JOIN pair ON pair.b = u.i WHERE t.id = u.i", None),
    ("UPDATE t SET (n, s) = (SELECT 1, 'x') WHERE n = 1", None),
    ("UPDATE t SET n = 1 FROM u JOIN t ON t.n = u.i WHERE id = i", None),
    ("UPDATE t SET n = p.w FROM u JOIN pair p ON u.i = p.b WHERE t.id = u.i", None),
    ("DELETE FROM t USING u ON u.i = 2 WHERE t.id = u.i", None),
    ("UPDATE t SET n = nope FROM u WHERE id = i", None),
    ("UPDATE t SET n = (SELECT b FROM pair) WHERE id = 1", None),
    ("UPDATE t SET n = (SELECT 300) WHERE id = 1", None),
    ("UPDATE t SET n = (SELECT a FROM pair LIMIT 1) WHERE id = 1", None),
    ("UPDATE t SET n = (SELECT nope FROM pair) WHERE id = 1", None),
    ("UPDATE t SET n = (SELECT b, v FROM pair LIMIT 1) WHERE id = 1", None),
    ("UPDATE t SET m = (SELECT NULL) WHERE id = 1", None),
    ("UPDATE t SET n = (SELECT 1), n = (SELECT 2) WHERE id = 1", None),
    ("UPDATE t SET n = 1, n = 2 FROM u WHERE id = i", None),
    ("UPDATE t SET n = 1 FROM (SELECT 1 AS id) q WHERE id = q.id", None),
    ("UPDATE t SET n = m FROM (SELECT 1 AS k, 2 AS m) q WHERE id = k", None),
    (
        "MERGE INTO t USING (SELECT 1 AS id, 5 AS n) q ON t.id = q.id"
        " WHEN MATCHED THEN UPDATE SET n = n + 1",
        None,
    ),
    ("UPDATE t SET n = u.n FROM u WHERE id = i", None),
    ("UPDATE t SET x = 1 FROM (SELECT i, c AS x FROM u) t WHERE id = i AND t.x > 0", None),
    ("DELETE FROM t USING (SELECT i, c AS x FROM u) t WHERE id = i AND t.x > 0", None),
    ("UPDATE t SET n = 1 FROM u WHERE id = i AND rowid >= 0", None),
    ("DELETE FROM t USING u, pair WHERE id = i AND b = i AND rowid >= 0", None),
    ("UPDATE t SET n = 1 FROM (SELECT i, 5 AS rowid FROM u) q WHERE id = i AND rowid = 5", None),
    ("UPDATE t AS k SET n = t.n FROM u WHERE id = i", None),
    ("UPDATE t SET n = ? FROM u WHERE id = i", []),
    ("UPDATE t SET n = ? FROM u WHERE id = i", [1, 2]),
    ("UPDATE t SET n = count(*) FROM u WHERE id = i", None),
    ("DELETE FROM t USING nope WHERE id = i", None),
    ("DELETE FROM t USING u WHERE id = i RETURNING nope", None),
    (
        "MERGE INTO t USING (VALUES (1), (1)) q(k) ON id = k WHEN MATCHED THEN DELETE",
        None,
    ),
    (
        "MERGE INTO t USING (VALUES (71), (71)) q(k) ON id = k"
        " WHEN NOT MATCHED THEN INSERT (id) VALUES (k)",
        None,
    ),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (id) VALUES (i)", None),
    (f"{MERGE} AND c > 100 WHEN NOT MATCHED THEN INSERT (id) VALUES (i)", None),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (id, s) VALUES (i)", None),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (id, s) VALUES (i, t.s)", None),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT", None),
    (f"{MERGE} WHEN MATCHED THEN INSERT (id) VALUES (i)", None),
    ("WITH t AS (SELECT 3 AS k) UPDATE t SET n = 9 WHERE id IN (SELECT k FROM t)", None),
    ('WITH "T" (id) AS (SELECT 3) DELETE FROM t WHERE n = 3 AND id IN (SELECT id FROM t)', None),
    ("UPDATE t SET n = 300 WHERE n = 1", None),
    ("UPDATE t SET n = n + 127 WHERE n > 1", None),
    ("UPDATE t SET m = NULL WHERE n = 1", None),
    ("UPDATE t SET x = 5000 WHERE n = 1", None),
    ("UPDATE t SET nope = 1 WHERE n = 1", None),
    ("UPDATE t SET n = 1 WHERE nope = 1", None),
    ("UPDATE t SET n = 1 WHERE s::INTEGER = 1", None),
    ("UPDATE t SET n = 1 WHERE (id * 50)::TINYINT > 3", None),
    ("UPDATE t SET n = 1 WHERE __ivm_0 = 1", None),
    ("UPDATE t SET n = __ivm_0 WHERE n = 1", None),
    ("UPDATE t SET n = t.__ivm_0 WHERE n = 1", None),
    ("UPDATE t SET n = 1 WHERE count(*) = 1", None),
    ("UPDATE t SET n = row_number() OVER () WHERE n = 1", None),
    ("UPDATE t SET n = 1 WHERE row_number() OVER () = 1", None),
    ("UPDATE t SET n = unnest([1]) WHERE n = 1", None),
    ("UPDATE t AS k SET n = 1 WHERE t.n = 1", None),
    ("UPDATE t SET n = ? WHERE n = ?", [1]),
    ("UPDATE t SET n = ? WHERE n = 1", [1, 2]),
    ("UPDATE t SET n = 1 FROM (SELECT t.n AS k) q WHERE n = k", None),
    ("UPDATE t SET n = 1 FROM u WHERE n = u.i AND w = nope", None),
    ("DELETE FROM t WHERE n = 1 RETURNING nope", None),
    ("DELETE FROM t WHERE n = 1 GROUP BY n", None),
    ("DELETE FROM t USING nope WHERE n = 1", None),
]
"""DuckDB refuses these."""


def twin(path: Path | None = None) -> Twin:
    return Twin(TABLES, VIEWS, NAMES, path)


def run(both: Twin, sql: str, params: Any) -> bool:
    """Runs a statement in both; for the plain DuckDB, a query stands in the place of the view."""
    query = "(SELECT n % 2 AS odd, count(*) AS c FROM t GROUP BY 1)"
    plain = sql.replace("FROM v AS q", f"FROM {query} AS q")
    return both.compare(lambda db: db.execute(plain if db is both.duck else sql, params), sql)
