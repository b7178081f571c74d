"""Files read by Spark's Structured Streaming come to what `ivm ingest` makes of them, once each."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm import errors
from ivm.cdc.formats.events import Decoded
from ivm.cdc.pipeline.part import SparkPart
from tests.support.spark import session
from tests.support.view_oracle import assert_verified

LINES = {
    "debezium": [
        '{"op": "c", "after": {"id": 1, "n": 1, "seen": 1000}}',
        '{"op": "u", "before": {"id": 1}, "after": {"id": 2, "n": 5}}',
        '{"op": "c", "after": {"id": 3, "n": 1, "seen": 7}}',
        '{"op": "d", "before": {"id": 3}, "after": null}',
        '{"op": "c", "after": {"id": 4, "n": "x"}}',
    ],
    "maxwell": [
        '{"type": "insert", "data": {"id": 1, "n": 1, "seen": "2026-01-02 03:04:05"}}',
        '{"type": "update", "data": {"id": 1, "n": 2, "seen": null}, "old": {"n": 1}}',
        '{"type": "delete", "data": {"id": 9}}',
    ],
    "json": [
        '{"op": "insert", "id": 1, "n": 1}',
        '{"op": "update", "id": 1, "n": 3}',
        '{"op": "jump", "id": 1}',
    ],
    "json appends": ['{"id": 1, "n": 1}', '{"id": 2, "n": 2, "other": []}', '{"n": null}'],
    "json upserts": ['{"id": 1, "n": 1}', '{"id": 1, "n": 2}', '{"id": 1, "__deleted": "true"}'],
}
DIRT = ["", "{", "null", "é ", '{"op": 1}', "\r", " \t\r", "null\r", "{\r"]


def wait_until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def wait(db: ivm.Database) -> None:
    """Waits until all sources have caught up; none may stop or wait."""

    def over() -> bool:
        found = db.sources()
        assert not [s.reason for s in found if s.reason is not None]
        return all(source.caught_up for source in found)

    wait_until(over)


def write(file: Path, lines: list[str], more: bytes = b"") -> None:
    """A file that is whole when it is first seen."""
    draft = file.parent / f".{file.name}"
    draft.write_bytes("".join(f"{line}\n" for line in lines).encode() + more)
    draft.rename(file)


def created(path: Path | str, folder: Path) -> ivm.Database:
    """A database with a table, a view and a source for each format."""
    db = ivm.connect(path, spark=session())
    for number, format in enumerate(LINES):
        table = f"t{number}"
        db.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, n INTEGER, seen TIMESTAMPTZ)")
        db.execute(
            f"CREATE MATERIALIZED VIEW v{number} AS SELECT n, count(*) FROM {table} GROUP BY n"
        )
        options = f"path '{folder / table}*.json', format '{format}', max_dead_share 1"
        options += "" if format == "maxwell" else ", times 'ms'"
        db.execute(f"CREATE SOURCE s{number} INTO {table} FROM FILES ({options})")
    return db


def content(db: ivm.Database) -> dict[str, list[Any]]:
    tables = {f"t{number}": f"FROM t{number}" for number in range(len(LINES))}
    sql = 'SELECT source, "table", stream, position, reason, payload FROM _ivm.dead_letters'
    return {
        name: sorted(db.execute(query).fetchall(), key=repr)
        for name, query in {**tables, "letters": sql}.items()
    }


@pytest.mark.full
def test_a_pipeline_equals_ingest(tmp_path: Path) -> None:
    for number, lines in enumerate(LINES.values()):
        write(tmp_path / f"t{number}- ü+%41.json", [*lines, *DIRT], b'\xff{"id"\n')
    with created(tmp_path / "a.duckdb", tmp_path) as db, created(":memory:", tmp_path) as oracle:
        oracle.start_sources()
        db.start_pipeline()
        wait(db)
        wait(oracle)
        assert content(db) == content(oracle)
        for number, lines in enumerate(LINES.values()):
            write(tmp_path / f"t{number}-2.json", lines[1:] + lines)
        wait_until(lambda: all(source.position == "spark: 1" for source in db.sources()))
        wait_until(lambda: all("-2.json" in str(source.position) for source in oracle.sources()))
        wait(oracle)
        assert content(db) == content(oracle)
        assert_verified(db)
        with pytest.raises(errors.UnavailableError, match="sources are run in this process"):
            db.start_pipeline()


@pytest.mark.full
def test_an_idle_pipeline_stays_caught_up(tmp_path: Path) -> None:
    write(tmp_path / "a.json", ['{"n": 1}'])
    with ivm.connect(tmp_path / "a.duckdb", spark=session()) as db:
        db.execute("CREATE TABLE t (n INTEGER)")
        options = f"path '{tmp_path}/*.json', format 'json appends'"
        db.execute(f"CREATE SOURCE s INTO t FROM FILES ({options})")
        db.start_pipeline()
        wait(db)
        end, seen = time.monotonic() + 4, set()
        while time.monotonic() < end:
            seen.add(db.sources()[0].caught_up)
            time.sleep(0.01)
        assert seen == {True}
        write(tmp_path / "b.json", ['{"n": 2}'])
        wait_until(lambda: db.execute("FROM t").fetchall() == [(1,), (2,)])
        wait(db)


@pytest.mark.full
def test_a_name_that_is_a_pattern_has_no_file_read_twice(tmp_path: Path) -> None:
    for name in ("a", "b [1]", "c", "{d}", "e?"):
        write(tmp_path / f"{name}.json", ['{"n": 1}', "", "{"])
    (tmp_path / "[].json").touch()
    with ivm.connect(tmp_path / "a.duckdb", spark=session()) as db:
        db.execute("CREATE TABLE t (n INTEGER)")
        options = f"path '{tmp_path}/*.json', format 'json appends', max_dead_share 1"
        db.execute(f"CREATE SOURCE s INTO t FROM FILES ({options})")
        db.start_pipeline()
        wait(db)
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(5,)]
        assert db.execute("SELECT count(*) FROM _ivm.dead_letters").fetchall() == [(5,)]


def simple(tmp_path: Path) -> ivm.Database:
    db = ivm.connect(tmp_path / "a.duckdb", spark=session())
    db.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER)")
    path, format = tmp_path / "in" / "*.json*", "json appends"
    db.execute(
        f"CREATE SOURCE IF NOT EXISTS s INTO t FROM FILES (path '{path}', format '{format}')"
    )
    return db


def numbers(first: int, end: int) -> list[str]:
    return [json.dumps({"id": i}) for i in range(first, end)]


def ids(db: ivm.Database) -> list[int]:
    return [i for (i,) in db.execute("FROM t ORDER BY ALL").fetchall()]


@pytest.mark.full
def test_each_file_is_read_once_whatever_comes_between(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.json", numbers(0, 10))
    with simple(tmp_path) as db:
        assert db.start_pipeline(["S"]) == ["s"]
        wait(db)
        assert db.stop_sources(60)
        write(tmp_path / "in" / "b.json", numbers(10, 20))
    with simple(tmp_path) as db:
        db.start_pipeline()
        wait_for(db, 20)
        assert db.stop_sources(60)
        # As if the process had died before Spark could note that the micro-batch is over.
        (commits,) = (tmp_path / "a.duckdb.ivm").rglob("commits")
        for note in commits.glob("*1*"):
            note.unlink()
        write(tmp_path / "in" / "c.json", numbers(20, 30))
        db.start_pipeline()
        wait_for(db, 30)
        wait(db)
        assert ids(db) == list(range(30))
        db.stop_sources(60)
        with pytest.raises(errors.IvmError, match="`ivm pipeline` has begun"):
            stopped_by(db, db.start_sources)


def wait_for(db: ivm.Database, count: int) -> None:
    """Waits until the table has so many rows."""
    wait_until(lambda: len(ids(db)) == count)


def aged(file: Path, days: float) -> None:
    """Gives a file, before it can be seen, the time of its last change so many days ago."""
    then = time.time() - days * 86_400
    os.utime(file, (then, then))


@pytest.mark.full
def test_files_of_any_age_are_read(tmp_path: Path) -> None:
    """Bug: one that was a week older than the newest was passed over for good."""
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "0.json", numbers(0, 1))
    with simple(tmp_path) as db:
        db.start_pipeline()
        wait(db)
        for number, days in enumerate((8, 20_000, -1_000, 0), 1):
            draft = tmp_path / f"{number}.json"
            write(draft, numbers(number, number + 1))
            aged(draft, days)
            draft.rename(tmp_path / "in" / draft.name)
            wait_for(db, number + 1)


def begun_and_not_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database whose second micro-batch, of the file b and two empty ones, was only begun."""
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.json", numbers(0, 10))
    with simple(tmp_path) as db:
        db.start_pipeline()
        wait(db)
        assert db.stop_sources(60)
        write(tmp_path / "in" / "b.json", numbers(10, 20))
        (tmp_path / "in" / "empty.json").touch()
        gzip.open(tmp_path / "in" / "empty [1].json.gz", "wb").close()
        decoding = threading.Event()

        def killed(self: SparkPart, *given: Any) -> Decoded:
            decoding.set()
            raise errors.UnavailableError("it was killed")

        with monkeypatch.context() as patch:
            patch.setattr(SparkPart, "decode", killed)
            db.start_pipeline()
            assert decoding.wait(60)
            assert db.stop_sources(60)
        assert ids(db) == list(range(10))


