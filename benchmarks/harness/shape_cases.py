"""The views of the SELECT benchmark, one a kind of operator, over facts, dims and a tree of edges.

facts: N rows, ten a key `k`, 10⁵ a group `g`, later ids later in time. dims: a row a key. marks: a
time a key. bands: N/10 ranges of values side by side. edges: N, a random recursive tree, so a node
is about ln N steps below the root.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = 100_000
STATUSES = ("open", "paid", "shipped", "returned", "cancelled")

FACTS = f"""
CREATE TABLE facts (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, g BIGINT NOT NULL,
    v DECIMAL(12,2) NOT NULL, status VARCHAR NOT NULL, ts TIMESTAMP NOT NULL);
CREATE TABLE dims (k BIGINT PRIMARY KEY, name VARCHAR NOT NULL, active BOOLEAN NOT NULL,
    threshold DECIMAL(12,2) NOT NULL);
INSERT INTO facts
SELECT i, (hash(i, 1) % greatest(1, $n // 10))::BIGINT, i % greatest(1, $n // {GROUP}),
       (hash(i, 2) % 100000) / 100,
       list_extract({list(STATUSES)}, (hash(i, 3) % {len(STATUSES)})::INT + 1),
       TIMESTAMP '2024-01-01' + to_seconds(i)
FROM range($n) r(i);
INSERT INTO dims
SELECT i, 'name-' || i, hash(i, 4) % 2 = 0, 900 + (hash(i, 5) % 10000) / 100
FROM range(greatest(1, $n // 10)) r(i);
"""
BANDS = f"""{FACTS}
CREATE TABLE bands (number BIGINT PRIMARY KEY, low DECIMAL(12,2) NOT NULL,
    high DECIMAL(12,2) NOT NULL);
INSERT INTO bands
SELECT i, i * 1000.0 / greatest(1, $n // 10), (i + 1) * 1000.0 / greatest(1, $n // 10)
FROM range(greatest(1, $n // 10)) r(i);
"""
MARKS = f"""{FACTS}
CREATE TABLE marks (number BIGINT PRIMARY KEY, k BIGINT NOT NULL, ts TIMESTAMP NOT NULL);
INSERT INTO marks
SELECT i, i, TIMESTAMP '2024-01-01' + to_seconds((hash(i, 6) % $n)::BIGINT)
FROM range(greatest(1, $n // 10)) r(i);
"""
EDGES = """
CREATE TABLE edges (child BIGINT PRIMARY KEY, parent BIGINT NOT NULL);
INSERT INTO edges SELECT i, (hash(i, 1) % i)::BIGINT FROM range(1, $n + 1) r(i);
"""


@dataclass(frozen=True)
class Shape:
    """A view of one kind.

    Attributes:
        name: in the table.
        tables: SQL that makes and fills the tables; `$n` stands for the number of rows.
        query: the view.
    """

    name: str
    tables: str
    query: str


def _facts(name: str, query: str) -> Shape:
    return Shape(name, FACTS, query)


SHAPES = (
    _facts("left join", "SELECT f.id, f.v, d.name FROM facts f LEFT JOIN dims d ON f.k = d.k"),
    _facts(
        "semi join (IN)",
        "SELECT id, v FROM facts WHERE k IN (SELECT k FROM dims WHERE active)",
    ),
    _facts(
        "anti join (NOT EXISTS)",
        "SELECT k, name FROM dims d WHERE NOT EXISTS"
        " (SELECT 1 FROM facts f WHERE f.k = d.k AND f.status = 'returned')",
    ),
    _facts(
        "correlated EXISTS",
        "SELECT k, name FROM dims d WHERE EXISTS"
        " (SELECT 1 FROM facts f WHERE f.k = d.k AND f.v > d.threshold)",
    ),
    _facts(
        "correlated scalar",
        "SELECT d.k, (SELECT max(f.v) FROM facts f WHERE f.k = d.k) AS largest FROM dims d",
    ),
    Shape(
        "range join",
        BANDS,
        "SELECT f.id, b.number FROM facts f JOIN bands b ON f.v >= b.low AND f.v < b.high",
    ),
    _facts("moving threshold", "SELECT id, v FROM facts WHERE v > (SELECT avg(v) FROM facts)"),
    Shape(
        "ASOF join, left changes",
        MARKS,
        "SELECT f.id, m.number FROM facts f ASOF LEFT JOIN marks m ON f.k = m.k AND f.ts >= m.ts",
    ),
    Shape(
        "ASOF join, right changes",
        MARKS,
        "SELECT m.number, f.id FROM marks m ASOF LEFT JOIN facts f ON m.k = f.k AND m.ts >= f.ts",
    ),
    _facts("DISTINCT", "SELECT DISTINCT k, status FROM facts"),
    _facts("count(DISTINCT)", "SELECT k, count(DISTINCT status) AS kinds FROM facts GROUP BY k"),
    _facts(
        "top 3 per group",
        "SELECT k, id, ts FROM facts"
        " QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts DESC, id) <= 3",
    ),
    _facts(
        "ROW_NUMBER",
        "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY ts, id) AS place FROM facts",
    ),
    _facts(
        "SUM over ROWS",
        "SELECT id, g, sum(v) OVER"
        " (PARTITION BY g ORDER BY ts, id ROWS 10 PRECEDING) AS moving FROM facts",
    ),
    _facts(
        "SUM over RANGE",
        "SELECT id, g, sum(v) OVER (PARTITION BY g ORDER BY ts"
        " RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING AND CURRENT ROW) AS moving FROM facts",
    ),
    Shape(
        "recursive reachability",
        EDGES,
        "WITH RECURSIVE reached(node, depth) AS (SELECT 0::BIGINT, 0 UNION"
        " SELECT e.child, r.depth + 1 FROM reached r JOIN edges e ON e.parent = r.node)"
        " SELECT node, depth FROM reached",
    ),
)
