"""The state of views from a closing to the next opening: taken up where nothing came between."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.delta_ops.aggregates.aggregate import Aggregate
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.operator import Fetch
from ivm.engine.tables import key_indexes, saved_state
from ivm.engine.tables.key_indexes import KeyIndexes
from ivm.ingest.key_index import LateIndex
from ivm.storage.warehouse.opening.side_folder import side_folder
from ivm.storage.warehouse.opening.wal_witness import wal_of
from ivm.storage.warehouse.warehouse import Warehouse
from tests.support.crash_image import image
from tests.tiers import some

VIEWS = {
    "sums": "SELECT g, count(*) AS n, sum(x), max(x), count(DISTINCT x) FROM t GROUP BY g",
    "pairs": "SELECT t.id, u.name, t.x FROM t JOIN u ON t.g = u.g",
    "names": "SELECT DISTINCT name FROM u",
    "first": "SELECT id, g, x FROM t ORDER BY x DESC, id LIMIT 3",
    "ranked": "SELECT id, row_number() OVER (PARTITION BY g ORDER BY x, id) AS r FROM t",
    "above": "SELECT n, count(*) AS c FROM sums GROUP BY n",
}


@pytest.fixture
def hydrated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The nodes whose state is built from the tables, as it happens."""
    built: list[int] = []
    real = Circuit._hydrate

    def observed(circuit: Circuit, number: int, fetch: Fetch) -> None:
        if not circuit.node(number).hydrated:
            built.append(number)
        real(circuit, number, fetch)

    monkeypatch.setattr(Circuit, "_hydrate", observed)
    return built


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of all kinds of views."""
    path = tmp_path_factory.mktemp("closed") / "a.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x DOUBLE)")
        db.execute("CREATE TABLE u (g INTEGER, name VARCHAR)")
        db.execute("INSERT INTO t SELECT i, i % 5, i / 7 FROM range(50) r(i)")
        db.execute("INSERT INTO u SELECT i, 'name ' || i % 3 FROM range(5) r(i)")
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return path


@pytest.fixture
def path(closed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return image(closed, tmp_path / "a.duckdb")


def change(db: ivm.Database, number: int) -> None:
    db.execute("INSERT INTO t (id, g, x) VALUES (?, ?, ?)", [1000 + number, number % 6, number / 3])
    db.execute("DELETE FROM t WHERE id = ?", [number])
    db.execute("UPDATE t SET x = x + 1, g = 2 WHERE id = ?", [20 + number])
    db.execute("INSERT INTO u VALUES (?, ?)", [number % 7, f"name {number}"])


def check(db: ivm.Database) -> None:
    """Each view is DuckDB's answer to its own text."""
    for name in db.execute("SHOW MATERIALIZED VIEWS").fetchall():
        ((_, _, missing, extra, right, *_),) = db.execute(
            f"VERIFY MATERIALIZED VIEW {name[0]}"
        ).fetchall()
        assert (missing, extra, right) == (0, 0, True), name


@pytest.mark.full
def test_the_next_opening_takes_it_up(path: Path, hydrated: list[int]) -> None:
    hydrated.clear()
    for number in range(3):
        with ivm.connect(path) as db:
            change(db, number)
            check(db)
    assert hydrated == []


@pytest.mark.full
def test_a_session_without_a_change_keeps_it(path: Path, hydrated: list[int]) -> None:
    (states,) = side_folder(path).glob("state-*.bin")
    hydrated.clear()
    for _ in range(2):
        with ivm.connect(path) as db:
            db.execute("FROM sums").fetchall()
            check(db)
        assert [*side_folder(path).glob("state-*.bin")] == [states]
    with ivm.connect(path) as db:
        change(db, 1)
        check(db)
    assert hydrated == []


@pytest.mark.full
def test_what_one_session_does_not_reach_is_carried_on(path: Path, hydrated: list[int]) -> None:
    hydrated.clear()
    for statement in ("INSERT INTO u VALUES (9, 'x')", "UPDATE t SET x = 0 WHERE id = 7"):
        with ivm.connect(path) as db:
            db.execute(statement)
            check(db)
    assert hydrated == []


CHANGES: dict[str, Callable[[ivm.Database], object]] = {
    "a table": lambda db: db.execute("CREATE TABLE w (a INTEGER)"),
    "a view": lambda db: db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT g, min(x) FROM t GROUP BY g"
    ),
    "a view over a view": lambda db: db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT max(n) FROM sums"
    ),
    "a view less": lambda db: db.execute("DROP MATERIALIZED VIEW above"),
    "a view made anew": lambda db: (
        db.execute("DROP MATERIALIZED VIEW pairs"),
        db.execute(f"CREATE MATERIALIZED VIEW pairs AS {VIEWS['pairs']}"),
    ),
    "a column": lambda db: db.execute("ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 3"),
    "a column's type": lambda db: db.execute("ALTER TABLE t ALTER x TYPE DOUBLE USING x * 2"),
    "a column's name": lambda db: db.execute("ALTER TABLE u RENAME COLUMN name TO name2"),
    "rows and a table": lambda db: db.execute(
        "BEGIN; CREATE TABLE w (a INTEGER); UPDATE t SET x = x + 5; COMMIT"
    ),
    "a truncated table": lambda db: db.execute("TRUNCATE u"),
    "a refreshed view": lambda db: db.execute("REFRESH MATERIALIZED VIEW sums"),
}


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("what", some(list(CHANGES), 6))
def test_it_fits_a_catalog_that_changes_first(path: Path, what: str) -> None:
    with ivm.connect(path) as db:
        try:
            CHANGES[what](db)
        except ivm.errors.IvmError:  # views read the column: nothing was changed
            assert what.startswith("a column's")
        check(db)
        change(db, 1)
        check(db)
    with ivm.connect(path) as db:
        change(db, 2)
        check(db)


