"""HTTP by a real client: statements, rows in, views, who gets in, and errors."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import gzip
import io
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import httpx
import pyarrow as pa
import pytest

import ivm
from ivm.access.verifiers import verifier_of
from ivm.serve.http.formats import ARROW, CSV, JSON, LINES, wanted
from ivm.storage.errors import InputError
from tests.serve.http_world import HttpWorld

pytestmark = pytest.mark.full(smoke=8)

SLOW = "SELECT count(*) FROM range(100_000) a, range(100_000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture
def world() -> Iterator[HttpWorld]:
    database = ivm.connect()
    database.execute("""
        CREATE SCHEMA s;
        CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR, amount DECIMAL(9, 2));
        CREATE MATERIALIZED VIEW revenue AS
            SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region;
        CREATE MATERIALIZED VIEW s.few AS SELECT * FROM orders WHERE amount > 100;
        INSERT INTO orders VALUES (1, 'EU', 9.50), (2, 'US', 5);
        CREATE USER ann PASSWORD 'secret' ROLE read;
        CREATE USER bob PASSWORD 'secret' ROLE write;
        CREATE USER eve PASSWORD 'secret' ROLE write IN SCHEMA s;
    """)
    found = HttpWorld(database)
    yield found
    found.close()


@pytest.fixture
def client(world: HttpWorld) -> Iterator[httpx.Client]:
    with world.client() as found:
        yield found


def sql(client: httpx.Client, text: str, **given: Any) -> Any:
    answer = client.post("/sql", content=text, **given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def error(answer: httpx.Response, status: int, kind: str) -> str:
    """What the client is told of an error."""
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert found["error"] == kind
    assert isinstance(found["hint"], str)
    return str(found["what"])


# -- statements -----------------------------------------------------------------------------------


def test_a_query_as_json(client: httpx.Client) -> None:
    found = sql(client, "SELECT id, amount, region, NULL AS x FROM orders ORDER BY id")
    assert found["kind"] == "rows"
    assert [c["name"] for c in found["columns"]] == ["id", "amount", "region", "x"]
    assert found["columns"][1]["type"] == "DECIMAL(9,2)"
    assert found["rows"] == [[1, 9.5, "EU", None], [2, 5.0, "US", None]]


def test_names_that_are_equal_and_no_rows(client: httpx.Client) -> None:
    assert sql(client, "SELECT 1 AS a, 2 AS a")["rows"] == [[1, 2]]
    assert sql(client, "SELECT 1 AS a WHERE false")["rows"] == []


def test_every_number_is_json(client: httpx.Client) -> None:
    # DuckDB's own JSON has `.5` for a DECIMAL(p, p), and a bare NaN in a list.
    values = "-0.5::DECIMAL(18, 18) AS x, [0.25::DECIMAL(38, 38)] AS l"
    query = f"SELECT {values}, {{'d': 'nan'::DOUBLE}} AS s"
    assert sql(client, query)["rows"] == [[-0.5, [0.25], {"d": "NaN"}]]
    [line] = client.post("/sql", content=query, headers={"Accept": LINES}).text.splitlines()
    assert json.loads(line) == {"x": -0.5, "l": [0.25], "s": {"d": "NaN"}}


def test_parameters(client: httpx.Client) -> None:
    answer = client.post("/sql", json={"sql": "SELECT ? + 1 AS a, ? AS b", "params": [1, "x"]})
    assert answer.json()["rows"] == [[2, "x"]]
    answer = client.post("/sql", json={"sql": "SELECT $n AS a", "params": {"n": None}})
    assert answer.json()["rows"] == [[None]]
    rows = [[10, "EU", "1.25"], [11, "EU", 2]]
    answer = client.post("/sql", json={"sql": "INSERT INTO orders VALUES (?, ?, ?)", "many": rows})
    assert answer.json()["rowcount"] == 2
    assert sql(client, "SELECT amount::VARCHAR FROM orders WHERE id = 10")["rows"] == [["1.25"]]


def test_forms_of_a_result(client: httpx.Client) -> None:
    query = "SELECT id, region, amount, sum(id) OVER () AS s FROM orders ORDER BY id"
    lines = client.post("/sql", content=query, headers={"Accept": LINES}).text.splitlines()
    assert json.loads(lines[0]) == {"id": 1, "region": "EU", "amount": 9.5, "s": 3}
    text = client.post("/sql", content=query, headers={"Accept": CSV}).text
    assert list(csv.reader(io.StringIO(text)))[1] == ["1", "EU", "9.50", "3"]
    answer = client.post("/sql", content=query, headers={"Accept": ARROW})
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pydict()["amount"] == [Decimal("9.50"), Decimal("5.00")]
    assert table.schema.field("s").type == pa.decimal128(38, 0)
    exact = client.post("/sql", content=query, headers={"Accept": f"{ARROW}; types=lossless"})
    assert isinstance(
        pa.ipc.open_stream(exact.content).read_all().schema.field("s").type, pa.OpaqueType
    )


def test_csv_tells_null_from_an_empty_text(client: httpx.Client) -> None:
    query = "SELECT NULL AS a, '' AS b, 'x,\"y\"' AS c"
    text = client.post("/sql", content=query, headers={"Accept": CSV}).text
    assert text == '"a","b","c"\n,"","x,""y"""\n'


