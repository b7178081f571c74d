"""What is passed on to Kafka's client as it is: `name=value;name=value`.

Law: no secret is part of a definition, which rests in the file. Where one is needed, the value is
`env:NAME`, and is read from the environment when a client is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import InputError

_ENVIRONMENT = "env:"
_SECRET = re.compile(r"password|passphrase|secret|key\.pem|jaas")
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


def resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with their values from the environment.

    Raises:
        SourceError: a variable is not set.
    """
    return {name: _resolve(name, value) for name, value in properties.items()}


def _demand_allowed(name: str, value: str) -> None:
    if name in _OWN:
        raise InputError(f"the property {name!r} cannot be set: {_OWN[name]}")
    if _SECRET.search(name) and not value.startswith(_ENVIRONMENT):
        variable = re.sub(r"\W", "_", name).upper()
        raise InputError(
            f"the property {name!r} is a secret, which would rest in the file: set the environment "
            f"variable {variable}, for example, and write {name}={_ENVIRONMENT}{variable}"
        )


def _resolve(name: str, value: str) -> str:
    if not value.startswith(_ENVIRONMENT):
        return value
    variable = value.removeprefix(_ENVIRONMENT)
    if variable not in os.environ:
        raise SourceError(
            f"the environment variable {variable!r} is not set, from which Kafka's {name!r} is "
            "taken: set it for the process that runs the sources"
        )
    return os.environ[variable]
