"""PostgreSQL as a source, by logical replication."""

from ivm.cdc.sources.postgres.source import Postgres

__all__ = ["Postgres"]
