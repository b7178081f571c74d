"""The opening of a file: its locks, its side folder, and the proof that all belongs together."""
