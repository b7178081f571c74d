"""Law: kill −9 while files grow, are renamed and compressed loses and doubles nothing."""

from __future__ import annotations

import gzip
import itertools
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import ivm
from tests.tiers import TIER, seeds

pytestmark = pytest.mark.full(smoke=1)

CHILD = """
import sys, time, ivm
with ivm.connect(sys.argv[1]) as db:
    db.start_sources()
    print("started", flush=True)
    while True:
        time.sleep(0.01)
        if sys.argv[2:] and all(source.caught_up for source in db.sources()):
            break
"""
ROUNDS = 2 if TIER == "quick" else 6


class Log:
    """A log that somebody writes and rotates, with the numbers from 0 in its lines."""

    def __init__(self, folder: Path, random: random.Random) -> None:
        self._folder = folder
        self._random = random
        self._path = folder / "a.log"
        self._numbers = itertools.count()
        self.written = 0

    def write(self) -> None:
        """Appends some lines; they come in pieces that end anywhere."""
        for _ in range(self._random.randrange(1, 300)):
            line = (
                f'{{"id": {next(self._numbers)}, "note": "{"é" * self._random.randrange(50)}"}}\n'
            )
            with self._path.open("ab") as file:
                cut = self._random.randrange(len(line))
                file.write(line.encode()[:cut])
                file.flush()
                file.write(line.encode()[cut:])
            self.written += 1

    def rotate(self) -> None:
        """Renames the log and those before it; the older ones are compressed."""
        names = sorted(self._folder.glob("a.log.*"), key=lambda path: int(path.suffixes[1][1:]))
        for path in reversed(names):
            number = int(path.suffixes[1][1:]) + 1
            path.rename(self._folder / f"a.log.{number}{path.suffix if '.gz' in path.name else ''}")
        for path in self._folder.glob("a.log.2"):
            Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        if self._path.exists():
            self._path.rename(self._folder / "a.log.1")


@pytest.mark.parametrize("seed", seeds(1 if TIER == "quick" else 2))
def test_killed_while_logs_are_rotated(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folder, file = tmp_path / "logs", tmp_path / "logs.duckdb"
    folder.mkdir()
    with ivm.connect(file) as db:  # without a key, so that what comes twice is there twice
        db.execute("""
            CREATE TABLE seen (id INTEGER, note VARCHAR);
            CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n, sum(id) AS s FROM seen
        """)
        source = ivm.sources.Files(path=str(folder / "a.log*"), format="json appends")
        db.create_source("logs", source, into="seen")
    log = Log(folder, chance)
    for _ in range(ROUNDS):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(file)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        end = time.monotonic() + chance.uniform(0.6, 2.5)
        while time.monotonic() < end:
            log.write()
            time.sleep(0.02)
            if chance.random() < 0.05:
                log.rotate()
        child.send_signal(signal.SIGKILL)
        child.communicate()
        log.write()
    subprocess.run([sys.executable, "-c", CHILD, str(file), "once"], check=True, timeout=120)
    with ivm.connect(file) as db:
        rows = db.execute("SELECT id, note FROM seen ORDER BY ALL").fetchall()
        assert db.execute("FROM counted").fetchall() == [
            (log.written, log.written * (log.written - 1) // 2)
        ]
        assert db.execute("FROM _ivm.dead_letters").fetchall() == []
    sql = "SELECT id, note FROM read_json($1, format = 'newline_delimited') ORDER BY ALL"
    assert rows == duckdb.connect().execute(sql, [str(folder / "a.log*")]).fetchall()
