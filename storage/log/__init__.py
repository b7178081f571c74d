"""The change log: every commit is written and synced here first."""
