"""What the shell shows: results, tables and errors as text."""
