"""DuckDB's settings of replacement scans, as one database follows them.

Invariant: in DuckDB itself they are off, see `ivm.session.names.replacement_scans`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ScanSettings:
    """What SQL may read of the program that calls.

    Attributes:
        enabled: whether it reads variables at all (`python_enable_replacements`).
        all_frames: whether it reads those of all callers, not of the nearest alone
            (`python_scan_all_frames`).
    """

    enabled: bool = True
    all_frames: bool = False