def waits_for(db: ivm.Database, file: Path) -> bool:
    (source,) = db.sources()
    return source.state == "waiting" and repr(str(file)) in str(source.reason)


@pytest.mark.full(smoke=2)
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_file_that_is_away_is_waited_for(
    tmp_path: Path, comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: a micro-batch that came again after a crash was applied without the files gone."""
    begun_and_not_applied(tmp_path, monkeypatch)
    file = tmp_path / "in" / "b.json"
    file.rename(tmp_path / "away")
    with simple(tmp_path) as db:
        db.start_pipeline()
        wait_until(lambda: waits_for(db, file))
        write(tmp_path / "in" / "c.json", numbers(20, 30))
        if comes_back:
            (tmp_path / "away").rename(file)
        else:
            db.execute("ALTER SOURCE s SET (skip_lost true)")
        expected = [*range(20 if comes_back else 10), *range(20, 30)]
        wait_for(db, len(expected))
        assert ids(db) == expected


@pytest.mark.full
@pytest.mark.parametrize("name", ["my data", "a%20b", "ü+#"])
def test_a_folder_of_any_name_has_the_checkpoint(tmp_path: Path, name: str) -> None:
    """Bug: Spark's notes were in a folder with another name, and stayed when the source went."""
    (tmp_path / name / "in").mkdir(parents=True)
    write(tmp_path / name / "in" / "a.json", numbers(0, 10))
    for _ in range(2):
        with simple(tmp_path / name) as db:
            db.start_pipeline()
            wait_for(db, 10)
            db.stop_sources(60)
            assert (tmp_path / name / "a.duckdb.ivm" / "pipeline").is_dir()
            db.execute("DROP SOURCE s; DELETE FROM t")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.full
def test_a_name_with_a_colon_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.json", numbers(0, 10))
    (tmp_path / "in" / "12:00.log").touch()
    with simple(tmp_path) as db:
        db.start_pipeline()
        wait_until(lambda: "has a colon: rename '12:00.log'" in str(db.sources()[0].reason))
        (tmp_path / "in" / "12:00.log").unlink()
        wait_for(db, 10)


def stopped_by(db: ivm.Database, start: Callable[[], object]) -> None:
    """Raises why the source has stopped."""
    start()
    wait_until(lambda: db.sources()[0].state == "stopped")
    reason = db.sources()[0].reason
    db.stop_sources(60)
    db.execute("RESUME SOURCE s")
    raise errors.IvmError(reason)


@pytest.mark.full
def test_a_lost_checkpoint_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.json", numbers(0, 10))
    with simple(tmp_path) as db:
        db.start_pipeline()
        wait(db)
        db.stop_sources(60)
        (checkpoints,) = (tmp_path / "a.duckdb.ivm").glob("pipeline")
        shutil.rmtree(checkpoints)
        write(tmp_path / "in" / "b.json", numbers(10, 20))
        with pytest.raises(errors.IvmError, match=r"checkpoint in .* is gone, or not the one"):
            stopped_by(db, db.start_pipeline)
        assert ids(db) == list(range(10))
        (left,) = checkpoints.iterdir()
        db.execute("DROP SOURCE s; DELETE FROM t")
        db.execute(f"CREATE SOURCE o INTO t FROM FILES (path '{tmp_path}/o', format 'json')")
        db.start_pipeline()
        db.stop_sources(60)
        assert not left.exists()
        db.execute("DROP SOURCE o")
    with simple(tmp_path) as db:  # created again, it reads all files
        db.start_pipeline()
        wait_for(db, 20)


@pytest.mark.full(smoke=1)
def test_what_no_pipeline_can_read_is_said(tmp_path: Path) -> None:
    with ivm.connect() as db, pytest.raises(errors.UnsupportedError, match="in a file"):
        db.start_pipeline()
    with simple(tmp_path) as db:
        db.execute("CREATE SOURCE c INTO t FROM FILES (path 'x.csv', format 'csv appends')")
        db.execute("CREATE SOURCE d INTO t FROM FILES (path '**/x', format 'json appends')")
        db.execute(
            "CREATE SOURCE k INTO t FROM KAFKA (brokers 'localhost:1', topic 'x', "
            "format 'debezium with schema')"
        )
        for name, reason in {
            "c": "no lines of JSON",
            "d": r"reads `\*\*`",
            "k": "follow false",
        }.items():
            with pytest.raises(errors.UnsupportedError, match=reason):
                db.start_pipeline([name])
        with pytest.raises(errors.SqlError, match="there is no source 'x'"):
            db.start_pipeline(["x"])
        db.execute("DROP SOURCE s")
        with pytest.raises(errors.InputError, match=r"no source .* can be read by a pipeline \(c:"):
            db.start_pipeline()


@pytest.mark.full(smoke=1)
def test_files_read_by_ingest_are_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.json", numbers(0, 3))
    with simple(tmp_path) as db:
        db.start_sources()
        wait(db)
        db.stop_sources()
        with pytest.raises(errors.IvmError, match="were read without Spark so far"):
            stopped_by(db, db.start_pipeline)
        assert ids(db) == [0, 1, 2]
