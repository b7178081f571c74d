"""The warehouse: adopting a file, flushing, checkpoints, and files that are not what they were."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from ivm.storage.errors import ConstraintError, CorruptionError, InputError, UnavailableError
from ivm.storage.log.change import Record, TableChange
from ivm.storage.log.reading import read_records
from ivm.storage.log.segment import segment_paths
from ivm.storage.troubles import Troubles
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse import checkpoints
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from ivm.storage.warehouse.flush.flush import NetChange
from ivm.storage.warehouse.net_changes import PendingTable
from ivm.storage.warehouse.opening import opening
from ivm.storage.warehouse.opening.database_file import explained
from ivm.storage.warehouse.opening.side_folder import (
    read_iteration,
    read_note,
    side_folder,
    write_note,
)
from ivm.storage.warehouse.opening.wal_witness import wal_of
from ivm.storage.warehouse.tables.system_tables import (
    BASE,
    FLUSHES,
    StoredView,
    compact_epochs,
    delete_view,
    load_epochs,
    load_views,
    save_view,
)
from ivm.storage.warehouse.tables.table_info import ForeignKey
from ivm.storage.warehouse.warehouse import Warehouse
from tests.support import ROOT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.duckdb"


@pytest.fixture
def memory() -> Iterator[Warehouse]:
    warehouse = Warehouse.open()
    yield warehouse
    warehouse.close()


def numbers(*values: int) -> ZSet:
    return ZSet((FixedColumn(np.array(values, np.int64)),), np.ones(len(values), np.int64))


def inserted(*values: int) -> NetChange:
    return NetChange(numbers(), (0,), False, numbers(*values))


def create(path: Path, *values: int) -> Warehouse:
    """An open database with one keyless table t(v)."""
    warehouse = Warehouse.open(path)
    run(warehouse.cursor(), "CREATE TABLE t (v BIGINT)")
    ready(warehouse)
    commit(warehouse, *values)
    return warehouse


def ready(warehouse: Warehouse) -> None:
    warehouse.take({name: info.schema for name, info in warehouse.tables().items()})


def taken(path: Path) -> Warehouse:
    """What an opening does where the log holds nothing."""
    warehouse = Warehouse.open(path)
    try:
        ready(warehouse)
    except BaseException:
        warehouse.close()
        raise
    return warehouse


def commit(warehouse: Warehouse, *values: int) -> int:
    """One epoch in the log that inserts these values."""
    assert warehouse.log is not None
    epoch = warehouse.log.last_epoch + 1
    change = TableChange("t", numbers(), (0,), numbers(*values))
    warehouse.log.append(Record(epoch, (change,)))
    warehouse.log.sync(epoch)
    return epoch


def recover(warehouse: Warehouse) -> None:
    """What an opening does: replay into the tables."""
    assert warehouse.log is not None
    pending = PendingTable(warehouse.tables()["t"].schema, ())
    for record in read_records(warehouse.log.folder, warehouse.base_epoch):
        for change in record.changes:
            pending.add(change.removed, change.removed_columns, change.added)
    ready(warehouse)
    warehouse.flush(warehouse.log.last_epoch, {"t": pending.net()}, {})


def content(cursor: Cursor) -> list[int]:
    return [v for (v,) in rows(cursor, "SELECT v FROM t ORDER BY v")]


def crash(path: Path, code: str) -> None:
    """Run code in another process that then dies without closing anything."""
    script = f"import os, sys; sys.path[:] = {sys.path!r}\n{code}\nos._exit(0)"
    subprocess.run([sys.executable, "-c", script], check=True)


# -- commits, flushes, restarts --------------------------------------------------------------------


@pytest.mark.full
def test_what_the_log_holds_reaches_the_tables_once(path: Path) -> None:
    warehouse = create(path, 1, 2)
    warehouse.close()
    for _ in range(2):
        warehouse = Warehouse.open(path)
        recover(warehouse)
        assert content(warehouse.cursor()) == [1, 2]
        assert warehouse.base_epoch == 1
        warehouse.close()
    with duckdb.connect(path) as plain:
        assert content(plain) == [1, 2]


def test_a_flush_is_one_transaction_with_its_epochs(path: Path) -> None:
    warehouse = create(path, 1)
    run(warehouse.cursor(), "CREATE TABLE strict (v BIGINT CHECK (v < 5))")
    warehouse.tables()
    with pytest.raises(ConstraintError, match="v = 9"):
        warehouse.flush(1, {"t": inserted(1), "strict": inserted(9)}, {})
    assert content(warehouse.cursor()) == []
    assert warehouse.base_epoch == load_epochs(warehouse.cursor())[BASE] == 0
    warehouse.flush(1, {"t": inserted(1), "strict": inserted(4)}, {})
    assert content(warehouse.cursor()) == [1]
    assert warehouse.base_epoch == load_epochs(warehouse.cursor())[BASE] == 1
    warehouse.close()


@pytest.mark.full
def test_views_may_run_ahead_of_the_tables(path: Path) -> None:
    warehouse = create(path, 1)
    run(warehouse.cursor(), "CREATE TABLE view AS SELECT sum(v)::BIGINT AS v FROM t")
    warehouse.tables()
    empty = PendingTable(warehouse.tables()["t"].schema, ()).net()
    warehouse.flush(1, None, {"view": empty})
    assert (warehouse.base_epoch, warehouse.view_epoch("view")) == (0, 1)
    warehouse.flush(2, {"t": inserted(1)}, {})
    assert (warehouse.base_epoch, warehouse.view_epoch("view")) == (2, 2)
    warehouse.close()
    warehouse = Warehouse.open(path)
    assert (warehouse.base_epoch, warehouse.view_epoch("view")) == (2, 2)
    warehouse.close()


def test_the_log_is_synced_before_a_flush(path: Path) -> None:
    warehouse = Warehouse.open(path, sync_interval=3600.0)
    run(warehouse.cursor(), "CREATE TABLE t (v BIGINT)")
    ready(warehouse)
    assert warehouse.log is not None
    warehouse.log.append(Record(1, (TableChange("t", numbers(), (0,), numbers(1)),)))
    assert warehouse.log.synced_epoch == 0
    warehouse.flush(1, {"t": inserted(1)}, {})
    assert warehouse.log.synced_epoch == 1
    warehouse.close()


def test_the_log_is_trimmed_once_the_tables_have_passed_it(path: Path) -> None:
    warehouse = create(path, 1)
    assert warehouse.log is not None
    for value in (2, 3):
        ready(warehouse)
        commit(warehouse, value)
    folder = side_folder(path)
    assert len(segment_paths(folder)) == 3
    warehouse.flush(3, {"t": inserted(1, 2, 3)}, {})
    assert len(segment_paths(folder)) == 1
    warehouse.close()


def test_a_reader_keeps_its_snapshot(memory: Warehouse) -> None:
    writer, reader = memory.cursor(), memory.cursor()
    run(writer, "CREATE TABLE t (v BIGINT)")
    memory.tables()
    memory.flush(1, {"t": inserted(1)}, {})
    memory.pin(reader)
    memory.flush(2, {"t": inserted(2)}, {})
    assert content(reader) == [1]
    with pytest.raises(duckdb.Error, match="read-only"):
        run(reader, "INSERT INTO t VALUES (3)")
    run(reader, "ROLLBACK")
    assert content(reader) == [1, 2]


def test_memory_has_no_log(memory: Warehouse) -> None:
    assert memory.log is None
    assert not memory.foreign_write
    assert memory.checkpoint()
    assert memory.base_epoch == 0


def test_settings(path: Path) -> None:
    warehouse = Warehouse.open(path, memory_limit=300 << 20, threads=1)
    settings = dict(rows(warehouse.cursor(), "SELECT name, value FROM duckdb_settings()"))
    assert settings["memory_limit"] == "300.0 MiB"
    assert settings["threads"] == "1"
    assert settings["arrow_lossless_conversion"] == "true"
    warehouse.close()


# -- the catalog -----------------------------------------------------------------------------------

SHOP = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE SEQUENCE numbers;
CREATE SCHEMA "odd one";
CREATE TABLE p (id INTEGER PRIMARY KEY, name VARCHAR UNIQUE);
CREATE TABLE "odd one"."c,d" (
    a INTEGER, "b b" VARCHAR DEFAULT 'x', m mood, n INTEGER DEFAULT nextval('numbers'),
    g INTEGER AS (a + 1), p INTEGER NOT NULL, PRIMARY KEY ("b b", a), CHECK (a < 100));
CREATE TABLE child (p INTEGER REFERENCES p (id));
CREATE TABLE words (w VARCHAR COLLATE nocase, "COLLATE" VARCHAR DEFAULT 'COLLATE');
CREATE TABLE plain (x DOUBLE, "COLLATE" VARCHAR DEFAULT 'COLLATE');
CREATE UNIQUE INDEX by_p ON "odd one"."c,d" (p, "b b");
CREATE UNIQUE INDEX lower_name ON p (lower(name));
CREATE INDEX by_w ON words (w);
CREATE VIEW v AS FROM p;
CREATE TEMP TABLE hidden (x INTEGER)
"""


