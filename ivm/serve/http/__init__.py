"""HTTP: statements, rows in, views, changefeeds and metrics of a served database."""
