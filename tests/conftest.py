"""The tier of the run (see `tiers`); property tests draw the same cases in every run but a fuzz."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import settings

from tests.tiers import RUN, TIER, examples, taken

_FIRST = (
    "test_random_queries",
    "test_exceptions",
    "test_interrupts",
    "test_spelling",
    "test_names_in_ddl",
    "test_crash",
    "test_ddl_in_transactions",
    "test_detours",
    "test_recovery",
    "test_cli",
    "test_shell",
    "test_waiting_statements",
    "test_deep_expressions",
    "test_every_type",
    "test_invariant",
    "test_sessions",
    "test_closing",
    "test_shadows",
    "test_names",
    "test_hydration",
)
"""Modules that take long and start first: the last ones decide how long a worker is left alone."""

few = examples(100)
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=few)
settings.register_profile("new", deadline=None, max_examples=few)
settings.load_profile("new" if TIER == "fuzz" else "steady")
# A run in the background is started with Ctrl-C ignored, and all that it starts would ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Every worker, and every Python that a test starts, would compile all modules anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config: pytest.Config) -> None:
    """Modules start in the order given above, not by the number of their tests."""
    for mark in ("full(smoke): of the full tier, see tiers", "cases(n): quick takes one in n"):
        config.addinivalue_line("markers", mark)
    if config.pluginmanager.has_plugin("xdist"):
        config.option.loadscopereorder = False


def pytest_collection_finish() -> None:
    """The tests themselves stay to the end: the garbage collector need not look at them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """DuckDB says at the end of a process which of its functions nobody has freed."""
    gc.unfreeze()


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """xdist takes what stands before the last `::` for the module, whose fixtures it then makes."""
    return val.replace("::", " AS ") if isinstance(val, str) and "::" in val else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the tier does not take, and bring what takes long to the front."""
    met: Counter[tuple[str, str]] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        name = item.path.stem, getattr(item, "originalname", item.name)
        (kept if taken(item, met[name]) else left).append(item)
        met[name] += 1
    order = {module: place for place, module in enumerate(_FIRST)}
    items[:] = sorted(kept, key=lambda item: order.get(item.path.stem, len(order)))
    if left:
        config.hook.pytest_deselected(items=left)


def servers_missing(skipped: Sequence[pytest.TestReport]) -> Counter[str]:
    """How many tests lacked a server, by `<server> NOT RUN: <reason>`."""
    told = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    return Counter(t.removeprefix("Skipped: ") for t in told if " NOT RUN: " in t)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was not run must not look passed."""
    if TIER == "quick":
        terminalreporter.write_line(
            f"{RUN} run: what is marked `full`, and most of many cases alike, is left to "
            "`make test-all`"
        )
    for report in terminalreporter.stats.get("skipped", []):
        if report.nodeid.endswith("test_the_suites_pass"):
            terminalreporter.write_line("conformance suites NOT RUN: set IVM_SUITES", red=True)
    for reason, count in servers_missing(terminalreporter.stats.get("skipped", [])).items():
        terminalreporter.write_line(f"{count} tests of {reason}", red=True)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", ()):
                if name == "conformance":
                    terminalreporter.write_line(value)
