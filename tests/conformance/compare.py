"""Rows against rows as multisets, floats within 1e-9 relative."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.support.view_oracle import Row

TOLERANCE = 1e-9


def difference(found: Iterable[Row], wanted: Iterable[Row]) -> str:
    """What is missing and what is extra, "" where they are the same."""
    have, want = Counter(map(_plain, found)), Counter(map(_plain, wanted))
    if have == want:
        return ""
    missing = sorted((want - have).elements(), key=_order)
    extra = sorted((have - want).elements(), key=_order)
    pairs = zip(missing, extra, strict=False)
    if len(missing) == len(extra) and all(_close(a, b) for a, b in pairs):
        return ""
    return f"{len(missing)} missing {missing[:2]}, {len(extra)} extra {extra[:2]}"


def _plain(value: Any) -> Any:
    """A value that can be counted, of which equal ones are equal in SQL."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple((k, _plain(v)) for k, v in value.items())
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def _order(row: Any) -> tuple[str, str]:
    """Exact columns first, so that rows that differ by rounding stand at the same place."""
    return repr([v for v in row if not isinstance(v, float)]), _rounded(row)


def _rounded(row: Any) -> str:
    return repr([f"{v:+.6e}" for v in row if isinstance(v, float)])


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)
    return bool(a == b)