def test_duckdb_reads_csv(client: httpx.Client, tmp_path: Path) -> None:
    """Bug: the heading ended with other characters than the rows, which DuckDB refuses."""
    query = "SELECT 1 AS a, 'x\"y,\nz' AS b UNION ALL SELECT 2, NULL ORDER BY a"
    found = client.post("/sql", content=query, headers={"Accept": CSV})
    (tmp_path / "found.csv").write_bytes(found.content)
    rows = duckdb.read_csv(str(tmp_path / "found.csv")).fetchall()
    assert rows == [(1, 'x"y,\nz'), (2, None)]


@pytest.mark.full
def test_a_result_of_many_batches_is_whole(client: httpx.Client) -> None:
    query = "SELECT range AS a, repeat('x', 30) AS b FROM range(100_000)"
    found = sql(client, query)
    assert [row[0] for row in found["rows"]] == list(range(100_000))
    answer = client.post("/sql", content=query, headers={"Accept": ARROW})
    assert pa.ipc.open_stream(answer.content).read_all().num_rows == 100_000
    lines = client.post("/sql", content=query, headers={"Accept": LINES}).text.splitlines()
    assert len(lines) == 100_000


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("text/*", CSV),
        (f"{CSV};q=0.5, {ARROW}", ARROW),
        (f"image/png, {LINES};q=0.1", LINES),
    ],
)
def test_the_form_that_is_wanted(accept: str, form: str) -> None:
    assert wanted(accept).media_type == form


def test_a_form_that_there_is_not() -> None:
    with pytest.raises(InputError):
        wanted("image/png")


def test_a_script_gives_the_last_result(client: httpx.Client) -> None:
    script = "INSERT INTO orders VALUES (7, 'EU', 1); DELETE FROM orders WHERE id = 7; SELECT 5"
    assert sql(client, script)["rows"] == [[5]]


def test_variables_of_the_server_are_no_tables(client: httpx.Client) -> None:
    answer = client.post("/sql", content="FROM statements")
    error(answer, 400, "sql")


# -- errors ---------------------------------------------------------------------------------------


def test_errors_say_what_and_the_way_out(client: httpx.Client) -> None:
    error(client.post("/sql", content="SELEC 1"), 400, "sql")
    answer = client.post("/sql", content="SELECT colour FROM orders")
    assert "colour" in error(answer, 400, "sql")
    assert answer.json()["position"] == 7
    answer = client.post("/sql", content="INSERT INTO orders VALUES (1, 'x', 1)")
    error(answer, 409, "constraint")
    error(
        client.post("/sql", content="CREATE MATERIALIZED VIEW z AS SELECT random()"),
        400,
        "unsupported",
    )
    error(client.post("/sql", content="x", headers={"Content-Type": "image/png"}), 415, "request")
    packed = {"Content-Encoding": "gzip"}
    for path in ("/sql", "/tables/orders"):
        error(client.post(path, content=gzip.compress(b"SELECT 1"), headers=packed), 415, "request")
    error(client.post("/sql", content=b"\xff"), 400, "input")
    for body in (b"{", b"[]", b'{"sql": 1}', b'{"sql": "SELECT 1", "x": 1}', b"[" * 100_000):
        answer = client.post("/sql", content=body, headers={"Content-Type": JSON})
        error(answer, 400, "input")
    error(client.get("/nowhere"), 404, "not_found")
    error(client.get("/sql"), 405, "method_not_allowed")
    assert sql(client, "SELECT 1")["rows"] == [[1]]


