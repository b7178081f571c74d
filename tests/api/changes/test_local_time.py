"""`now()` that is set needs no DuckDB statement, and is what DuckDB would have told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.changes.values import computed_values
from ivm.engine.tables import default_values
from ivm.ingest import local_time
from ivm.ingest.local_time import LocalTime
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import type_of
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

ZONES = [
    *("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe"),
    *("Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York", "Etc/GMT+12"),
]
TYPES = ["TIMESTAMPTZ", "TIMESTAMP", "DATE"]
SQL_TYPES = ["TIMESTAMP WITH TIME ZONE", *TYPES[1:]]
TELLERS = {
    "now()": TYPES,
    "current_timestamp": TYPES,
    "(get_current_timestamp())": TYPES,
    "Transaction_Timestamp()": TYPES,
    "localtimestamp": TYPES[1:],
    "current_date": TYPES[2:],
    "today()": TYPES[2:],
}
CASES = [(teller, type) for teller, types in TELLERS.items() for type in types]
OTHERS = [
    ("localtimestamp", "TIMESTAMPTZ"),
    ("current_date", "TIMESTAMP"),
    ("now()::DATE", "TIMESTAMP"),
    ("now() + INTERVAL 0 DAY", "TIMESTAMPTZ"),
    ("now()", "TIMESTAMP_S"),
]


def _told(connection: Any, teller: str, type: str) -> Any:
    return connection.execute(f"SELECT CAST({teller} AS {type})").fetchone()[0]


@pytest.mark.full
@pytest.mark.parametrize(("teller", "type"), [*CASES, *OTHERS])
def test_it_is_what_duckdb_tells_in_the_zone_of_the_session(
    monkeypatch: pytest.MonkeyPatch, teller: str, type: str
) -> None:
    with ivm.connect() as db, duckdb.connect() as plain:
        db.execute(
            f"CREATE TABLE t (id INTEGER PRIMARY KEY, x {type}); INSERT INTO t (id) VALUES (1)"
        )
        for i, zone in enumerate(ZONES):
            text = (f"SET TimeZone = '{zone}'", f"PRAGMA TimeZone = '{zone}'")[i % 2]
            db.execute(text)
            plain.execute(text)
            for _ in range(2):
                before = _told(plain, teller, type)
                db.execute(f"UPDATE t SET x = {teller} WHERE id = 1")
                found = db.execute("SELECT x FROM t").fetchall()[0][0]
                assert before <= found <= _told(plain, teller, type)
            if (teller, type) in CASES:
                with monkeypatch.context() as patch:
                    patch.setattr(computed_values, "rows", None)  # nothing is asked
                    db.execute(f"UPDATE t SET x = {teller} WHERE id = 1")
        db.execute("RESET TimeZone")
        plain.execute("RESET TimeZone")
        db.execute(f"UPDATE t SET x = {teller} WHERE id = 1")
        after = _told(plain, teller, type)
        assert before <= db.execute("SELECT x FROM t").fetchall()[0][0] <= after


@pytest.mark.full
def test_defaults_tell_it_in_the_zone_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*given: Any) -> Any:
        raise AssertionError("DuckDB is asked")

    columns = "a TIMESTAMPTZ DEFAULT now(), b TIMESTAMP DEFAULT current_timestamp, "
    columns += "c DATE DEFAULT current_date, d TIMESTAMP DEFAULT localtimestamp"
    shown = "SELECT CAST(now() AS TIMESTAMP), CAST(now() AS DATE)"
    with ivm.connect() as db, duckdb.connect() as plain:
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT c, count(*) AS n FROM t GROUP BY c")
        db.execute("INSERT INTO t (id) VALUES (-1)")
        for number, zone in enumerate([*ZONES, "UTC"]):
            db.execute(f"SET TimeZone = '{zone}'")
            plain.execute(f"SET TimeZone = '{zone}'")
            (before, first), first_id = plain.execute(shown).fetchall()[0], 10 * number
            db.execute("INSERT INTO t (id) VALUES (?)", [first_id])
            with monkeypatch.context() as patch:
                patch.setattr(default_values, "values_of", asked)
                db.execute("INSERT INTO t (id) VALUES (?)", [first_id + 1])
                db.execute("INSERT INTO t (id) SELECT ? + i FROM range(3) r(i)", [first_id + 2])
                db.executemany("INSERT INTO t (id) VALUES (?)", [[first_id + 5], [first_id + 6]])
                db.execute("INSERT OR REPLACE INTO t (id) VALUES (?)", [first_id + 1])
            after, last = plain.execute(shown).fetchall()[0]
            found = db.execute(
                "SELECT b, c, d, b = CAST(a AS TIMESTAMP) FROM t WHERE id >= ?", [first_id]
            ).fetchall()
            assert len(found) == 7
            assert all(before <= b == d <= after and first <= c <= last for b, c, d, _ in found)
            assert {same for *_, same in found} == {True}
        assert_verified(db)


def test_defaults_of_one_row_tell_one_time() -> None:
    """Also where DuckDB must compute one of them."""
    columns = "a TIMESTAMPTZ DEFAULT now(), b TIMESTAMPTZ DEFAULT CAST(now() AS TIMESTAMPTZ)"
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns}, u UUID DEFAULT uuid())")
        for i in range(4):
            db.execute("INSERT INTO t (id) VALUES (?)", [i])
        found = db.execute("SELECT a = b, now() - a < INTERVAL 1 MINUTE, u FROM t").fetchall()
        assert {row[:2] for row in found} == {(True, True)}
        assert len({row[2] for row in found}) == 4


def test_a_set_in_a_script_and_a_cursor_of_another_zone_count() -> None:
    with ivm.connect() as db, db.cursor() as other:
        db.execute(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, x TIMESTAMP); INSERT INTO t (id) VALUES (1)"
        )
        update = "UPDATE t SET x = now() WHERE id = 1"
        close = "SELECT abs(epoch(x - CAST(now() AS TIMESTAMP))) < 60 FROM t"
        db.execute("SET TimeZone = 'Asia/Kathmandu'")
        other.execute("SET TimeZone = 'America/St_Johns'")
        for _ in range(2):
            for each, far in ((db, other), (other, db)):
                each.execute(update)
                assert each.execute(close).fetchall() == [(True,)]
                assert far.execute(close).fetchall() == [(False,)]
        db.execute(f"SET TimeZone = 'UTC'; {update}")
        assert db.execute(close).fetchall() == [(True,)]


INSTANTS = st.integers(1_577_836_800, 2_208_988_800).map(lambda s: s * 10**6)  # 2020 to 2039
# The hours around the ends of summer time, of the north and of the south.
CHANGES = st.builds(
    lambda at, quarters, us: (at + quarters * 900) * 10**6 + us,
    st.sampled_from([1_774_746_000, 1_793_494_800, 1_775_314_800, 1_791_039_600, 1_772_953_200]),
    st.integers(-60, 60),
    st.sampled_from([-1, 0, 1]),
)
MOMENTS = st.lists(st.tuples(st.sampled_from(ZONES), INSTANTS | CHANGES), min_size=1, max_size=8)


@settings(max_examples=examples(60))
@given(MOMENTS)
def test_at_every_moment_it_is_duckdbs_cast(moments: list[tuple[str, int]]) -> None:
    with duckdb.connect() as duck, pytest.MonkeyPatch.context() as patch:
        local, zone = LocalTime(duck), ""
        for wanted, instant in moments:
            if wanted != zone:
                zone = wanted
                duck.execute(f"SET TimeZone = '{zone}'")
                local.forget()
            clock = SimpleNamespace(time_ns=lambda instant=instant: instant * 1000 + 999)
            patch.setattr(local_time, "time", clock)
            columns = local.now([type_of(type) for type in SQL_TYPES], 2)
            assert all(isinstance(column, FixedColumn) for column in columns)
            rows = [column.values.tolist() for column in columns]  # type: ignore[union-attr]
            found, same = zip(*rows, strict=True)
            assert found == same
            now = f"make_timestamptz({instant})"
            assert duck.execute(
                f"SELECT epoch_us({now}), epoch_us(CAST({now} AS TIMESTAMP)), "
                f"CAST({now} AS DATE) - DATE '1970-01-01'"
            ).fetchall() == [found]


@pytest.mark.parametrize("zone", ZONES)
def test_zones_change_at_whole_quarters_of_an_hour(zone: str) -> None:
    """Also all others that DuckDB 2.0 lists do, from 2025 to 2028."""
    with duckdb.connect() as duck:
        duck.execute(f"SET TimeZone = '{zone}'")
        duck.execute("""
            CREATE VIEW quarters AS
            SELECT epoch_us(TIMESTAMP '2025-01-01') + i * 900000000 AS first,
                first + 899999999 AS last FROM range(35040 * 4) r(i)""")
        distance = "epoch_us(CAST(make_timestamptz({0}) AS TIMESTAMP)) - {0}"
        first, last = distance.format("first"), distance.format("last")
        assert duck.execute(
            f"SELECT count(*) FROM quarters WHERE {first} <> {last}"
        ).fetchall() == [(0,)]
