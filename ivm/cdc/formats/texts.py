"""Bytes as texts: what is no UTF-8 becomes a text that is no JSON, and stands for itself."""

from __future__ import annotations

import pyarrow as pa

NO_UTF8 = "no UTF-8: "
"""With which the text of such bytes begins."""


def texts_of(values: pa.Array) -> pa.Array:
    """Large strings of large binaries."""
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([text_of(value) for value in values.to_pylist()], pa.large_string())


def text_of(value: bytes | None) -> str | None:
    """The text of one value."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return NO_UTF8 + value.decode(errors="backslashreplace")
