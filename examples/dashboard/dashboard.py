"""A page with a live view: run this file, then open the address that it prints.

It serves a database in a temporary folder by `ivm serve`, writes orders to it over HTTP, and sends
the page that shows the view `revenue`, which the page follows by server-sent events.
"""

from __future__ import annotations

import argparse
import http.server
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import ivm
from ivm.client import RemoteDatabase
from ivm.client import connect as connect_to

PAGE = Path(__file__).with_name("page.html")
REGIONS = ("north", "east", "south", "west")
SCHEMA = """
    CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR, amount DECIMAL(9, 2));
    CREATE MATERIALIZED VIEW revenue AS
        SELECT region, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY region
"""


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def serve(file: Path, port: int, origin: str) -> subprocess.Popen[bytes]:
    """Starts the server of a database; pages of the origin may speak to it."""
    with ivm.connect(file) as db:
        db.execute(SCHEMA)
    file.with_name("ivm.toml").write_text(f'[server]\norigins = "{origin}"\nlog = "errors"\n')
    asked = ["serve", str(file), "--http", f"127.0.0.1:{port}", "--trust-loopback"]
    return subprocess.Popen([sys.executable, "-m", "ivm", *asked])


def connected(port: int) -> RemoteDatabase:
    """The served database, once it answers."""
    db = connect_to(f"ivm://127.0.0.1:{port}")
    while True:
        try:
            db.epoch  # noqa: B018 -- it asks the server
            return db
        except ivm.errors.UnavailableError:
            time.sleep(0.1)


def write(db: RemoteDatabase, count: int) -> None:
    """Writes orders, some a second."""
    for i in range(count):
        amount = round(random.uniform(1, 50), 2)
        db.insert("orders", {"id": [i], "region": [random.choice(REGIONS)], "amount": [amount]})
        time.sleep(0.2)


def page_server(port: int) -> http.server.ThreadingHTTPServer:
    """Sends the page to who asks for it."""
    page = PAGE.read_text(encoding="utf-8").replace("{SERVER}", f"http://127.0.0.1:{port}").encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def main() -> None:
    """Runs until Ctrl-C, or until the orders are written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=1_000_000, help="how many are written")
    count = parser.parse_args().orders
    port = free_port()
    pages = page_server(port)
    origin = f"http://127.0.0.1:{pages.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        server = serve(Path(folder) / "shop.duckdb", port, origin)
        try:
            db = connected(port)
            threading.Thread(target=pages.serve_forever, daemon=True).start()
            print(f"open {origin}", flush=True)
            write(db, count)
            total = db.execute("SELECT sum(orders) FROM revenue").fetchall()
            print(f"{total[0][0]} orders in the view")
            db.close()
        except KeyboardInterrupt:
            pass
        finally:
            pages.shutdown()
            pages.server_close()
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