def test_tables_are_told_with_all_their_constraints(memory: Warehouse) -> None:
    cursor = memory.cursor()
    for statement in SHOP.split(";"):
        run(cursor, statement)
    tables = memory.tables()
    assert sorted(tables) == ["child", "odd one.c,d", "p", "plain", "words"]
    odd = tables["odd one.c,d"]
    assert odd.qualified == '"memory"."odd one"."c,d"'
    names = ["a", "b b", "m", "n", "g", "p"]
    assert [name for name, _ in odd.schema] == names
    assert str(odd.schema[2][1]) == "ENUM('sad', 'ok')"
    assert odd.primary_key == (1, 0)
    assert odd.keyed
    assert odd.not_null == (0, 1, 5)
    assert odd.checks == ("(a < 100)",)
    assert odd.defaults == {1: "'x'", 3: "nextval('numbers')"}
    assert list(odd.generated) == [4]
    assert odd.uniques == ((5, 1),)
    assert odd.duckdb_reason == "it has generated columns"
    assert odd.position("B B") == 1
    assert odd.position("none") is None
    assert tables["child"].foreign_keys == (ForeignKey((0,), "p", ("id",)),)
    assert tables["p"].referenced_by == ("child",)
    assert tables["p"].uniques == ((1,),)
    assert len(tables["p"].unique_expressions) == 1
    assert tables["p"].duckdb_reason == "it has a unique index over an expression"
    assert tables["words"].duckdb_reason == "it has columns with a collation"
    assert len(tables["words"].indexes) == 1
    assert tables["plain"].duckdb_reason is None
    assert not tables["plain"].keyed


