"""The benchmark's numbers as a table, as JSON and as a picture of latency against table size."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import duckdb

from benchmarks.harness.cells import Cell
from benchmarks.harness.plan import Line, Numbers

HEAD = ("what", "to reach", "measured", "DuckDB recompute", "ratio", "")


def machine() -> str:
    """One line on what the numbers were measured on."""
    return (
        f"{cpu_model()}, {os.cpu_count()} cores, {memory_gb():.0f} GB · "
        f"{platform.system()} · Python {platform.python_version()} · DuckDB {duckdb.__version__}"
    )


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def memory_gb() -> float:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def rows(table: Sequence[Line], numbers: Numbers) -> list[tuple[str, ...]]:
    """The table's lines whose cells were run, as text."""
    return [row(line, numbers) for line in table if line.cell in numbers]


def row(line: Line, numbers: Numbers) -> tuple[str, ...]:
    """One line as text: the ratio says how many times better than what it is compared with."""
    value = line.value(numbers[line.cell])
    other = None if line.against is None else numbers.get(line.against)
    base = None if other is None else line.value(other)
    reached = verdict(line, value, base)
    limit = f"{'≥' if line.unit == 'changes/s' else '≤'} "
    limit += f"{line.limit:g} ×" if line.relative else text(line.limit, line.unit)
    measured = text(value, line.unit)
    ratio = "" if base is None else ratio_text(line, value, base)
    return (
        line.what,
        limit,
        measured,
        "" if base is None else text(base, line.unit),
        ratio,
        reached,
    )


def verdict(line: Line, value: float, base: float | None) -> str:
    """ "yes" or "no": is the limit kept?"""
    if line.relative:
        return "" if base is None else ("yes" if value <= line.limit * base else "no")
    kept = value >= line.limit if line.unit == "changes/s" else value <= line.limit
    return "yes" if kept else "no"


def ratio_text(line: Line, value: float, base: float) -> str:
    """How many times the base the value is; for relative lines that is the very number limited."""
    if line.relative:
        return f"{value / base:.2f} ×"
    better = value / base if line.unit == "changes/s" else base / value
    return f"{better:.1f} × better" if better >= 1 else f"{1 / better:.1f} × worse"


def text(value: float, unit: str) -> str:
    """A number with its unit, three digits."""
    if unit == "changes/s":
        return f"{round(value, -3 if value >= 1e4 else 0):,.0f} {unit}".replace(",", " ")
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def markdown(table: Sequence[tuple[str, ...]]) -> str:
    """Rows as a markdown table, columns aligned."""
    cells = [HEAD, *table]
    widths = [max(len(r[i]) for r in cells) for i in range(len(HEAD))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) + " |" for r in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def save(folder: Path, table: str, numbers: Numbers, command: str) -> None:
    """Write table.md and results.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.md").write_text(f"{machine()}\n\n`{command}`\n\n{table}\n", encoding="utf-8")
    content = {
        "machine": machine(),
        "command": command,
        "cells": [{"cell": asdict(cell), "numbers": dict(n)} for cell, n in numbers.items()],
    }
    (folder / "results.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def draw(path: Path, picture: Mapping[str, Sequence[Cell]], numbers: Numbers) -> None:
    """Latency against the number of orders, both logarithmic, p50 with p99 dashed."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, curve in picture.items():
        run = [c for c in curve if c in numbers]
        sizes = [c.orders for c in run]
        (drawn,) = axes.plot(sizes, [numbers[c]["p50_ms"] for c in run], marker="o", label=name)
        p99 = [numbers[c]["p99_ms"] for c in run]
        axes.plot(sizes, p99, linestyle=":", linewidth=1, color=drawn.get_color())
    axes.set(xscale="log", yscale="log", xlabel="orders", ylabel="ms until the view is right")
    axes.set_title("V1 (join and group by): one commit, p50 (p99 dotted)")
    axes.grid(which="both", alpha=0.2)
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
