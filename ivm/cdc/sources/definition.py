"""Definitions of sources and sinks as texts: options in SQL, rows of `_ivm.sources`.

Law: `define(kinds, source.kind, options_of(source)) == source`.

A definition may have a field of properties that are passed on to a client: their names have dots,
and they stand among the options.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from ivm.storage.errors import InputError

T = TypeVar("T")


class DefinitionError(InputError):
    """The kind, an option or its value is wrong.

    Attributes:
        option: the name of the option that was given; None if the kind is wrong or lacks one.
    """

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


_WORDS = {"bool": "TRUE or FALSE", "int": "an integer", "float": "a number"}
_TRUE, _FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


def define(kinds: Mapping[str, type[T]], kind: str, options: Mapping[str, str]) -> T:
    """A definition from its options.

    Args:
        kinds: dataclasses of strings, integers, floats and booleans, by their names in capitals.
        kind: one of them, in any case.
        options: by name.

    Raises:
        DefinitionError: there is no such kind or option, one is missing, or a value does not fit.
        InputError: the values do not go with one another.
    """
    found = kinds.get(kind.upper())
    if found is None:
        raise DefinitionError(f"there is no kind {kind!r}{near(kind.upper(), kinds)}")
    known: dict[str, Field[Any]] = {field.name: field for field in fields(found)}  # type: ignore[arg-type]
    passed = next((name for name, field in known.items() if _passes_on(field)), None)
    properties = {n: value for n, value in options.items() if passed is not None and "." in n}
    given = {n.lower(): value for n, value in options.items() if n not in properties}
    values: dict[str, object] = {} if passed is None else {known.pop(passed).name: properties}
    for name in given:
        if name not in known:
            reason = f"{kind.upper()} has no option {name!r}{near(name, known)}"
            raise DefinitionError(reason, name)
    for name, field in known.items():
        if name not in given and field.default is MISSING and field.default_factory is MISSING:
            raise DefinitionError(f"{kind.upper()} needs the option {name!r}")
    values.update({name: _value(known[name], value) for name, value in given.items()})
    return found(**values)


def options_of(definition: Any) -> dict[str, str]:
    """The options of a definition that are not their defaults, as texts."""
    found: dict[str, str] = {}
    for field in fields(definition):
        value = getattr(definition, field.name)
        if _passes_on(field):
            found.update(value)
        elif value != field.default:
            found[field.name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _passes_on(field: Field[Any]) -> bool:
    """Whether it is the field of the properties that are passed on."""
    return str(field.type).startswith("Mapping")


def near(name: str, known: Iterable[str]) -> str:
    """What is added to an error of a name that is not known."""
    close = difflib.get_close_matches(name, list(known), 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(known)}"


def _value(field: Field[Any], text: str) -> object:
    kind = str(field.type)
    try:
        if kind.startswith("bool"):
            return _boolean(text)
        if kind.startswith("int"):
            return int(text)
        return float(text) if kind.startswith("float") else text
    except ValueError:
        wanted = next(words for type, words in _WORDS.items() if kind.startswith(type))
        reason = f"the option {field.name!r} is {wanted}, not {text!r}"
        raise DefinitionError(reason, field.name) from None


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise ValueError(text)
