"""Databases that are hurt on purpose: none may come to harm."""
