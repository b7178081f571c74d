"""The facts of messages: what Kafka knows of them beside their values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivm.cdc.sources.metadata import BYTES, COUNT, HEADER, SMALL, TEXT, TIME, Facts, type_of

if TYPE_CHECKING:
    from confluent_kafka import Message

FACTS: Facts = {
    "timestamp": TIME,
    "partition": SMALL,
    "offset": COUNT,
    "key": BYTES,
    "topic": TEXT,
    HEADER: BYTES,
}
"""Of a message: when it was written, as its topic has it, its place, its key and its headers."""
_NO_TIME = 0  # the client's TIMESTAMP_NOT_AVAILABLE


def facts_of(messages: Sequence[Message], asked: Collection[str]) -> dict[str, pa.Array]:
    """Some facts of messages.

    Args:
        messages: without errors.
        asked: the names of the facts.
    """
    headers: list[dict[str, Any]] = []
    if any(fact.startswith(HEADER) for fact in asked):
        headers = [dict(message.headers() or ()) for message in messages]  # the last one counts
    return {fact: _array(messages, headers, fact) for fact in asked}


def _array(messages: Sequence[Message], headers: Sequence[dict[str, Any]], fact: str) -> pa.Array:
    if fact.startswith(HEADER):
        return pa.array([each.get(fact[len(HEADER) :]) for each in headers], BYTES)
    if fact == "timestamp":
        times = [message.timestamp() for message in messages]
        known = [None if kind == _NO_TIME else milliseconds for kind, milliseconds in times]
        return pa.array(known, pa.timestamp("ms")).cast(TIME)
    return pa.array([getattr(message, fact)() for message in messages], type_of(FACTS, fact))
