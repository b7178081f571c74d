"""The benchmark and the demo run, on small data, and their change streams are valid."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from benchmarks import cdc, demo, endless, everyday, run, shapes, steady
from benchmarks.harness import cells, plan, report, stream, workload
from benchmarks.harness.shape_cases import SHAPES, Shape
from benchmarks.nexmark import __main__ as nexmark
from benchmarks.nexmark import feed
from benchmarks.nexmark.events import PLACES, generate
from benchmarks.spark import memory
from benchmarks.tpch import tpch
from tests.corpus.nexmark import FINAL, QUERIES
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=8)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared file of 2 000 orders."""
    path = tmp_path_factory.mktemp("bench") / "shop.duckdb"
    workload.create(path, 2_000, "double")
    return path


@pytest.mark.parametrize("size", [1, 7, 100])
def test_every_change_of_the_stream_is_valid(shop: Path, tmp_path: Path, size: int) -> None:
    source = stream.Shop(shop, seed=1, spare=60 * size)
    stream.write(stream.generate(source, 60, size), tmp_path / "stream.arrow")
    transactions = stream.read(tmp_path / "stream.arrow")
    assert [stream.changes_in(t) for t in transactions] == [size] * 60
    live = set(range(2_000))
    for change in (change for transaction in transactions for change in transaction):
        ids = change.rows["id"].to_pylist()
        assert len(set(ids)) == len(ids)
        if change.table == "customers":
            assert set(ids) <= set(range(200))
        elif change.kind == "insert":
            assert live.isdisjoint(ids)
            live |= set(ids)
        else:
            assert live.issuperset(ids)
            live -= set(ids) if change.kind == "delete" else set()


@pytest.mark.parametrize("engine", ["maintain", "recompute", "circuit_step"])
@pytest.mark.parametrize("amount", ["double", "decimal"])
def test_a_cell_is_measured(engine: str, amount: str, tmp_path: Path) -> None:
    cell = cells.Cell(engine, 2_000, ("v1", "v4"), 20, 3, read=True, amount=amount)
    workshop = run.Workshop(tmp_path)
    numbers = workshop.run(cell)
    assert numbers["timed"] == 3
    assert numbers["p99_ms"] >= numbers["p50_ms"] > 0


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_a_shape_is_measured_and_verified(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "STEPS", {1: 20, 100: 2})
    numbers = shapes.measure(shape, 1_000)
    assert numbers["p99 100"] >= numbers["p50 100"] > 0
    assert numbers["recompute"] > 0


def test_the_table_compares_with_what_was_measured() -> None:
    table = plan.lines("double")
    one = next(line for line in table if line.unit == "ms" and not line.relative)
    fast, slow = {"p50_ms": one.limit / 2}, {"p50_ms": one.limit * 2}
    assert one.against is not None
    assert report.row(one, {one.cell: fast, one.against: slow})[-2:] == ("4.0 × better", "yes")
    assert report.row(one, {one.cell: slow, one.against: fast})[-2:] == ("4.0 × worse", "no")


def test_every_line_has_its_peer() -> None:
    maintained = [line for line in plan.lines("double") if line.cell.engine == "maintain"]
    assert len(maintained) > 15
    for line in maintained:
        assert line.against is not None
        assert (line.against.views, line.against.size) == (line.cell.views, line.cell.size)
        assert line.against.read == line.cell.read


@pytest.mark.full
def test_the_demo_runs(tmp_path: Path) -> None:
    printed = io.StringIO()
    demo.demo(Console(file=printed, width=120), tmp_path, scale=0.01, seconds=2)
    text = printed.getvalue()
    assert text.count("verify materialized view") == 16
    assert "8 views right, before and after a restart" in text


@pytest.mark.full
def test_change_events_are_measured_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cdc, "ONES", 5)
    cdc.measure(tmp_path, 20_000)
    shown = capsys.readouterr().out
    assert shown.count("20 dead letters, exactly the dirt") == len(cdc.BATCHES)
    assert "x read_json" in shown


