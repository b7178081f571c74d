"""PostgreSQL's wire protocol, version 3."""
