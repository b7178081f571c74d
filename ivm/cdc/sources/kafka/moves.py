"""Where SET POSITION moves a source of topics.

Law: a word and a time move all partitions, offsets those that they name; the others stay, and those
of a topic that was not begun yet are begun where the option `start` says. Nothing is moved to what
a partition has not.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.cdc.sources.kafka.client import Cluster
from ivm.cdc.sources.kafka.kafka import Kafka
from ivm.cdc.sources.kafka.start_option import Start
from ivm.cdc.sources.kafka.starts import offsets_at
from ivm.cdc.sources.kafka.topics import Ends, look_patiently
from ivm.cdc.sources.source import Position


def moved(
    source: Kafka, name: str, place: Start, positions: Mapping[str, Position]
) -> dict[str, Position]:
    """The positions at a place, by stream; those that stay are left out.

    Args:
        source: its definition.
        name: of the source.
        place: in its topics.
        positions: as they are.

    Raises:
        UnavailableError: the brokers do not answer.
        InputError: there is no such partition, or no such offset in it.
        SourceError: a topic is missing, or may not be read.
    """
    cluster = Cluster.read_by(source.group(name), source.brokers, source.properties)
    look = look_patiently(cluster, source.topics)
    begun = {stream.rpartition("/")[0] for stream in positions}
    told = {stream.rpartition("/")[0] for stream in place.offsets}
    first, next = Ends.first(cluster, look.partitions), Ends.next(cluster, look.partitions)
    ends = first.result(), next.result()
    new = [each for each in look.partitions if each.topic in told - begun]
    found = offsets_at(cluster, new, source.begin(), *ends) if new else {}
    found |= offsets_at(cluster, look.partitions, place, *ends)
    return {
        each.stream: Position(offset, look.identities[each.topic]) for each, offset in found.items()
    }
