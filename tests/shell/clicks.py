"""A table of clicks and the file of events that a source reads."""

from __future__ import annotations

import json
from pathlib import Path

TABLE = "CREATE TABLE clicks (id BIGINT, page INTEGER)"  # without a key: what comes twice shows
CREATE = "CREATE SOURCE {} INTO {} FROM FILES (path '{}', format 'json appends')"


def put(path: Path, *ids: int) -> None:
    """Adds events to a file."""
    with path.open("a") as file:
        for id in ids:
            file.write(json.dumps({"id": id, "page": id % 7}) + "\n")
