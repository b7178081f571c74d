"""Where the partitions of a source are begun, and what must be true of them for that.

Law: a partition with a position goes on there, or it is an error that says what is lost. One
without is begun where the option `start` says if its topic is new to the source; else it was added
to the topic later, and is begun with its first message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivm.cdc.sources.kafka.client import Cluster
from ivm.cdc.sources.kafka.start_option import Start
from ivm.cdc.sources.kafka.topics import Ends, Look, Partition
from ivm.cdc.sources.source import Position, SourceError
from ivm.storage.errors import InputError

_ANEW = (
    "Load the table anew from its origin, then drop the source and create it again: it begins with "
    "what the topic has"
)


def starts(
    cluster: Cluster, look: Look, positions: Mapping[str, Position], start: Start
) -> dict[Partition, int]:
    """The offsets at which the partitions are begun.

    Args:
        cluster: to ask.
        look: at the topics.
        positions: of the source.
        start: of topics that are new to the source.

    Raises:
        UnavailableError: the brokers do not answer.
        SourceError: a topic no longer has what follows a position, or never had the start.
    """
    stored = {each: positions.get(each.stream) for each in look.partitions}
    begun = {partition.topic for partition, position in stored.items() if position}
    for partition, position in stored.items():
        if position:
            topic = partition.topic
            demand_same({topic: position.detail}, look.identities)
    first, next = Ends.first(cluster, stored), Ends.next(cluster, stored)
    firsts, nexts = first.result(), next.result()
    found = dict(firsts)
    new = [each for each in stored if each.topic not in begun]
    try:
        found.update(offsets_at(cluster, new, start, firsts, nexts))
    except InputError as error:
        way = "ALTER SOURCE … SET (start '…') mends it, then RESUME SOURCE"
        raise SourceError(f"the topic cannot be begun there: {error}. {way}") from error
    for partition, position in stored.items():
        if position:
            _demand_there(partition, position.offset, firsts[partition], nexts[partition])
            found[partition] = position.offset
    return found


def offsets_at(
    cluster: Cluster,
    among: Sequence[Partition],
    place: Start,
    firsts: Mapping[Partition, int],
    nexts: Mapping[Partition, int],
) -> dict[Partition, int]:
    """The offsets at which a place is, of those partitions that it tells of.

    Args:
        cluster: to ask.
        among: all partitions of some topics; what is told of other topics is left out.
        place: in them.
        firsts: the first offsets of partitions.
        nexts: the offsets after all that partitions have.

    Raises:
        UnavailableError: the brokers do not answer.
        InputError: there is no such partition, or no such offset in it.
    """
    if place.latest:
        return {each: nexts[each] for each in among}
    if place.time is not None:
        times = Ends.at(cluster, among, place.time).result()
        return {each: nexts[each] if offset < 0 else offset for each, offset in times.items()}
    if not place.offsets:
        return {each: firsts[each] for each in among}
    topics = {each.topic for each in among}
    streams = {each.stream: each for each in among}
    found = {}
    for stream, offset in place.offsets.items():
        topic = stream.rpartition("/")[0]
        if topic not in topics:
            continue
        if stream not in streams:
            own = ", ".join(each.stream for each in among if each.topic == topic)
            raise InputError(f"there is no partition {stream}; there are: {own}")
        each = streams[stream]
        if not firsts[each] <= offset <= nexts[each]:
            why = f"the next message gets {nexts[each]}"
            if offset < firsts[each]:
                why = f"the messages before {firsts[each]} were removed"
            raise InputError(
                f"{stream} has the offsets {firsts[each]} to {nexts[each]}, not {offset}: {why}"
            )
        found[each] = offset
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
