"""Transactions, commits, maintenance of the views, and flushes."""
