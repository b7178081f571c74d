"""Plans and expressions in Spark SQL, where it is known to compute what DuckDB computes."""
