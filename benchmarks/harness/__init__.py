"""What benchmarks share: cells, streams of changes, and tables of numbers."""
