"""The kinds of statements, and what their fields hold."""
