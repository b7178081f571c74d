"""Scalar expressions compiled to kernels over columns, exact as DuckDB's."""