def test_an_error_while_rows_are_read_is_told(client: httpx.Client) -> None:
    query = (
        "SELECT CAST(CASE WHEN range = 90_000 THEN 'x' ELSE '1' END AS INTEGER) FROM range(100_000)"
    )
    answer = client.post("/sql", content=query)
    assert "Could not convert" in error(answer, 409, "evaluation")


@pytest.mark.full
def test_limits(world: HttpWorld, client: httpx.Client) -> None:
    world.pool.settings = type(world.pool.settings)(
        **{**vars(world.pool.settings), "result_megabytes": 0.5, "request_megabytes": 0.1}
    )
    query = "SELECT repeat('x', 100) FROM range(100_000)"
    answer = client.post("/sql", content=query)
    error(answer, 413, "result")
    assert "result_megabytes" in answer.json()["hint"]
    error(client.post("/sql", content="SELECT '" + "x" * 200_000 + "'"), 413, "request")
    sql(client, "CREATE TABLE large (v VARCHAR)")
    told = sql(client, f"INSERT INTO large {query} RETURNING v")  # it has happened
    assert (told["rowcount"], len(told["rows"])) == (100_000, 100_000)
    chunks = (b"x" * 1000 for _ in range(1000))
    error(client.post("/sql", content=chunks), 413, "request")
    assert sql(client, "SELECT 1")["rows"] == [[1]]


def test_a_statement_that_takes_too_long() -> None:
    world = HttpWorld(ivm.connect(), statement_seconds=0.3)
    with world.client() as client:
        error(client.post("/sql", content=SLOW), 408, "cancelled")
        assert sql(client, "SELECT 1")["rows"] == [[1]]
    world.close()


def test_a_client_that_leaves_has_its_statement_cancelled(world: HttpWorld) -> None:
    with world.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/sql", content=SLOW, timeout=0.5)
    end = time.monotonic() + 5
    while world.pool.size and time.monotonic() < end:
        time.sleep(0.02)
    assert world.pool.size == 0


def test_more_clients_than_allowed_are_told() -> None:
    world = HttpWorld(ivm.connect(), connections=1)
    with world.client() as client:
        token = client.post("/sessions").json()["session"]
        answer = client.post("/sql", content="SELECT 1")
        error(answer, 503, "unavailable")
        assert answer.headers["retry-after"]
        client.delete(f"/sessions/{token}")
        assert sql(client, "SELECT 1")["rows"] == [[1]]
    world.close()


# -- rows in --------------------------------------------------------------------------------------


def test_rows_come_in_by_json_lines_and_arrow(world: HttpWorld, client: httpx.Client) -> None:
    before = world.database.epoch
    rows = [{"id": 10, "region": "EU", "amount": 1}, {"id": 11, "region": None, "amount": 0}]
    found = client.post("/tables/orders", json=rows).json()
    assert found == {"rows": 2, "epoch": before + 1, "repeated": False}
    lines = '{"id": 12, "amount": 2.5}\n\n{"id": 13, "amount": null}\n'
    answer = client.post("/tables/orders", content=lines, headers={"Content-Type": LINES})
    assert answer.json()["rows"] == 2
    table = pa.table({"id": [14, 15], "amount": [Decimal("1.10"), None]})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    answer = client.post(
        "/tables/main.orders", content=out.getvalue(), headers={"Content-Type": ARROW}
    )
    assert answer.json()["rows"] == 2
    assert world.database.epoch == before + 3
    assert sql(client, "SELECT count(*), sum(amount)::VARCHAR FROM orders")["rows"] == [
        [8, "19.10"]
    ]


def test_numbers_of_rows_keep_their_digits(client: httpx.Client) -> None:
    """Bug: JSON's numbers were read as floats; what GET gave did not come back."""
    sql(client, "CREATE TABLE wide (n DECIMAL(38, 10), d DOUBLE, s STRUCT(n DECIMAL(20, 5)))")
    line = (
        '{"n":12345678901234567890.0123456789,"d":0.30000000000000004,'
        '"s":{"n":123456789012345.12345}}\n'
    )
    for body, kind in ((f"[{line}]", "application/json"), (line, LINES)):
        answer = client.post("/tables/wide", content=body, headers={"Content-Type": kind})
        assert answer.json()["rows"] == 1
        assert client.post("/sql", content="FROM wide", headers={"Accept": LINES}).text == line
        sql(client, "TRUNCATE wide")
    sql(client, "CREATE TABLE documents (j JSON)")
    client.post("/tables/documents", content='{"j": {"n": 1234567890.123456789}}')
    assert sql(client, "SELECT j::VARCHAR FROM documents")["rows"] == [
        ['{"n":1234567890.123456789}']
    ]
    odd = '[{"d": 1e400}, {"d": 1.5e-99999999999999999999}, {"d": 1.7976931348623157e308}]'
    client.post("/tables/wide", content=odd)
    rows = sql(client, "SELECT d FROM wide ORDER BY d")["rows"]
    assert rows == [[0.0], [1.7976931348623157e308], ["inf"]]


