"""The tier of the run (see `tiers`); property tests draw the same cases in every run but a fuzz."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.tiers import TIER, WHOLE

settings.register_profile("steady", derandomize=True)
settings.load_profile("default" if TIER == "fuzz" else "steady")


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """xdist takes what stands before the last `::` for the module, whose fixtures it then makes."""
    return val.replace("::", " AS ") if isinstance(val, str) and "::" in val else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A quick run leaves out the modules that drive whole databases for long."""
    if TIER != "quick":
        return
    left = [item for item in items if item.path.stem in WHOLE]
    items[:] = [item for item in items if item.path.stem not in WHOLE]
    config.hook.pytest_deselected(items=left)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was not run must not look passed."""
    if TIER == "quick":
        terminalreporter.write_line(
            f"quick run: {len(WHOLE)} modules and most random cases are left to `make test-all`"
        )
    for report in terminalreporter.stats.get("skipped", []):
        if report.nodeid.endswith("test_the_suites_pass"):
            terminalreporter.write_line("conformance suites NOT RUN: set IVM_SUITES", red=True)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", ()):
                if name == "conformance":
                    terminalreporter.write_line(value)
