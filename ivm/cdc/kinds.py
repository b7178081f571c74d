"""The kinds of sources."""

from __future__ import annotations

from ivm.cdc.sources.debezium import Debezium
from ivm.cdc.sources.files import Files
from ivm.cdc.sources.kafka import Kafka
from ivm.cdc.sources.postgres import Postgres
from ivm.cdc.sources.source import Source

KINDS: dict[str, type[Source]] = {kind.kind: kind for kind in (Files, Kafka, Postgres, Debezium)}
"""By their names in SQL."""
