"""The incremental view maintenance database for Python and DuckDB."""

from ivm import dbapi, errors, sinks, sources
from ivm.catalog.functions import Function
from ivm.cdc.apply import Ingested
from ivm.cdc.run_sources import SourceInfo
from ivm.cdc.sinks.run_sinks import SinkInfo
from ivm.database import Database, connect
from ivm.engine.feeds.changefeed import Subscription
from ivm.errors import IvmError
from ivm.listings import TableListing, ViewInfo
from ivm.notebook.extension import load_ipython_extension, unload_ipython_extension
from ivm.recovery import Recovery, recover
from ivm.session.results.relation import Relation
from ivm.session.results.result import Result
from ivm.storage.versions import own_version

__version__ = own_version()

__all__ = [
    "Database",
    "Function",
    "Ingested",
    "IvmError",
    "Recovery",
    "Relation",
    "Result",
    "SinkInfo",
    "SourceInfo",
    "Subscription",
    "TableListing",
    "ViewInfo",
    "connect",
    "dbapi",
    "errors",
    "load_ipython_extension",
    "recover",
    "sinks",
    "sources",
    "unload_ipython_extension",
]