def test_upsert_and_delete(client: httpx.Client) -> None:
    client.post(
        "/tables/orders?op=upsert", json=[{"id": 1, "region": "AS"}, {"id": 9, "region": None}]
    )
    client.post("/tables/orders?op=delete", json={"id": 2})
    found = sql(client, "SELECT id, region FROM orders ORDER BY id")
    assert found["rows"] == [[1, "AS"], [9, None]]


def test_rows_that_are_none_change_nothing(client: httpx.Client) -> None:
    error(client.post("/tables/orders", json=[{"id": 20}, {"id": 1}]), 409, "constraint")
    error(client.post("/tables/orders", json=[{"id": 20, "colour": 1}]), 400, "input")
    error(client.post("/tables/orders", json=[1]), 400, "input")
    error(client.post("/tables/orders?op=merge", json=[]), 400, "input")
    error(client.post("/tables/nowhere", json=[{"id": 1}]), 400, "sql")
    error(client.post("/tables/revenue", json=[{"id": 1}]), 400, "unsupported")
    error(client.post("/tables/_ivm.users", json=[{"name": "x"}]), 400, "unsupported")
    arrow = {"Content-Type": ARROW}
    error(client.post("/tables/orders", content=b"no arrow", headers=arrow), 400, "input")
    assert sql(client, "SELECT count(*) FROM orders")["rows"] == [[2]]


def test_a_repeated_request_is_harmless(world: HttpWorld, client: httpx.Client) -> None:
    headers = {"Idempotency-Key": "one"}
    first = client.post("/tables/orders", json=[{"id": 10}], headers=headers).json()
    epoch = world.database.epoch
    again = client.post("/tables/orders", json=[{"id": 10}], headers=headers).json()
    assert again == {**first, "repeated": True}
    assert world.database.epoch == epoch == first["epoch"]
    other = client.post("/tables/orders", json=[{"id": 11}], headers=headers)
    assert "another request" in error(other, 400, "input")
    failed = client.post("/tables/orders", json=[{"id": 1}], headers={"Idempotency-Key": "two"})
    error(failed, 409, "constraint")
    good = client.post("/tables/orders", json=[{"id": 12}], headers={"Idempotency-Key": "two"})
    assert good.json()["rows"] == 1


def test_many_repeated_requests_at_once_are_done_once(world: HttpWorld) -> None:
    found = []

    def ask() -> None:
        with world.client() as client:
            headers = {"Idempotency-Key": "same"}
            found.append(client.post("/tables/orders", json=[{"id": 50}], headers=headers).json())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each["repeated"] for each in found) == [False] + [True] * 7
    assert len({each["epoch"] for each in found}) == 1


# -- transactions ---------------------------------------------------------------------------------


def test_a_session_holds_a_transaction(client: httpx.Client) -> None:
    token = client.post("/sessions").json()["session"]
    held = {"Ivm-Session": token}
    sql(client, "BEGIN", headers=held)
    client.post("/tables/orders", json=[{"id": 30}], headers=held)
    assert sql(client, "SELECT count(*) FROM orders", headers=held)["rows"] == [[3]]
    assert sql(client, "SELECT count(*) FROM orders")["rows"] == [[2]]
    sql(client, "COMMIT", headers=held)
    assert sql(client, "SELECT count(*) FROM orders")["rows"] == [[3]]
    sql(client, "BEGIN; DELETE FROM orders", headers=held)
    assert client.delete(f"/sessions/{token}").status_code == 204
    error(client.post("/sql", content="SELECT 1", headers=held), 404, "session")
    end = time.monotonic() + 5
    while sql(client, "SELECT count(*) FROM orders")["rows"] != [[3]]:
        assert time.monotonic() < end


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/sql", "SELEC 1", {}),
        ("/sql", "{", {"Content-Type": "application/json"}),
        ("/sql", "SELECT 1", {"Content-Type": "image/png"}),
        ("/sql", "SELECT 1", {"Accept": "image/png"}),
        ("/tables/orders", "{", {}),
        ("/tables/orders", "[1]", {}),
        ("/tables/orders?op=merge", "[]", {}),
        ("/tables/orders", "x" * (2 << 20), {}),
    ],
)
def test_a_request_that_fails_ends_the_transaction(
    world: HttpWorld, client: httpx.Client, path: str, body: str, headers: dict[str, str]
) -> None:
    """Bug: what was no request at all was left out, and COMMIT made the rest last."""
    world.pool.settings = dataclasses.replace(world.pool.settings, request_megabytes=1)
    session = {"Ivm-Session": client.post("/sessions").json()["session"]}
    client.post("/sql", content="BEGIN; DELETE FROM orders", headers=session)
    failed = client.post(path, content=body, headers={**headers, **session})
    assert failed.status_code in (400, 413, 415)
    commit = client.post("/sql", content="COMMIT", headers=session)
    assert "rolled back" in error(commit, 503, "unavailable")
    assert sql(client, "SELECT count(*) FROM orders")["rows"] == [[2]]


