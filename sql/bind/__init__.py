"""From the syntax tree of a query to its plan, clause by clause."""
