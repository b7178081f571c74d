"""Bits of integers and classes of floats against DuckDB."""

from __future__ import annotations

import pytest

from tests.support.scalar_oracle import check_all, check_pairs, decided, extremes

INTEGERS = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "UINTEGER", "UBIGINT"]


@pytest.mark.parametrize("kind", INTEGERS)
def test_bits(kind: str) -> None:
    for text in ("c0 & c1", "c0 | c1", "xor(c0, c1)"):
        check_pairs(text, [kind, kind])
    check_all(["~c0", "c0 & 3", "c0 | 5", "xor(c0, 1)"], [kind], extremes(kind))
    decided("c0 & 3 | c0", [kind], [0, 1, 100, None])


@pytest.mark.parametrize("kind", INTEGERS)
def test_shifts(kind: str) -> None:
    check_all([f"c0 >> {n}" for n in (0, 1, 6)], [kind], extremes(kind))
    check_all([f"c0 << {n}" for n in (0, 1, 6)], [kind], extremes(kind))
    decided("c0 << 1", [kind], [0, 1, 63, None])


def test_of_different_types() -> None:
    check_pairs("c0 & c1", ["TINYINT", "BIGINT"])
    check_pairs("c0 | c1", ["UTINYINT", "INTEGER"])


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_classes(kind: str) -> None:
    texts = ["isnan(c0)", "isinf(c0)", "isfinite(c0)"]
    check_all(texts, [kind], extremes(kind))
    for text in texts:
        decided(text, [kind], extremes(kind))
