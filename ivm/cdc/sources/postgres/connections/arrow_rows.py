"""A connection whose queries give their rows in Arrow batches.

The driver reads COPY's binary form into columns by itself: no Python runs for a row, and other
threads go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from ivm.cdc.sources.postgres.connections.server import full_dsn, refused
from ivm.storage.errors import UnsupportedError

try:
    from adbc_driver_postgresql import dbapi
except ImportError:  # said when a source of this kind is used
    dbapi = None

_MOST_BYTES = 16 << 20  # of a batch


class ArrowRows:
    """A connection; `close` it.

    Args:
        dsn: of the database.

    Raises:
        UnavailableError: the server does not answer.
    """

    def __init__(self, dsn: str) -> None:
        if dbapi is None:
            raise UnsupportedError(
                "sources of kind POSTGRES need adbc-driver-postgresql: "
                "pip install 'ivmdb[postgres]'"
            )
        with _answers():
            self._connection: Any = dbapi.connect(full_dsn(dsn), autocommit=True)

    def run(self, sql: str) -> None:
        """Runs a statement without rows."""
        with _answers(), closing(self._connection.cursor()) as cursor:
            cursor.execute(sql)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a query, at least one batch.

        Raises:
            UnavailableError: the server does not answer, or has stopped within the rows.
            SourceError: it refuses.
        """
        with _answers(), closing(self._connection.cursor()) as cursor:
            size = {"adbc.postgresql.batch_size_hint_bytes": str(_MOST_BYTES)}
            cursor.adbc_statement.set_options(**size)
            cursor.execute(sql)
            reader = cursor.fetch_record_batch()
            nothing = [pa.array([], type) for type in reader.schema.types]
            yield pa.RecordBatch.from_arrays(nothing, schema=reader.schema)
            yield from reader

    def cancel(self) -> None:
        """Ends what another thread waits for."""
        self._connection.adbc_cancel()

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


@contextmanager
def _answers() -> Iterator[None]:
    """Raises the errors of the driver as ours; within rows it does not tell their codes."""
    try:
        yield
    except dbapi.Error as error:
        raise refused(error.sqlstate, str(error)) from error
    except OSError as error:
        raise refused(None, str(error)) from error
