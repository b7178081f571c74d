"""The plan of a query: its nodes, their expressions, and the SQL that they render to."""
