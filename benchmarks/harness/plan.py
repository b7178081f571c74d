"""Which cells the benchmark runs, and which line of the table each number goes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.harness.cells import Cell

Numbers = Mapping[Cell, Mapping[str, Any]]

SMALL, MIDDLE, LARGE = 100_000, 1_000_000, 10_000_000
SIZES = (SMALL, MIDDLE, LARGE)
BATCH = 10_000
ALL = ("v1", "v2", "v3", "v5")

# Transactions of each size: enough single rows for a 99th percentile, a million changes in batches.
TIMED = {1: 5_000, 100: 1_000, BATCH: 100}
WARMUP = {1: 200, 100: 20, BATCH: 2}
RECOMPUTED = {1: 20, 100: 20, BATCH: 10}


def maintain(orders: int, views: tuple[str, ...], size: int, **more: Any) -> Cell:
    """A cell of ivm."""
    return Cell("maintain", orders, views, size, TIMED[size], WARMUP[size], **more)


def peer(cell: Cell) -> Cell:
    """The recompute cell to compare `cell` with: the same start and kind of stream, but shorter."""
    return replace(
        cell,
        engine="recompute",
        transactions=RECOMPUTED[cell.size],
        warmup=1,
        durability="commit",
        seconds=15.0,
    )


@dataclass(frozen=True)
class Line:
    """A line of the table.

    Attributes:
        what: text of the first column.
        cell: where the number comes from.
        value: takes it from the cell's numbers.
        limit: what is to be reached.
        unit: "ms", "s", "x", "GB" or "changes/s"; for the last more is better, else less.
        against: "recompute" or another cell of ivm: what the ratio is taken to.
        relative: the limit is for the ratio, not for the value.
    """

    what: str
    cell: Cell
    value: Callable[[Mapping[str, Any]], float]
    limit: float
    unit: str
    against: Cell | None = None
    relative: bool = False


def number(name: str, scale: float = 1.0) -> Callable[[Mapping[str, Any]], float]:
    """A reader of one measured number."""
    return lambda numbers: float(numbers[name]) * scale


P50, P99 = number("p50_ms"), number("p99_ms")
RATE, HYDRATED = number("changes_per_s"), number("hydrated_s")
GIGABYTES = number("peak_bytes", 1e-9)


def lines(amount: str) -> list[Line]:
    """The table, for an amount type."""

    def cell(orders: int, views: str | tuple[str, ...], size: int, **more: Any) -> Cell:
        names = (views,) if isinstance(views, str) else views
        return maintain(orders, names, size, amount=amount, **more)

    def beside(what: str, cell: Cell, value: Any, limit: float, unit: str) -> Line:
        return Line(what, cell, value, limit, unit, peer(cell))

    one, batch = cell(LARGE, "v1", 1), cell(LARGE, "v1", BATCH)
    small, lazy = cell(SMALL, "v1", 1), cell(LARGE, "v1", 1, durability="interval")
    four = cell(MIDDLE, ALL, BATCH)
    alone = replace(one, engine="circuit_step")
    table = [
        beside("V1, 1-row commit, 10⁷ orders, p50", one, P50, 0.6, "ms"),
        beside("V1, 1-row commit, 10⁷ orders, p99", one, P99, 2.0, "ms"),
        beside("the same, durability interval, p50", lazy, P50, 0.3, "ms"),
        Line(
            "the same (commit), 10⁷ against 10⁵ orders", one, P50, 1.3, "ms", small, relative=True
        ),
    ]
    for orders, limit in ((MIDDLE, 500_000), (LARGE, 400_000)):
        name = f"V1, 10 000-change commits, {power(orders)} orders"
        table.append(beside(name, cell(orders, "v1", BATCH), RATE, limit, "changes/s"))
    table.append(beside("V1, V2, V3, V5 at once, 10⁶ orders", four, RATE, 120_000, "changes/s"))
    for orders in (MIDDLE, LARGE):
        name = f"commit 1 row, read V1, {power(orders)} orders, p50"
        table.append(beside(name, cell(orders, "v1", 1, read=True), P50, 4.0, "ms"))
    table += [
        beside("create V1 over 10⁷ orders, hydrated", one, HYDRATED, 6.0, "s"),
        Line("V1, 1-row step of the circuit alone, 10⁷ orders", alone, P50, 0.15, "ms"),
        beside("peak memory, V1, 10⁷ orders, after 10⁶ changes", batch, GIGABYTES, 2.5, "GB"),
    ]
    for view in ("v3", "v4"):
        name, few, many = (
            f"{view.upper()}, 10⁶ orders",
            cell(MIDDLE, view, 1),
            cell(MIDDLE, view, BATCH),
        )
        table.append(beside(f"{name}, 1-row commit, p50", few, P50, 0.8, "ms"))
        table.append(beside(f"{name}, 10 000-change commits", many, RATE, 200_000, "changes/s"))
    for view in ("v1", "v2", "v3", "v4", "v5"):
        name = f"{view.upper()}, 10 000 changes until read, 10⁵ orders, p50"
        read = replace(cell(SMALL, view, BATCH, read=True), transactions=20)
        table.append(Line(name, read, P50, 1.2, "ms", peer(read), relative=True))
    return table


def curves(amount: str) -> dict[str, list[Cell]]:
    """The picture: name of a curve to its cells by growing N."""
    names = {1: "1 change", 100: "100 changes", BATCH: "10 000 changes"}
    maintained = {
        size: [maintain(orders, ("v1",), size, amount=amount) for orders in SIZES] for size in names
    }
    picture = {f"ivm, {names[size]}": curve for size, curve in maintained.items()}
    for size in (1, BATCH):
        picture[f"DuckDB recompute, {names[size]}"] = [peer(c) for c in maintained[size]]
    return picture


def cells(table: list[Line], picture: Mapping[str, list[Cell]], largest: int) -> list[Cell]:
    """All cells that are needed, once each, those of the smallest tables first."""
    wanted = [c for line in table for c in (line.cell, line.against) if c is not None]
    wanted += [c for curve in picture.values() for c in curve]
    return sorted(dict.fromkeys(c for c in wanted if c.orders <= largest), key=lambda c: c.orders)


def power(count: int) -> str:
    """10⁵ for 100000."""
    return "10" + str(len(str(count)) - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
