"""Files, logs and folders torn apart, moved, looked at or cut off at any point: nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

import ivm
from ivm import errors
from ivm.engine.opening import opening
from ivm.shell.command_line.cli import app
from ivm.storage.durable_files import sync_folder
from ivm.storage.warehouse import checkpoints
from ivm.storage.warehouse.checkpoints import Checkpointer
from ivm.storage.warehouse.opening import opening as warehouse_opening
from ivm.storage.warehouse.opening import wal_witness
from ivm.storage.warehouse.opening.side_folder import side_folder
from ivm.storage.warehouse.opening.wal_witness import kept_log, left, wal_of
from ivm.storage.warehouse.warehouse import Warehouse
from tests.support.crash_image import change, check, contents, create, expected, image, right
from tests.tiers import some


def go_on(path: Path, done: int) -> None:
    """Open, go on, crash, open, go on, close, open."""
    crashed = path.with_name(f"{path.stem}-again.duckdb")
    with ivm.connect(path) as db:
        check(db, range(done))
        change(db, done)
        db.execute("FROM seen").fetchall()
        change(db, done + 1)
        image(path, crashed)
    with ivm.connect(crashed) as db:
        check(db, range(done + 2))
        change(db, done + 2)
    with ivm.connect(crashed) as db:
        check(db, range(done + 3))


def ahead(path: Path) -> ivm.Database:
    """Three changes; the views were flushed after the second, the tables after the first."""
    db = create(path)
    change(db, 0)
    db.flush()
    change(db, 1)
    for name in ("sums", "seen", "above"):
        db.execute(f"FROM {name}").fetchall()
    change(db, 2)
    return db


class Images:
    """Copies of a database before and after each call of some methods; of equal ones one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken: list[Path] = []
        self._last: dict[str, bytes] = {}

    def around(self, patch: pytest.MonkeyPatch, owner: Any, method: str) -> None:
        real: Callable[..., Any] = getattr(owner, method)

        def observed(*args: Any, **kwargs: Any) -> Any:
            self._take()
            try:
                return real(*args, **kwargs)
            finally:
                self._take()

        patch.setattr(owner, method, observed)

    def _take(self) -> None:
        if self.path.exists() and self._state() != self._last:
            place = self.path.with_name(f"image{len(self.taken)}.duckdb")
            self.taken.append(image(self.path, place))
            self._last = self._state()

    def _state(self) -> dict[str, bytes]:
        parts = [self.path, self.path.with_name(self.path.name + ".wal")]
        parts += sorted(side_folder(self.path).glob("*"))
        return {part.name: part.read_bytes() for part in parts if part.exists()}


def cut_openings(
    path: Path, monkeypatch: pytest.MonkeyPatch, *calls: tuple[Any, str]
) -> list[Path]:
    """Images of a file around some calls of an opening, as of a fall there."""
    images = Images(path)
    with monkeypatch.context() as patch:
        for owner, method in calls:
            images.around(patch, owner, method)
        ivm.connect(path).close()
    return images.taken


@pytest.mark.full
def test_views_ahead_of_the_tables_survive_a_crash_around_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.duckdb"
    images = Images(path)
    with ahead(path) as db, monkeypatch.context() as patch:
        images.around(patch, Checkpointer, "note")
        images.around(patch, Checkpointer, "_checkpoint")
        assert db._engine.warehouse.checkpoint()
    assert len(images.taken) == 6
    for crashed in some(images.taken):
        go_on(crashed, 3)


@pytest.mark.full
def test_views_ahead_of_commits_that_were_given_up_take_later_ones(tmp_path: Path) -> None:
    with ahead(tmp_path / "x.duckdb"):
        crashed = image(tmp_path / "x.duckdb", tmp_path / "y.duckdb")
    assert ivm.recover(crashed, "give up").commits == 4
    go_on(crashed, 1)


