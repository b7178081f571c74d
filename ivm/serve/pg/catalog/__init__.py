"""What clients ask of the database itself: PostgreSQL's catalog, and the settings of a session."""
