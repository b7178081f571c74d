"""The console's files as they are served, and what it is told; all without a browser."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import ivm
from ivm.access.roles import Grant
from ivm.serve.console.assets import FOLDER, POLICY
from ivm.serve.console.state import ConsoleState
from tests.serve.http_world import HttpWorld
from tests.support import ROOT

FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())
OWN = [name for name in FILES if not name.startswith("vendor/")]
ADMIN = Grant("admin")


@pytest.fixture
def database() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR, amount INTEGER);"
            "INSERT INTO orders VALUES (1, 'EU', 5), (2, 'US', 7);"
            "CREATE MATERIALIZED VIEW revenue AS SELECT region, sum(amount) AS total FROM orders "
            "GROUP BY region"
        )
        yield opened


@pytest.fixture
def world() -> Iterator[HttpWorld]:
    served = HttpWorld(ivm.connect())
    yield served
    served.close()


def told(database: ivm.Database, grant: Grant = ADMIN) -> dict[str, Any]:
    state = ConsoleState(database)
    with database.connection() as connection:
        return connection.run(lambda session: state.told(session, grant))


def relations(found: dict[str, Any]) -> dict[str, Any]:
    return {relation["name"]: relation for relation in found["relations"]}


# -- files -----------------------------------------------------------------------------------------


def test_every_file_is_in_the_package() -> None:
    """In a run against the wheel these are the installed files."""
    assert {"index.html", "main.js", "console.css", "vendor/LICENSES.txt"} <= set(FILES)
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = about["tool"]["setuptools"]["package-data"]
    folders = {f"ivm.serve.console.assets/{name}".rpartition("/")[0] for name in FILES}
    assert all(data[folder.replace("/", ".")] == ["*"] for folder in folders)


@pytest.mark.full
def test_every_file_is_served_with_the_policy(world: HttpWorld) -> None:
    with world.client() as client:
        for name in FILES:
            answer = client.get(f"/console/{name}")
            assert answer.status_code == 200, name
            assert answer.content == (FOLDER / name).read_bytes()
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            if name.endswith(".js"):
                assert "javascript" in answer.headers["content-type"]


def test_the_page_and_what_is_not_there(world: HttpWorld) -> None:
    with world.client() as client:
        page = client.get("/console", follow_redirects=True)
        assert page.text == (FOLDER / "index.html").read_text(encoding="utf-8")
        again = client.get("/console/", headers={"If-None-Match": page.headers["etag"]})
        assert again.status_code == 304
        assert 'href="console/"' in client.get("/").text
        for path in ("nothing.js", "../state.py", "%2e%2e/state.py", "..%2fstate.py"):
            assert client.get(f"/console/{path}").status_code == 404


def test_the_policy_allows_this_origin_alone() -> None:
    directives = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert set(directives.values()) == {"'none'", "'self'"}
    assert directives["default-src"] == directives["frame-ancestors"] == "'none'"


@pytest.mark.parametrize("name", [name for name in OWN if not name.endswith(".svg")])
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+/", text) == []
    if name.endswith(".html"):
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text)
    for other in re.findall(r'(?:from|import\(|import) ?"\./([^"]+)"', text):
        assert other in FILES, f"{name} imports {other}"
    for other in re.findall(r'(?:src|href)="([\w/.]+)"', text):
        assert other in FILES, f"{name} refers to {other}"


def test_what_is_of_others_has_its_licence() -> None:
    told = (FOLDER / "vendor/LICENSES.txt").read_text(encoding="utf-8")
    for package in ("@codemirror/view", "@lezer/highlight", "uplot", "@dagrejs/dagre"):
        assert re.search(rf"^{package} [\d.]+ \(MIT\)$", told, re.MULTILINE)
    packages = re.findall(r"^\S+ [\d.]+ \(MIT\)$", told, re.MULTILINE)
    assert told.count("Permission is hereby granted, free of charge") == len(packages)
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "ivm/serve/console/assets/vendor/LICENSES.txt" in about["license-files"]


# -- the state -------------------------------------------------------------------------------------


@pytest.mark.full
def test_relations_have_their_rows_and_columns(database: ivm.Database) -> None:
    database.execute("CREATE VIEW plain AS SELECT id FROM orders")
    database.insert("orders", {"id": [3], "region": ["EU"], "amount": [1]})
    found = told(database)
    revenue, orders, plain = (relations(found)[n] for n in ("revenue", "orders", "plain"))
    assert found["epoch"] == database.epoch
    assert (revenue["rows"], revenue["freshness"], revenue["strategy"]) == (2, "live", "indexed")
    assert (revenue["key"], revenue["reads"]) == (["region"], ["orders"])
    assert revenue["columns"][1] == {"name": "total", "type": "HUGEINT"}
    assert (orders["rows"], orders["kind"], orders["primary_key"]) == (3, "table", ["id"])
    assert (plain["kind"], plain["rows"], len(plain["columns"])) == ("view", None, 1)


def test_rows_are_counted_anew_after_commits(database: ivm.Database) -> None:
    state = ConsoleState(database)
    with database.connection() as connection:
        for count in (2, 3):
            state._counts._counted_at = -10.0  # as if time had passed
            found = connection.run(lambda session: state.told(session, ADMIN))
            assert relations(found)["orders"]["rows"] == count
            database.insert("orders", {"id": [count + 1], "region": ["EU"], "amount": [1]})


@pytest.mark.full
def test_stale_and_broken_views(database: ivm.Database) -> None:
    database.execute(
        "CREATE MATERIALIZED VIEW picked AS SELECT string_agg(region) AS r FROM orders;"
        "CREATE MATERIALIZED VIEW above AS SELECT length(r) AS n FROM picked;"
        "CREATE MATERIALIZED VIEW checked AS SELECT CAST(region AS INTEGER) AS n FROM orders "
        "WHERE amount > 100;"
    )
    assert relations(told(database))["picked"]["freshness"] == "live"
    database.execute("INSERT INTO orders VALUES (4, 'EU', 1)")
    stale = relations(told(database))["picked"]
    assert (stale["freshness"], stale["rows"]) == ("stale", None)
    assert stale["reason"]
    assert relations(told(database))["above"]["freshness"] == "stale"
    database.execute("SELECT * FROM above")
    assert relations(told(database))["above"]["rows"] == 1
    event = {"op": "insert", "id": 5, "region": "EU", "amount": 101}
    database.ingest("orders", [event], format="json")
    broken = relations(told(database))["checked"]
    assert (broken["freshness"], broken["rows"]) == ("broken", None)
    assert "EU" in broken["reason"]


@pytest.mark.full
def test_users_are_told_of_what_they_may_read(database: ivm.Database) -> None:
    database.execute("CREATE SCHEMA reports; CREATE TABLE reports.sales (n INTEGER)")
    found = told(database, Grant("read", "reports"))
    assert list(relations(found)) == ["reports.sales"]
    assert (found["sources"], found["sinks"], found["troubles"]) == (None, None, [])
    assert told(database)["sources"] == []


def test_watermarks_are_told() -> None:
    now = datetime(2026, 3, 2, 12, tzinfo=UTC)
    with ivm.connect(clock=lambda: now) as database:
        database.execute("""
            CREATE TABLE clicks (ts TIMESTAMP, device VARCHAR,
                WATERMARK FOR ts AS ts - INTERVAL '5 minutes')
                WITH (watermark_by = device, idle_after = INTERVAL '1 hour', late = 'refuse');
            CREATE TABLE "a ""b" ("t s" DATE, WATERMARK FOR "t s" AS "t s");
            CREATE MATERIALIZED VIEW hours AS SELECT window_end, count(*) AS n
                FROM tumble(clicks, ts, INTERVAL '1 hour') GROUP BY ALL EMIT ON WINDOW CLOSE;
            CREATE MATERIALIZED VIEW clicked AS SELECT count(*) AS n FROM clicks;
        """)
        before = relations(told(database))
        assert before['"a ""b"']["watermark"] == {
            **{"column": "t s", "at": None, "greatest": None, "behind": None},
            **{"late": "apply", "late_rows": 0, "parts": None},
        }
        assert before["hours"]["final"] == {"until": None}
        assert before["hours"]["sql"].endswith("EMIT ON WINDOW CLOSE")
        database.tick()
        clicks = [f"('2026-03-02 08:00', 'quiet {i:02}')" for i in range(12)]
        database.execute(f"INSERT INTO clicks VALUES {', '.join(clicks)}")
        now += timedelta(hours=2)
        database.execute("""
            INSERT INTO clicks VALUES ('2026-03-02 13:20:00.25', 'b'), ('2026-03-02 13:30', 'a');
            INSERT INTO "a ""b" VALUES ('2026-03-02'), ('infinity');
            INSERT INTO "a ""b" VALUES ('2026-03-01'), (NULL);
            ALTER TABLE "a ""b" ADVANCE WATERMARK TO 'infinity';
        """)
        found = relations(told(database))
    names = [f"quiet {i:02}" for i in range(10)]
    assert found["clicks"]["watermark"] == {
        **{"column": "ts", "at": "2026-03-02 13:15:00.25", "greatest": "2026-03-02 13:30:00"},
        **{"behind": 899.75, "late": "refuse", "late_rows": 0},
        "parts": {"by": "device", "count": 14, "slowest": "b", "idle_count": 12, "idle": names},
    }
    odd = found['"a ""b"']["watermark"]
    assert (odd["at"], odd["greatest"], odd["late_rows"]) == ("infinity", "2026-03-02 00:00:00", 1)
    assert odd["behind"] < 0
    assert found["hours"]["final"] == {"until": "2026-03-02 13:15:00.25"}
    assert found["clicked"]["final"] is None


def test_troubles_are_told_and_stay_until_they_are_raised(database: ivm.Database) -> None:
    troubles = database._engine.warehouse.troubles
    troubles.add("bringing the tables up to date", OSError("no space left"))
    assert troubles.told() == ["bringing the tables up to date has failed: no space left"]
    with pytest.raises(ivm.errors.UnavailableError, match="no space left"):
        database.execute("SELECT 1")
    assert told(database)["troubles"] == []


def test_the_time_of_maintenance_grows_with_commits(database: ivm.Database) -> None:
    before = told(database)["maintenance_seconds"]
    database.insert("orders", {"id": [3], "region": ["EU"], "amount": [1]})
    assert told(database)["maintenance_seconds"] > before


def test_the_state_needs_a_login() -> None:
    served = HttpWorld(ivm.connect(), trust="")
    try:
        served.database.execute("CREATE USER ann PASSWORD 'secret' ROLE read")
        with served.client() as client:
            assert client.get("/console/").status_code == 200
            assert client.get("/console/state").status_code == 401
            answer = client.get("/console/state", auth=("ann", "secret"))
            assert client.get("/console/state", auth=("ann", "wrong")).status_code == 401
            assert answer.json()["relations"] == []
            assert answer.headers["cache-control"] == "no-store"
    finally:
        served.close()
