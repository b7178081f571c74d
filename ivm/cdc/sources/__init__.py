"""The places from which change streams come, one module each."""
