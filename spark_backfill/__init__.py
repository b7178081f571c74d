"""First fills and the CDC pipeline on Spark, through PySpark."""
