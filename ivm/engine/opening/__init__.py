"""The opening of a database, and what goes on by itself from then on."""
