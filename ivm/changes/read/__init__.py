"""A change taken apart from its tokens: its clauses, its sources, its branches."""
