"""SQL text to bound logical plan to rewritten plan to circuit."""
