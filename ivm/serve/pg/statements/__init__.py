"""The statements of one connection: what its clients mean by them, and how they are run."""
