"""First fills of views on Spark: the jobs, and the hand-over to the stream of changes."""
