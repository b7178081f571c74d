"""Values of Python, of Arrow and of literals as those of a column's type."""