@pytest.mark.full
def test_an_opening_that_is_cut_off_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program has written, so the views must be filled anew, whenever that succeeds."""
    path = tmp_path / "x.duckdb"
    create(path).close()
    with duckdb.connect(path) as plain:
        plain.execute("INSERT INTO t SELECT 0, 0, 0 UNION ALL SELECT 1, 1, 100")
        plain.execute("INSERT INTO t VALUES (3, 3, 0)")
        plain.execute("INSERT INTO u VALUES (0), (0)")
    refilling = [(opening, "_replay_tables"), (opening, "_refresh_all"), (Warehouse, "refilled")]
    ends = [(Warehouse, "take"), (Checkpointer, "note")]
    images = cut_openings(path, monkeypatch, *refilling, *ends)
    assert len(images) > 5
    for crashed in some(images):
        with ivm.connect(crashed) as db:
            check(db, range(1))


@pytest.mark.full
def test_an_opening_that_is_cut_off_distrusts_the_views_still(
    fallen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another program wrote before it was killed too is known by the log's length alone."""
    crashed = image(fallen, tmp_path / "y.duckdb")
    with duckdb.connect(crashed) as plain:
        plain.execute("INSERT INTO u VALUES (77)")
        killed = image(crashed, tmp_path / "z.duckdb")
    calls = [(opening, "_replay_tables"), (opening, "_refresh_all"), (Warehouse, "take")]
    images = cut_openings(killed, monkeypatch, *calls)
    assert len(images) > 3
    for cut in some(images):
        with ivm.connect(cut) as db:
            assert contents(db, "u") == expected(range(3))[1] + Counter({(77,): 1})
            right(db)
            db.execute("INSERT INTO u VALUES (78)")
            right(db)
        assert not (side_folder(cut) / "refill").exists()


@pytest.mark.full
def test_an_opening_that_fails_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.duckdb"
    create(path).close()
    with duckdb.connect(path) as plain:
        plain.execute("INSERT INTO u VALUES (1), (1)")

    def refuse(*_: object) -> None:
        raise errors.UnavailableError("no")

    with monkeypatch.context() as patch:
        patch.setattr(opening, "_refresh_all", refuse)
        with pytest.raises(errors.UnavailableError, match="no"):
            ivm.connect(path)
    with ivm.connect(path) as db:
        assert db.execute("FROM seen").fetchall() == [(1,), (1,)]


@pytest.mark.full
def test_a_first_opening_that_is_cut_off_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside the folder of a database that was deleted."""
    path = tmp_path / "x.duckdb"
    create(path).close()
    path.unlink()
    made = [(warehouse_opening, name) for name in ("_clear", "_create", "sync_folder")]
    ends = [(Warehouse, "take"), (Checkpointer, "note"), (Checkpointer, "_checkpoint")]
    for crashed in some(cut_openings(path, monkeypatch, *made, *ends)):
        with ivm.connect(crashed) as db:
            db.execute("CREATE TABLE t (a INTEGER)")
            db.insert("t", {"a": [1]})
        with ivm.connect(crashed) as db:
            assert db.execute("FROM t").fetchall() == [(1,)]


@pytest.mark.full
def test_a_lost_side_folder_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    db = ahead(path)
    for wal in (True, False):
        copy = image(path, tmp_path / f"copy{wal}.duckdb", wal=wal, folder=False)
        with pytest.raises(errors.CorruptionError, match=r"not there.*ivm recover"):
            ivm.connect(copy)
        shutil.copytree(side_folder(path), side_folder(copy))
        if wal:
            go_on(copy, 3)
    db.close()
    closed = image(path, tmp_path / "closed.duckdb", folder=False)
    go_on(closed, 3)


# -- what a user can do ----------------------------------------------------------------------------

FOREIGN = {
    "another row": ("INSERT INTO u VALUES (77)", None),
    "many rows": ("INSERT INTO u SELECT 77 FROM range(100000)", None),  # not by DuckDB's log
    "another value": ("UPDATE u SET a = 77 WHERE a = 0", None),
    "another key": ("INSERT INTO t VALUES (777, 7, 7)", None),
    "another row gone": ("DELETE FROM t WHERE id = 0", None),
    "the same key": ("INSERT INTO t VALUES (20, 7, 7)", "Duplicate key"),
    "the same row gone": ("DELETE FROM t WHERE id = 3", "1 rows of the table t"),
    "the table gone": ("DROP TABLE u", "the table u, which is gone or has"),
    "another column": ("ALTER TABLE u ADD COLUMN b INTEGER", "the table u, which is gone or has"),
}


ADDED = {
    "another row": Counter({(77,): 1}),
    "many rows": Counter({(77,): 100_000}),
    "another value": Counter({(77,): 2}),
}


@pytest.fixture(scope="module")
def fallen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that was killed; the log changes a row of t that is in the table."""
    path = tmp_path_factory.mktemp("fallen") / "x.duckdb"
    with ahead(path) as db:
        db.execute("UPDATE t SET x = 1000 WHERE id = 3")
        return image(path, path.with_name("y.duckdb"))


