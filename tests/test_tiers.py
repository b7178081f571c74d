"""What the tiers name exists: a test that was renamed would be run whole, or not be left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiers import SAMPLED, WHOLE

TESTS = Path(__file__).parent


def _text(module: str) -> str:
    (file,) = TESTS.rglob(f"{module}.py")
    return file.read_text()


@pytest.mark.parametrize("name", sorted({*SAMPLED, *WHOLE}))
def test_what_is_named_is_a_test(name: str) -> None:
    module, _, function = name.partition("::")
    assert f"\ndef {function or 'test_'}" in _text(module)
