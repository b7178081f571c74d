"""The transactions of sessions, and those that the engine makes by itself."""
