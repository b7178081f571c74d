"""PostgreSQL as a source, by logical replication."""
