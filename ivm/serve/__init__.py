"""The server: one process that holds a database and lets other programs use it."""
