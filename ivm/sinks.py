"""The kinds of sinks, under the names users import them by: `ivm.sinks.Files(path=…)`."""

from ivm.cdc.sinks.files import Files
from ivm.cdc.sinks.kafka import Kafka
from ivm.cdc.sinks.target import SinkTo, Target

__all__ = ["Files", "Kafka", "SinkTo", "Target"]
