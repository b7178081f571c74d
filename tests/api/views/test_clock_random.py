"""Random views that read the time, random changes and random moves of the clock, also across kills.

The oracle is plain DuckDB, whose text of the view has the time of the view's last tick as literals,
put in by a replacement of words here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import ivm
from tests.support.clocks import BesideTwin
from tests.support.view_oracle import assert_same_rows
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=1)

START = datetime(2024, 3, 30, 21, 59, 30, tzinfo=UTC)  # before the clocks are put on in Berlin
TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ, naive TIMESTAMP, day DATE, k INTEGER);
CREATE TABLE u (k INTEGER, until TIMESTAMPTZ);
"""
NOW = st.sampled_from(
    ["now()", "current_timestamp", "transaction_timestamp()", "get_current_timestamp()"]
)
TODAY = st.sampled_from(["today()", "current_date", "current_date()", "CURRENT_DATE"])
SPANS = st.sampled_from(
    [f"INTERVAL {n}" for n in ("30 SECOND", "1 MINUTE", "2 HOUR", "1 DAY", "1 MONTH", "0 DAY")]
)
TICKS = {None: 1, "'1 second'": 1, "'1 minute'": 60, "INTERVAL 7 SECOND": 7, "'1 hour'": 3600}
STEPS = st.sampled_from([0, 1, 29, 30, 31, 60, 3600, 86400, 86400 * 31, -90, 0.25])
CONDITIONS = [
    "ts > {now} - {span}",
    "ts >= {now} - {span} AND t.k > 0",
    "ts BETWEEN {now} - {span} AND {now}",
    "ts + {span} > {now}",
    "{now} < ts",
    "naive >= localtimestamp - {span}",
    "naive < {now}",
    "day = {today}",
    "day > {today} - 2",
    "day IN ({today}, {today} + 1)",
    "ts <= {now} OR t.k = 1",
    "NOT ts < ago({span})",
    "ts > {now} - t.k * INTERVAL 1 MINUTE",
    "extract(minute FROM {now}) % 3 = t.k",
    "ts > (SELECT max(until) FROM u WHERE until <= {now})",
    "EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.until > {now} - {span})",
    "t.k NOT IN (SELECT u.k FROM u WHERE u.until > {now} AND u.k IS NOT NULL)",
    "t.k > (SELECT count(*) FROM u WHERE u.k = t.k AND until < {now})",
    "localtime > TIME '12:00:00' OR current_time < TIMETZ '22:00:00+00'",
    "age(naive) < INTERVAL 1 DAY",
    "CASE WHEN isfinite(ts) THEN age(ts) >= INTERVAL 1 DAY END",
    "is_recent(ts)",
]
QUERIES = [
    "SELECT id, ts FROM t WHERE {c}",
    "SELECT k, count(*) AS n, max(ts) AS m FROM t WHERE {c} GROUP BY k",
    "SELECT count(*) AS n, sum(id) AS s FROM t WHERE {c}",
    "SELECT k, count(*) FILTER (WHERE {c}) AS n FROM t GROUP BY k",
    "SELECT DISTINCT k FROM t WHERE {c}",
    "SELECT k, max(ts) AS m FROM t GROUP BY k HAVING max(ts) < {now} - {span}",
    "SELECT t.id, u.until FROM t JOIN u ON t.k = u.k AND u.until > {now} - {span} WHERE {c}",
    "SELECT t.id, u.until FROM t LEFT JOIN u ON t.k = u.k AND u.until > {now} - {span}",
    "SELECT t.id, r.until FROM t JOIN u AS r ON t.ts < r.until AND r.until <= {now}",
    "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM t WHERE {c}",
    "SELECT id, ts FROM t WHERE {c} QUALIFY row_number() OVER (ORDER BY ts, id) <= 2",
    "SELECT id, ts FROM t WHERE {c} ORDER BY ts, id LIMIT 2",
    "SELECT id FROM t WHERE {c} UNION ALL SELECT k FROM u WHERE until < {now}",
    "SELECT k FROM t WHERE {c} EXCEPT SELECT k FROM u WHERE until < {now}",
    "WITH few AS (SELECT * FROM t WHERE {c}) "
    "SELECT a.id, b.id AS o FROM few a JOIN few b ON a.k = b.k",
    "SELECT {today} AS d, count(*) AS n FROM t",
    "SELECT date_trunc('hour', {now}) AS h, k, count(*) AS n FROM t WHERE {c} GROUP BY ALL",
    "SELECT id, CASE WHEN {c} THEN 'in' ELSE 'out' END AS s FROM t",
    "SELECT {now} AS n, localtimestamp AS l, localtime AS t, current_time AS z, {today} AS d",
    "SELECT id, age(naive) AS a, {now} - INTERVAL 1 DAY AS b FROM t",
    "SELECT id, since(naive) AS a FROM t",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r "
    "WHERE n < extract(minute FROM {now}) % 4) SELECT n FROM r",
    "SELECT * FROM fresh",
    "SELECT fresh.id, count(*) AS n FROM fresh JOIN u USING (k) WHERE u.until > {now} GROUP BY ALL",
    "SELECT median(id) AS m FROM t WHERE {c}",
]
MADE = """
CREATE MACRO is_recent(x) AS x > now() - INTERVAL 1 HOUR;
CREATE MACRO since(x) AS localtimestamp - x;
CREATE VIEW fresh AS SELECT * FROM t WHERE ts > ago(INTERVAL 1 MINUTE);
"""


