"""Windows of time in FROM against windows computed in Python, under random changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import ivm
from ivm.errors import SqlError, UnsupportedError
from ivm.sql.statements.parse import parse
from tests.support.view_oracle import assert_verified
from tests.tiers import seeds, some

Window = tuple[datetime, datetime]
Windows = Callable[[datetime], Iterable[Window]]

MONDAY = datetime(2000, 1, 3)
BERLIN = ZoneInfo("Europe/Berlin")
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)


def hops(slide: timedelta, length: timedelta, origin: datetime = MONDAY) -> Windows:
    def windows(time: datetime) -> Iterator[Window]:
        begin = time - (time - origin) % slide
        while begin + length > time:
            yield begin, begin + length
            begin -= slide

    return windows


def cumulated(step: timedelta, length: timedelta) -> Windows:
    def windows(time: datetime) -> Iterator[Window]:
        begin = time - (time - MONDAY) % length
        for count in range(1, length // step + 1):
            if begin + count * step > time:
                yield begin, begin + count * step

    return windows


def month(index: int) -> datetime:
    return datetime(index // 12, index % 12 + 1, 1)


def hops_of_months(slide: int, length: int) -> Windows:
    def windows(time: datetime) -> Iterator[Window]:
        here = time.year * 12 + time.month - 1
        begin = here - (here - 2000 * 12) % slide
        while begin + length > here:
            yield month(begin), month(begin + length)
            begin -= slide

    return windows


CASES: list[tuple[str, Windows]] = [
    ("tumble(t, ts, INTERVAL '10 minutes')", hops(10 * MINUTE, 10 * MINUTE)),
    ("tumble(t, ts, INTERVAL 1 DAY)", hops(DAY, DAY)),
    ("TUMBLE(t, ts, '7 days')", hops(7 * DAY, 7 * DAY)),
    ("tumble(t, ts, '36:00:00', TIMESTAMP '2020-02-03 04:05:06')",
     hops(36 * 60 * MINUTE, 36 * 60 * MINUTE, datetime(2020, 2, 3, 4, 5, 6))),
    ("tumble(t, ts, '1 month')", hops_of_months(1, 1)),
    ("tumble((SELECT * FROM t), ts, '1 quarter')", hops_of_months(3, 3)),
    ("hop(t, ts, INTERVAL '5 minutes', INTERVAL '1 hour')", hops(5 * MINUTE, 60 * MINUTE)),
    ("hop(t, `ts`, '7 seconds', '20 seconds')", hops(7 * SECOND, 20 * SECOND)),
    ("hop(t, ts, '1 day', '6 hours')", hops(DAY, 360 * MINUTE)),
    ("hop(t, ts, '1 month', '3 months')", hops_of_months(1, 3)),
    ("hop(t, ts, '1 day', '2 days', origin := TIMESTAMP '2020-01-01 06:00:00')",
     hops(DAY, 2 * DAY, datetime(2020, 1, 1, 6))),
    ("cumulate(t, ts, '10 minutes', '1 hour')", cumulated(10 * MINUTE, 60 * MINUTE)),
    ("cumulate(t, ts, '1 day', '7 days')", cumulated(DAY, 7 * DAY)),
    ("tumble(hop(t, ts, '1 hour', '2 hours'), window_start, '1 day')",
     lambda time: [next(iter(hops(DAY, DAY)(begin))) for begin, _ in
                   hops(60 * MINUTE, 120 * MINUTE)(time)]),
]  # fmt: skip


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, ts TIMESTAMP)")
        yield database


def time(random: Random) -> str | None:
    """Times that meet the bounds of windows, before 1970 too; some are missing or infinite."""
    near = datetime(random.choice([1968, 2000, 2024]), random.choice([1, 2, 12]), 28)
    found = near + random.choice([MINUTE, 5 * MINUTE, DAY, SECOND]) * random.randrange(-9, 99)
    return random.choice([*["infinity", "-infinity", None], *[f"{found}"] * 20])


def change(db: ivm.Database, random: Random) -> None:
    """Inserts, updates and deletes a few rows, also of neighbours."""
    for _ in range(random.randrange(1, 5)):
        row = random.randrange(30), random.randrange(3), time(random)
        db.execute("INSERT OR REPLACE INTO t VALUES (?, ?, ?)", row)
    db.execute("DELETE FROM t WHERE id = ?", [random.randrange(30)])


def rows(db: ivm.Database) -> list[tuple[int, int, datetime]]:
    return db.execute("FROM t WHERE isfinite(ts)").fetchall()


@pytest.mark.parametrize(("call", "windows"), some(CASES, of=3))
def test_rows_are_in_the_windows_that_hold_them(
    db: ivm.Database, call: str, windows: Windows
) -> None:
    random = Random(call)
    db.execute(f"CREATE MATERIALIZED VIEW v AS FROM {call} AS w")
    db.execute(
        "CREATE MATERIALIZED VIEW counts AS"
        f" SELECT window_start, window_end, count(*) AS n FROM {call} GROUP BY ALL"
    )
    for _ in range(12):
        change(db, random)
        wanted = [(*row, *window) for row in rows(db) for window in windows(row[2])]
        assert Counter(db.execute("FROM v").fetchall()) == Counter(wanted)
        assert Counter(db.execute(f"FROM {call}").fetchall()) == Counter(wanted)
        counts = Counter(row[-2:] for row in wanted)
        assert Counter(db.execute("FROM counts").fetchall()) == Counter(
            (*window, n) for window, n in counts.items()
        )
        assert_verified(db, "v")


def sessions(given: list[tuple[int, int, datetime]], gap: timedelta) -> dict[int, Window]:
    """The session of each row, by its id."""
    found = dict[int, Window]()
    open: list[tuple[int, int, datetime]] = []
    for row in [*sorted(given, key=lambda row: row[1:]), None]:
        if open and (row is None or row[1] != open[-1][1] or row[2] - open[-1][2] > gap):
            found |= {one[0]: (open[0][2], open[-1][2] + gap) for one in open}
            open = []
        if row is not None:
            open.append(row)
    return found


@pytest.mark.parametrize("seed", seeds(6))
def test_sessions_are_merged_and_split_by_neighbours(db: ivm.Database, seed: int) -> None:
    random = Random(seed)
    gap = random.choice([MINUTE, 6 * MINUTE, DAY])
    alone = random.random() < 0.3
    parts = "" if alone else random.choice([", partition_by := [k]", ", partition_by := k"])
    call = f"session(t, ts, INTERVAL '{gap.total_seconds()} seconds'{parts})"
    db.execute(f"CREATE MATERIALIZED VIEW v AS FROM {call}")
    for _ in range(15):
        change(db, random)
        given = rows(db)
        found = sessions([(i, 0 if alone else k, ts) for i, k, ts in given], gap)
        wanted = [(*row, *found[row[0]]) for row in given]
        assert Counter(db.execute("FROM v").fetchall()) == Counter(wanted)
        assert_verified(db, "v")


@pytest.mark.parametrize("name", ["tumble", "hop", "cumulate"])
def test_days_of_a_zone_have_its_midnights(name: str) -> None:
    """Those when the clocks change have 23 hours and 25."""
    slide = "" if name == "tumble" else "INTERVAL '1 day', "
    call = f"{name}(t, ts, {slide}INTERVAL '1 day', 'Europe/Berlin')"
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (ts TIMESTAMPTZ)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS FROM {call}")
        for begin in (datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC)):
            for hour in range(96):
                db.insert("t", {"ts": [begin + timedelta(hours=hour)]})
        lengths = set()
        for ts, start, end in db.execute("FROM v").fetchall():
            local = ts.astimezone(BERLIN)
            midnight = datetime(local.year, local.month, local.day, tzinfo=BERLIN)
            following = midnight + DAY  # by the clock on the wall
            assert (start, end) == (midnight.astimezone(UTC), following.astimezone(UTC))
            lengths.add(end - start)
        assert lengths == {DAY, timedelta(hours=23), timedelta(hours=25)}
        assert_verified(db, "v")


@pytest.mark.parametrize("length", ["5 hours", "36 hours", "1 day", "1 month"])
@pytest.mark.parametrize("call", ["tumble(t, {}, '{}')", "hop(t, {0}, '{1}', '{1}')",
                                  "cumulate(t, {0}, '{1}', '{1}')"])  # fmt: skip
def test_a_date_is_its_midnight(call: str, length: str) -> None:
    """Bug: the bucket of a DATE is a DATE, whose hours are cut off."""
    with ivm.connect() as db:
        db.execute(
            "CREATE TABLE t AS SELECT DATE '2026-01-01' + i::INTEGER AS d FROM range(99) AS r(i)"
        )
        of_dates = db.execute(f"FROM {call.format('d', length)}").fetchall()
        assert of_dates == db.execute(f"FROM {call.format('d::TIMESTAMP', length)}").fetchall()
        assert len(of_dates) == 99


def test_days_without_a_zone_are_those_of_utc() -> None:
    with ivm.connect() as db:
        db.execute("SET TimeZone = 'Europe/Berlin'; CREATE TABLE t (ts TIMESTAMPTZ)")
        db.execute("CREATE MATERIALIZED VIEW v AS FROM tumble(t, ts, '1 day')")
        db.execute("INSERT INTO t VALUES ('2026-03-28 12:00:00+00'), ('2026-03-29 12:00:00+00')")
        spans = db.execute("SELECT epoch(window_start), epoch(window_end) FROM v")
        assert [(at % 86_400, end - at) for at, end in spans.fetchall()] == [(0, 86_400)] * 2


FORMS = [
    "SELECT count(*) FROM t AS a JOIN tumble(t, ts, '1 day') AS b USING (id)",
    "SELECT count(*) FROM t AS a, tumble(t, ts, '1 day') AS b WHERE a.id = b.id",
    "SELECT count(*) FROM (tumble(t, ts, '1 day') AS a CROSS JOIN (SELECT 1))",
    "WITH t2 AS (FROM t) SELECT count(*) FROM tumble (t2, ts + INTERVAL 1 DAY, '1 day')",
    "SELECT count(*) FROM tumble(/* a, b */ main.t, t.ts, -- c\n INTERVAL '1' DAY)",
    "SELECT (SELECT count(*) FROM Tumble(t, ts, '1 day'))",
    "SELECT count(*) FROM (SELECT 1), LATERAL tumble(t, ts, '1 day')",
    "SELECT count(*) FROM w: tumble(t, ts, '1 day')",
    "SELECT count(*) FROM (SELECT 1), ((hop(t, ts, '1 day', '1 day')))",
    "SELECT count(*) FROM t AS a JOIN t AS b ON a.id = b.id AND a.id IN (1, 2)"
    " AND CASE WHEN true THEN true END, tumble((SELECT min(ts) AS ts FROM t), ts, '1 day')",
    "SELECT count(*) FROM (PIVOT tumble(t, ts, '1 day') ON k IN (1, 2) USING sum(id))",
    "SELECT count(*) FROM tumble -- of t\n /* here */ (t, ts, '1 day')",
    "SELECT count(*) FROM tumble(t, (SELECT min(window_end) FROM tumble(t, ts, '1 h')), '1 day')",
    "SELECT count(*) FROM unnest([1]) WITH ORDINALITY AS u, tumble(t, ts, '1 day')",
    "SELECT count(*) FROM VALUES (1) AS v(x), tumble(t, ts, '1 day')",
    "SELECT count(*) FROM (PIVOT_WIDER tumble(t, ts, '1 day') ON k IN (1, 2) USING sum(id))",
    "SELECT count(*) FROM tumble(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)",
    "SELECT count(*) FROM session(t, t.ts, '1 hour', partition_by => [t.k, id % 2,])",
    "SELECT count(*) FROM session((SELECT *, 5 AS \"session begin\" FROM t), ts, '1 h')"
    " WHERE \"session begin\" = 5 AND window_start = ts",
]  # fmt: skip


def test_where_a_relation_is_expected(db: ivm.Database) -> None:
    db.execute("INSERT INTO t VALUES (1, 1, '2026-01-01'), (2, 2, '2026-01-02')")
    for query in FORMS:
        assert db.execute(query).fetchall() == [(2,)], query
    for query, given in (
        ("SELECT count(*) FROM tumble(t, ts + to_hours(?), '1 h', ?::TIMESTAMP) WHERE id < ?",
         [1, "2026-01-01", 5]),
        ("SELECT count(*) FROM session((FROM t WHERE id < ?), ts, '1 h', partition_by := [k % ?])",
         [5, 2]),
        ("SELECT count(*) FROM hop(t, ts + to_hours($b), '1 h', '1 h') WHERE id < $a",
         {"a": 5, "b": 1}),
    ):  # fmt: skip
        assert db.execute(query, given).fetchall() == [(2,)], query
    db.execute("CREATE TABLE copied AS FROM tumble(t, ts, '1 day')")
    db.execute("INSERT INTO copied FROM tumble(t, ts, '1 day')")
    db.execute("CREATE VIEW plain AS FROM hop(t, ts, '1 day', '2 days')")
    db.execute("DELETE FROM copied USING tumble(t, ts, '1 day') AS w WHERE copied.id = w.id")
    db.execute("PREPARE p AS SELECT count(*) FROM session(t, ts, '1 day') WHERE id > ?")
    assert db.execute("EXECUTE p(1)").fetchall() == [(1,)]
    assert db.execute("SELECT count(*) FROM plain").fetchall() == [(4,)]
    assert db.execute("SELECT count(*) FROM copied").fetchall() == [(0,)]


def test_what_is_no_window_of_time_stays(db: ivm.Database) -> None:
    for text in (
        "SELECT 'FROM tumble(t, ts, 1)' AS hop",
        "SELECT hop(1, 2, 3) FROM t",
        "SELECT k, session(1, 2, 3) FROM t",
        "SELECT * FROM tumble('t', 'ts', 1)",
        'SELECT * FROM "tumble"(t, ts, 1)',
        "SELECT * FROM main.hop(t, ts, 1)",
        "CREATE MACRO hop(a, b, c) AS a + b + c",
        "PIVOT t ON k USING sum(id) AS a, hop(1, 2, 3) AS b",
        "SELECT 1 IS DISTINCT FROM hop(id, k, 3) FROM t",
        "SELECT extract(year FROM tumble(ts, id, 3)) FROM t",
        "SELECT trim('a' FROM upper(hop(k, k, k))), trim(BOTH 'b' FROM session(k, k, k)) FROM t",
        "SELECT 1 AS hop" + " /* a */" * 60 + " UNION SELECT 2",
        "INSERT INTO t VALUES (1, 2, 3), (4, hop(k, k, k), session(k, k, k))",
        "SELECT * FROM t JOIN t AS u USING (id) WHERE id IN (1, hop(1, 2, 3))",
    ):
        assert [statement.text for statement in parse(text)] == [text]
    db.execute('CREATE MACRO "session"(x) AS TABLE SELECT x AS y')
    assert db.execute("FROM session('a')").fetchall() == [("a",)]
    assert db.execute('FROM "session"(5)').fetchall() == [(5,)]


WRONG = [
    ("FROM tumble(t, ts)", "tumble", "expected tumble(relation, time, length"),
    ("FROM tumble(t, ts, '1 day', 'UTC', 3)", "tumble", "expected tumble"),
    ("FROM hop(t, ts, '1 day')", "hop", 'called as "hop"'),
    ("FROM tumble(t, ts, 5)", "5", "such as '1 minute'"),
    ("FROM tumble(t, ts, '-1 day')", "'-1", "more time than none"),
    ("FROM tumble(t, ts, '1 day' + '1 day')", "+", "expected a comma"),
    ("FROM session(t, ts, '1 day' partition_by := [k])", "partition", "expected a comma"),
    ("FROM tumble(t, ts, '1 month 1 day')", "'1 m", "not both"),
    ("FROM cumulate(t, ts, '7 minutes', '1 hour')", "'1 hour", "multiple of its step"),
    ("FROM cumulate(t, ts, '7 minutes', '1 year')", "'1 year", "multiple of its step"),
    ("FROM session(t, ts, '1 month')", "'1 month", "no months"),
    ("FROM session(t, ts, '1 day', k)", "k)", "partition_by := "),
    ("FROM session(t, ts, '1 day', partition_by :=)", "partition", "partition_by := "),
    ("FROM tumble(t, ts, '1 day') WHERE nope", "nope", 'column "nope"'),
    ("FROM hop(t, nope, '1 day', '1 day')", "nope", 'column "nope"'),
    ("FROM session(t, ts, '1 day', partition_by := [k, nope])", "nope", 'column "nope"'),
    ("FROM tumble(t, ts, '1 day', nope(1))", "nope", "nope"),
    (
        "FROM tumble((SELECT *, ts AS nopes FROM t), greatest(nopes, nope), '1 day')",
        "nope)",
        '"nope"',
    ),
    ("FROM tumble(t, ts, '1 hour', 'Europe/Berlin')", "'Europe", "whole days, or months"),
    ("FROM hop(t, ts, '1 hour', '1 day', 'Europe/Berlin')", "'Europe", "whole days, or months"),
    ("FROM tumble(t, ts, '1 day', '2026-01-01')", "'2026", "TIMESTAMP '2026-01-01'"),
    ("FROM session(t, ts, '1 day', partition_by := ['k'])", "partition", "partition_by := "),
    ("FROM session(t, ts, '1 day', partition_by := [COLUMNS('k')])", "partition", "partition_by"),
    ("FROM session(t, ts, '1 day', partition_by := [t.*])", "partition", "partition_by := "),
    ("FROM session(t, ts, '1 day', partition_by := [])", "partition", "partition_by := "),
    ("FROM tumble(t, ts, '1 day') WITH ORDINALITY", "WITH", "(line 1, column "),
    ("FROM tumble(nowhere, ts, '1 day')", "nowhere", "nowhere"),
]


def test_a_string_is_no_relation_of_windows(db: ivm.Database) -> None:
    with pytest.raises(SqlError, match=r"one of a relation, by its name: FROM tumble\(…\)"):
        db.execute("FROM tumble('t', ts, '1 day')")


@pytest.mark.parametrize(("query", "place", "says"), WRONG)
def test_errors_stand_where_the_user_wrote(
    db: ivm.Database, query: str, place: str, says: str
) -> None:
    for script in (query, f"CREATE MATERIALIZED VIEW v AS {query}"):
        with pytest.raises((SqlError, UnsupportedError)) as caught:
            db.execute(script)
        error: Any = caught.value
        assert says in str(error)
        assert "LINE 1" not in str(error)
        assert error.position == script.index(place)


@pytest.mark.parametrize("origin", ["'UTC' || ''", "('UTC')", "lower('UTC')", "?", "5"])
def test_an_origin_is_a_time_and_a_zone_a_text(db: ivm.Database, origin: str) -> None:
    """Bug: by a computed text DuckDB took the zone, and the days had 24 hours all the same."""
    given = ["UTC"] if origin == "?" else None
    with pytest.raises(ivm.errors.IvmError, match="is a TIMESTAMP, TIMESTAMPTZ or DATE, not "):
        db.execute(f"FROM tumble(t, ts, '1 day', {origin})", given)
    with pytest.raises(SqlError, match=r"not INTEGER.*: cast it"):
        db.execute("FROM hop(t, id, '1 day', '1 day')")


@pytest.mark.parametrize("origin", ["TIMESTAMP 'infinity'", "NULL::DATE"])
def test_without_an_origin_there_are_no_windows(db: ivm.Database, origin: str) -> None:
    db.execute("INSERT INTO t VALUES (1, 1, '2026-01-01')")
    for call in ("tumble(t, ts, '1 day', {})", "hop(t, ts, '1 day', '1 day', origin => {})"):
        assert db.execute(f"FROM {call.format(origin)}").fetchall() == []


def test_what_fails_as_it_runs_shows_no_sql_of_ours(db: ivm.Database) -> None:
    with pytest.raises(ivm.errors.EvaluationError) as caught:
        db.execute("SELECT 'x'::INTEGER FROM tumble((SELECT TIMESTAMP '2026-1-1' AS x), x, '1 h')")
    assert "LINE 1" not in str(caught.value)
    db.execute("INSERT INTO t VALUES (1, 1, '2026-01-01')")
    with pytest.raises(ivm.errors.EvaluationError, match="Could not convert") as caught:
        db.execute("SELECT (id || 'x')::INTEGER FROM tumble(t, ts, '1 h')").fetchall()
    assert "LINE 1" not in str(caught.value)
    db.execute("INSERT INTO t SELECT i, 1, TIMESTAMP '2026-01-01' FROM range(2, 300_000) r(i)")
    late = "SELECT (CASE WHEN id < 299_000 THEN '1' ELSE 'x' END)::INT FROM tumble(t, ts, '1 h')"
    result = db.execute(late)
    with pytest.raises(ivm.errors.EvaluationError, match="Could not convert") as caught:
        result.fetchall()
    assert "LINE 1" not in str(caught.value)


def test_a_relation_of_windows_alone_has_no_further_ones(db: ivm.Database) -> None:
    with pytest.raises(SqlError, match="give the time another name"):
        db.execute("FROM tumble((SELECT ts AS window_end FROM t), window_end, '1 day')")
