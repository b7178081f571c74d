"""The variables of the caller: the first frame on the stack that is not of this package.

Contract: a name means what it means to DuckDB 2.0 in the place of the call: a local of the caller's
frame, else a global of it; with `python_scan_all_frames` those of the callers above it too. What
runs SQL on behalf of somebody else (a notebook's magic) says whose variables it means.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Set
from contextvars import ContextVar
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any, TypeAlias

Scope: TypeAlias = Mapping[str, Any]

_PACKAGE = __name__.partition(".")[0]
_PREFIX = f"{_PACKAGE}."
_given: ContextVar[Scope | None] = ContextVar("given", default=None)


@contextlib.contextmanager
def variables(scope: Scope) -> Iterator[None]:
    """Lets SQL in the block read these variables, and no others."""
    token = _given.set(scope)
    try:
        yield
    finally:
        _given.reset(token)


def values_of(names: Set[str], *, all_frames: bool) -> dict[str, object]:
    """The values of those of the names that are variables, each of the innermost scope with it.

    Args:
        names: as they are written.
        all_frames: whether the variables of the caller's callers count, too.
    """
    found: dict[str, object] = {}
    for scope in _scopes(names, all_frames=all_frames):
        for name in names:
            if name in scope and name not in found:
                found[name] = scope[name]
    return found


def _scopes(names: Set[str], *, all_frames: bool) -> Iterator[Scope]:
    given = _given.get()
    if given is not None:
        yield given
        return
    frame = _caller()
    while frame is not None:
        if _has_local(frame.f_code, names):
            yield frame.f_locals
        yield frame.f_globals
        frame = frame.f_back if all_frames else None


def _has_local(code: CodeType, names: Set[str]) -> bool:
    """Returns whether a frame may have a local of these names.

    To ask a function's frame for its locals copies all of them, and holds them until it ends.
    """
    if not code.co_flags & CO_OPTIMIZED:
        return True
    named = code.co_varnames, code.co_cellvars, code.co_freevars
    return any(not names.isdisjoint(each) for each in named)


def _caller() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and (module == _PACKAGE or module.startswith(_PREFIX))
