"""Makes the pictures of the console in the docs: python -m tests.serve.screenshots docs/console"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.serve.served import Served
from tests.support.browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

MADE = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, region VARCHAR);
INSERT INTO customers
    SELECT i, ['EU', 'US', 'APAC', 'LATAM', 'MENA'][1 + i % 5] FROM range(200) r(i);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(10, 2));
INSERT INTO orders SELECT i, i % 200, i * 37 % 10000 / 100 FROM range(20000) r(i);
CREATE MATERIALIZED VIEW revenue AS
    SELECT region, count(*) AS orders, sum(amount) AS total, max(amount) AS largest
    FROM orders JOIN customers ON customer = customers.id GROUP BY region;
CREATE MATERIALIZED VIEW best_regions AS
    SELECT region, total FROM revenue ORDER BY total DESC LIMIT 3;
CREATE MATERIALIZED VIEW large_orders AS SELECT * FROM orders WHERE amount > 95;
CREATE MATERIALIZED VIEW regions AS SELECT string_agg(DISTINCT region) AS names FROM customers;
"""
_SIZE = (1000, 560)


def _rows(page: Page) -> None:
    page.wait_for_timeout(1500)


def _dataflow(page: Page) -> None:
    page.get_by_role("tab", name="Dataflow").click()
    page.wait_for_timeout(4000)


def _charts(page: Page) -> None:
    page.get_by_role("tab", name="Charts").click()
    page.get_by_label("Column", exact=True).select_option("total")
    page.wait_for_timeout(15_000)


def _sql(page: Page) -> None:
    page.locator(".cm-content").click()
    page.keyboard.insert_text(
        "SELECT region, total / orders AS mean\nFROM revenue\nORDER BY mean DESC"
    )
    page.keyboard.press("Control+Enter")
    page.wait_for_timeout(1000)


def _state(page: Page) -> None:
    page.wait_for_timeout(25_000)


PICTURES: tuple[tuple[str, str, str, Callable[[Page], None]], ...] = (
    ("views", "light", "", _rows),
    ("rows-dark", "dark", "#/view/revenue", _rows),
    ("charts", "light", "#/view/revenue", _charts),
    ("dataflow", "dark", "#/view/best_regions", _dataflow),
    ("sql", "light", "#/sql", _sql),
    ("state", "dark", "#/state", _state),
)


def make(folder: Path) -> None:
    """Writes the pictures into a folder, of a served database in which orders come and go."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        served, ending = Served(Path(place)), threading.Event()
        with served.running():
            served.sql(MADE)
            writer = threading.Thread(target=_write, args=(served, ending))
            writer.start()
            try:
                _take(served, folder)
            finally:
                ending.set()
                writer.join()


def _write(served: Served, ending: threading.Event) -> None:
    drawn, key = random.Random(1), 20_000
    while not ending.wait(0.25):
        key += 1
        amount = drawn.randrange(10_000) / 100
        served.sql(f"INSERT INTO orders VALUES ({key}, {drawn.randrange(200)}, {amount})")
        if key % 4 == 0:
            served.sql(f"DELETE FROM orders WHERE id = {drawn.randrange(20_000)}")


def _take(served: Served, folder: Path) -> None:
    with browser() as started:
        for name, scheme, place, prepare in PICTURES:
            width, height = _SIZE
            page = started.new_page(viewport={"width": width, "height": height})
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.goto(f"{served.url}/console/{place}")
            prepare(page)
            page.screenshot(path=folder / f"{name}.png")
            page.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
