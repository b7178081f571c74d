"""Whatever happens upstream: our tables are PostgreSQL's, or the source has stopped with a reason.

Each history is statements of rows and of tables, changes of the publication, cut connections, and
sources that are paused, closed and killed between; a stopped source is given what it asks for.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

import ivm
from ivm.cdc.sources.postgres import lag
from tests.cdc.postgres.following import state
from tests.cdc.postgres.histories import History, add_again, differences, obey
from tests.cdc.postgres.test_kills import child
from tests.support.postgres import Database
from tests.tiers import TIER, seeds

COUNT = {"quick": 2, "full": 20, "fuzz": 200}[TIER]
STEPS, OBEYED = 12, 12
CUT = (
    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'ivm_shop'"
)


@pytest.mark.full(smoke=1)
@pytest.mark.parametrize("seed", seeds(COUNT))
@pytest.mark.timeout(300)
def test_a_history_is_followed_or_stops_the_source(
    shop: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(lag, "_CHECKED", 0.2)
    history = History(shop, tmp_path / "a.duckdb", seed)
    history.begin()
    if seed % 8 == 7:
        _killed(history)
    else:
        _followed(history)
    with ivm.connect(history.file) as db:
        db.start_sources()
        _finish(db, history)


def _followed(history: History) -> None:
    """The source runs in this process, and is paused, cut and closed."""
    chance, left = history.chance, STEPS
    while left > 0:
        with ivm.connect(history.file) as db:
            db.start_sources()
            for _ in range(chance.randint(1, STEPS)):
                left -= 1
                if chance.random() < 0.5:
                    _catch_up(db)
                history.step()
                what = chance.randrange(12)
                if what == 0 and state(db)[0] == "running":
                    history.said.append("-- paused")
                    db.execute("PAUSE SOURCE shop")
                elif what == 1 and state(db)[0] == "paused":
                    db.execute("RESUME SOURCE shop")
                elif what == 2:
                    history.said.append("-- cut")
                    history.shop.execute(CUT)
                elif state(db)[0] == "stopped" and what < 6:
                    _obey(db, history)
                add_again(db, history)
            if state(db)[0] == "paused":
                db.execute("RESUME SOURCE shop")
        history.said.append("-- closed")


def _catch_up(db: ivm.Database) -> None:
    """Waits until the source runs, with all that there is; a copy of all tables may take long."""
    end = time.monotonic() + 20
    while not db.sources()[0].caught_up and state(db)[0] == "running" and time.monotonic() < end:
        time.sleep(0.02)


def _killed(history: History) -> None:
    """The source runs in processes that are killed."""
    for _ in range(3):
        follower = child(history.file)
        assert follower.stdout is not None
        assert follower.stdout.readline() == "started\n"
        for _ in range(history.chance.randint(1, STEPS // 2)):
            history.step()
            time.sleep(history.chance.choice([0, 0, 0.05, 0.3]))
        _kill(follower)
        history.said.append("-- killed")


def _kill(follower: subprocess.Popen[str]) -> None:
    follower.kill()
    follower.communicate()


def _obey(db: ivm.Database, history: History) -> bool:
    reason = state(db)[1]
    history.said.append(f"-- stopped: {reason}")
    try:
        return obey(db, history, reason)
    except ivm.errors.IvmError as error:  # it stays stopped, with its reason
        history.said.append(f"-- {error}")
        return False


def _finish(db: ivm.Database, history: History) -> None:
    """Waits for the end, does what the source asks for, and compares."""
    number = 0
    for _ in range(OBEYED):
        number += 1
        history.end(number)
        _wait(db, history, number)
        if state(db)[0] == "stopped":
            if not _obey(db, history):
                return
            continue
        found = differences(db, history.shop)
        if not found or (_wait_for_a_stop(db) and not differences(db, history.shop)):
            assert db.execute("FROM _ivm.dead_letters").fetchall() == []
            return
        if state(db)[0] != "stopped":
            raise AssertionError("\n".join([*history.said, *map(str, found), str(state(db))]))
        if not _obey(db, history):
            return


def _wait(db: ivm.Database, history: History, number: int) -> None:
    """Waits until the source has stopped, or has the end and no table to copy."""
    end = time.monotonic() + 90
    copied = "FROM _ivm.positions WHERE stream LIKE 'copy%' AND detail LIKE 'done%'"
    marked = f"FROM done WHERE n = {number}"
    while state(db)[0] != "stopped":
        add_again(db, history)
        is_copied = len(db.execute(copied).fetchall()) == 4 and db.sources()[0].caught_up
        if is_copied and not history.left and db.execute(marked).fetchall():
            return
        if time.monotonic() > end:
            raise AssertionError(
                "\n".join([*history.said, str(db.execute("SHOW SOURCES").fetchall())])
            )
        time.sleep(0.02)


def _wait_for_a_stop(db: ivm.Database) -> bool:
    """Whether it still runs some looks later."""
    end = time.monotonic() + 3
    while time.monotonic() < end and state(db)[0] == "running":
        time.sleep(0.05)
    return state(db)[0] == "running"
