"""Rows in files: base relations exported, and tables that stay in theirs."""