@pytest.mark.parametrize("text", ["BEGIN", "BEGIN; DELETE FROM orders"])
def test_a_transaction_that_a_request_leaves_open_is_refused(
    client: httpx.Client, text: str
) -> None:
    """Bug: it was rolled back without a word, and the answer said that all was well."""
    assert "POST /sessions" in error(client.post("/sql", content=text), 400, "input")
    assert sql(client, "SELECT count(*) FROM orders")["rows"] == [[2]]
    sql(client, "BEGIN; DELETE FROM orders; COMMIT")
    assert sql(client, "SELECT count(*) FROM orders")["rows"] == [[0]]


def test_a_request_that_waits_for_a_session_that_is_closed(client: httpx.Client) -> None:
    """Bug: it was told that its connection is closed, and to try again."""
    token = client.post("/sessions").json()["session"]
    with ThreadPoolExecutor() as pool:
        for text in ("SELECT count(*) FROM range(30_000_000_000)", "SELECT 1"):
            last = pool.submit(client.post, "/sql", content=text, headers={"Ivm-Session": token})
            time.sleep(0.5)
        assert client.delete(f"/sessions/{token}").status_code == 204
        error(last.result(20), 404, "session")


def test_a_session_is_its_users_alone(client: httpx.Client) -> None:
    token = client.post("/sessions").json()["session"]
    answer = client.post(
        "/sql", content="SELECT 1", headers={"Ivm-Session": token}, auth=("ann", "secret")
    )
    error(answer, 404, "session")


# -- views ----------------------------------------------------------------------------------------


def test_a_view_with_filters(client: httpx.Client) -> None:
    found = client.get("/views/revenue?region=EU").json()
    assert found["view"] == "revenue"
    assert found["rows"] == [{"region": "EU", "n": 1, "total": 9.5}]
    assert client.get("/views/revenue?n=1&limit=1").json()["rows"]
    assert client.get("/views/revenue?region=%27%20OR%201%3D1").json()["rows"] == []
    text = client.get("/views/revenue", headers={"Accept": CSV}).text
    assert text.startswith('"region","n","total"')
    error(client.get("/views/revenue?colour=1"), 400, "input")
    error(client.get("/views/revenue?n=x"), 409, "evaluation")
    error(client.get("/views/revenue?limit=x"), 400, "input")
    assert "twice" in error(client.get("/views/revenue?region=EU&region=US"), 400, "input")
    error(client.get("/views/orders"), 404, "view")
    error(client.get("/views/a.b.c.d"), 404, "view")
    names = [view["name"] for view in client.get("/views").json()["views"]]
    assert names == ["revenue", "s.few"]


def test_an_etag_stands_for_the_rows(world: HttpWorld, client: httpx.Client) -> None:
    first = client.get("/views/revenue")
    tag = first.headers["etag"]
    assert first.headers["vary"] == "Accept"  # a cache keeps each form for itself
    assert client.get("/views/revenue", headers={"If-None-Match": tag}).status_code == 304
    assert client.get("/views/revenue", headers={"If-None-Match": "*"}).status_code == 304
    world.database.execute("CREATE TABLE other (a INTEGER); INSERT INTO other VALUES (1)")
    assert client.get("/views/revenue", headers={"If-None-Match": tag}).status_code == 304
    for i in range(20):  # at once: an answered write is seen
        world.database.execute(f"INSERT INTO orders VALUES ({100 + i}, 'EU', 1)")
        now = client.get("/views/revenue", headers={"If-None-Match": tag})
        assert now.status_code == 200
        assert now.json()["rows"][0]["n"] == 2 + i or now.json()["rows"][1]["n"] == 2 + i
        tag = now.headers["etag"]


