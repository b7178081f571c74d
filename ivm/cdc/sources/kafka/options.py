"""What the options of sources and sinks in Kafka have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import InputError

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def demand_topic(name: str) -> None:
    """Refuses what can be no topic.

    Raises:
        InputError: it is no name of one.
    """
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InputError(f"{name!r} is no name of a topic: it has A-Z, a-z, 0-9, . _ -")


@contextmanager
def demand_client() -> Iterator[None]:
    """Around imports of Kafka's client, which only those who use it need to have.

    Raises:
        SourceError: it is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise SourceError("Kafka's client is not installed: pip install 'ivmdb[kafka]'") from error
