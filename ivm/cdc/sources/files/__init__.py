"""Files that are followed as they grow and as new ones come."""

from ivm.cdc.sources.files.files import Files

__all__ = ["Files"]
