"""A process with a Spark that has PostgreSQL's JDBC driver: runs what it is told on a database.

A line in is JSON: a file to `open`, a view to `backfill`, `sql`, or SQL that runs `aside`, in a
thread that is not waited for. A line out is JSON: the rows as texts, or the kind and words of the
error with the traceback.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from typing import Any

import ivm

OPTIONS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
}


def answer(asked: dict[str, str]) -> dict[str, Any]:
    """What a line is answered."""
    global _db
    try:
        if "open" in asked:
            if _db is not None:
                _db.close()
            _db = ivm.connect(asked["open"], spark=OPTIONS | {"spark.jars": sys.argv[1]})
            return {"rows": []}
        assert _db is not None
        if "backfill" in asked:
            _db.backfill(asked["backfill"])
            return {"rows": []}
        if "aside" in asked:
            threading.Thread(target=answer, args=({"sql": asked["aside"]},), daemon=True).start()
            return {"rows": []}
        return {"rows": [list(map(str, row)) for row in _db.execute(asked["sql"]).fetchall()]}
    except BaseException as error:
        said = traceback.format_exc()
        return {"kind": type(error).__name__, "error": str(error), "trace": said}


_db: ivm.Database | None = None
if __name__ == "__main__":
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(answer(json.loads(line))), flush=True)
    if _db is not None:
        _db.close()
