"""The commands of the command line, on a database file."""