def literal_times(text: str, now: datetime) -> str:
    """The text with the time for each function that tells it."""
    at = f"TIMESTAMPTZ '{now.isoformat()}'"
    utc = now.astimezone(UTC)  # whose midnight DuckDB takes for a TIMESTAMP
    midnight = utc.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    for pattern, value in (
        (r"\bis_recent\((\w+)\)", rf"(\1 > {at} - INTERVAL 1 HOUR)"),
        (r"\bsince\((\w+)\)", rf"(CAST({at} AS TIMESTAMP) - \1)"),
        (r"\bfresh\b(?!\.)", f"(SELECT * FROM t WHERE ts > {at} - INTERVAL 1 MINUTE) AS fresh"),
        (r"\bage\(naive\)", f"age(TIMESTAMP '{midnight}', naive)"),
        (r"\bage\(ts\)", f"age(date_trunc('day', {at}), ts)"),
        (r"\bago\(([^)]*)\)", rf"({at} - \1)"),
        (r"(?i)\b(today|current_date)\b(\(\))?", f"CAST({at} AS DATE)"),
        (r"\blocaltimestamp\b", f"CAST({at} AS TIMESTAMP)"),
        (r"\blocaltime\b", f"CAST(CAST({at} AS TIMESTAMP) AS TIME)"),
        (r"\bcurrent_time\b", f"CAST({at} AS TIMETZ)"),
        (r"\b(now|transaction_timestamp|get_current_timestamp)\(\)", at),
        (r"\bcurrent_timestamp\b", at),
    ):
        text = re.sub(pattern, value, text)
    return text


@st.composite
def queries(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(QUERIES)).replace("{c}", draw(st.sampled_from(CONDITIONS)))
    while "{" in text:
        for name, values in (("{now}", NOW), ("{today}", TODAY), ("{span}", SPANS)):
            text = text.replace(name, draw(values), 1)
    return text


@st.composite
def times(draw: st.DrawFn) -> Any:
    """Seconds from the clock's time, at which a bound of some view is; or an end of time."""
    ends = ["infinity", "-infinity", None]
    spans = [0, 30, 60, 3600, 7200, 86400, 31 * 86400]
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(ends))
    around = draw(st.sampled_from([-1, 0, 1, 0.000001, 30]))
    return draw(st.sampled_from(spans)) * draw(st.sampled_from([-1, 1])) + around


