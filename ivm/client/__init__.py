"""The client: a database that another process serves, with the methods of one that is open here."""

from ivm.client.database import RemoteDatabase, connect

__all__ = ["RemoteDatabase", "connect"]
