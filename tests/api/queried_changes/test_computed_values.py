"""What SET and DO UPDATE compute without kernels: DuckDB's values over the rows found, once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.change_ways import demand_fast, demand_native, demand_refused
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, s VARCHAR, ts TIMESTAMP, z TIMESTAMPTZ, l INTEGER[],
                d DECIMAL(9, 3), "current_date" DATE);
INSERT INTO t SELECT i, 'Text ' || i, TIMESTAMP '2024-03-30 22:15:00' + INTERVAL (i) HOUR,
    TIMESTAMPTZ '2024-03-30 22:15:00Z', [i, NULL], i / 7, DATE '2020-01-01' FROM range(9) r(i);
INSERT INTO t (id) VALUES (9);
CREATE INDEX by_s ON t (s);
CREATE TABLE u (i INTEGER); INSERT INTO u VALUES (3), (4);
"""
VIEW = """
CREATE MATERIALIZED VIEW v AS
    SELECT s, count(*) AS c, max(z) AS z, max(ts) AS ts FROM t GROUP BY s
"""
VALUES = [
    "s = dayname(to_timestamp(0))",
    "s = to_timestamp(0)::DATE",
    "s = hour(make_timestamptz(0))",
    "s = (TIMESTAMP '2024-01-01' AT TIME ZONE 'UTC')::DATE",
    "s = strptime('1970-01-01 00:00:00+00', '%Y-%m-%d %H:%M:%S%z')::VARCHAR",
    "s = CASE WHEN to_timestamp(0) < DATE '1970-01-01' THEN 'before' ELSE 'after' END",
    "s = md5(s)",
    "s = regexp_replace(s, '[aeiou]', '#', 'g')",
    "s = strftime(ts, '%A %H') || length(s)",
    "s = printf('%05d', id)",
    "s = typeof(l)",
    "s = upper(s) || 'ä'",
    "s = t.l[1]",
    "s = nullif(s, 'Text 3')",
    "s = 'x' || ?",
    "l = list_sort([id, 3, NULL])",
    "l = l || [7]",
    "d = ln(id + 1.5)",
    "ts = date_trunc('month', ts)",
    "ts = z, z = ts",
    "ts = z AT TIME ZONE 'Asia/Tokyo', s = ts::VARCHAR",
    "s = z::VARCHAR",
    "ts = current_date + INTERVAL 3 DAY",
]
"""The last one reads the table's column of that name."""
FORMS = [
    "UPDATE t SET {} WHERE id = 3",
    "UPDATE t SET {} WHERE id IN (1, 2, 9) RETURNING id, s",
    "UPDATE t SET {} WHERE s = 'Text 4'",
    "UPDATE t SET {} WHERE id BETWEEN 4 AND 9",
    "UPDATE t SET {} WHERE length(s) > 3",
    "UPDATE t SET {} WHERE id < (SELECT max(i) FROM u)",
    "UPDATE t SET {} FROM u WHERE id = i",
    "INSERT INTO t (id, s) VALUES (3, 'n'), (50, 'm') ON CONFLICT (id) DO UPDATE SET {}",
    "MERGE INTO t USING u ON id = i WHEN MATCHED THEN UPDATE SET {}",
]


def twin() -> Twin:
    return Twin(TABLES, VIEW, ("t",))


@pytest.mark.full
@pytest.mark.cases(40)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("form", FORMS)
def test_values_are_duckdbs(form: str, value: str) -> None:
    both = twin()
    both.run("SET TimeZone = 'America/New_York'")
    sql = form.format(value)
    if "ON CONFLICT" in form and " || ?" not in value:
        sql = sql.replace("= upper(s)", "= upper(excluded.s)")
    demand_fast(both, sql, ["y"] if "?" in value else None)


TOLD = {
    "z = now()": "z",
    "z = CURRENT_TIMESTAMP": "z",
    "z = transaction_timestamp() + INTERVAL 0 SECOND": "z",
    "ts = now() AT TIME ZONE 'UTC'": "(ts AT TIME ZONE 'UTC')",
    "ts = localtimestamp": "ts",
    "ts = current_localtimestamp()": "ts",
    "ts = now()::TIMESTAMP": "ts",
}


