"""TPC-H: its data, its queries, its streams of changes, and the demo's display."""