def written(fallen: Path, tmp_path: Path, statement: str) -> Path:
    """What another program has written to since."""
    crashed = image(fallen, tmp_path / "y.duckdb")
    with duckdb.connect(crashed) as plain:
        plain.execute(statement)
    return crashed


@pytest.mark.full(smoke=3)
@pytest.mark.parametrize("case", FOREIGN)
def test_what_another_program_wrote_and_the_log_stand_together_if_they_can(
    fallen: Path, tmp_path: Path, case: str
) -> None:
    statement, trouble = FOREIGN[case]
    crashed = written(fallen, tmp_path, statement)
    files = {path: path.read_bytes() for path in side_folder(crashed).iterdir()}
    with pytest.raises(errors.CorruptionError, match="ivm recover"):
        ivm.connect(crashed)
    found = ivm.recover(crashed)
    assert found.commits == 5
    assert found.trouble is not None
    assert "5 commits" in found.trouble
    if trouble is None:
        assert ivm.recover(crashed, "replay") == ivm.Recovery(crashed, 5, done=True)
        assert ivm.recover(crashed) == ivm.Recovery(crashed, 0)
        t, u = expected(range(3))
        t[(3, 3, 0)] -= 1
        t[(3, 3, 1000)] += 1
        with ivm.connect(crashed) as db:
            assert contents(db, "t") - t == Counter({(777, 7, 7): 1} if "key" in case else {})
            assert t - contents(db, "t") == Counter({(0, 0, 0): 1} if "gone" in case else {})
            assert contents(db, "u") - u == ADDED.get(case, Counter())
            right(db)
        return
    with pytest.raises(errors.CorruptionError, match=trouble):
        ivm.recover(crashed, "replay")
    assert {path: path.read_bytes() for path in files} == files
    with pytest.raises(errors.CorruptionError, match="5 commits"):
        ivm.connect(crashed)


@pytest.mark.full
def test_commits_are_given_up_only_at_the_users_word_and_set_aside(
    fallen: Path, tmp_path: Path
) -> None:
    crashed = written(fallen, tmp_path, "INSERT INTO u VALUES (77)")
    held = {path.name: path.read_bytes() for path in side_folder(crashed).iterdir()}
    found = ivm.recover(crashed, "give up")
    assert found.commits == 5
    assert found.set_aside is not None
    assert {path.name: path.read_bytes() for path in found.set_aside.iterdir()} == held
    with ivm.connect(crashed) as db:
        assert contents(db, "u") - expected(range(1))[1] == Counter({(77,): 1})
        right(db)


def test_the_command_line_recovers(fallen: Path, tmp_path: Path) -> None:
    crashed = written(fallen, tmp_path, "INSERT INTO u VALUES (77)")
    ways = command_line("recover", str(crashed))
    assert ways.exit_code == 1
    assert f"ivm recover {crashed} --replay" in ways.stdout
    assert f"ivm recover {crashed} --give-up" in ways.stdout
    given_up = image(crashed, tmp_path / "z.duckdb")
    done = command_line("recover", str(crashed), "--replay")
    assert (done.exit_code, done.stdout) == (0, "5 commits of the log replayed.\n")
    done = command_line("recover", str(given_up), "--give-up")
    assert done.exit_code == 0
    assert f"5 commits given up; the log lies in {given_up}.ivm.given-up-1." in done.stdout
    for file in (crashed, given_up):
        assert "nothing is to be done" in command_line("recover", str(file)).stdout
    assert command_line("recover", str(tmp_path / "nothing.duckdb")).exit_code == 1
    assert command_line("recover", str(crashed), "--replay", "--give-up").exit_code == 2


@pytest.mark.full
def test_going_on_without_a_lost_log_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    db = ahead(path)
    lost = image(path, tmp_path / "lost.duckdb", folder=False)
    db.close()
    done = command_line("recover", str(lost), "--give-up")
    assert done.exit_code == 0
    assert f"{lost} goes on with what it holds itself" in done.stdout.replace("\n", " ")
    with ivm.connect(lost) as db:
        right(db)
    done = command_line("recover", str(lost), "--give-up")
    assert "nothing is to be done" in done.stdout