def test_an_epoch_that_has_not_come_is_of_another_file(client: httpx.Client) -> None:
    """Bug: where a copy of the file was put back, those who had later rows were told so forever."""
    later = {"If-None-Match": '"1000000"'}
    assert len(client.get("/views/revenue", headers=later).json()["rows"]) == 2
    assert len(client.get("/views/revenue?after=1000000&wait=5").json()["rows"]) == 2


def test_a_long_poll_waits_for_a_change(world: HttpWorld, client: httpx.Client) -> None:
    epoch = client.get("/views/revenue").headers["ivm-epoch"]
    began = time.monotonic()
    assert client.get(f"/views/revenue?after={epoch}&wait=0.2").status_code == 304
    assert time.monotonic() - began >= 0.2
    timer = threading.Timer(0.3, world.database.execute, ["INSERT INTO orders VALUES (9, 'EU', 1)"])
    timer.start()
    answer = client.get(f"/views/revenue?after={epoch}&wait=10")
    assert answer.status_code == 200
    assert int(answer.headers["ivm-epoch"]) > int(epoch)
    error(client.get("/views/revenue?after=x"), 400, "input")
    error(client.get("/views/revenue?after=1&wait=x"), 400, "input")
    timer.join()


@pytest.mark.full
def test_a_view_is_read_while_a_transaction_is_open(world: HttpWorld, client: httpx.Client) -> None:
    """Bug: the first to ask for a view waited for the end of a transaction of somebody else."""
    session = {"Ivm-Session": client.post("/sessions").json()["session"]}
    begin = "BEGIN; INSERT INTO orders VALUES (50, 'AS', 1)"
    assert client.post("/sql", content=begin, headers=session).status_code == 200
    first = client.get("/views/revenue")
    assert sorted(row["region"] for row in first.json()["rows"]) == ["EU", "US"]
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get("/views/revenue", headers=tag).status_code == 304
    epoch = str(world.database.epoch)
    assert client.get("/views/revenue", params={"after": epoch, "wait": "0.5"}).status_code == 304
    with ThreadPoolExecutor() as pool:
        late = pool.submit(client.get, "/views/revenue", params={"after": epoch, "wait": "20"})
        time.sleep(0.5)
        client.post("/sql", content="COMMIT", headers=session)
        assert len(late.result(10).json()["rows"]) == 3


def test_a_long_poll_of_a_view_that_goes(world: HttpWorld, client: httpx.Client) -> None:
    make = "CREATE OR REPLACE MATERIALIZED VIEW going AS SELECT id + {} AS id FROM orders"
    world.database.execute(make.format(1))
    epoch = int(client.get("/views/going").headers["etag"].strip('"'))
    for sql, status in ((make.format(2), 200), ("DROP MATERIALIZED VIEW going", 404)):
        later = threading.Timer(0.2, lambda sql=sql: world.database.execute(sql))
        later.start()
        answer = client.get("/views/going", params={"after": epoch, "wait": 10, "limit": 0})
        later.join()
        assert answer.status_code == status, answer.text  # the view of before is no answer
        epoch = int(answer.headers.get("ivm-epoch", 0))


@pytest.mark.full
def test_names_in_paths(world: HttpWorld, client: httpx.Client) -> None:
    world.database.execute('CREATE SCHEMA "s/%41"')
    for name in ("a/b", "a%2Fb", "/", "/changes", "ü?#", 'a"b', "a.b", " ", "."):
        quoted = f"""{'"s/%41"'}.{'"' + name.replace('"', '""') + '"'}"""
        world.database.execute(f"CREATE MATERIALIZED VIEW {quoted} AS FROM orders")
        path = f"/views/{quote(quoted, safe='')}"
        answer = client.get(path)
        assert (answer.status_code, len(answer.json()["rows"])) == (200, 2)
        with client.stream("GET", f"{path}/changes") as feed:
            assert feed.status_code == 200
        remote = ivm.connect(world.url.replace("http", "ivm"))
        with remote, remote.subscribe(quoted, snapshot=True) as followed:
            found = followed.poll(timeout=20)
            assert found is not None
            assert len(found[1]) == 2


