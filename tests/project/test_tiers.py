"""What the tiers name exists: a test that was renamed would be run whole, or not be left out."""

from __future__ import annotations

import pytest

from tests.support import ROOT
from tests.tiers import FIRST, SAMPLED, SMOKE, WHOLE

TESTS = ROOT / "tests"


def _text(module: str) -> str:
    (file,) = TESTS.rglob(f"{module}.py")
    return file.read_text()


@pytest.mark.parametrize("name", sorted({*FIRST, *SAMPLED, *SMOKE, *WHOLE}))
def test_what_is_named_is_a_test(name: str) -> None:
    module, _, function = name.partition("::")
    assert f"\ndef {function or 'test_'}" in _text(module)


def test_what_is_not_in_a_quick_run_is_in_a_smoke_run() -> None:
    assert SMOKE.keys() >= WHOLE