def test_an_existing_file_is_adopted_as_it_is(path: Path) -> None:
    with duckdb.connect(path) as plain:
        run(plain, "CREATE TABLE t AS SELECT 1::BIGINT AS v")
    warehouse = Warehouse.open(path)
    assert list(warehouse.tables()) == ["t"]
    assert not warehouse.foreign_write
    warehouse.close()


def test_views_keep_their_order_and_their_words(memory: Warehouse) -> None:
    cursor = memory.cursor()
    for name in ("b", "a"):
        save_view(cursor, StoredView(name, f"SELECT '{name}' -- ;", ("x y", "z")))
    replaced = StoredView("b", "SELECT 2", (), "needs_rewrite")
    save_view(cursor, replaced)
    assert load_views(cursor) == [replaced, StoredView("a", "SELECT 'a' -- ;", ("x y", "z"))]
    delete_view(cursor, "a")
    assert load_views(cursor) == [replaced]


def test_passed_epochs_are_dropped(memory: Warehouse) -> None:
    cursor = memory.cursor()
    memory.record(cursor, {"a": 3, "b": 6, FLUSHES: 1})
    memory.record(cursor, {"a": 8, "gone": 6, BASE: 6, FLUSHES: 2})
    compact_epochs(cursor)
    assert load_epochs(cursor) == {"a": 8, BASE: 6, FLUSHES: 2}
    assert rows(cursor, "SELECT count(*) FROM _ivm.epochs") == [(3,)]


