"""The change that events make to a table."""
