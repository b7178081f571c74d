"""The kinds of sources."""

from __future__ import annotations

from ivm.cdc.sources.source import Source

KINDS: dict[str, type[Source]] = {}
"""By their names in SQL."""
