"""Files that are renamed, replaced, truncated, removed or hard to find."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from ivm.cdc.sources.files import folder, reader
from ivm.cdc.sources.source import SourceError
from tests.cdc.following import Following
from tests.tiers import TIER, seeds

ONE, TWO, THREE = '{"id": 1}', '{"id": 2}', '{"id": 3}'


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


@pytest.mark.parametrize("pattern", ["a.log*", "a.log"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_rotated_log_is_read_to_its_end_before_the_new_one(
    tmp_path: Path, pattern: str, restart: bool
) -> None:
    path = tmp_path / "a.log"
    append(path, ONE)
    with Following(tmp_path / pattern) as following:
        following.read()
        if restart:
            following.restart()
        append(path, TWO)
        path.rename(tmp_path / "a.log.1")
        append(path, THREE)
        assert following.read() == [TWO, THREE]
        (tmp_path / "a.log.1").rename(tmp_path / "a.log.2")
        path.rename(tmp_path / "a.log.1")
        if restart:
            following.restart()
        assert following.read() == []
        append(path, ONE)
        assert following.read() == [ONE]
    streams = [stream.removeprefix(str(tmp_path)) for stream in following.positions]
    assert streams == ["/a.log", "/a.log (2)", "/a.log (3)"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_truncated_file_is_read_anew(tmp_path: Path, restart: bool) -> None:
    path = tmp_path / "a.log"
    append(path, ONE, TWO)
    with Following(path) as following:
        following.read()
        if restart:
            following.restart()
        path.write_text("")
        assert following.read() == []
        append(path, THREE)
        assert following.read() == [THREE]
        path.write_text(f"{TWO}\n{TWO}\n{TWO}\n{TWO}\n")  # longer than it was
        assert following.read() == [TWO] * 4


@pytest.mark.parametrize("restart", [False, True])
def test_a_file_that_is_copied_back_or_linked_is_the_same(tmp_path: Path, restart: bool) -> None:
    path = tmp_path / "a.log"
    append(path, ONE)
    os.link(path, tmp_path / "b.log")
    os.symlink(path, tmp_path / "c.log")
    with Following(tmp_path / "*.log") as following:
        assert following.read() == [ONE]
        if restart:
            following.restart()
        for name in ("b.log", "c.log"):
            (tmp_path / name).unlink()
        shutil.copy(path, tmp_path / "copy")
        (tmp_path / "copy").rename(path)
        append(path, TWO)
        assert following.read() == [TWO]


@pytest.mark.parametrize("pattern", ["a.log*", "a.log"])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_log_that_is_compressed_is_read_on(
    tmp_path: Path, pattern: str, restart: bool, compress: Callable[[bytes], bytes]
) -> None:
    path, copy = tmp_path / "a.log", tmp_path / "a.log.1.gz"
    append(path, *[ONE] * 1000)
    with Following(tmp_path / pattern) as following:
        following.read()
        append(path, TWO)
        if restart:
            following.restart()
        else:
            assert following.read() == [TWO]
        path = path.rename(tmp_path / "a.log.1")
        copy.write_bytes(compress(path.read_bytes())[:-1])
        if not restart:
            assert following.read() == []
        copy.write_bytes(compress(path.read_bytes()))
        path.unlink()
        append(tmp_path / "a.log", THREE)
        assert following.read() == ([TWO, THREE] if restart else [THREE])
        following.restart()
        copy.rename(tmp_path / "a.log.2.gz")
        assert following.read() == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_log_that_is_copied_and_truncated_is_read_on(tmp_path: Path, restart: bool) -> None:
    path = tmp_path / "a.log"
    append(path, ONE)
    with Following(tmp_path / "a.log*") as following:
        following.read()
        if restart:
            following.restart()
        append(path, TWO)
        shutil.copy(path, tmp_path / "a.log.1")
        path.write_text("")
        append(path, THREE)
        assert following.read() == [TWO, THREE]


def test_a_compressed_file_with_another_text_is_another(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, ONE)
    with Following(tmp_path / "a.log*") as following:
        following.read()
        path.unlink()
        (tmp_path / "a.log.gz").write_bytes(gzip.compress(f"{TWO}\n".encode()))
        assert following.read() == [TWO]


def test_a_file_may_go_when_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, ONE)
    with path.open("a") as file:
        file.write("{")
    with Following(tmp_path / "*.log") as following:
        following.read()
        path.unlink()
        append(tmp_path / "b.log", TWO)
        assert following.read() == [TWO]
        following.restart()
        append(path, THREE)
        assert following.read() == [THREE]


def lose(path: Path, how: str) -> None:
    """Takes the rows of a file away."""
    match how:
        case "unlink":
            path.unlink()
        case "truncate":
            path.write_text("")
        case "replace":
            append(path.with_name("new"), THREE)
            path.with_name("new").replace(path)


@pytest.mark.parametrize("how", ["unlink", "truncate", "replace"])
def test_rows_that_went_before_they_were_read_are_missed(tmp_path: Path, how: str) -> None:
    path, kept = tmp_path / "in" / "a.log", tmp_path / "kept"
    path.parent.mkdir()
    append(path, ONE, TWO)
    shutil.copy(path, kept)
    with Following(path) as following:
        following.batch(1)
        following.restart()
        lose(path, how)
        with pytest.raises(SourceError, match=r"is gone, or was truncated .* after 1 of its rows"):
            following.read()
        following.restart()
        kept.replace(path)
        assert following.read() == [TWO]


@pytest.mark.parametrize("how", ["unlink", "truncate", "replace"])
def test_rows_of_an_open_file_do_not_go(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.log"
    append(path, ONE, TWO)
    with Following(path) as following:
        following.batch(1)
        lose(path, how)
        assert following.read() == ([TWO, THREE] if how == "replace" else [TWO])


def test_the_inode_of_an_empty_file_that_is_gone_means_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    with Following(tmp_path / "*.log") as following:
        assert following.read() == []
        path.unlink()
        append(tmp_path / "kept", ONE)
        assert following.read() == []
        append(path, TWO)
        assert following.read() == [TWO]
        (tmp_path / "kept").unlink()
        shutil.copy(path, tmp_path / "kept")
        (tmp_path / "kept").replace(path)
        assert following.read() == []
    assert [*following.positions] == [str(path)]


def test_lost_rows_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, ONE, TWO)
    with Following(path, skip_lost=True) as following:
        following.batch(1)
        following.restart()
        path.unlink()
        assert following.read() == []
        append(path, THREE)
        assert following.read() == [THREE]


def test_files_may_come_late_and_in_any_order(tmp_path: Path) -> None:
    with Following(tmp_path / "in" / "**" / "*.log") as following:
        assert following.read() == []
        assert following.caught_up()
        (tmp_path / "in" / "deep").mkdir(parents=True)
        assert following.read() == []
        append(tmp_path / "in" / "b.log", TWO)
        assert following.read() == [TWO]
        append(tmp_path / "in" / "deep" / "c.log", THREE)
        append(tmp_path / "in" / "a.log", ONE)
        assert following.read() == [ONE, THREE]


@pytest.mark.parametrize("name", ["a b.log", "it's.log", '"q".log', "é.log", "a[1].log", "a*?.log"])
def test_odd_names(tmp_path: Path, name: str) -> None:
    append(tmp_path / name, ONE)
    with Following(tmp_path / name) as following:
        assert following.read() == [ONE]
        following.restart()
        append(tmp_path / name, TWO)
        assert following.read() == [TWO]
    assert [*following.positions] == [str(tmp_path / name)]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with Following(tmp_path) as following, pytest.raises(SourceError, match="is a folder: name"):
        following.read()


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder of a user who is not root, who may read everything."""
    with tempfile.TemporaryDirectory() as folder:
        user = os.geteuid()
        if user == 0:
            os.chmod(folder, 0o777)
            os.seteuid(65534)
        yield Path(folder)
        os.seteuid(user)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_may_not_be_read_is_an_error(nobody: Path, what: str) -> None:
    path = nobody / "in" / "a.log"
    path.parent.mkdir()
    append(path, ONE)
    locked = path if what == "file" else path.parent
    locked.chmod(0)
    with Following(nobody / "in" / "*.log") as following:
        with pytest.raises(SourceError, match=r"may not be read: allow it"):
            following.read()
        locked.chmod(0o700)
        following.restart()
        assert following.read() == [ONE]


