"""The order of values and rows, as DuckDB sorts them."""
