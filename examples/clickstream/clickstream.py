"""Streams and time, where much goes wrong: `python examples/clickstream/clickstream.py [--live]`.

Five devices send clicks (`clicks.py`), which a collector writes into a folder as lines of JSON, a
file for ten minutes. A source follows the folder, five views follow the table, and a sink writes
the rows that are final. A morning of six hours takes some seconds: the database is told what time
it is there. With `--live` mornings go by until Ctrl-C, in a served database with its console.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import socket
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from clicks import BEGIN, Round, morning

import ivm

TABLE = """
    CREATE TABLE clicks (
        id INTEGER PRIMARY KEY,  -- a click that is sent twice has the same id, and is there once
        ts TIMESTAMP, device VARCHAR, person INTEGER, page VARCHAR,
        WATERMARK FOR ts AS ts - INTERVAL '5 minutes'
    ) WITH (watermark_by = device, idle_after = INTERVAL '{idle_after}', late = 'refuse');
"""
VIEWS = """
    CREATE MATERIALIZED VIEW per_minute AS  -- right at every moment
        SELECT window_start, page, count(*) AS clicks
        FROM tumble(clicks, ts, INTERVAL '1 minute') GROUP BY ALL;

    CREATE MATERIALIZED VIEW per_hour AS  -- each row once, when its hour is over
        SELECT window_end, count(*) AS clicks, count(DISTINCT person) AS people
        FROM tumble(clicks, ts, INTERVAL '1 hour') GROUP BY ALL
        EMIT ON WINDOW CLOSE;

    CREATE MATERIALIZED VIEW visits AS  -- what lies no more than half an hour apart
        SELECT person, window_start, window_end - INTERVAL '30 minutes' AS last, count(*) AS clicks
        FROM session(clicks, ts, INTERVAL '30 minutes', partition_by := [person]) GROUP BY ALL;

    CREATE MATERIALIZED VIEW single_clicks AS  -- without the second half of double clicks
        SELECT * FROM clicks
        QUALIFY coalesce(ts - lag(ts) OVER (PARTITION BY person, page ORDER BY ts, id)
            > INTERVAL '1 second', true);

    CREATE MATERIALIZED VIEW offers AS  -- and the orders that they led to within an hour
        SELECT offer.id, offer.ts AS shown, count(bought.id) AS orders
        FROM clicks AS offer LEFT JOIN clicks AS bought
        ON bought.person = offer.person AND bought.page = 'order'
            AND bought.ts BETWEEN offer.ts AND offer.ts + INTERVAL '1 hour'
        WHERE offer.page = 'offer' GROUP BY ALL;
"""
JOBS = """
    CREATE SOURCE inbox INTO clicks
        FROM FILES (path '{folder}/inbox/*.jsonl', format 'json appends');
    CREATE SINK final FROM per_hour INTO FILES (path '{folder}/per_hour.jsonl');
