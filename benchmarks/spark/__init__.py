"""First fills on Spark: their times, their memory, and what goes on beside them."""
