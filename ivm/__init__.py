"""The incremental view maintenance database for Python and DuckDB."""

from ivm import errors
from ivm.changefeed import Subscription
from ivm.database import Database, TableListing, ViewInfo, connect
from ivm.errors import IvmError
from ivm.functions import Function
from ivm.recovery import Recovery, recover
from ivm.result import Result

__all__ = [
    "Database",
    "Function",
    "IvmError",
    "Recovery",
    "Result",
    "Subscription",
    "TableListing",
    "ViewInfo",
    "connect",
    "errors",
    "recover",
]