"""
REPORT = {
    "The hours that are final, as the sink has them": """
        SELECT window_end, clicks, people FROM read_json('{folder}/per_hour.jsonl')""",
    "What was refused": """
        SELECT payload ->> 'device' AS device, count(*) AS clicks, min(reason) AS for_example
        FROM _ivm.dead_letters GROUP BY ALL ORDER BY ALL""",
    "How far the table has come": """
        SELECT "table", watermark, greatest, late_rows FROM _ivm.watermarks""",
    "and each device": """
        SELECT part AS device, greatest, seen FROM _ivm.watermark_parts ORDER BY ALL""",
    "What people did": """
        SELECT count(*) AS clicks,
            (SELECT count(*) FROM single_clicks) AS without_double_clicks,
            (SELECT count(*) FROM visits) AS visits,
            (SELECT max(clicks) FROM per_minute) AS most_in_a_minute,
            (SELECT count(*) FROM offers) AS offers,
            (SELECT count(*) FROM offers WHERE orders > 0) AS with_an_order
        FROM clicks""",
    "Each view is what its query gives": """
        VERIFY MATERIALIZED VIEWS""",
}


class Collector:
    """Writes what devices send into the folder that the source follows.

    Args:
        folder: that of the database.

    Attributes:
        now: the simulated time.
        written: how many clicks it has written.
    """

    def __init__(self, folder: Path) -> None:
        self._inbox = folder / "inbox"
        self._inbox.mkdir()
        self.now = BEGIN.replace(tzinfo=UTC)
        self.written = 0

    def clock(self) -> datetime:
        """The simulated time, for the database."""
        return self.now

    def write(self, part: Round) -> None:
        """Writes one file."""
        file = self._inbox / f"{part.end:%m-%d-%H%M}.jsonl"
        draft = file.with_suffix(".draft")
        draft.write_text(part.lines)
        draft.rename(file)  # whole when it is first seen
        self.now = part.end.replace(tzinfo=UTC)
        self.written += part.size


def define(db: ivm.Database, folder: Path, idle_after: str) -> None:
    """Makes table, views, source and sink."""
    db.execute(TABLE.format(idle_after=idle_after) + VIEWS + JOBS.format(folder=folder))


def simulated(folder: Path) -> None:
    """Runs one morning, and reports."""
    collector = Collector(folder)
    with ivm.connect(folder / "clicks.duckdb", clock=collector.clock) as db:
        define(db, folder, "30 minutes")
        db.tick()  # from now on devices may be idle
        db.start_sources()
        db.start_sinks()
        for part in morning(0):
            collector.write(part)
            wait_for(db, collector.written)
            if part.end.minute == 0:
                print(progress(db, part.end))
        db.advance("clicks", part.end)  # nothing more is to come
        while db.sinks()[0].lag_epochs:
            time.sleep(0.01)
        for title, query in REPORT.items():
            show(title, db.execute(query.format(folder=folder)))


def wait_for(db: ivm.Database, written: int) -> None:
    """Waits until the source has applied or refused all clicks that were written."""
    while True:
        [source] = db.sources()
        if source.events + source.dead_letters >= written:
            return
        if source.reason is not None:
            raise SystemExit(f"the source {source.state}: {source.reason}")
        time.sleep(0.01)


def progress(db: ivm.Database, at: datetime) -> str:
    """A line that tells how far the database is at some time of the morning."""
    [row] = db.execute("""
        SELECT watermark('clicks') AS watermark, (SELECT count(*) FROM clicks),
            (SELECT count(*) FROM per_hour), (SELECT count(*) FROM _ivm.dead_letters)
    """).fetchall()
    watermark, clicks, hours, refused = row
    return (
        f"{at:%H:%M}  watermark {watermark:%H:%M:%S}, final hours {hours},"
        f" clicks {clicks:,}, refused {refused:,}"
    )


def show(title: str, result: ivm.Result) -> None:
    """Prints the rows of a result under its columns."""
    print(f"\n{title}:")
    texts = [result.columns, *[[plain(value) for value in row] for row in result.fetchall()]]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        print("  " + "  ".join(cells).rstrip())


def plain(value: object) -> str:
    return f"{value:%H:%M:%S}" if isinstance(value, datetime) else str(value)


def live(folder: Path) -> None:
    """Serves the database while mornings go by, ten minutes in a second."""
    file, port = folder / "clicks.duckdb", free_port()
    with ivm.connect(file) as db:
        define(db, folder, "5 seconds")  # of the real time, by which the server goes
    (folder / "ivm.toml").write_text('[server]\nlog = "errors"\n')
    asked = ["serve", str(file), "--http", f"127.0.0.1:{port}", "--trust-loopback"]
    server = subprocess.Popen([sys.executable, "-m", "ivm", *asked])
    try:
        wait_for_port(port, server)
        print(f"open http://127.0.0.1:{port}/console/, Ctrl-C ends it", flush=True)
        collect(Collector(folder))
    except KeyboardInterrupt:
        pass
    finally:
        server.terminate()
        server.wait(20)


def collect(collector: Collector) -> None:
    """Writes mornings without an end."""
    for part in itertools.chain.from_iterable(map(morning, itertools.count())):
        collector.write(part)
        time.sleep(1)


def wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    """Waits until the server listens."""
    while server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise SystemExit("the server has ended")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", action="store_true", help="go on, with the console")
    run = live if parser.parse_args().live else simulated
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))


if __name__ == "__main__":
    main()