# -- who else is there -----------------------------------------------------------------------------


@pytest.mark.full
def test_a_second_opening_is_refused(path: Path) -> None:
    warehouse = create(path, 1)
    with pytest.raises(UnavailableError, match="already open in this process"):
        Warehouse.open(path)
    crash(path, refused(path))
    warehouse.close()
    with duckdb.connect(path), pytest.raises(UnavailableError, match="through DuckDB itself"):
        Warehouse.open(path)
    Warehouse.open(path).close()


def refused(path: Path) -> str:
    """Code to which a database is refused that another process has open."""
    return f"""
from ivm.storage.errors import UnavailableError
from ivm.storage.warehouse.warehouse import Warehouse
try:
    Warehouse.open({str(path)!r})
except UnavailableError as error:
    assert "locked by another process" in str(error), error
else:
    sys.exit(1)
"""


@pytest.mark.full
def test_a_program_that_copies_its_open_file_keeps_others_out(path: Path, tmp_path: Path) -> None:
    """Closing the copied file drops DuckDB's lock: two programs wrote, and one's commits went."""
    warehouse = taken(path)
    shutil.copyfile(path, tmp_path / "copy.duckdb")
    crash(path, refused(path))
    warehouse.close()
    again = taken(path)
    assert again.checkpoint()  # there is no log of DuckDB's either that it locks
    path.read_bytes()
    crash(path, refused(path))
    again.close()


@pytest.mark.full
def test_a_look_after_a_crash_leaves_the_file_locked(path: Path) -> None:
    killed = f"import ivm; db = ivm.connect({str(path)!r}); db.execute('CREATE TABLE t (v INT)');"
    crash(path, f"{killed} db.execute('INSERT INTO t VALUES (1)')")
    duckdb.connect(path).close()
    warehouse = Warehouse.open(path)
    other = f"import duckdb; duckdb.connect({str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", other], capture_output=True, text=True, check=False
    )
    assert "Could not set lock" in done.stderr
    warehouse.close()