def test_a_recomputed_view_is_new(world: HttpWorld, client: httpx.Client) -> None:
    world.database.execute(
        "CREATE MATERIALIZED VIEW whole AS SELECT string_agg(region ORDER BY id) AS r FROM orders"
    )
    tag = client.get("/views/whole").headers["etag"]
    world.database.execute("INSERT INTO orders VALUES (3, 'AS', 1)")
    found = client.get("/views/whole", headers={"If-None-Match": tag})
    assert found.json()["rows"] == [{"r": "EU,US,AS"}]


# -- who gets in ----------------------------------------------------------------------------------


def test_users_by_basic_authentication_and_tokens(world: HttpWorld, client: httpx.Client) -> None:
    ann = ("ann", "secret")
    assert sql(client, "FROM revenue", auth=ann)["rows"]
    error(client.post("/sql", content="DELETE FROM orders", auth=ann), 403, "access")
    error(client.post("/sql", content="FROM read_text('/etc/hostname')", auth=ann), 403, "access")
    many = {"sql": "INSERT INTO orders VALUES (?, 'x', 1)", "many": [[90]]}
    error(client.post("/sql", json=many, auth=ann), 403, "access")
    error(client.post("/tables/orders", json=[{"id": 70}], auth=ann), 403, "access")
    assert client.post("/tables/orders", json=[{"id": 70}], auth=("bob", "secret")).json()["rows"]
    answer = client.post("/sql", content="SELECT 1", auth=("ann", "wrong"))
    error(answer, 401, "access")
    assert answer.headers["www-authenticate"].startswith("Basic")
    ((_, token),) = world.database.execute("CREATE TOKEN dash FOR USER ann").fetchall()
    bearer = {"Authorization": f"Bearer {token}"}
    assert sql(client, "SELECT 1", headers=bearer)["rows"] == [[1]]
    error(client.post("/sql", content="DELETE FROM orders", headers=bearer), 403, "access")
    world.database.execute("DROP TOKEN dash")
    error(client.post("/sql", content="SELECT 1", headers=bearer), 401, "access")
    for wrong in ("Basic", "Basic !", "Basic YQ==", "Digest x", "Bearer", ""):
        answer = client.post("/sql", content="SELECT 1", headers={"Authorization": wrong})
        error(answer, 401, "access")


def test_a_schema_limits_a_user(client: httpx.Client) -> None:
    eve = ("eve", "secret")
    assert client.get("/views/s.few", auth=eve).status_code == 200
    error(client.get("/views/revenue", auth=eve), 403, "access")
    error(client.get("/views/revenue/changes", auth=eve), 403, "access")
    error(client.post("/tables/orders", json=[{"id": 70}], auth=eve), 403, "access")
    names = [view["name"] for view in client.get("/views", auth=eve).json()["views"]]
    assert names == ["s.few"]


def test_nobody_gets_in_without_a_user_by_default() -> None:
    named = {"ann": {"verifier": str(verifier_of("x")), "role": "admin"}}
    world = HttpWorld(ivm.connect(), named, trust="")
    with world.client() as client:
        for path in ("/views", "/metrics", "/views/x", "/views/x/changes"):
            error(client.get(path), 401, "access")
        error(client.post("/sql", content="SELECT 1"), 401, "access")
        assert client.get("/healthz").json()["status"] == "ok"
        assert sql(client, "SELECT 1", auth=("ann", "x"))["rows"] == [[1]]
    world.close()


