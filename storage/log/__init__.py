"""The change log: what is committed is written and synced here first."""
