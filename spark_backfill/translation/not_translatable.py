"""The verdict that a construct is not said in Spark SQL."""

from __future__ import annotations


class NotTranslatableError(Exception):
    """A construct that has no equal in Spark SQL; its text names it."""