@pytest.mark.full
def test_a_child_keeps_no_lock_of_a_parent_that_is_killed(path: Path) -> None:
    create(path, 1).close()
    code = f"""
import signal, warnings
from ivm.storage.warehouse.warehouse import Warehouse
warnings.simplefilter("ignore")
warehouse = Warehouse.open({str(path)!r})
if not os.fork():
    os.close(1)
    os.read(0, 1)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    script = f"import os, sys; sys.path[:] = {sys.path!r}\n{code}"
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    parent.wait()
    assert parent.stdout is not None
    parent.stdout.read()  # to its end: the child is there
    Warehouse.open(path).close()
    parent.communicate()


@pytest.mark.parametrize("content", [b"", b"hello, this is no database", b"x" * 20_000])
def test_a_file_that_is_no_database_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptionError, match="not a DuckDB database"):
        Warehouse.open(path)
    assert path.read_bytes() == content
    assert not side_folder(path).exists()


@pytest.mark.parametrize("name", ["x.csv", "empty.csv", "x.json", "x.parquet", "x.TSV"])
def test_a_file_that_duckdb_reads_beside_memory_is_no_database(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "x.parquet":
        duckdb.execute(f"COPY (SELECT 1 AS a) TO '{path}'")
    else:
        path.write_text({"x.json": '[{"a": 1}]', "empty.csv": ""}.get(name, "a\tb\n1\t2\n"))
    content = path.read_bytes()
    for _ in range(2):
        with pytest.raises(CorruptionError, match=f"CREATE TABLE … AS FROM '.*{name}'"):
            Warehouse.open(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.full
@pytest.mark.parametrize("damage", ["cut short", "header", "blocks"])
def test_a_damaged_file_is_refused(path: Path, damage: str) -> None:
    create(path).close()
    shutil.rmtree(side_folder(path))
    whole = bytearray(path.read_bytes())
    if damage == "cut short":
        del whole[15_000:]
    for at in {"header": [4100], "blocks": range(12_288, len(whole), 4096)}.get(damage, ()):
        whole[at] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CorruptionError, match="damaged"):
        Warehouse.open(path)
    assert path.read_bytes() == whole
    assert not side_folder(path).exists()


def test_settings_that_duckdb_refuses_are_told(path: Path) -> None:
    with pytest.raises(InputError, match="at least 1 thread"):
        Warehouse.open(path, threads=0)


def test_a_path_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="Not a directory"):
        Warehouse.open(tmp_path / "file" / "shop.duckdb")
    with pytest.raises(InputError, match=r"there is no folder .*nowhere; make it first"):
        Warehouse.open(tmp_path / "nowhere" / "shop.duckdb")


@pytest.mark.full
@pytest.mark.parametrize("blocked", ["note.json", "note.new", ""])
def test_a_side_folder_that_cannot_be_used_is_told(path: Path, blocked: str) -> None:
    """A folder stands where a file must be, or the other way round; also for lack of rights."""
    create(path).close()
    before, place = path.read_bytes(), side_folder(path) / blocked
    if blocked:
        place.unlink(missing_ok=True)
        place.mkdir()
    else:
        shutil.rmtree(place)
        place.touch()
    with pytest.raises(UnavailableError, match="must be readable and writable"):
        taken(path)
    assert path.read_bytes() == before


def test_a_file_that_may_not_be_written_is_told(path: Path) -> None:
    denied = duckdb.IOException('IO Error: Cannot open file "shop.duckdb": Permission denied')
    assert "must be writable" in str(explained(path, denied))


@pytest.mark.full
def test_a_foreign_write_is_noticed(path: Path) -> None:
    create(path).close()
    with duckdb.connect(path) as plain:
        assert content(plain) == []
    warehouse = Warehouse.open(path)
    assert not warehouse.foreign_write  # it was only read
    recover(warehouse)
    warehouse.close()
    with duckdb.connect(path) as plain:
        run(plain, "INSERT INTO t VALUES (77)")
    for _ in range(2):  # an opening that comes to nothing does not forget it
        warehouse = Warehouse.open(path)
        assert warehouse.foreign_write
        warehouse.close()
    taken(path).close()
    warehouse = Warehouse.open(path)
    assert not warehouse.foreign_write
    warehouse.close()


@pytest.mark.full
def test_a_foreign_write_that_was_not_checkpointed_is_noticed(path: Path) -> None:
    warehouse = create(path)
    recover(warehouse)
    warehouse.close()
    write = f"import duckdb; c = duckdb.connect({str(path)!r})\n"
    crash(path, write + "c.execute('INSERT INTO t VALUES (1)').fetchall()")
    warehouse = Warehouse.open(path)
    assert warehouse.foreign_write
    warehouse.close()


@pytest.mark.full
def test_a_foreign_write_below_unflushed_commits_is_refused(path: Path) -> None:
    create(path, 1).close()
    with duckdb.connect(path) as plain:
        run(plain, "INSERT INTO t VALUES (77)")
    files = {p: p.read_bytes() for p in [path, *side_folder(path).iterdir()]}
    with pytest.raises(CorruptionError, match="still held 1 commit that it lacks"):
        Warehouse.open(path)
    assert {p: p.read_bytes() for p in files} == files
    warehouse = Warehouse.open(path, choice="give up")
    assert warehouse.foreign_write
    ready(warehouse)
    warehouse.close()
    assert content(duckdb.connect(path)) == [77]
    assert {
        p.name: p.read_bytes()
        for p in side_folder(path).with_name("shop.duckdb.ivm.given-up-1").iterdir()
    } == {p.name: held for p, held in files.items() if p != path}


@pytest.mark.full(smoke=1)
def test_our_own_crash_is_no_foreign_write(path: Path) -> None:
    code = f"""
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.storage.test_warehouse import *
warehouse = create(Path({str(path)!r}), 1)
warehouse.flush(1, {{"t": inserted(1)}}, {{}})
commit(warehouse, 2)
"""
    crash(path, code)
    warehouse = Warehouse.open(path)
    assert not warehouse.foreign_write
    recover(warehouse)
    assert content(warehouse.cursor()) == [1, 2]
    warehouse.close()


@pytest.mark.full
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_inside_a_checkpoint_loses_nothing(path: Path, when: str) -> None:
    code = f"""
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from ivm.storage.warehouse.checkpoints import Checkpointer
from tests.storage.test_warehouse import *
warehouse = create(Path({str(path)!r}), 1)
real = Checkpointer._checkpoint
def dying(self):
    if {when!r} == "after":
        real(self)
    os._exit(0)
