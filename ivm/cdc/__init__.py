"""Change streams: what other databases have changed, applied exactly once."""
