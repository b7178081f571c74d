"""GROUP BY, DISTINCT and the set operations: per group, by accumulators or by its rows."""
