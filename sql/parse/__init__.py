"""SQL texts as sqlglot's syntax trees, checked against DuckDB's own parser."""
