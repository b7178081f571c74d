"""Secrets among the properties that are passed on to a client as they are.

Law: no secret is part of a definition, which rests in the file. Where one is needed, the value is
`env:NAME`, and is read from the environment when a client is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import InputError

_ENVIRONMENT = "env:"
_SECRET = re.compile(r"password|passphrase|secret|key\.pem|jaas", re.IGNORECASE)


def demand_no_secret(name: str, value: str, written: str) -> None:
    """Refuses the value of a property that is a secret.

    Args:
        name: of the property.
        value: of it.
        written: how a user writes a property, with `{name}` and `{value}`.

    Raises:
        InputError: it is one.
    """
    if _SECRET.search(name) and not value.startswith(_ENVIRONMENT):
        variable = re.sub(r"\W", "_", name).upper()
        way = written.format(name=name, value=_ENVIRONMENT + variable)
        raise InputError(
            f"the property {name!r} is a secret, which would rest in the file: set the environment "
            f"variable {variable}, for example, and write {way}"
        )


def resolved(properties: Mapping[str, str], client: str) -> dict[str, str]:
    """The properties with their values from the environment.

    Args:
        properties: by name.
        client: to which they are passed on.

    Raises:
        SourceError: a variable is not set.
    """
    return {name: _resolve(name, value, client) for name, value in properties.items()}


def _resolve(name: str, value: str, client: str) -> str:
    if not value.startswith(_ENVIRONMENT):
        return value
    variable = value.removeprefix(_ENVIRONMENT)
    if variable not in os.environ:
        raise SourceError(
            f"the environment variable {variable!r} is not set, from which {client}'s {name!r} is "
            "taken: set it for the process that runs the sources"
        )
    return os.environ[variable]