@pytest.mark.full
def test_a_refused_change_leaves_it(path: Path, hydrated: list[int]) -> None:
    hydrated.clear()
    with ivm.connect(path) as db:
        with pytest.raises(ivm.errors.ConstraintError):
            db.execute("INSERT INTO t VALUES (3, 3, 3)")
        db.execute("BEGIN; DELETE FROM t; ROLLBACK")
        change(db, 1)
        check(db)
    with ivm.connect(path) as db:
        change(db, 2)
        check(db)
    assert hydrated == []


# -- indexes ------------------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables of which an index is read from DuckDB, as it happens."""
    tables: list[str] = []
    for name in ("_late", "_full"):
        real: Callable[..., object] = getattr(KeyIndexes, name)

        def observed(
            indexes: KeyIndexes, table: str, *given: object, _real: Callable[..., object] = real
        ) -> object:
            tables.append(table)
            return _real(indexes, table, *given)

        monkeypatch.setattr(KeyIndexes, name, observed)
    monkeypatch.setattr(key_indexes, "LARGE", 0)
    return tables


def by_keys(db: ivm.Database, number: int) -> None:
    """Changes of t by its key and by its index; those of an index that is read meanwhile end."""
    db.execute("UPDATE t SET x = x + 1 WHERE id = ?", [number])
    db.execute("DELETE FROM t WHERE g = ? AND x < 2", [number % 5])
    assert db.execute("SELECT x FROM t WHERE id = ?", [30 + number]).fetchall()
    for index in db._engine.indexes._known.values():
        if isinstance(index, LateIndex):
            index._reading.join()
    db.execute("UPDATE t SET x = 5 WHERE id = ?", [40 + number])


def check_rows(db: ivm.Database) -> None:
    """The rows that are found by key are those of the table."""
    rows = db.execute("SELECT * FROM t ORDER BY id").fetchall()
    for row in rows:
        assert db.execute("SELECT * FROM t WHERE id = ?", [row[0]]).fetchall() == [row]
        assert row in db.execute("SELECT * FROM t WHERE g = ?", [row[1]]).fetchall()
    check(db)


@pytest.fixture
def indexed(path: Path, read: list[str]) -> Path:
    with ivm.connect(path) as db:
        db.execute("CREATE INDEX by_g ON t (g)")
        by_keys(db, 1)
        by_keys(db, 2)
        check_rows(db)
    read.clear()
    return path


@pytest.mark.full
def test_indexes_are_taken_up(indexed: Path, read: list[str]) -> None:
    for number in (3, 4, 5):
        with ivm.connect(indexed) as db:
            by_keys(db, number)
            check_rows(db)
    assert "t" not in read


@pytest.mark.full
def test_indexes_are_carried_on_beside_other_changes(indexed: Path, read: list[str]) -> None:
    with ivm.connect(indexed) as db:
        db.execute("INSERT INTO u VALUES (8, 'x')")
    with ivm.connect(indexed) as db:
        db.execute("SELECT count(*) FROM u").fetchall()
    with ivm.connect(indexed) as db:
        by_keys(db, 3)
        check_rows(db)
    assert "t" not in read


PASSING = (
    "INSERT INTO t SELECT i, 1, 1 FROM range(500, 600) r(i)",
    "BEGIN; CREATE TABLE w (a INTEGER); DELETE FROM t WHERE id = 31; COMMIT",
    "ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 4",
    "DROP INDEX by_g",
    "TRUNCATE t",
    "UPDATE t SET x = x + 1",
    "UPDATE t SET x = 9 WHERE id = 35",
    "ALTER TABLE u ADD COLUMN z INTEGER",
)


@pytest.mark.full
@pytest.mark.cases(2)
@pytest.mark.parametrize("statement", some(PASSING, 4))
def test_an_index_is_as_its_table(indexed: Path, statement: str) -> None:
    """In the session that changes the table first, and in the next one."""
    with ivm.connect(indexed) as db:
        db.execute(statement)
        check_rows(db)
    with ivm.connect(indexed) as db:
        check_rows(db)
        db.execute("INSERT INTO t (id, g, x) VALUES (900, 1, 1)")
        check_rows(db)
        with pytest.raises(ivm.errors.ConstraintError):
            db.execute("INSERT INTO t (id, g, x) VALUES (900, 1, 1)")


# -- what comes between -------------------------------------------------------------------------


