"""The tables, views and functions of a database, and the meaning of their names."""
