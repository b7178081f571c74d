"""Peers' public suites through the public API: `make conformance SUITES=/path`."""
