"""Files as a source: what was read, from which file and row, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import zstandard

from ivm.cdc.sources.files import Files
from ivm.cdc.sources.source import Batch, Position, Reader


def opened(path: Path | str, positions: Mapping[str, Position] | None = None) -> Reader:
    return Files(str(path), "json appends").open("s", "t", positions or {})


def texts(batch: Batch | None) -> list[str | None]:
    if batch is None:
        return []
    [part] = batch.parts
    return part.payloads(range(len(part)))


def test_lines_come_in_the_order_of_names_and_as_files_grow(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"id": 3}\n')
    (tmp_path / "a.jsonl").write_text('{"id": 1}\r\n\n{"id": 2}\n{"id"')
    a, b = str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")
    with closing(opened(tmp_path / "*.jsonl")) as reader:
        batch = reader.read(100, 0)
        assert batch is not None
        assert texts(batch) == ['{"id": 1}', None, '{"id": 2}', '{"id": 3}']
        assert batch.parts[0].places([0, 2, 3]) == [(a, 1), (a, 3), (b, 1)]
        assert {stream: p.offset for stream, p in batch.positions.items()} == {a: 3, b: 1}
        assert reader.read(100, 0) is None
        with open(a, "a") as file:
            file.write(": 4}\n")
        assert texts(reader.read(100, 0)) == ['{"id": 4}']
        assert reader.read(100, 0) is None
        assert reader.caught_up()


def test_a_reader_goes_on_where_the_last_one_was_left(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    with closing(opened(path)) as reader:
        batch = reader.read(1, 0)
        assert batch is not None
        assert texts(batch) == ['{"id": 1}']
    with closing(opened(path, batch.positions)) as reader:
        assert texts(reader.read(9, 0)) == ['{"id": 2}']


def test_frames_that_zstd_skips_are_skipped(tmp_path: Path) -> None:
    """Some programs begin or end a file with one."""
    path, skipped = tmp_path / "a.jsonl", b"\x5a\x2a\x4d\x18\x04\0\0\0size"
    path.write_bytes(skipped[:2])
    with closing(opened(path)) as reader:
        assert reader.read(9, 0) is None
        path.write_bytes(skipped + zstandard.compress(b'{"id": 1}\n') + skipped)
        assert texts(reader.read(9, 0)) == ['{"id": 1}']
