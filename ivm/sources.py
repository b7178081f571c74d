"""The kinds of sources, under the names users import them by: `ivm.sources.Files(path=…)`."""

from ivm.cdc.sources.debezium import Debezium
from ivm.cdc.sources.files import Files
from ivm.cdc.sources.kafka import Kafka
from ivm.cdc.sources.postgres import Postgres
from ivm.cdc.sources.source import Source, SourceError

__all__ = ["Debezium", "Files", "Kafka", "Postgres", "Source", "SourceError"]
