"""Compiled operands: kernels, their rules, and constants."""
