"""What is passed on to Kafka's client as it is: `name=value;name=value`."""

from __future__ import annotations

import re
from collections.abc import Collection

from ivm.cdc.sources.secrets import demand_no_secret
from ivm.storage.errors import InputError

_OWN = {
    "bootstrap.servers": "the option brokers names them",
    "metadata.broker.list": "the option brokers names them",
    "auto.offset.reset": "the option start says where a topic is begun",
    **dict.fromkeys(
        ("enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof"),
        "positions are kept in the database",
    ),
    "isolation.level": "what was not committed is never read",
    "transactional.id": "the option identity of a sink is it",
}


def parse_properties(text: str, taken: Collection[str] = ()) -> dict[str, str]:
    """The properties of a definition, by name.

    Args:
        text: as the user wrote them, parted by semicolons or ends of lines.
        taken: names of which the definition itself disposes, beside those that none can set.

    Raises:
        InputError: a part is no property, one is the source's own, or a secret is in the text.
    """
    found: dict[str, str] = {}
    for part in re.split(r"[;\n]", text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not part.strip():
            continue
        if not equals or not name:
            raise InputError(f"{part.strip()!r} is no property: write name=value;name=value")
        if name in taken:
            raise InputError(f"the property {name!r} cannot be set here")
        _demand_allowed(name, value)
        found[name] = value
    return found


def _demand_allowed(name: str, value: str) -> None:
    if name in _OWN:
        raise InputError(f"the property {name!r} cannot be set: {_OWN[name]}")
    demand_no_secret(name, value, "{name}={value}")
