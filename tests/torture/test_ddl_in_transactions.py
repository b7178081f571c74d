"""DDL and changes of rows in one transaction, in every order, against plain DuckDB."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tiers import SEED, TIER, examples, seeds, some
from tests.torture.ddl_twins import VIEWS, Twins

pytestmark = pytest.mark.full(smoke=1)

# What can be done to the catalog, and what undoes it for the next turn.
DDL = {
    "add column": ("ALTER TABLE t ADD COLUMN z INT", "ALTER TABLE t DROP COLUMN z"),
    "add column with default": (
        "ALTER TABLE t ADD COLUMN z INT DEFAULT 7",
        "ALTER TABLE t DROP COLUMN z",
    ),
    "drop first column": (
        "ALTER TABLE k DROP COLUMN w",
        "ALTER TABLE k ADD COLUMN w VARCHAR DEFAULT 'x'",
    ),
    "drop column before others": (
        "ALTER TABLE t DROP COLUMN c",
        "ALTER TABLE t ADD COLUMN c INT DEFAULT 1",
    ),
    "rename column": (
        "ALTER TABLE t RENAME COLUMN c TO cc",
        "ALTER TABLE t RENAME COLUMN cc TO c",
    ),
    "same type using": ("ALTER TABLE t ALTER b TYPE INT USING b * 10 + 1", ""),
    "set data type": ("ALTER TABLE t ALTER COLUMN c SET DATA TYPE BIGINT USING c + 1", ""),
    "set default": ("ALTER TABLE t ALTER a SET DEFAULT 5", "ALTER TABLE t ALTER a DROP DEFAULT"),
    "not null": ("ALTER TABLE k ALTER v SET NOT NULL", "ALTER TABLE k ALTER v DROP NOT NULL"),
    "replace table": (
        "CREATE OR REPLACE TABLE t AS SELECT i::INT AS id, (i % 3)::INT AS a, i::INT AS b, 0 AS c,"
        " 0.5::DOUBLE AS d, 'high' AS e FROM range(6) r(i)",
        "",
    ),
    "replace empty table": (
        "CREATE OR REPLACE TABLE t(id INT, a INT, b INT, c INT, d DOUBLE, e VARCHAR DEFAULT 'low')",
        "",
    ),
    "create index": ("CREATE INDEX i ON t(a)", "DROP INDEX i"),
    "create table": ("CREATE TABLE n AS SELECT a, b FROM t", "DROP TABLE n"),
    "drop table": ("DROP TABLE spare", "CREATE TABLE spare(a INT, b INT)"),
    "rename table": ("ALTER TABLE spare RENAME TO other", "ALTER TABLE other RENAME TO spare"),
    "replace macro": (
        "CREATE OR REPLACE MACRO m(x) AS x + 100",
        "CREATE OR REPLACE MACRO m(x) AS x + 1, (x, y) AS x + y",
    ),
    "replace table macro": (
        "CREATE OR REPLACE MACRO tm(n) AS TABLE SELECT a, b FROM t WHERE a >= n",
        "CREATE OR REPLACE MACRO tm(n) AS TABLE SELECT a, b FROM t WHERE a < n",
    ),
    "other macro": ("CREATE OR REPLACE MACRO other(x) AS x", "DROP MACRO other"),
    "macro of a built-in name": ("CREATE MACRO mad(x) AS 5", "DROP MACRO mad"),
    "replace view": (
        "CREATE OR REPLACE VIEW pv AS SELECT a + 100 AS a, b FROM t",
        "CREATE OR REPLACE VIEW pv AS SELECT a, b FROM t WHERE b > 0",
    ),
    "replace by secure view": (
        "CREATE OR REPLACE SECURE VIEW pv AS SELECT b AS a, a AS b FROM t",
        "CREATE OR REPLACE RECURSIVE VIEW pv(a, b) AS SELECT a, b FROM t WHERE b > 0",
    ),
    "replace view by one of another table": (
        "CREATE OR REPLACE VIEW pv AS SELECT a, b FROM s1.u",
        "CREATE OR REPLACE VIEW pv AS SELECT a, b FROM t WHERE b > 0",
    ),
    "rename view": ("ALTER VIEW pw RENAME TO px", ""),
    "comment": ("COMMENT ON TABLE t IS 'x'", "COMMENT ON VIEW pv IS 'y'"),
    "drop type": ("DROP TYPE mood", ""),
    "replace type": ("CREATE OR REPLACE TYPE mood AS ENUM ('high', 'low')", ""),
    "create view": (
        "CREATE MATERIALIZED VIEW fresh AS SELECT a, sum(b) AS s FROM pv GROUP BY a",
        "DROP MATERIALIZED VIEW fresh",
    ),
    "replace materialized view": (
        "CREATE OR REPLACE MATERIALIZED VIEW linear AS SELECT a, b + 1 AS b FROM t WHERE b > 2",
        "CREATE OR REPLACE MATERIALIZED VIEW linear AS SELECT a, b FROM t WHERE b > 0",
    ),
    "drop materialized view": (
        "DROP MATERIALIZED VIEW joined",
        "CREATE MATERIALIZED VIEW joined AS SELECT t.a, t.b, k.v FROM t LEFT JOIN k ON t.a = k.id",
    ),
    "drop and create materialized view": (
        "DROP MATERIALIZED VIEW over_grouped;"
        " CREATE MATERIALIZED VIEW over_grouped AS SELECT s, count(*) AS c FROM grouped GROUP BY s",
        "",
    ),
}

REFUSED = {"drop type", "replace type", "macro of a built-in name", "rename view"}
"""What views that stand on it do not allow."""

DML = [
    "INSERT INTO t(id, a, b) VALUES (20, 1, 7), (21, 1, 7), (22, 9, -2)",
    "UPDATE t SET b = b + 1 WHERE a = 1",
    "DELETE FROM t WHERE a = 0",
    "INSERT INTO t(id, a, b, d) SELECT id, v, 5, 1.5 FROM k WHERE id = 3",
    "INSERT OR REPLACE INTO k(id, v) VALUES (9, 3)",
    "UPDATE k SET v = v + 1 WHERE id = 2",
    "DELETE FROM k WHERE id = 9",
    "MERGE INTO k USING (SELECT 1 AS id, 77 AS v) s ON k.id = s.id"
    " WHEN MATCHED THEN UPDATE SET v = s.v",
    "INSERT INTO k(id, v) VALUES (2, 5), (11, 6) ON CONFLICT DO UPDATE SET v = excluded.v",
    "INSERT INTO s1.u VALUES (1, 5)",
]

READS = ["SELECT * FROM linear", "SELECT * FROM over_recomputed", "SELECT * FROM over_grouped"]

CHOSEN = [
    "linear", "grouped", "joined", "doubled", "recomputed", "over_recomputed", "through_view",
    "through_macro", "over_grouped",
]  # fmt: skip
if TIER == "fuzz":
    CHOSEN = list(VIEWS)


def _statements(text: str) -> list[str]:
    return [part for part in text.split(";") if part.strip()]


ORDERS = list(itertools.product(("before", "after", "both"), ("ROLLBACK", "COMMIT")))


def _turn(twins: Twins, kind: str, order: str, end: str, choice: random.Random) -> None:
    """A transaction of that kind beside changes of rows; then another one undoes it."""
    change, back = DDL[kind]
    first, then, later = (choice.choice(DML) for _ in range(3))
    statements = [
        *([first] if order != "after" else []),
        *choice.sample(READS, choice.randint(0, 1)),
        *_statements(change),
        *choice.sample(READS, choice.randint(0, 1)),
        *([then, later] if order != "before" else []),
    ]
    done = twins.transaction(statements, end) and end == "COMMIT"
    twins.compare((kind, statements, end))
    if done and back:
        twins.transaction([choice.choice(DML), *_statements(back), choice.choice(DML)])
        twins.compare((kind, statements, end, back))


def _go_on(twins: Twins) -> None:
    """Changes of rows alone, an opening, and changes again."""
    for statement in DML:
        twins.transaction([statement])
    twins.compare("later changes")
    twins.reopen()
    twins.compare("after opening")
    twins.transaction(DML)
    twins.compare("changes after opening")
    twins.close()


@pytest.mark.full
def test_views_follow_every_kind_of_ddl_beside_changes(tmp_path: Path) -> None:
    twins = Twins(tmp_path / "twins.duckdb", CHOSEN)
    choice = random.Random(SEED)
    for kind in some(list(DDL), 5):
        for order, end in ORDERS if TIER == "fuzz" else [("both", "COMMIT")]:
            twins.refused.clear()
            _turn(twins, kind, order, end, choice)
            assert kind in REFUSED or not twins.refused, (kind, twins.refused)
    _go_on(twins)


def _random_sequence(seed: int, path: Path, views: Iterable[str]) -> None:
    choice = random.Random(seed)
    twins = Twins(path, views)
    texts = [text for pair in DDL.values() for text in pair if text]
    for _ in range(6):
        picked = [
            choice.choice(texts if choice.random() < 0.4 else [*DML, *READS])
            for _ in range(choice.randint(1, 6))
        ]
        statements = [s for text in picked for s in _statements(text)]
        twins.transaction(statements, choice.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        twins.compare((seed, statements))
        if choice.random() < 0.15:
            twins.reopen()
            twins.compare((seed, "reopened"))
    twins.close()


@pytest.mark.parametrize("seed", seeds(examples(3)))
def test_views_follow_random_transactions_with_ddl(seed: int, tmp_path: Path) -> None:
    _random_sequence(seed, tmp_path / "twins.duckdb", CHOSEN)
