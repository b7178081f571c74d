"""Who fills a view first where its statement leaves that open."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import ivm
from ivm.backfill.choice import history_bytes
from ivm.spark_backfill import session as sessions
from ivm.spark_backfill.session import bytes_of, worker_memory, worker_share
from ivm.storage.errors import InputError, UnavailableError
from tests.spark.test_backfill import QUERY, TABLES, demand_right
from tests.support.spark import session

SPARK = {"spark.master": "local[2]"}
VIEW = f"CREATE MATERIALIZED VIEW v AS {QUERY}"


def configure(folder: Path, auto_from: str) -> None:
    (folder / "ivm.toml").write_text(f'[spark]\nmaster = "local[2]"\nauto_from = "{auto_from}"\n')


def is_filled(db: ivm.Database) -> bool:
    """Whether the view that was just created was filled at once."""
    return not db.unfilled_views()


@pytest.mark.full
def test_a_large_history_is_filled_by_spark_where_it_is_set_up(tmp_path: Path) -> None:
    configure(tmp_path, "60k")
    with ivm.connect(tmp_path / "shop.duckdb", spark=session()) as db:
        db.execute(TABLES)
        result = db.execute(VIEW)
        assert result.kind == "done"
        assert "it reads 72.6 kB of history, and from 61.4 kB on" in result.message
        assert not is_filled(db)
        db.backfill("v")
        demand_right(db)
        assert db.execute("CREATE MATERIALIZED VIEW w AS FROM customers").message == ""
        assert is_filled(db)
        db.execute(f"CREATE MATERIALIZED VIEW x WITH (backfill = 'duckdb') AS {QUERY}")
        assert is_filled(db)
        recomputed = "SELECT id, mode(amount) OVER () AS m, customer, weight, amount FROM orders"
        assert db.execute(f"CREATE MATERIALIZED VIEW y AS {recomputed}").message == ""


@pytest.mark.full
@pytest.mark.cases(2)
@pytest.mark.parametrize("missing", ["settings", "PySpark", "Java", "size", "file"])
def test_otherwise_by_duckdb(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing != "settings":
        configure(tmp_path, "1g" if missing == "size" else "1k")
    if missing == "PySpark":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    if missing == "Java":
        monkeypatch.setattr(sessions, "_has_java", lambda: False)
    monkeypatch.chdir(tmp_path)
    with ivm.connect(":memory:" if missing == "file" else tmp_path / "shop.duckdb") as db:
        db.execute(TABLES)
        assert db.execute(VIEW).message == ""
        assert is_filled(db)


@pytest.mark.full
def test_settings_alone_do_not_change_who_fills_small_tables(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "shop.duckdb", spark=SPARK) as db:
        db.execute(TABLES)
        assert db.execute(VIEW).message == ""
        assert is_filled(db)


@pytest.mark.full
def test_a_misspelt_size_is_told(tmp_path: Path) -> None:
    configure(tmp_path, "much")
    with ivm.connect(tmp_path / "shop.duckdb", spark=SPARK) as db:
        db.execute(TABLES)
        with pytest.raises(InputError, match="a size 'much' in its settings"):
            db.execute(VIEW)
        assert db.views() == []


@pytest.mark.full
def test_of_files_the_columns_that_are_read_count(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute("CREATE TABLE t AS SELECT range AS a, hash(range) AS b FROM range(10000)")
        for kind in ("parquet", "csv"):
            db.execute(f"COPY t TO '{tmp_path}/t.{kind}'")
            place = f"{kind.upper()} '{tmp_path}/t.{kind}' WITH (stored = false)"
            db.execute(f"CREATE TABLE {kind}s FROM {place}")
            db.execute(f"CREATE MATERIALIZED VIEW v{kind} AS SELECT sum(a) AS s FROM {kind}s")
        sizes = {kind: (tmp_path / f"t.{kind}").stat().st_size for kind in ("parquet", "csv")}
        views = db._engine.catalog.views
        assert history_bytes(db._engine, views["vparquet"]) == sizes["parquet"] // 2
        assert history_bytes(db._engine, views["vcsv"]) == sizes["csv"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "size"), [("512m", 512 << 20), ("8g", 8 << 30), ("1024", 1 << 30), ("1TB", 1 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({"master": "local[2]", "driver.memory": "1g"}, 256 << 20),
        ({"master": "local", "driver.memory": "1g", "executor.memory": "8g"}, 512 << 20),
        ({"master": "spark://a:1", "executor.memory": "8g", "executor.cores": "4"}, 1 << 30),
        ({"master": "yarn", "executor.pyspark.memory": "4g", "executor.cores": "1"}, 2 << 30),
        ({"master": "local[64]", "driver.memory": "1g"}, 64 << 20),
    ],
)
def test_workers_have_a_share_of_the_memory(settings: dict[str, str], share: int) -> None:
    named = {f"spark.{name}": value for name, value in settings.items()}
    assert worker_share(lambda name, default: named.get(name, default)) == share


@pytest.mark.full(smoke=1)
def test_the_session_says_what_a_worker_has() -> None:
    assert worker_memory(session()) == 256 << 20  # local[2], and a driver of 1g


@pytest.mark.full
def test_what_spark_says_at_each_start_is_no_reason() -> None:
    said = b"WARNING: Using incubator modules: x\nUsing Spark's default log4j profile: y\n"
    assert sessions._last_words(said) == "the Java process has ended without a word"
    assert sessions._last_words(said + b"no memory\n  at z\n") == "no memory"


@pytest.mark.full
def test_a_fill_without_access_to_files_says_so(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "shop.duckdb", spark=session()) as db:
        db.execute(f"{TABLES}; SET enable_external_access = false")
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {QUERY}")
        with pytest.raises(UnavailableError, match="enable_external_access = false keeps DuckDB"):
            db.backfill("v")
