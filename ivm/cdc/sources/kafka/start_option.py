"""A place in topics as a user writes it: in the option `start`, and in SET POSITION.

Law: it is one of the words `earliest` and `latest`; or a time with its zone, for the first message
that is not older; or pairs `partition:offset`, parted by commas, in which a partition is `number`
of a single topic or `topic/number`. As a start, what is not named is begun with its first message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ivm.storage.errors import InputError

WORDS = ("earliest", "latest")
_PAIR = re.compile(r"(?:(?P<topic>[a-zA-Z0-9._-]+)/)?(?P<number>\d{1,9}):(?P<offset>-?\d{1,18})")


class Start(NamedTuple):
    """Where topics are read from; `earliest`, if nothing else is told.

    Attributes:
        latest: after what they have.
        time: with the first message that is not older, in milliseconds since 1970.
        offsets: by stream, of the first messages.
    """

    latest: bool = False
    time: int | None = None
    offsets: Mapping[str, int] = {}


def parse_start(text: str, topics: Sequence[str]) -> Start:
    """Reads a place.

    Args:
        text: as written.
        topics: of the source.

    Raises:
        InputError: it means nothing, or not what it seems to.
    """
    if text in WORDS:
        return Start(latest=text == "latest")
    pairs = [_PAIR.fullmatch(part.strip()) for part in text.split(",")]
    found = [pair for pair in pairs if pair is not None]
    if len(found) < len(pairs):
        return Start(time=_milliseconds(text))
    offsets = {
        _stream(pair["topic"], pair["number"], topics): int(pair["offset"]) for pair in found
    }
    if len(offsets) < len(found):
        raise InputError(f"{text!r} names a partition twice")
    for stream, offset in offsets.items():
        if offset < 0:
            raise InputError(
                f"the offset {offset} of {stream} is negative: the first message of a partition "
                "has the offset 0, and 'earliest' and 'latest' are the ends of all partitions"
            )
    return Start(offsets=offsets)


def _stream(topic: str | None, number: str, topics: Sequence[str]) -> str:
    if topic is None and len(topics) > 1:
        raise InputError(f"of several topics a partition is named as {topics[0]}/{number}:offset")
    if topic is not None and topic not in topics:
        raise InputError(f"{topic!r} is no topic of the source: it has {', '.join(topics)}")
    return f"{topic or topics[0]}/{int(number)}"


def _milliseconds(text: str) -> int:
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            "topics are read from 'earliest', 'latest', a time such as '2026-11-28 00:00+00', "
            f"or offsets such as '0:1200, 1:900', not from {text!r}"
        ) from None
    if time.tzinfo is None:
        utc = text.strip() if ":" in text else f"{time:%Y-%m-%d %H:%M}"
        raise InputError(f"the time {text!r} has no zone: write '{utc}+00', if it is UTC")
    next = -(-round(time.timestamp() * 1_000_000) // 1000)  # the next whole one
    return max(next, 0)  # what is negative means other things to brokers
