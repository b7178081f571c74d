"""Operators without state: filter, map, union and unnest."""