def command_line(*args: str) -> Result:
    return CliRunner().invoke(app, list(args), prog_name="ivm")


# -- a look into the file after a crash ------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("looks", [1, 3])
def test_a_look_after_a_crash_loses_nothing(fallen: Path, tmp_path: Path, looks: int) -> None:
    crashed = image(fallen, tmp_path / "y.duckdb")
    for _ in range(looks):
        with duckdb.connect(crashed) as plain:
            assert plain.execute("SELECT count(*) FROM t").fetchall() == [(3,)]
    assert not crashed.with_name("y.duckdb.wal").exists()
    assert ivm.recover(crashed) == ivm.Recovery(crashed, 5)
    assert not list(side_folder(crashed).glob("crash*"))
    with ivm.connect(crashed) as db:
        right(db)
        assert (3, 3, 1000) in contents(db, "t")
        db.execute("UPDATE t SET x = 0 WHERE id = 3")
    go_on(crashed, 3)


def test_what_another_program_wrote_before_it_was_killed_too_is_kept(
    fallen: Path, tmp_path: Path
) -> None:
    crashed = image(fallen, tmp_path / "y.duckdb")
    with duckdb.connect(crashed) as plain:
        plain.execute("INSERT INTO u VALUES (77)")
        killed = image(crashed, tmp_path / "z.duckdb")
    with ivm.connect(killed) as db:
        assert contents(db, "u") == expected(range(3))[1] + Counter({(77,): 1})
        right(db)


@pytest.mark.full
@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_another_program_wrote_where_we_left_no_log_is_seen(
    tmp_path: Path, checkpointed: bool
) -> None:
    """All that we left is in the file and in our own log; the write-ahead log is the other's."""
    path = tmp_path / "x.duckdb"
    db = create(path)
    if checkpointed:  # there was a log, longer than the other's
        change(db, 0)
        db.flush()
        db.execute("CHECKPOINT")
    else:
        db.close()
        db = ivm.connect(path)
        change(db, 0)
    with db:
        crashed = image(path, tmp_path / "y.duckdb")
    assert not wal_of(crashed).exists()
    with duckdb.connect(crashed) as plain:
        plain.execute("INSERT INTO u VALUES (77)")
        killed = image(crashed, tmp_path / "z.duckdb")
    with ivm.connect(killed) as db:
        assert contents(db, "u") == expected(range(1))[1] + Counter({(77,): 1})
        right(db)


@pytest.mark.full
def test_what_another_program_wrote_is_seen_where_we_fell_within_a_flush(tmp_path: Path) -> None:
    """Between DuckDB's commit and our record of its log, which is then of the flush before."""
    path = tmp_path / "x.duckdb"
    with create(path) as db:
        change(db, 0)
        db.flush()
        size = (side_folder(path) / "wal.size").read_bytes()
        change(db, 1)
        db.flush()
        crashed = image(path, tmp_path / "y.duckdb")
    (side_folder(crashed) / "wal.size").write_bytes(size)
    with duckdb.connect(crashed) as plain:
        plain.execute("INSERT INTO u VALUES (77)")
        killed = image(crashed, tmp_path / "z.duckdb")
    with ivm.connect(killed) as db:
        assert contents(db, "u") == expected(range(2))[1] + Counter({(77,): 1})
        right(db)


def test_rows_written_anew_beside_a_new_view_are_no_write_of_another_program(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (g INTEGER, x DOUBLE); INSERT INTO t VALUES (1, 0.1), (1, 0.2)")
        db.execute("CREATE MATERIALIZED VIEW s AS SELECT g, sum(x) AS s FROM t GROUP BY g")
        found = left(side_folder(path))
        assert found is not None
        assert found.size == wal_of(path).stat().st_size


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nextval('s')",
        "SELECT setval('s', 9)",
        "SELECT nextval('s') FROM t, v",
        "SELECT following() FROM t, v",
        "BEGIN; SELECT following(); COMMIT",
        "CREATE TEMP TABLE own (a INTEGER); INSERT INTO own SELECT following()",
    ],
)
def test_a_sequence_that_a_query_advances_is_no_write_of_another_program(
    tmp_path: Path, sql: str
) -> None:
    """Bug: after a crash, all views were filled anew."""
    path = tmp_path / "x.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
        db.execute("CREATE SEQUENCE s; CREATE MACRO following() AS nextval('s')")
        db.execute("INSERT INTO t VALUES (1)")
        db.execute(sql).fetchall()
        with ivm.connect(image(path, tmp_path / "y.duckdb")) as crashed:
            assert not crashed._engine.warehouse.foreign_write


