"""CSV files: the rows are those that DuckDB reads, and what is no row stays alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.cdc.sources.files import Files
from ivm.storage.errors import InputError
from tests import tiers
from tests.cdc.following import Following

CELLS = st.sampled_from([None, "", "1", "é", 'x"y', '"', "a,b", "l1\nl2", "l1\r\nl2", " ", "null"])
TABLE = st.lists(st.tuples(CELLS, CELLS), max_size=20)

READ = """
FROM read_csv($1, all_varchar = true, header = true, delim = ',', quote = '"', escape = '"',
              allow_quoted_nulls = false, null_padding = false)
"""


def written(cell: str | None, quoted: bool) -> str:
    """A value in CSV."""
    if cell is None:
        return ""
    if quoted or cell == "" or any(sign in cell for sign in '",\r\n'):
        return '"' + cell.replace('"', '""') + '"'
    return cell


@pytest.mark.full
@given(
    table=TABLE,
    quoted=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    cuts=st.lists(st.integers(0, 20), max_size=30),
    limit=st.integers(1, 5),
    restarts=st.lists(st.booleans(), min_size=1, max_size=5),
)
@settings(max_examples=tiers.examples(100), deadline=None)
def test_the_rows_are_those_that_duckdb_reads(
    table: list[tuple[str | None, str | None]],
    quoted: bool,
    end: str,
    cuts: list[int],
    limit: int,
    restarts: list[bool],
) -> None:
    rows = [("a", "b"), *table]
    text = "".join(",".join(written(cell, quoted) for cell in row) + end for row in rows).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with Following(path, format="csv appends") as following, path.open("wb") as file:
            for i, cut in enumerate([*cuts, len(text)]):
                file.write(text[:cut])
                file.flush()
                text = text[cut:]
                following.read(limit)
                if restarts[i % len(restarts)]:
                    following.restart()
        expected = duckdb.connect().execute(READ, [str(path)]).fetchall() if table else []
    found = [json.loads(payload) for _, _, payload in following.events if payload is not None]
    assert [(row["a"], row["b"]) for row in found] == expected
    assert [row for _, row, _ in following.events] == [*range(1, len(table) + 1)]


def test_what_is_no_row_stays_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b\n1,2\n\n3\n\xff,4\n5,6" x\n"7"z,8\n9,"y\rz"\nq\rr,0\n1,2')
    with Following(path, format="csv appends") as following:
        following.read()
    assert [(row, payload) for _, row, payload in following.events] == [
        (1, '{"a": "1", "b": "2"}'),
        (2, None),
        (3, "3"),
        (4, "\\xff,4"),
        (5, '{"a": "5", "b": "6\\" x"}'),
        (6, '{"a": "7z", "b": "8"}'),
        (7, '{"a": "9", "b": "y\\rz"}'),
        (8, "q\rr,0"),
    ]


def test_a_last_row_without_an_end_is_taken_when_the_file_is_settled(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2")
    with Following(path, format="csv appends", settle=0.0) as following:
        assert following.read() == ['{"a": "1", "b": "2"}']
        with path.open("ab") as file:
            file.write(b'\n3,"')
        assert following.read() == []  # it has a quote that is open
        assert following.caught_up()


@pytest.mark.parametrize(
    ("options", "text", "rows"),
    [
        ({"delimiter": ";"}, "a;b\n1;2\n", ['{"a": "1", "b": "2"}']),
        ({"quote": ""}, "a,b\n\",'\n", ['{"a": "\\"", "b": "\'"}']),
        ({"quote": "'"}, "a,b\n'1\n',2\n", ['{"a": "1\\n", "b": "2"}']),
        ({"null": "\\N"}, "a,b\n\\N,\n", ['{"a": null, "b": ""}']),
        ({"columns": 'x, "y,z"'}, "1,2\n", ['{"x": "1", "y,z": "2"}']),
        ({}, '\n\ufeffa,b"\n1,2\n', ['{"a": "1", "b\\"": "2"}']),
    ],
)
def test_dialects(tmp_path: Path, options: dict[str, str], text: str, rows: list[str]) -> None:
    (tmp_path / "t.csv").write_text(text.lstrip("\n"))
    with Following(tmp_path / "t.csv", format="csv appends", **options) as following:
        assert following.read() == rows


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "csv", "delimiter": "::"}, "a delimiter is one ASCII sign"),
        ({"format": "csv", "quote": ","}, "a quote is one ASCII sign or none"),
        ({"format": "json", "delimiter": ";"}, "'json' has no delimiter"),
        ({"format": "csv", "times": "ms"}, "'csv' takes no times"),
        ({"format": "excel"}, "there is no format 'excel'; there are: debezium.*parquet appends"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Files(path="x.csv", **options)  # type: ignore[arg-type]
