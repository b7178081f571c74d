"""The facts of changes: what the server's log tells of their transactions.

Law: rows of a copy have none, since nobody knows when they were committed. Changes that are held
while their table is copied carry their commit with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

import numpy as np
import pyarrow as pa

from ivm.cdc.sources.metadata import COUNT, TIME, Facts, Metadata
from ivm.cdc.sources.metadata_part import MetadataPart
from ivm.cdc.sources.postgres.log.messages import Commit
from ivm.cdc.sources.source import Part

FACTS: Facts = {"commit time": TIME, "lsn": COUNT, "xid": COUNT}
"""Of a change: when and where in the log its transaction was committed, and that one's number."""
_CARRIED = Struct(">QQqI")


def facts_of(commits: Sequence[Commit], ends: Sequence[int]) -> dict[str, pa.Array]:
    """The facts of the changes of transactions.

    Args:
        commits: of the transactions.
        ends: for each transaction, the number of changes up to its end.
    """
    told = {
        "commit time": [commit.micros for commit in commits],
        "lsn": [commit.start for commit in commits],
        "xid": [commit.xid for commit in commits],
    }
    of = np.searchsorted(ends, np.arange(ends[-1] if ends else 0), "right")
    return {
        fact: pa.array(np.array(values, np.int64)[of]).cast(FACTS[fact])
        for fact, values in told.items()
    }


def told(part: Part, metadata: Metadata, facts: Mapping[str, pa.Array]) -> Part:
    """Changes with their facts, if there are columns for them."""
    return MetadataPart(part, metadata, facts) if metadata else part


def copied(part: Part, metadata: Metadata) -> Part:
    """Rows of a copy, with NULLs for facts."""
    count = len(part)
    return told(part, metadata, {fact: pa.nulls(count, type) for fact, type in FACTS.items()})


def carrying(message: bytes, commit: Commit) -> bytes:
    """A message with the commit of its transaction before it."""
    return _CARRIED.pack(commit.start, commit.end, commit.micros, commit.xid) + message


def carried(messages: Sequence[bytes]) -> tuple[list[bytes], list[Commit]]:
    """The messages that `carrying` gave, and their commits."""
    commits = [Commit(*_CARRIED.unpack_from(message)) for message in messages]
    return [message[_CARRIED.size :] for message in messages], commits
