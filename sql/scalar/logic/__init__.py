"""Truth values: AND, OR, comparisons and conditions."""
