"""The values of a change: what is set and compared, over stored rows and many parameters."""
