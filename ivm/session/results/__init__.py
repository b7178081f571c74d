"""The results of statements, and what reads them."""
