"""`ivm tail` and SUBSCRIBE: the changes of a view as lines, until somebody stops them."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import ivm
from ivm.shell.commands import run_command
from ivm.shell.console import Console, Settings
from ivm.shell.display.output import Output
from tests.shell.test_cli import SETUP, command, environment, run


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A database with a source: files in a folder."""
    file = tmp_path / "shop.duckdb"
    (tmp_path / "in").mkdir()
    source = f"FROM FILES (path '{tmp_path}/in/*.jsonl', format 'json appends')"
    with ivm.connect(file) as db:
        db.execute(f"{SETUP}; CREATE SOURCE drops INTO orders {source}")
    return file


def tailing(shop: Path, *options: str) -> subprocess.Popen[str]:
    args = command("tail", str(shop), "revenue", *options)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(args, text=True, env=environment(), **streams)  # type: ignore[call-overload,no-any-return]


def drop(shop: Path, number: int) -> None:
    line = json.dumps({"region": "EU", "amount": number})
    (shop.parent / "in" / f"{number}.jsonl").write_text(line + "\n")


@pytest.mark.full
def test_tail_prints_the_rows_and_then_each_change(shop: Path) -> None:
    with tailing(shop, "--snapshot") as child:
        assert child.stdout is not None
        before = json.loads(child.stdout.readline())
        drop(shop, 4)
        after = [json.loads(child.stdout.readline()) for _ in range(2)]
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert before == {**before, "_weight": 1, "region": "EU", "total": 3}
        assert [(line["_weight"], line["total"]) for line in after] == [(-1, 3), (1, 7)]
        assert after[0]["_epoch"] == after[1]["_epoch"] > before["_epoch"]


@pytest.mark.full(smoke=1)
def test_a_reader_that_leaves_ends_it_quietly(shop: Path) -> None:
    with tailing(shop, "--snapshot", "--format", "debezium") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert json.loads(child.stdout.readline())["after"] == {"region": "EU", "total": 3}
        child.stdout.close()
        drop(shop, 4)
        assert (child.wait(60), child.stderr.read()) == (0, "")


@pytest.mark.full
def test_what_cannot_be_tailed(shop: Path) -> None:
    for args, code, why in [
        ((str(shop), "nothing"), 1, "no materialized view 'nothing'"),
        ((str(shop), "revenue", "--format", "xml"), 1, "no format 'xml'"),
        ((str(shop.parent / "no.duckdb"), "revenue"), 2, "there is no database"),
    ]:
        result = run("tail", *args)
        assert (result.exit_code, why in result.stderr) == (code, True), result.stderr


def test_subscribe_in_the_shell_ends_with_ctrl_c() -> None:
    output, errors = io.StringIO(), io.StringIO()
    with ivm.connect() as db:
        db.execute(SETUP)
        console = Console(db, "", Output(output), Output(errors), Settings(), run_command)

        def change() -> None:
            while not db._engine.feeds.views:
                time.sleep(0.01)
            db.insert("orders", {"region": ["US"], "amount": [5]})
            while "US" not in output.getvalue():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=change)
        thread.start()
        assert console.run("-- follow\nSUBSCRIBE TO main.revenue; SELECT 42 AS answer")
        thread.join()
        epoch = db.epoch
    line, *rest = output.getvalue().splitlines()
    assert line == f'{{"_epoch":{epoch},"_weight":1,"region":"US","total":5}}'
    assert "answer" in rest[1]
    assert errors.getvalue() == ""


def test_a_tail_in_python() -> None:
    with ivm.connect() as db:
        db.execute(SETUP)
        tail = db.tail("revenue", format="debezium", snapshot=True)
        db.execute("DELETE FROM orders")
        tail.close()
        events = [json.loads(line) for lines in tail for line in lines]
        assert [event["op"] for event in events] == ["c", "d"]
        assert events[0]["after"] == events[1]["before"] == {"region": "EU", "total": 3}
        assert tail.ended
