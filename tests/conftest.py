"""Property tests draw the same cases in every run; with IVM_FUZZ set (`make fuzz`) new ones."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("steady", derandomize=True)
settings.load_profile("default" if "IVM_FUZZ" in os.environ else "steady")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Peers' suites must not look passed where they were not run."""
    for report in terminalreporter.stats.get("skipped", []):
        if report.nodeid.endswith("test_the_suites_pass"):
            terminalreporter.write_line("conformance suites NOT RUN: set IVM_SUITES", red=True)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", ()):
                if name == "conformance":
                    terminalreporter.write_line(value)