Checkpointer._checkpoint = dying
run(warehouse.cursor(), "INSERT INTO t VALUES (0)")
warehouse.saw_own_commit()
warehouse.checkpoint()
"""
    crash(path, code)
    warehouse = Warehouse.open(path)
    assert warehouse.foreign_write == (when == "after")  # in doubt, views are refreshed
    recover(warehouse)
    assert content(warehouse.cursor()) == [0, 1]
    warehouse.close()


@pytest.mark.full
def test_a_lost_side_folder_of_a_closed_file_means_refreshing(path: Path) -> None:
    warehouse = create(path, 1)
    recover(warehouse)
    warehouse.close()
    shutil.rmtree(side_folder(path))
    warehouse = Warehouse.open(path)
    assert warehouse.foreign_write
    warehouse.close()


@pytest.mark.full
@pytest.mark.parametrize("lost", ["folder", "note", "segments", "older"])
def test_a_file_that_was_not_closed_needs_its_side_folder(path: Path, lost: str) -> None:
    taken(path).close()
    older = path.with_name("older")
    shutil.copytree(side_folder(path), older)
    create(path, 1).close()  # closed with a commit that is in the log alone
    folder = side_folder(path)
    if lost == "note":
        (folder / "note.json").unlink()
    elif lost == "segments":
        for segment in segment_paths(folder):
            segment.unlink()
    else:
        shutil.rmtree(folder)
    if lost == "older":
        shutil.copytree(older, folder)
    before = path.read_bytes()
    with pytest.raises(CorruptionError, match="was not closed, and the folder"):
        Warehouse.open(path)
    assert path.read_bytes() == before
    warehouse = Warehouse.open(path, choice="give up")
    assert warehouse.foreign_write
    ready(warehouse)
    assert content(warehouse.cursor()) == []
    warehouse.close()


@pytest.mark.full
def test_folders_of_other_databases_are_refused(path: Path, tmp_path: Path) -> None:
    create(path, 1).close()
    other = tmp_path / "other.duckdb"
    create(other, 2).close()
    shutil.rmtree(side_folder(other))
    shutil.copytree(side_folder(path), side_folder(other))
    with pytest.raises(CorruptionError, match="belongs to the database"):
        Warehouse.open(other)
    Warehouse.open(other, choice="give up").close()


@pytest.mark.full
def test_a_new_file_beside_an_old_folder(path: Path) -> None:
    warehouse = create(path, 1)
    recover(warehouse)
    warehouse.close()
    path.unlink()  # closed in good order: the folder holds nothing of worth
    create(path, 5).close()
    note = read_note(side_folder(path))
    assert note is not None
    write_note(side_folder(path), type(note)(note.database_id, note.iteration, False, False))
    path.unlink()
    with pytest.raises(CorruptionError, match="may hold commits"):
        Warehouse.open(path)


def test_a_damaged_note_is_refused(path: Path) -> None:
    create(path).close()
    note = side_folder(path) / "note.json"
    note.write_text("{")
    with pytest.raises(CorruptionError, match=r"note\.json is damaged"):
        Warehouse.open(path)
    assert note.read_text() == "{"


# -- checkpoints -----------------------------------------------------------------------------------


def test_checkpoints_run_in_the_background(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "WAL_BYTES", 1)
    done = threading.Event()
    real = checkpoints.Checkpointer.run

    def observed(self: checkpoints.Checkpointer, *, final: bool = False) -> bool:
        answer = real(self, final=final)
        done.set()
        return answer

    monkeypatch.setattr(checkpoints.Checkpointer, "run", observed)
    warehouse = create(path, 1)
    before = warehouse.file.iteration()
    done.clear()
    warehouse.flush(1, {"t": inserted(1)}, {})
    assert done.wait(20)
    assert warehouse.file.iteration() == before + 1
    warehouse.close()


@pytest.mark.full
def test_duckdb_never_checkpoints_by_itself(path: Path) -> None:
    warehouse = create(path)
    before = warehouse.file.iteration()
    run(warehouse.cursor(), "INSERT INTO t FROM range(3_000_000)")
    run(warehouse.cursor(), "UPDATE t SET v = v + 1")
    assert warehouse.file.wal_bytes() > 16 << 20
    assert warehouse.file.iteration() == before
    warehouse.close()
    assert warehouse.file.wal_bytes() == 0
    with open(path, "rb") as file:
        assert read_iteration(file.fileno()) > before


def test_open_transactions_put_a_checkpoint_off(path: Path) -> None:
    warehouse = create(path)
    reader = warehouse.cursor()
    run(warehouse.cursor(), "INSERT INTO t FROM range(10)")
    warehouse.pin(reader)
    run(warehouse.cursor(), "UPDATE t SET v = v + 1")
    assert not warehouse.checkpoint()
    run(reader, "ROLLBACK")
    assert warehouse.checkpoint()
    warehouse.close()


def test_a_checkpoint_waits_for_room_on_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails while it writes makes DuckDB give the database up."""
    warehouse = create(path, 1)
    warehouse.flush(1, {"t": inserted(1)}, {})
    room = shutil.disk_usage(path)._replace(free=1000)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: room)
        assert not warehouse.checkpoint()
        warehouse.close()
    assert wal_of(path).exists()
    again = taken(path)
    assert content(again.cursor()) == [1]
    assert again.checkpoint()
    again.close()