def crash(path: Path) -> None:
    """Commits that are in the log alone, or in the tables, and no closing."""
    left = path.with_name("left.duckdb")
    with ivm.connect(path) as db:
        change(db, 5)
        db.flush()
        change(db, 6)
        image(path, left)
    put(left, path)


def put(source: Path, target: Path) -> None:
    """Lays a copy of a database in the place of another one."""
    shutil.rmtree(side_folder(target))
    wal_of(target).unlink(missing_ok=True)
    image(source, target)


def another_program(path: Path) -> None:
    with duckdb.connect(str(path)) as plain:
        plain.execute("UPDATE t SET x = 99 WHERE id < 9")


def another_file(path: Path) -> None:
    """A copy that was opened as often, with other changes, laid over the file."""
    copy = image(path, path.with_name("copy.duckdb"))
    for each, number in ((path, 3), (copy, 4)):
        with ivm.connect(each) as db:
            change(db, number)
    shutil.copyfile(copy, path)


def another_code(path: Path) -> None:
    """States of a version whose header has other lines."""
    header = side_folder(path) / "state.json"
    text = "older code\n{}"
    header.write_text(f"{zlib.crc32(text.encode()):08x}\n{text}")


def an_upgrade_beside_it(path: Path) -> None:
    """The files of the package are newer than the process that closes the database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_state, "_LOADED", 0)
        patch.setattr(saved_state, "_code", saved_state._code.__wrapped__)
        with ivm.connect(path) as db:
            change(db, 3)
    assert (side_folder(path) / "state.json").exists()


def other_lanes(path: Path) -> None:
    """The accumulators have their lanes in another order, for whatever reason."""
    with pytest.MonkeyPatch.context() as patch, ivm.connect(path) as db:
        labels = Aggregate._labels
        patch.setattr(Aggregate, "_labels", lambda a: {k: v + 1 for k, v in labels(a).items()})
        change(db, 3)
        db.close()


def a_damaged_file(path: Path) -> None:
    (states,) = side_folder(path).glob("state-*.bin")
    whole = bytearray(states.read_bytes())
    for at in range(0, len(whole), 50):
        whole[at] ^= 1
    states.write_bytes(whole)


def a_damaged_header(path: Path) -> None:
    header = side_folder(path) / "state.json"
    header.write_text(header.read_text().replace("epoch", "Epoch"))


def a_missing_file(path: Path) -> None:
    (states,) = side_folder(path).glob("state-*.bin")
    states.unlink()


BETWEEN = (
    crash, another_program, another_file, another_code, an_upgrade_beside_it, other_lanes,
    a_damaged_file, a_damaged_header, a_missing_file,
)  # fmt: skip


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("between", some(BETWEEN, 4))
def test_it_is_not_taken_up_if_something_came_between(
    path: Path, hydrated: list[int], between: Callable[[Path], None]
) -> None:
    between(path)
    hydrated.clear()
    with ivm.connect(path) as db:
        check(db)
        change(db, 1)
        check(db)
    assert hydrated
    hydrated.clear()
    with ivm.connect(path) as db:
        change(db, 2)
        check(db)
    assert hydrated == []


@pytest.mark.full
def test_a_damaged_file_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    a_damaged_file(path)
    with ivm.connect(path) as db:
        change(db, 1)
        check(db)
    assert "the saved state is not used: a file of states is damaged" in caplog.text


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def write(path: Path, states: object) -> None:
        path.write_bytes(b"some")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(saved_state, "write", write)
        yield


@pytest.mark.usefixtures("full_disk")
def test_a_closing_that_cannot_save_it_is_a_closing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ivm.connect(path) as db:
        change(db, 1)
    assert "the state of views was not saved: [Errno 28]" in caplog.text
    assert not [*side_folder(path).glob("state*")]
    with duckdb.connect(str(path)) as plain:
        assert plain.execute("SELECT count(*) FROM t WHERE id = 1001").fetchall() == [(1,)]


@pytest.mark.full
def test_a_small_disk_is_not_filled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = shutil.disk_usage(path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    with ivm.connect(path) as db:
        change(db, 1)
    assert not [*side_folder(path).glob("state*")]


@pytest.mark.full
def test_it_goes_with_a_deleted_database(path: Path) -> None:
    path.unlink()
    with ivm.connect(path) as db:
        assert not [*side_folder(path).glob("state*")]
        db.execute("CREATE TABLE t (a INTEGER)")


@pytest.mark.full
def test_nothing_is_saved_for_another_database_in_the_place(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: it took up the state of the one that was closed there, and gave its rows."""
    other, real = tmp_path / "other.duckdb", Warehouse.close
    image(path, other)
    with ivm.connect(other) as db:
        db.execute("UPDATE t SET x = x + 100")

    def replaced(warehouse: Warehouse) -> None:
        real(warehouse)
        put(other, path)

    with ivm.connect(path) as db:
        db.execute("UPDATE t SET x = x + 1")
        monkeypatch.setattr(Warehouse, "close", replaced)
    monkeypatch.undo()
    with ivm.connect(path) as db:
        change(db, 1)
        check(db)
