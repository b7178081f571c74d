"""What the engine stands on: its locks, its log, its jobs, and what is known of definitions."""
