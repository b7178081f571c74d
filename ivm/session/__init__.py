"""One session: its statements and Python calls, and their results."""
