"""Runs SQL on a Spark of its own: reads a JSON object a line, answers with one.

`{"sql": …}` is run, `{"sql": …, "to": path}` has its rows written as an Arrow file. This program is
started by `lake_spark` and needs nothing of this project.
"""

import json
import os
import sys
from typing import Any

import pyarrow.feather as feather
from pyspark.sql import SparkSession


def main() -> None:
    """Answers until its input ends."""
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Java prints too
    builder: Any = SparkSession.builder
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for line in sys.stdin:
        print(json.dumps(_answer(session, json.loads(line))), file=said, flush=True)


def _answer(session: Any, asked: dict[str, str]) -> dict[str, str]:
    try:
        frame = session.sql(asked["sql"])
        if "to" in asked:
            feather.write_feather(frame.toArrow(), asked["to"], compression="uncompressed")
        else:
            frame.collect()
    except Exception as error:
        return {"error": str(error)[:2000]}
    return {}


if __name__ == "__main__":
    main()
