"""Values of every type as JSON: what `ingest` reads back is the value, and every line is JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ivm
from tests.cdc.sink_files import caught_up
from tests.support.type_values import VALUES

SAID_OTHERWISE = {"[-('nan'::DOUBLE)]"}  # JSON knows one NaN
# What DuckDB's own JSON has no proper number for, next to texts that look like it; and documents
# that are texts, or null.
FURTHER = {
    "DECIMAL(18, 18)": ("0.123456789012345678", "-0.5", "0"),
    "DECIMAL(38, 38)[]": ("[0.5, NULL, -0.12345678901234567890123456789012345678]",),
    "STRUCT(t VARCHAR, x DECIMAL(16, 16), d DOUBLE)": (
        """{'t': '":-.5,NaN\\', 'x': -0.5, 'd': 'nan'}""",
        "{'t': '[.5', 'x': 0, 'd': '-inf'}",
    ),
    "STRUCT(d DOUBLE, x DECIMAL(38, 30))": ("{'d': 'inf', 'x': 0.123456789012345678901234567890}",),
    "JSON": ("""'"5"'""", """'"null"'""", """'"plain"'""", """'"{\\"a\\": 1}"'""", "'5'"),
    "JSON[]": ("""['"5"'::JSON, 'null', NULL, '"{"', '7', '{"a": [ ]}']""",),
    "JSON[2][]": ("""[['"5"'::JSON, 'null'], NULL]""",),
}
TYPES = [*VALUES, *(type for type in FURTHER if type not in VALUES)]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.cases(16)
@pytest.mark.parametrize("type", TYPES)
def test_values_come_back(tmp_path: Path, type: str) -> None:
    known = (*VALUES.get(type, ()), *FURTHER.get(type, ()))
    values = [value for value in known if value not in SAID_OTHERWISE]
    with ivm.connect() as db:
        for name in ("t", "copy"):
            db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, x {type})")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, x FROM t")
        for i, value in enumerate(values):
            db.execute(f"INSERT INTO t SELECT {i}, CAST({value} AS {type})")
        for format in ("jsonl", "debezium"):
            db.create_sink(format, "v", ivm.sinks.Files(path=str(tmp_path / format), format=format))
        db.execute("UPDATE t SET x = NULL WHERE id = 0")
        caught_up(db)
        for format in ("jsonl", "debezium"):
            lines = (tmp_path / format).read_text().splitlines()
            for line in lines:
                json.loads(line, parse_constant=refuse)
        assert db.ingest("copy", lines, decimals="text").refused == {}
        both = [
            db.execute(f"SELECT id, CAST(x AS VARCHAR) FROM {name} ORDER BY id").fetchall()
            for name in ("t", "copy")
        ]
        assert both[0] == both[1]
