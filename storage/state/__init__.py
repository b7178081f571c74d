"""State in files: what operators hold, kept for the next opening."""
