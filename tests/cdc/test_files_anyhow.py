"""Law: however files are written, read and left, every row comes once, in the order of its file."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiers
from tests.cdc.following import Following

LINES = st.sampled_from(
    [
        *(b'{"id": 1}', b'{"id": 2}\r', b"", b"\r", b"null", b"{", b'"\xff"', b"x" * 99),
        '{"a": "é"}'.encode(),
    ]
)
CONTENT = st.lists(LINES, max_size=30).map(lambda lines: b"".join(line + b"\n" for line in lines))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 1), st.integers(0, 300)),
        st.tuples(st.just("read"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("read all"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
        st.tuples(st.just("rename"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("copy"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("compress"), st.integers(0, 1), st.just(0)),
    ),
    max_size=30,
)


def shown(line: bytes) -> str | None:
    """What a line is as an event."""
    text = line.rstrip(b"\r")
    if b"\xff" in text:
        return f"no UTF-8: {text.decode(errors='backslashreplace')}"
    return None if text in (b"", b"null") else text.decode()


def rows(content: bytes) -> list[tuple[int | None, str | None]]:
    """What a file has."""
    return [*enumerate(map(shown, content.split(b"\n")[:-1]), 1)]


def members(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Compresses a text in members of an odd size."""
    return lambda text: b"".join(compress(text[i : i + 37]) for i in range(0, len(text), 37))


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, members(gzip.compress), members(zstandard.compress)]
)
@given(contents=st.tuples(CONTENT, CONTENT), steps=STEPS)
@settings(max_examples=tiers.examples(120), deadline=None)
def test_every_row_comes_once(
    compress: Callable[[bytes], bytes],
    contents: tuple[bytes, bytes],
    steps: list[tuple[str, int, int]],
) -> None:
    # Files with the same rows could take each other's places, if inodes are used again.
    contents = (b'"a"\n' + contents[0], b'"b"\n' + contents[1])
    left = [compress(content) for content in contents]
    with tempfile.TemporaryDirectory() as folder, Following(f"{folder}/*") as following:
        paths = [Path(folder) / "a.log", Path(folder) / "b.log"]
        for path in paths:
            path.touch()
        for step, number, size in steps:
            match step:
                case "append":
                    with paths[number].open("ab") as file:
                        file.write(left[number][:size])
                    left[number] = left[number][size:]
                case "read":
                    following.batch(number)
                case "read all":
                    following.read(number)
                case "restart":
                    following.restart()
                case "rename":
                    paths[number] = paths[number].rename(f"{paths[number]}.1")
                case "copy":
                    shutil.copy(paths[number], f"{folder}/.copy")
                    Path(f"{folder}/.copy").rename(paths[number])
                case "compress" if paths[number].suffix != ".gz" and not left[number]:
                    data = paths[number].read_bytes()
                    paths[number].unlink()
                    paths[number] = Path(f"{paths[number]}.gz")
                    paths[number].write_bytes(gzip.compress(data) if compress is bytes else data)
        for path, rest in zip(paths, left, strict=True):
            with path.open("ab") as file:
                file.write(rest)
        following.read()
    streams: dict[str, list[tuple[int | None, str | None]]] = {}
    for stream, row, text in following.events:
        streams.setdefault(stream, []).append((row, text))
    expected = [rows(content) for content in contents]
    assert sorted(streams.values(), key=str) == sorted(expected, key=str)
