"""docs/http.md: its SQL, its requests by curl and its Python run against a real server."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
from pathlib import Path

import pytest

import ivm
from tests.project.test_docs import FENCE, Page, matches, text_of
from tests.serve.http_world import HttpWorld

PAGE = "docs/http.md"
ADDRESS = "127.0.0.1:8080"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_page_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = Page()
    world = HttpWorld(runner.database, trust="")
    try:
        checked = 0
        fences = list(FENCE.finditer(text_of(PAGE)))
        for fence, following in zip(fences, [*fences[1:], None], strict=True):
            output = _output(runner, world, fence[1], fence[2])
            if output is None:
                continue
            promised = following[2] if following is not None and following[1] == "text" else ""
            assert matches(output, promised), f"{fence[0]}\nprinted:\n{output}"
            checked += 1
        assert checked == 7
    finally:
        world.close()


def _output(runner: Page, world: HttpWorld, language: str, code: str) -> str | None:
    """What an example prints; None for what is no example."""
    code = code.replace(ADDRESS, f"127.0.0.1:{world.listener.port}")
    if language == "sql":
        return runner._sql(code)
    if language == "sh":
        found = subprocess.run(code, shell=True, capture_output=True, text=True, timeout=30)
        assert found.returncode == 0, found.stderr
        return found.stdout
    return _printed(code) if language == "python" else None


def _printed(code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, PAGE, "exec"), {"ivm": ivm})
    return printed.getvalue()
