"""What names mean in one session: its temporary relations, the caller's objects, pipes."""
