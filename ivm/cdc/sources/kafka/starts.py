"""Where the partitions of a source are begun, and what must be true of them for that.

Law: a partition with a position goes on there, or it is an error that says what is lost. One
without is begun where the option `start` says if its topic is new to the source; else it was added
to the topic later, and is begun with its first message.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.cdc.sources.kafka.client import Cluster
from ivm.cdc.sources.kafka.topics import Ends, Look, Partition
from ivm.cdc.sources.source import Position, SourceError

_ANEW = (
    "Load the table anew from its origin, then drop the source and create it again: it begins with "
    "what the topic has"
)


def starts(
    cluster: Cluster, look: Look, positions: Mapping[str, Position], start: str
) -> dict[Partition, int]:
    """The offsets at which the partitions are begun.

    Args:
        cluster: to ask.
        look: at the topics.
        positions: of the source.
        start: `earliest` or `latest`.

    Raises:
        UnavailableError: the brokers do not answer.
        SourceError: a topic no longer has what follows a position.
    """
    stored = {each: positions.get(each.stream) for each in look.partitions}
    begun = {partition.topic for partition, position in stored.items() if position}
    for partition, position in stored.items():
        if position:
            topic = partition.topic
            demand_same({topic: position.detail}, look.identities)
    first, next = Ends.first(cluster, stored), Ends.next(cluster, stored)
    firsts, nexts = first.result(), next.result()
    found = {}
    for partition, position in stored.items():
        if position:
            _demand_there(partition, position.offset, firsts[partition], nexts[partition])
            found[partition] = position.offset
        else:
            late = start == "latest" and partition.topic not in begun
            found[partition] = nexts[partition] if late else firsts[partition]
    return found


def demand_same(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuses topics that are not those they were.

    Args:
        before: identities by topic, "" if not known.
        now: of these topics and others.
    """
    for topic, identity in before.items():
        if identity and now[topic] and identity != now[topic]:
            raise SourceError(
                f"the topic {topic!r} was deleted and created again: its offsets mean other "
                f"messages now, and some of the old ones may not have been read. {_ANEW}"
            )


def gap(partition: Partition, next: int, first: int) -> SourceError:
    """That messages were removed before they were read."""
    if first <= next:
        return SourceError(
            f"partition {partition.number} of topic {partition.topic!r} has lost messages that "
            f"were read: it ends before offset {next}. {_ANEW}"
        )
    return SourceError(
        f"partition {partition.number} of topic {partition.topic!r} begins at offset {first}, and "
        f"those from {next} on were not read: the topic keeps its messages for too short a time. "
        f"{_ANEW}"
    )


def _demand_there(partition: Partition, position: int, first: int, next: int) -> None:
    if not first <= position <= next:
        raise gap(partition, position, first)
