"""Values, parameters and rows in PostgreSQL's types, as texts and as bytes."""
