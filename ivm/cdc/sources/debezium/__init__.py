"""Debezium's engine and its connectors, run in this process."""

from ivm.cdc.sources.debezium.debezium import Debezium

__all__ = ["Debezium"]
