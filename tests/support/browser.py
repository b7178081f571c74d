"""A real Chromium for tests: Debian's, driven by Playwright.

Where it cannot be had, `missing` says what is lacking; `apt-get install chromium` is the way out.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--no-sandbox",  # it refuses to run as root with one
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def program() -> str | None:
    """The path of Chromium; None if there is none."""
    return next((path for path in map(shutil.which, _NAMES) if path is not None), None)


def missing() -> str | None:
    """What is lacking to run a browser here, if anything."""
    if importlib.util.find_spec("playwright") is None:
        return "there is no Playwright: pip install playwright"
    if program() is None:
        return "there is no Chromium on the PATH: apt-get install chromium"
    return None


def demand_browser() -> None:
    """Leaves the test out where there is no browser, and the summary says so.

    It fails where IVM_BROWSER=required: unlike servers, nothing installs a browser where the tests
    run, so IVM_SERVERS does not ask for one.
    """
    lacking = missing()
    if lacking is not None:
        if os.environ.get("IVM_BROWSER") == "required":
            pytest.fail(f"the browser cannot be started: {lacking}")
        pytest.skip(f"the console in a browser NOT RUN: {lacking}")


@contextmanager
def browser() -> Iterator[Browser]:
    """A running browser with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program(), args=[*_OPTIONS])
        try:
            yield started
        finally:
            started.close()
