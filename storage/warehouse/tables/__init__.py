"""The relations of a file as its catalog and our records have them, and histories elsewhere."""
