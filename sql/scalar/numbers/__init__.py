"""Numbers: arithmetic, bits, decimals, division and rounding."""
