"""Which tables, views and functions there are, and what their names mean."""
