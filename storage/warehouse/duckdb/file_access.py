"""Whether DuckDB's settings let queries read every file of this machine.

Invariant: what is kept holds until `forget` is called, which whoever may have changed a setting
does.
"""

from __future__ import annotations

from ivm.storage.warehouse.duckdb.duck import Cursor, rows

_IS_FREE = """
SELECT system.main.current_setting('enable_external_access')
    AND system.main.current_setting('disabled_filesystems') = ''
"""


class FileAccess:
    """The answer for one open database: the settings are of all its connections."""

    def __init__(self) -> None:
        self._is_free: bool | None = None

    def is_free(self, cursor: Cursor) -> bool:
        """Returns whether any file may be read."""
        if self._is_free is None:
            ((found,),) = rows(cursor, _IS_FREE)
            self._is_free = bool(found)
        return self._is_free

    def forget(self) -> None:
        """Has DuckDB asked again."""
        self._is_free = None