def test_a_database_that_duckdb_has_given_up_is_to_be_opened_again() -> None:
    troubles = Troubles()
    troubles.add("a checkpoint", duckdb.FatalException("Failed to create checkpoint"))
    with pytest.raises(UnavailableError, match="close it and open it again"):
        troubles.raise_one()


@pytest.mark.parametrize("kind", [duckdb.IOException, duckdb.TransactionException])
def test_a_full_disk_leaves_the_tables_and_the_log(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[duckdb.Error]
) -> None:
    warehouse = create(path, 1)

    def refuse(*_: object) -> None:
        raise kind("could not write: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ivm.storage.warehouse.flusher.apply_changes", refuse)
        with pytest.raises(UnavailableError, match="safe in the log"):
            warehouse.flush(1, {"t": inserted(1)}, {})
    assert warehouse.base_epoch == 0
    warehouse.flush(1, {"t": inserted(1)}, {})
    assert content(warehouse.cursor()) == [1]
    warehouse.close()


@pytest.mark.full
def test_a_log_that_cannot_be_trimmed_does_not_fail_a_flush(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    warehouse = create(path, 1)
    assert warehouse.log is not None
    warehouse.log.segment_bytes = 0
    with monkeypatch.context() as patch:
        patch.setattr("ivm.storage.log.segment_writer.write_all", refuse)
        warehouse.flush(1, {"t": inserted(1)}, {})
    assert warehouse.base_epoch == 1
    warehouse.close()
    warehouse = Warehouse.open(path)
    recover(warehouse)
    assert content(warehouse.cursor()) == [1]
    warehouse.close()


@pytest.mark.full
def test_a_failed_opening_lets_the_file_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CorruptionError("no")

    with monkeypatch.context() as patch:
        patch.setattr(opening, "read_note", refuse)
        with pytest.raises(CorruptionError, match="no"):
            Warehouse.open(path)
    Warehouse.open(path).close()
