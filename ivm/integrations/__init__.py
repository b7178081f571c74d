"""What other tools use: PEP 249 connections, a dialect of SQLAlchemy, and magics of IPython."""