@pytest.mark.full
def test_the_memory_of_a_fill_is_measured_and_its_view_verified(tmp_path: Path) -> None:
    session()  # or the test is not run
    parquet = tmp_path / "parquet"
    tpch.generate(parquet, 0.01)
    numbers = memory.measure(tmp_path, parquet, "join", 64 << 20)
    assert 0 < numbers.state < numbers.kept < numbers.followed
    assert numbers.jvm > numbers.worker > 0
    assert len(memory.line("join", numbers)) == len(memory.HEAD)


@pytest.mark.full
def test_everyday_statements_run_on_both_sides(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["everyday", "--orders", "2000", "--times", "2"])
    everyday.main()
    lines = [
        line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines() if "|" in line
    ]
    found = list(everyday.cases(Path()))
    of_one_view = [case.name for case in found if case.view == "v1"]
    assert lines == ["ms", "---", *of_one_view, "ms", "---", *[case.name for case in found]]


@pytest.mark.full
def test_a_minute_of_commits_is_shown_beside_its_syncs_and_duckdb(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["steady", "--orders", "2000", "--seconds", "0.5"])
    steady.main()
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if "|" in line]
    names = [line[1].strip() for line in lines[2:]]
    assert names == ["2000 orders", "of these, syncs", "DuckDB without a view"]
    commits, syncs, _ = [int(line[2].replace(",", "")) for line in lines[2:]]
    assert commits > 0
    assert syncs >= commits


@pytest.mark.parametrize("first", [0, 50, 77])
def test_events_are_in_the_tables_that_their_numbers_say(first: int) -> None:
    times = np.datetime64("2026-01-01", "us") + np.arange(1_000) * np.timedelta64(1, "s")
    events = generate(first, times, seed=1)
    assert events.count() == 1_000
    found = []
    for number in range(first, first + 1_000):
        ((table, rows),) = events.part(number, number + 1).items()
        begin, end = PLACES[table]
        assert begin <= number % 50 < end
        found += rows["ts"].to_pylist()
    assert found == times.tolist()
    assert events.rows["bid"]["price"].to_numpy().min() >= 10


@pytest.mark.full
def test_nexmark_is_measured_and_every_view_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "COMMITS", 50)
    monkeypatch.setattr(nexmark, "COMMITS", 50)
    monkeypatch.setattr("sys.argv", ["nexmark", "--events", "20000", "--windows", "2"])
    nexmark.main()
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if "|" in line]
    names = [line[1].strip() for line in lines]
    final = [f"{name} final" for name in FINAL]
    assert names == ["query", "---", *QUERIES, "query", "---", *final]
    measured = [line for line in lines if line[1].strip() not in ("query", "---")]
    assert all(int(line[10].replace(",", "")) > 0 for line in measured)


@pytest.mark.full
def test_an_endless_stream_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["endless", "--events", "30000", "--batch", "3000"])
    endless.main()
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if "|" in line][2:]
    assert [line[1].strip() for line in lines] == [f"{3000 * i:,}" for i in range(1, 11)]
    assert all(int(line[4].replace(",", "")) > 0 for line in lines)


def test_a_wrong_view_ends_the_run(tmp_path: Path) -> None:
    with feed.auction_house(tmp_path / "q2.duckdb", "q2", QUERIES["q2"], marked=False) as db:
        db.execute("INSERT INTO bid VALUES (5, 1, 7, NULL, NULL, '2026-01-01', '')")
    wrong = pa.table({"auction": [5], "price": [8]})
    with pytest.raises(SystemExit, match="q2: 1 rows too many, 1 missing"):
        feed.demand_right(tmp_path / "q2.duckdb", "q2", wrong, 1)
    with pytest.raises(SystemExit, match="q2: 1 of 2 events are stored"):
        feed.demand_right(tmp_path / "q2.duckdb", "q2", wrong, 2)
