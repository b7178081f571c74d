"""What names in a query mean: columns, tables, functions, macros and stars."""
