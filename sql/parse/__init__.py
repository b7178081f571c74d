"""A query as DuckDB's parser reads it, in sqlglot's tree."""
