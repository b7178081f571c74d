"""COPY between a client and a table."""