class Clocked(BesideTwin):
    """Views that read the time, beside the same tables in a plain DuckDB."""

    @initialize(
        zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
        views=st.lists(st.tuples(st.sampled_from(list(TICKS)), queries()), min_size=3, max_size=3),
        rows=st.lists(times(), min_size=4, max_size=8),
    )
    def begin(self, zone: str, views: list[tuple[str | None, str]], rows: list[Any]) -> None:
        self.begin_both(START, zone)
        self.ids, self.made, self.zone = 0, 0, zone
        self.views: dict[str, tuple[str, int]] = {}
        self.told: dict[int, datetime] = {}
        self.twin.execute(TABLES)
        ivm.connect(self.path).close()
        with duckdb.connect(str(self.path)) as plain:
            plain.execute("UPDATE _ivm.meta SET value = ? WHERE key = 'time_zone'", [zone])
        self.open()
        self.db.execute(TABLES + MADE)
        for i, where in enumerate(rows):
            self.insert(where, i % 3 - 1, i % 4 or None)
            if i % 2:
                self.insert_other(where, i % 4)
        for tick, query in views:
            self.create(tick, query)

    def at(self, seconds: Any) -> str:
        if seconds is None:
            return "NULL"
        if isinstance(seconds, str):
            return f"'{seconds}'"
        return f"'{(self.now + timedelta(seconds=seconds)).isoformat()}'"

    def floor(self, width: int) -> datetime:
        seconds = int((self.now - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1))
        return datetime.fromtimestamp(seconds // width * width, UTC)

    @rule(tick=st.sampled_from(list(TICKS)), query=queries())
    def create(self, tick: str | None, query: str) -> None:
        if len(self.views) > 3:
            return
        self.made += 1
        width = TICKS[tick]
        daily = tick is None and not re.search(
            r"now\(|stamp|time|ago|age|recent|since|fresh", query
        )
        if not re.search(r"now\(|stamp|time|ago|age|recent|since|fresh|date|today", query.lower()):
            return
        options = "" if tick is None else f"WITH (tick = {tick})"
        self.db.execute(f"CREATE MATERIALIZED VIEW v{self.made} {options} AS {query}")
        if daily:
            width = 0
        if width not in {w for _, w in self.views.values()} and width:
            self.told[width] = max(self.told.get(width, self.floor(width)), self.floor(width))
        self.views[f"v{self.made}"] = query, width

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        if self.views:
            name = data.draw(st.sampled_from(sorted(self.views)))
            self.db.execute(f"DROP MATERIALIZED VIEW {name}")
            del self.views[name]

    @rule(where=times(), day=st.sampled_from([-1, 0, 1, None]), k=st.sampled_from([0, 1, 2, None]))
    def insert(self, where: Any, day: int | None, k: int | None) -> None:
        self.ids += 1
        naive = self.at(where if not isinstance(where, str) else 5)
        date = "NULL" if day is None else f"'{(self.now + timedelta(days=day)).date()}'"
        value = "NULL" if k is None else k
        self.both(
            f"INSERT INTO t VALUES ({self.ids}, {self.at(where)}, {naive}::TIMESTAMPTZ::TIMESTAMP,"
            f" {date}, {value})"
        )

    @rule(where=times(), k=st.sampled_from([0, 1, 2, None]))
    def insert_other(self, where: Any, k: int | None) -> None:
        self.both(f"INSERT INTO u VALUES ({'NULL' if k is None else k}, {self.at(where)})")

    @rule(id=st.integers(1, 12), where=times())
    def update(self, id: int, where: Any) -> None:
        self.both(f"UPDATE t SET ts = {self.at(where)} WHERE id = {id}")

    @rule(id=st.integers(1, 12))
    def delete(self, id: int) -> None:
        self.both(f"DELETE FROM t WHERE id = {id}")
        self.both(f"DELETE FROM u WHERE k = {id % 4}")

    @rule(step=STEPS)
    def move(self, step: float) -> None:
        self.now += timedelta(seconds=step)
        self.db.tick()
        widths = {w for _, w in self.views.values() if w}
        for width in widths:
            self.told[width] = max(self.told.get(width, self.floor(width)), self.floor(width))
        self.told = {w: t for w, t in self.told.items() if w in widths}

    @invariant()
    def right(self) -> None:
        if not getattr(self, "views", None):
            return
        times: dict[int, datetime] = dict(
            self.db.execute("SELECT tick, now FROM _ivm.clock").fetchall()
        )
        for name, (query, width) in self.views.items():
            now = times[(width or 86400) * 1_000_000]
            if width:
                assert now == self.told[width], name
            text = literal_times(query, now)
            found = self.db.execute(f"FROM {name}").fetchall()
            self.db.execute(f"SET TimeZone = '{self.zone}'")
            assert_same_rows(found, self.twin.execute(text).fetchall(), f"{name}: {query} at {now}")
        assert all(v[4] for v in self.db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


@pytest.mark.full
def test_views_at_any_time() -> None:
    run_state_machine_as_test(
        Clocked,
        settings=settings(max_examples=examples(60), stateful_step_count=20, deadline=None),
    )
