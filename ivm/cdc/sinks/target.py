"""The interfaces of a sink: its definition, as it is stored, and its target, which takes epochs.

Contract: after `open(e)` the target has every epoch up to e once and none after it, as far as its
readers can see, or skips those that it is given again. Epochs come in order, each in one or more
calls of `write`; `flush` is called between epochs alone. What a target has not acknowledged is
written again, byte for byte the same, after an error or a crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol, Self

import pyarrow as pa


class Target(Protocol):
    """A target that is open; an error of any method leaves it to `close`, and it is opened anew."""

    def open(self, last_epoch: int) -> None:
        """Makes ready to take the epochs after this one, which is the last acknowledged."""

    def write(self, epoch: int, lines: pa.Array, keys: pa.Array | None) -> None:
        """Takes lines of an epoch.

        Args:
            epoch: never below that of the call before.
            lines: strings, JSON texts without line ends, in their order.
            keys: of the rows of the lines, as JSON; None if the definition is not `keyed`, or the
                view has no known key.
        """

    def flush(self) -> int:
        """Makes what was written durable; returns the last epoch that the target has for good."""

    def close(self) -> None:
        """Lets go of the target, after an error too; what is not flushed may be lost."""


class SinkTo(Protocol):
    """The definition of a sink: a frozen dataclass of strings, numbers and booleans.

    Attributes:
        kind: its name in SQL.
        format: of the lines, one of `encode.FORMATS`.
        snapshot: whether the sink begins with the rows that its view has.
        keyed: whether its target wants the keys of the rows.
    """

    kind: ClassVar[str]
    keyed: ClassVar[bool]

    @property
    def format(self) -> str: ...

    @property
    def snapshot(self) -> bool: ...

    def prepared(self, others: Iterable[SinkTo]) -> Self:
        """The definition as it is stored, checked when the sink is created.

        Args:
            others: the definitions of the database's other sinks.

        Raises:
            InputError: there can be no such sink.
        """

    def target(self) -> Target:
        """The target, not opened."""
