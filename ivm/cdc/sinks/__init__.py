"""Sinks: the changes of a view written to somebody else's system, each epoch once and in order."""
