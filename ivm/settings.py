"""The settings with which a database is opened, and whether another opening may share it.

Law: a setting that is given is that of the open database, or the opening is refused; one that is
left out is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ivm.backfill.settings import Given
from ivm.catalog.functions import Function, demand_function
from ivm.storage.errors import InputError, UnavailableError


@dataclass(frozen=True)
class Settings:
    """The arguments of `ivm.connect`; None, or no functions, is left out.

    Raises:
        InputError: one of them makes no sense.
    """

    durability: str | None = None
    memory_limit: int | None = None
    threads: int | None = None
    functions: tuple[Function, ...] = ()
    spark: Given = None
    clock: Callable[[], datetime] | None = None

    def __post_init__(self) -> None:
        if self.durability not in (None, "commit", "interval"):
            raise InputError(f'durability is "commit" or "interval", not {self.durability!r}')
        limit = self.memory_limit
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise InputError(f"memory_limit is a number of bytes, not {limit!r}")
        for function in self.functions:
            demand_function(function)

    def demand_agreement(self, asked: Settings, file: Path | None) -> None:
        """Checks that a database with these settings may be shared by who asks for others.

        Raises:
            UnavailableError: names those that differ.
        """
        differing = [f.name for f in fields(self) if not self._agrees(f.name, asked)]
        if differing:
            raise UnavailableError(
                f"{file} is open in this process with other settings ("
                + "; ".join(f"{n}: {_told(self, n)}, not {_told(asked, n)}" for n in differing)
                + "): give the same, leave them out, or close that database first"
            )

    def _agrees(self, name: str, asked: Settings) -> bool:
        have, given = getattr(self, name), getattr(asked, name)
        if name == "functions":
            known = {function.name: function for function in self.functions}
            return all(f.name in known and _is_same(known[f.name], f) for f in asked.functions)
        if name == "durability":
            have = have or "commit"
        return given is None or have == given or (name == "clock" and _is_same_code(have, given))


def _told(settings: Settings, name: str) -> str:
    if name == "functions":
        return ", ".join(function.name for function in settings.functions) or "none"
    value = getattr(settings, name)
    return "the default" if value is None else repr(value)


def _is_same(one: Function, other: Function) -> bool:
    same = replace(one, function=other.function) == other
    return same and _is_same_code(one.function, other.function)


def _is_same_code(one: object, other: object) -> bool:
    """Whether two functions do the same, as where the cell that defines them was run again."""
    return one == other or (_code(one) is not None and _code(one) == _code(other))


def _code(function: object) -> Any:
    code = getattr(function, "__code__", None)
    if code is None or getattr(function, "__self__", None) is not None:
        return None
    bound = (getattr(function, n) for n in ("__defaults__", "__kwdefaults__", "__closure__"))
    return code, *bound
