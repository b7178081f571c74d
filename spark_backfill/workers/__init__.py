"""What runs in Spark's Python workers, and the carriers in which rows get there and back."""
