"""The DuckDB file: tables, views and system tables, and the flushes that write them."""
