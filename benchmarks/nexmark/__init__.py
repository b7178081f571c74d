"""Nexmark: the events of an auction, fed to each of its queries as a view."""
