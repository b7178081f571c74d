"""The columns of an upstream table, and the statements that let ours follow them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UpstreamColumn:
    """A column as its upstream database has it.

    Attributes:
        name: as it is spelled there.
        type: the equal type of DuckDB, as SQL.
        nullable: whether it may be NULL.
    """

    name: str
    type: str
    nullable: bool = True
