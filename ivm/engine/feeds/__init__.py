"""The deltas of views for those who follow them: changefeeds, and the outbox of sinks."""