def test_a_page_of_another_origin_is_refused(world: HttpWorld, client: httpx.Client) -> None:
    def ask(**headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.post("/sql", content="SELECT 1", headers=named)

    own = world.url.removeprefix("http://")
    assert ask(Origin=world.url).status_code == 200
    assert ask(Origin=f"http://{own.replace('127.0.0.1', 'localhost')}").status_code == 403
    for origin in ("http://evil.org", "null", "", f"http://evil.org/{own}", "http://127.0.0.1:1"):
        error(ask(Origin=origin), 403, "origin")
    error(ask(Sec_Fetch_Site="cross-site"), 403, "origin")
    error(ask(Host="evil.org"), 403, "host")
    error(ask(Host=f"evil.org:{world.listener.port}"), 403, "host")
    error(ask(X_Forwarded_For="10.0.0.1"), 401, "access")
    assert ask(Host=f"localhost:{world.listener.port}").status_code == 200
    preflight = client.request("OPTIONS", "/sql", headers={"Origin": "http://evil.org"})
    assert preflight.status_code == 403
    assert "access-control-allow-origin" not in preflight.headers


def test_an_origin_that_the_settings_allow() -> None:
    world = HttpWorld(ivm.connect(), origins="https://a.org, https://b.org")
    with world.client() as client:
        answer = client.post("/sql", content="SELECT 1", headers={"Origin": "https://b.org"})
        assert answer.headers["access-control-allow-origin"] == "https://b.org"
        preflight = client.request("OPTIONS", "/sql", headers={"Origin": "https://b.org"})
        assert preflight.status_code == 204
        assert "POST" in preflight.headers["access-control-allow-methods"]
        error(client.post("/sql", content="x", headers={"Origin": "https://c.org"}), 403, "origin")
    world.close()


# -- the server of itself -------------------------------------------------------------------------


def test_what_the_server_tells_of_itself(world: HttpWorld, client: httpx.Client) -> None:
    sql(client, "SELECT 1")
    client.get("/views/revenue")
    text = client.get("/metrics").text
    for name in ("ivm_epoch", "ivm_connections", 'ivm_view_rows{view="revenue"} 2'):
        assert name in text
    assert 'ivm_http_requests_total{request="sql",status="200"} 1' in text
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/sql", "/tables/{table}", "/views/{view}/changes"} <= paths.keys()
    assert "<table>" in client.get("/").text


def test_watermarks_are_among_the_metrics(world: HttpWorld, client: httpx.Client) -> None:
    sql(
        client,
        """
        CREATE TABLE "a ""b\\" (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second');
        CREATE TABLE days (d DATE, WATERMARK FOR d AS d);
        CREATE TABLE ended (ts TIMESTAMPTZ, WATERMARK FOR ts AS ts);
        CREATE TABLE nothing (ts TIMESTAMP, WATERMARK FOR ts AS ts);
        INSERT INTO "a ""b\\" VALUES ('2026-03-02 10:00:00.5'), ('infinity');
        INSERT INTO "a ""b\\" VALUES ('2026-03-02 09:00:00'), (NULL), ('-infinity');
        INSERT INTO days VALUES ('1969-12-31');
        ALTER TABLE ended ADVANCE WATERMARK TO 'infinity';
    """,
    )
    lines = set(client.get("/metrics").text.splitlines())
    label = r'{table="\"a \"\"b\\\""}'
    assert f"ivm_watermark_seconds{label} 1772445599.5" in lines
    assert f"ivm_late_rows_total{label} 2" in lines
    assert {'ivm_watermark_seconds{table="days"} -86400.0'} <= lines
    assert {'ivm_watermark_seconds{table="ended"} +Inf'} <= lines
    assert {'ivm_late_rows_total{table="nothing"} 0'} <= lines
    assert not any(line.startswith('ivm_watermark_seconds{table="nothing"}') for line in lines)


def test_rows_are_counted_not_estimated(tmp_path: Path) -> None:
    """DuckDB's estimate has deleted rows of a file, too."""
    database = ivm.connect(tmp_path / "shop.duckdb")
    database.execute("CREATE TABLE t (k INTEGER, n INTEGER); INSERT INTO t VALUES (1, 1), (2, 2)")
    database.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(n) AS n FROM t GROUP BY k")
    for number in range(5):
        database.execute(f"UPDATE t SET n = {number}")
        database.execute("SELECT stddev(n) FROM v, range(2)").fetchall()
    world = HttpWorld(database)
    with contextlib.closing(world), world.client() as client:
        assert 'ivm_view_rows{view="v"} 2\n' in client.get("/metrics").text


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(world: HttpWorld) -> None:
    asked = ["curl", "-sS", "-u", "ann:secret", "-d", "SELECT 1 AS a", f"{world.url}/sql"]
    asked += ["-H", "Content-Type: application/sql"]
    found = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)
    assert json.loads(found.stdout)["rows"] == [[1]]


@pytest.mark.parametrize(
    "asked",
    [
        *(r'"SELECT \ud800"', r'"SELECT $a\ud800"', r'"SELECT $a", "params": {"a\uDFFF": 1}'),
        r'"SELECT $a", "params": {"a": "\ud800"}',
    ],
)
def test_half_of_a_character_is_no_text(client: httpx.Client, asked: str) -> None:
    answer = client.post(
        "/sql", content=f'{{"sql": {asked}}}', headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert re.search("is no text|no valid Unicode|surrogate", answer.json()["what"])
    whole = r'{"sql": "SELECT ?", "params": ["\ud83d\ude00"]}'
    assert client.post("/sql", content=whole, headers={"Content-Type": "application/json"}).json()[
        "rows"
    ] == [["😀"]]