@pytest.mark.full
@pytest.mark.parametrize("value", TOLD)
@pytest.mark.parametrize("form", FORMS)
def test_the_time_is_that_of_the_statement(form: str, value: str) -> None:
    both = twin()
    both.run("SET TimeZone = 'Pacific/Kiritimati'")
    began = datetime.now(UTC)
    with watched() as seen:
        both.db.execute(form.format(value))
    assert seen == []
    first = both.db.execute("SELECT max(z), max(ts) FROM t").fetchone()
    both.db.execute(form.format(value))  # the time goes on
    assert both.db.execute("SELECT max(z), max(ts) FROM t").fetchone() != first
    told = f"SELECT DISTINCT {TOLD[value]}::TIMESTAMPTZ FROM t WHERE year({value[:2]}) > 2024"
    ((time,),) = both.db.execute(told).fetchall()
    assert began - timedelta(milliseconds=5) <= time <= datetime.now(UTC)


def test_the_time_of_a_transaction_is_that_of_its_begin() -> None:
    both = twin()
    for sql in ("BEGIN", "UPDATE t SET z = now() WHERE id = 1"):
        both.db.execute(sql)
    with watched() as seen:
        both.db.execute("UPDATE t SET z = now(), s = md5(s) WHERE id = 2")
        assert len(seen) == 1
    query = "SELECT count(DISTINCT z), bool_and(z = now()) FROM t WHERE id IN (1, 2)"
    assert both.db.execute(query).fetchone() == (1, True)
    both.db.execute("COMMIT")


NATIVE = [
    "UPDATE t SET s = uuid() WHERE id < 0",
    "UPDATE t SET d = random() WHERE id < 0",
    "UPDATE t SET s = alias(s) WHERE id = 3",
    "UPDATE t SET l = list_transform(l, lambda x: x + 1) WHERE id = 3",
    "UPDATE t SET s = s COLLATE NOCASE WHERE id = 3",
    "UPDATE t SET s = current_schema() WHERE id = 3",
    "UPDATE t SET s = twice(s) WHERE id = 3",
    "UPDATE t SET s = md5(s) WHERE id = 3",
]
REFUSED = [
    "UPDATE t SET d = count(*) WHERE id = 3",
    "UPDATE t SET d = sum(id) WHERE id = 3",
    "UPDATE t SET d = row_number() OVER () WHERE id = 3",
    "UPDATE t SET d = unnest(l) WHERE id = 3",
    "UPDATE t SET d = rank() WHERE id = 3",
    "UPDATE t SET s = md5() WHERE id = 3",
    "UPDATE t SET s = nope(s) WHERE id = 3",
    "UPDATE t SET ts = strptime(s, '%Y') WHERE id = 3",
    "UPDATE t SET d = exp(id + 30) WHERE id > 3",
    "UPDATE t SET d = COLUMNS(*) WHERE id = 3",
    "UPDATE t SET id = nullif(id, 3) WHERE id = 3",
]


@pytest.mark.full
@pytest.mark.parametrize("sql", NATIVE)
def test_other_values_are_left_to_duckdb(sql: str) -> None:
    both = twin()
    both.run("CREATE MACRO twice(x) AS x || x")
    if "md5" in sql:
        both.run("CREATE MACRO md5(x) AS 'mine'")
    demand_native(both, sql)


@pytest.mark.full
@pytest.mark.parametrize("sql", REFUSED)
def test_what_duckdb_refuses_is_refused(sql: str) -> None:
    demand_refused(twin(), sql, None, "UPDATE t SET s = md5(s) WHERE id = 3")


cells = st.one_of(st.none(), st.text("aäß\x00'% \U0001f600", max_size=4))


@pytest.mark.full
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_any_texts(data: st.DataObject) -> None:
    """Values of random rows, by parameters, for one row or many."""
    both = twin()
    for _ in range(data.draw(st.integers(1, 4))):
        ids = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True))
        rows: list[Any] = [x for id in ids for x in (id, data.draw(cells))]
        marks = ", ".join(["(?, ?)"] * len(ids))
        conflict = "ON CONFLICT (id) DO UPDATE SET s = concat_ws('-', t.s, reverse(excluded.s))"
        assert both.run(f"INSERT INTO t (id, s) VALUES {marks} {conflict}", rows)
        value = data.draw(st.sampled_from(["md5(s)", "left(s, -1) || ?", "translate(s, 'aä', ?)"]))
        given_too = [data.draw(cells)] if "?" in value else []
        both.run(f"UPDATE t SET s = {value} WHERE id >= ?", [*given_too, ids[0]])
        both.check()
