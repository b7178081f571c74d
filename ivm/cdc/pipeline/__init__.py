"""Sources read and decoded by Spark's Structured Streaming, and applied here."""