@pytest.mark.full
def test_a_look_without_the_kept_log_is_refused(fallen: Path, tmp_path: Path) -> None:
    for name in ("wal", "wal.size"):
        crashed = image(fallen, tmp_path / f"{name}.duckdb")
        (side_folder(crashed) / name).unlink()
        duckdb.connect(crashed).close()
        with pytest.raises(errors.CorruptionError, match="5 commits"):
            ivm.connect(crashed)
        assert ivm.recover(crashed, "replay").commits == 5
        with ivm.connect(crashed) as db:
            right(db)
            assert (3, 3, 1000) in contents(db, "t")


SMALL = """
import resource, sys, ivm
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
for call in (ivm.connect, ivm.recover):
    try:
        call(sys.argv[1])
    except ivm.errors.UnavailableError as error:
        print(error)
"""


@pytest.mark.full
def test_a_look_for_whose_proof_the_disk_has_no_room_is_no_write(
    fallen: Path, tmp_path: Path
) -> None:
    """It was said that another program had written, and which commits to give up."""
    crashed = image(fallen, tmp_path / "y.duckdb")
    duckdb.connect(crashed).close()
    command = [sys.executable, "-c", SMALL, str(crashed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.count("free some disk space") == 2, done.stderr
    with ivm.connect(crashed) as db:
        right(db)
        assert (3, 3, 1000) in contents(db, "t")


@pytest.mark.full
def test_a_look_at_a_read_only_file_changes_nothing(fallen: Path, tmp_path: Path) -> None:
    crashed = image(fallen, tmp_path / "y.duckdb")
    with duckdb.connect(crashed, read_only=True) as plain:
        assert plain.execute("SELECT count(*) FROM t").fetchall() == [(3,)]
    assert ivm.recover(crashed) == ivm.Recovery(crashed, 5)
    with ivm.connect(crashed) as db:
        right(db)


@pytest.mark.full
def test_closing_leaves_no_second_name_of_duckdbs_log(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with ahead(path):
        assert kept_log(side_folder(path)).samefile(wal_of(path))
    assert {p.suffix for p in side_folder(path).iterdir()} == {".json", ".seg", ".bin"}


def test_the_new_write_ahead_log_has_a_durable_name_before_commits_leave_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a checkpoint DuckDB makes its log anew; ours may shrink only once that one is named."""
    told: list[str] = []
    with ivm.connect(tmp_path / "w.duckdb") as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        warehouse = db._engine.warehouse
        assert warehouse.log is not None
        truncate = warehouse.log.truncate

        def syncing(folder: Path) -> None:
            told.append("sync" if folder == tmp_path else "other")
            sync_folder(folder)

        def truncating(through_epoch: int) -> None:
            told.append("truncate")
            truncate(through_epoch)

        monkeypatch.setattr(wal_witness, "sync_folder", syncing)
        monkeypatch.setattr(warehouse.log, "truncate", truncating)
        for _ in range(2):
            assert warehouse.checkpoint()
            told.clear()
            db.insert("t", {"a": [1]})
            db.flush()
            assert told == ["sync", "truncate"]
            db.insert("t", {"a": [1]})
            db.flush()
            assert told == ["sync", "truncate", "truncate"]


def test_a_write_ahead_log_that_a_power_failure_brings_back_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, old = tmp_path / "x.duckdb", tmp_path / "old"
    with create(path) as db:
        change(db, 0)
        db.flush()
        shutil.copy(wal_of(path), old)
        db.execute("CHECKPOINT")
        unclosed = image(path, tmp_path / "y.duckdb")
    shutil.copy(old, wal_of(path))
    assert ivm.recover(path).trouble is None
    assert "set aside" in caplog.text
    shutil.copy(old, wal_of(path))
    with ivm.connect(path) as db:
        check(db, range(1))
    aside = list(tmp_path.glob("x.duckdb.wal.given-up-*"))
    assert [found.read_bytes() for found in aside] == [old.read_bytes()] * 2
    shutil.copy(old, wal_of(unclosed))
    with pytest.raises(errors.UnavailableError, match="older version"):
        ivm.connect(unclosed)


@pytest.mark.full
def test_no_power_failure_brings_back_the_log_that_a_checkpoint_has_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.duckdb"
    synced: list[tuple[Path, bool]] = []
    monkeypatch.setattr(
        checkpoints, "sync_folder", lambda folder: synced.append((folder, wal_of(path).exists()))
    )
    with create(path) as db:
        synced.clear()
        db.execute("CHECKPOINT")
    assert synced == [(tmp_path, False)] * 2


def no_write(*uses: Callable[[], object]) -> None:
    for use in uses:
        with pytest.raises(errors.UnavailableError, match="was moved, deleted or replaced"):
            use()


@pytest.mark.full
@pytest.mark.parametrize("deleted", [False, True])
def test_what_stands_in_the_place_of_a_database_that_was_moved_away_is_left_alone(
    tmp_path: Path, deleted: bool
) -> None:
    """Another process made one there, and its log and note went with the first one's."""
    path, old = tmp_path / "x.duckdb", tmp_path / "old"
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM t")
    db.insert("t", {"a": range(30)})
    old.mkdir()
    for name in ("x.duckdb", "x.duckdb.wal", "x.duckdb.ivm"):
        (tmp_path / name).rename(old / name)
    if deleted:
        shutil.rmtree(old)
    subprocess.run([sys.executable, "-c", _MADE, path], check=True)
    there = {p: p.read_bytes() for p in tmp_path.glob("x.duckdb*/*")}
    for sql in ("INSERT INTO t VALUES (0)", "CREATE TABLE u (a INTEGER)", "CHECKPOINT"):
        no_write(partial(db.execute, sql))
    no_write(db.flush, db.close)
    assert {p: p.read_bytes() for p in tmp_path.glob("x.duckdb*/*")} == there
    for place, count in ((path, 5), *[(old / "x.duckdb", 30)] * (not deleted)):
        with ivm.connect(place) as opened:
            assert contents(opened, "v") == {(count,): 1}


def test_nothing_begins_in_the_place_of_a_database_that_was_moved_away(tmp_path: Path) -> None:
    """DuckDB begins its log by name, with the first commit after a checkpoint."""
    path, old = tmp_path / "x.duckdb", tmp_path / "old"
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR); CREATE SEQUENCE s")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT b::INTEGER AS b FROM t")
    events = ({"op": "insert", "a": a, "b": b} for a, b in enumerate(["1", "none"]))
    db.ingest("t", [next(events)], format="json")
    db.execute("CHECKPOINT")
    old.mkdir()
    for name in ("x.duckdb", "x.duckdb.ivm"):
        (tmp_path / name).rename(old / name)
    no_write(lambda: db.execute("SELECT nextval('s')"))
    no_write(lambda: db.ingest("t", [next(events)], format="json"))  # the view would be broken
    no_write(db.close)
    assert list(tmp_path.iterdir()) == [old]


_MADE = """
import ivm, os, sys
db = ivm.connect(sys.argv[1])
db.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM t")
for i in range(5):
    db.insert("t", {"a": [i]})
os._exit(0)
"""


@pytest.mark.full
def test_a_database_that_was_moved_back_goes_on(tmp_path: Path) -> None:
    path, away = tmp_path / "x.duckdb", tmp_path / "away"
    with create(path) as db:
        change(db, 0)
        side_folder(path).rename(away)
        no_write(lambda: change(db, 1))
        away.rename(side_folder(path))
        change(db, 1)
        path.rename(away)
        no_write(lambda: db.execute("CREATE TABLE x (a INTEGER)"), db.flush)
        away.rename(path)
    with ivm.connect(path) as db:
        check(db, range(2))


@pytest.mark.full
def test_a_file_that_is_older_than_its_side_folder_is_called_so(tmp_path: Path) -> None:
    path, older = tmp_path / "x.duckdb", tmp_path / "older"
    with create(path) as db:
        shutil.copy(path, older)
        change(db, 0)
        db.flush()
        db.execute("CHECKPOINT")
        change(db, 1)
        crashed = image(path, tmp_path / "y.duckdb")
    shutil.copy(older, crashed)
    wal_of(crashed).unlink(missing_ok=True)
    with pytest.raises(errors.CorruptionError, match="is older than its"):
        ivm.connect(crashed)
