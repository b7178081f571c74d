"""A source that runs one of Debezium's connectors in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa

from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.sources.debezium import jvm
from ivm.cdc.sources.debezium.properties import CONNECTORS, demand_allowed, leaves, slot_of
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.secrets import resolved
from ivm.cdc.sources.source import Into, Limits, Part, Position, Reader
from ivm.storage.errors import InputError


@dataclass(frozen=True)
class Debezium(Limits):
    """The tables of a database, copied and followed by a connector of Debezium's engine.

    Args:
        connector: `mysql`, `postgresql`, `sqlserver`, `oracle` or `db2`.
        properties: of the connector and the engine, as Debezium's documentation names them, such as
            `database.hostname`; in SQL they stand among the options. The value of a secret is
            `env:NAME`, and is taken from the environment.

    Raises:
        InputError: there is no such connector, a property is the source's own, or a secret is
            among them.
    """

    kind: ClassVar[str] = "DEBEZIUM"
    into: ClassVar[Into] = "optional"
    stays: ClassVar[str] = (
        "its position is Debezium's own, beside the history of the schema. To have all tables "
        "copied anew, DROP SOURCE and CREATE SOURCE with the same options"
    )

    connector: str = field(metadata={"values": tuple(CONNECTORS)})
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.connector not in CONNECTORS:
            raise InputError(
                f"there is no connector {self.connector!r}; there are: {', '.join(CONNECTORS)}"
            )
        texts = {name: str(value) for name, value in self.properties.items()}
        object.__setattr__(self, "properties", texts)  # as they are stored
        demand_allowed(self.properties)

    def envelope(self) -> Envelope:
        """Of the events."""
        whole = envelope_of("debezium with schema", version=self.version)
        return replace(whole, origin=())  # the tables are told apart before

    def open(self, name: str, into: str | None, positions: Mapping[str, Position]) -> Reader:
        """See `Source`."""
        properties = resolved(self.properties, "Debezium")
        jvm.start()
        from ivm.cdc.sources.debezium.reader import DebeziumReader

        return DebeziumReader(self, properties, name, into, positions)

    def part(self, table: str, payloads: Sequence[str | None]) -> Part:
        """See `Source`."""
        return JsonPart(table, pa.array(payloads, pa.large_string()), self.envelope(), "")

    def forget(self, name: str, positions: Mapping[str, Position]) -> None:
        """See `Source`."""
        if not positions or not leaves(self.connector, self.properties):
            return
        properties = resolved(self.properties, "Debezium")
        jvm.start()
        from ivm.cdc.sources.debezium.copying import Copy
        from ivm.cdc.sources.debezium.leftovers import remove

        if (copy := Copy.of(positions)) is not None:
            remove(slot_of(name, copy.token), name, properties)