def test_the_last_line_without_an_end_is_taken_when_the_file_is_settled(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(f"{ONE}\n{TWO}")
    with Following(path) as following:
        assert following.read() == [ONE]
        assert not following.caught_up()
        long_ago = time.time() - 7200
        os.utime(path, (long_ago, long_ago))
        assert following.read() == [TWO]
        assert following.caught_up()
        following.restart()
        append(path, "", THREE)
        os.utime(path, (long_ago, long_ago))
        assert following.read() == [THREE]
    assert [row for _, row, _ in following.events] == [1, 2, 3]


def test_a_torn_last_line_is_never_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text('{"id": {}')
    with Following(path, settle=0.0) as following:
        assert following.read() == []
        assert following.caught_up()


def test_the_lag_is_estimated(tmp_path: Path) -> None:
    append(tmp_path / "a.log", *[ONE] * 100)
    with Following(tmp_path / "*.log") as following:
        following.batch(10)
        assert following.reader is not None
        assert following.reader.lag() == 90
        following.read()
        assert following.reader.lag() == 0


def rotate(folder: Path) -> None:
    """Renames logs to the next number; from the second on they are compressed."""
    logs = {int(path.suffixes[1][1:]): path for path in folder.glob("a.log.*")}
    for number, path in sorted(logs.items(), reverse=True):
        if path.suffix == ".gz":
            path.rename(folder / f"a.log.{number + 1}.gz")
        else:
            copy = gzip.compress(path.read_bytes())
            (folder / f"a.log.{number + 1}.gz").write_bytes(copy)
            path.unlink()
    if (folder / "a.log").exists():
        (folder / "a.log").rename(folder / "a.log.1")


@pytest.mark.parametrize("restart", [False, True])
def test_a_log_that_was_first_seen_rotated_is_known_when_it_is_compressed(
    tmp_path: Path, restart: bool
) -> None:
    append(tmp_path / "a.log.1", ONE, TWO)
    with Following(tmp_path / "a.log*") as following:
        assert following.read() == [ONE, TWO]
        if restart:
            following.restart()
        rotate(tmp_path)
        assert (tmp_path / "a.log.2.gz").exists()
        assert following.read() == []


@pytest.mark.parametrize("when", ["matches", "moved", "OpenFile"])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("seed", seeds(1 if TIER == "quick" else 3))
def test_files_that_are_renamed_during_a_look_are_told_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, before: bool, seed: int
) -> None:
    """A name may be another file's, and a file may have two names, or none, while it is looked."""
    rows = [f'{{"id": {number}, "text": "{"x" * 2000}"}}' for number in range(60)]
    random = Random(seed)
    module = reader if when == "OpenFile" else folder
    original = getattr(module, when)

    def rotating(*arguments: Any) -> Any:
        now = random.random() < 0.3
        if now and before:
            rotate(tmp_path)
        found = original(*arguments)
        if now and not before:
            rotate(tmp_path)
        return found

    with Following(tmp_path / "a.log*") as following:
        monkeypatch.setattr(module, when, rotating)
        for number, row in enumerate(rows):
            append(tmp_path / "a.log", row)
            following.batch()
            if number % 7 == 6:
                following.restart()
        monkeypatch.undo()
        following.read()
        assert sorted(str(text) for _, _, text in following.events) == sorted(rows)
