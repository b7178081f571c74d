"""The console in a real browser, on a served database."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.serve.served import Served
from tests.support.browser import browser, demand_browser, missing

pytestmark = pytest.mark.full

if missing() is None:
    from playwright.sync_api import expect

    expect.set_options(timeout=15_000)
if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

LARGE = 120_000  # rows, more than the page holds
MADE = f"""
CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR, amount DECIMAL(10, 2));
INSERT INTO orders SELECT i, ['EU', 'US', 'APAC'][1 + i % 3], i FROM range(30) r(i);
CREATE MATERIALIZED VIEW revenue AS
    SELECT region, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY region;
CREATE MATERIALIZED VIEW best AS SELECT region, total FROM revenue WHERE total > 0;
CREATE MATERIALIZED VIEW listed AS SELECT string_agg(region ORDER BY id) AS regions FROM orders;
CREATE TABLE many (id INTEGER PRIMARY KEY, note VARCHAR);
INSERT INTO many SELECT i, 'note ' || i FROM range({LARGE}) r(i);
CREATE MATERIALIZED VIEW all_notes AS SELECT id, note FROM many;
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    demand_browser()
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("served"))
    with server.running():
        server.sql(MADE)
        yield server


class Console:
    """A page of the console.

    Attributes:
        page: Playwright's.
        faults: what the page and the browser complain of; a test that expects some clears it.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.faults: list[str] = []
        self._url = url
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._told)

    def _told(self, message: ConsoleMessage) -> None:
        if message.type != "error":
            return
        text = message.text
        # Where text replaces a selection, Chromium styles it inline, and then refuses that itself.
        if not (text.startswith("Applying inline style") and self.page.url.endswith("#/sql")):
            self.faults.append(text)

    def open(self, place: str = "") -> Console:
        """Opens the page at a place such as `#/sql`."""
        self.page.goto(f"{self._url}/console/{place}")
        return self

    def rows(self) -> list[list[str]]:
        """The rows of the view that is shown, without those that went."""
        return self.page.evaluate(  # type: ignore[no-any-return]
            "[...document.querySelectorAll('#rows tbody tr:not(.went)')]"
            ".map(tr => [...tr.cells].slice(1).map(td => td.textContent))"
        )

    def wait(self, condition: str, argument: Any = None) -> None:
        """Waits until an expression of the page is true; the page itself may evaluate none."""
        for _ in range(200):
            if self.page.evaluate(condition, argument):
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"it is not true: {condition}")

    def run_sql(self, text: str) -> None:
        """Types SQL into the editor and runs it."""
        editor = self.page.locator(".cm-content")
        editor.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)
        self.page.keyboard.press("Control+Enter")


@pytest.fixture
def console(chromium: Browser, served: Served) -> Iterator[Console]:
    with chromium.new_context(viewport={"width": 1200, "height": 800}) as context:
        found = Console(context.new_page(), served.url)
        yield found
        assert found.faults == []


@pytest.fixture
def order(served: Served) -> Callable[..., int]:
    """Writes an order of a new key, and returns it."""

    def write(region: str = "EU", amount: float = 1.0) -> int:
        [[key]] = served.sql("SELECT max(id) + 1 FROM orders")
        served.sql(f"INSERT INTO orders VALUES ({key}, '{region}', {amount})")
        return int(key)

    return write


# -- views -----------------------------------------------------------------------------------------


def test_views_and_tables_are_listed(console: Console, order: Callable[..., int]) -> None:
    page = console.open().page
    expect(page.locator("#views tbody tr")).to_have_count(4)
    line = page.get_by_role("row", name="revenue ● live")
    expect(line).to_contain_text("indexed")
    expect(page.get_by_role("row", name=re.compile("^all_notes"))).to_contain_text("120,000")
    expect(page.locator("#tables")).to_contain_text("id, region, amount")
    page.get_by_label("Filter by name").fill("REV")
    expect(page.locator("#views tbody tr")).to_have_count(1)
    order()  # a recomputed view is stale then, until it is read
    page.get_by_label("Filter by name").fill("listed")
    expect(page.locator("#views")).to_contain_text("recomputed when read")


@pytest.mark.full(smoke=1)
def test_a_view_changes_before_ones_eyes(console: Console, order: Callable[..., int]) -> None:
    page = console.open("#/view/best").page
    expect(page.locator("#rows tbody tr")).to_have_count(3)
    order("AFRICA", 17.5)
    came = page.locator("#rows tr.came")
    expect(came).to_contain_text("AFRICA")
    expect(came.locator(".mark")).to_have_text("+")
    order("AFRICA", 1)
    went = page.locator("#rows tr.went")
    expect(went).to_contain_text("17.50")
    expect(went.locator(".mark")).to_have_text("−")
    expect(page.locator("#rows tr.came")).to_contain_text("18.50")
    expect(page.locator("#said")).to_contain_text("+1 −1")
    expect(page.locator("#rows .came, #rows .went")).to_have_count(0)  # marks fade
    assert ["AFRICA", "18.50"] in console.rows()


def test_many_changes_come_to_the_rows_of_the_view(console: Console, served: Served) -> None:
    """Duplicates, NULLs and texts that need care are counted as the database counts them."""
    served.sql(
        "CREATE TABLE loose (a VARCHAR, b BIGINT);"
        "CREATE MATERIALIZED VIEW copied AS SELECT a, b FROM loose"
    )
    console.open("#/view/copied")
    console.wait("document.querySelector('#said')?.textContent.startsWith('0 rows')")
    drawn = random.Random(7)
    values = ["NULL", "''", "'<b>&amp;'", "'é\u2028 \"'", "'x'"]
    for _ in range(40):
        if drawn.random() < 0.3:
            served.sql(f"DELETE FROM loose WHERE b = {drawn.randrange(4)}")
        else:
            rows = [
                f"({drawn.choice(values)}, {drawn.choice(['NULL', 9007199254740993, 0, 1, 2, 3])})"
                for _ in range(3)
            ]
            served.sql(f"INSERT INTO loose VALUES {', '.join(rows)}")
    [[epoch, count]] = served.sql(
        "SELECT (SELECT max(epoch) FROM _ivm.epochs), count(*) FROM copied"
    )
    assert epoch
    console.wait(f"document.querySelector('#said').textContent.startsWith('{count:,} row')")
    console.wait("!document.querySelector('#rows .went, #rows .came')")
    shown = console.page.evaluate(
        "[...document.querySelectorAll('#rows tbody tr')].map(tr => ["
        "...[...tr.cells].slice(1).map(td => td.textContent),"
        " Number(tr.cells[0].textContent.match(/×(\\d+)/)?.[1] ?? 1)])"
    )
    wanted = served.sql(
        "SELECT coalesce(a, 'NULL'), coalesce(CAST(b AS VARCHAR), 'NULL'), count(*) FROM copied "
        "GROUP BY ALL"
    )
    assert sorted(shown) == sorted(wanted)
    served.sql("DROP MATERIALIZED VIEW copied; DROP TABLE loose")
    expect(console.page.locator("#said")).to_contain_text("no materialized view")
    console.faults.clear()  # the browser tells of the 404


def test_a_pause_holds_what_is_shown(console: Console, order: Callable[..., int]) -> None:
    page = console.open("#/view/revenue").page
    console.wait("document.querySelectorAll('#rows tbody tr').length >= 3")
    page.get_by_role("button", name="Pause").click()
    before = console.rows()
    order("PAUSED", 3)
    page.wait_for_timeout(700)
    assert console.rows() == before
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#rows")).to_contain_text("PAUSED")


def test_rows_are_filtered_sorted_and_cut(console: Console, served: Served) -> None:
    page = console.open("#/view/best").page
    wanted = served.sql("SELECT region FROM best ORDER BY total DESC")
    expect(page.locator("#rows tbody tr")).to_have_count(len(wanted))
    page.get_by_role("button", name="total").click()
    page.get_by_role("button", name="total").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("total")
    console.wait(
        "wanted => JSON.stringify([...document.querySelectorAll('#rows tbody tr')]"
        ".map(tr => [tr.cells[1].textContent])) === wanted",
        json.dumps(wanted, separators=(",", ":")),
    )
    page.get_by_label("Filter rows").fill("eu")
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    expect(page.locator("#said")).to_contain_text("1 row match")


def test_a_large_view_shows_its_first_rows(console: Console, served: Served) -> None:
    page = console.open("#/view/all_notes").page
    expect(page.locator("#said")).to_contain_text(f"{LARGE:,} rows · the first 200 are shown")
    expect(page.locator("#rows tbody tr")).to_have_count(200)
    served.sql("DELETE FROM many WHERE id = 1; INSERT INTO many VALUES (-5, 'before all')")
    first = page.locator("#rows tbody tr").first
    expect(first).to_contain_text("before all")
    expect(page.locator("#rows tr.went")).to_contain_text("note 1")
    page.get_by_label("Filter rows").fill("note 11999")
    expect(page.locator("#rows tbody tr")).to_have_count(12)  # 11999, 111999, 119990 to 119999
    expect(page.locator("#said")).to_contain_text("12 rows match")
    page.get_by_label("Filter rows").fill("")
    page.get_by_role("button", name="id").click()
    expect(first).to_contain_text("note 119999")
    served.sql("DELETE FROM many WHERE id = -5; INSERT INTO many VALUES (1, 'note 1')")


def test_a_view_that_grows_large_is_followed_on(console: Console, served: Served) -> None:
    served.sql(
        "CREATE TABLE growing (n INTEGER); CREATE MATERIALIZED VIEW grown AS SELECT n FROM growing"
    )
    page = console.open("#/view/grown").page
    expect(page.locator("#said")).to_contain_text("0 rows")
    served.sql(f"INSERT INTO growing SELECT i FROM range({LARGE}) r(i)")
    expect(page.locator("#said")).to_contain_text(f"{LARGE:,} rows · the first 200 are shown")
    served.sql("INSERT INTO growing VALUES (-1)")
    expect(page.locator("#said")).to_contain_text(f"{LARGE + 1:,} rows")
    expect(page.locator("#rows tbody tr").first).to_contain_text("-1")
    served.sql("DROP MATERIALIZED VIEW grown; DROP TABLE growing")
    expect(page.locator("#said")).to_contain_text("no materialized view")
    console.faults.clear()  # the browser tells of the 404


def test_a_view_is_followed_over_the_servers_end(chromium: Browser, tmp_path: Path) -> None:
    served = Served(tmp_path)
    with served.running(), chromium.new_context() as context:
        served.sql(MADE)
        console = Console(context.new_page(), served.url).open("#/view/revenue")
        console.wait("document.querySelectorAll('#rows tbody tr').length === 3")
        served.kill()
        expect(console.page.get_by_role("alert")).to_contain_text("does not answer")
        served.start()
        served.sql("INSERT INTO orders VALUES (1000, 'AFTER', 2)")
        expect(console.page.locator("#rows")).to_contain_text("AFTER")
        expect(console.page.get_by_role("alert")).to_be_hidden()
        assert len(console.rows()) == 4


def subscribers(served: Served) -> int:
    found = re.search(r"^ivm_subscribers (\d+)$", httpx.get(f"{served.url}/metrics").text, re.M)
    assert found is not None
    return int(found[1])


def test_a_tab_that_is_not_seen_needs_no_connection(
    console: Console, served: Served, order: Callable[..., int]
) -> None:
    page = console.open("#/view/revenue").page
    expect(page.locator("#rows")).to_contain_text("EU")
    assert subscribers(served) == 1
    hide = (
        "on => { Object.defineProperty(document, 'hidden', { value: on, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')) }"
    )
    page.evaluate(hide, True)
    for _ in range(100):
        if not subscribers(served):
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail("the connection is still there")
    order("MEANWHILE", 1)
    page.evaluate(hide, False)
    expect(page.locator("#rows")).to_contain_text("MEANWHILE")


def test_a_broken_view_is_shown_once_it_is_mended(
    console: Console, served: Served, tmp_path: Path
) -> None:
    event = '{"op": "insert", "n": "x"}\n'
    served.sql(
        "CREATE TABLE texts (n VARCHAR);"
        "CREATE MATERIALIZED VIEW numbers AS SELECT CAST(n AS INTEGER) AS n FROM texts;"
        "INSERT INTO texts VALUES ('7')"
    )
    page = console.open("#/view/numbers").page
    expect(page.locator("#rows")).to_contain_text("7")
    (tmp_path / "a.jsonl").write_text(event)
    served.sql(f"CREATE SOURCE x INTO texts FROM FILES (path '{tmp_path}/*.jsonl', format 'json');")
    expect(page.locator("#said")).to_contain_text("Could not convert")
    page.get_by_role("link", name="State").click()
    expect(page.locator("#errors")).to_contain_text("View numbers")
    page.get_by_role("link", name="Views").click()
    page.get_by_role("link", name="numbers").click()
    expect(page.locator("#said")).to_contain_text("Could not convert")
    served.sql("DROP SOURCE x; DELETE FROM texts WHERE n = 'x'; REFRESH MATERIALIZED VIEW numbers")
    expect(page.locator("#rows tbody")).to_have_text("7")
    served.sql("DROP MATERIALIZED VIEW numbers; DROP TABLE texts")
    expect(page.locator("#said")).to_contain_text("no materialized view")
    console.faults.clear()  # the browser tells of the 404 and the 409


def test_a_replaced_view_is_shown_as_it_is_now(console: Console, served: Served) -> None:
    served.sql("CREATE MATERIALIZED VIEW changing AS SELECT region FROM best")
    page = console.open("#/view/changing").page
    expect(page.locator("#rows th")).to_have_count(2)
    served.sql("CREATE OR REPLACE MATERIALIZED VIEW changing AS SELECT region, total FROM best")
    expect(page.locator("#rows th")).to_have_count(3)
    expect(page.locator("#rows tbody")).to_contain_text("EU")
    served.sql("DROP MATERIALIZED VIEW changing")


def test_a_view_is_followed_until_it_is_dropped(console: Console, served: Served) -> None:
    served.sql("""CREATE MATERIALIZED VIEW "a/<b>" AS SELECT '<i>' || region AS r FROM best""")
    page = console.open().page
    page.get_by_role("link", name="a/<b>").click()
    expect(page.locator("#rows tbody")).to_contain_text("<i>EU")
    served.sql('DROP MATERIALIZED VIEW "a/<b>"')
    expect(page.locator("#said")).to_contain_text("there is no materialized view 'a/<b>'")
    page.get_by_role("link", name="Views").click()
    expect(page.get_by_role("link", name="best")).to_be_visible()
    expect(page.get_by_role("link", name="a/<b>")).to_have_count(0)
    assert all("404" in fault for fault in console.faults)  # the browser's own word of it
    console.faults.clear()


def test_names_of_any_kind(console: Console, served: Served) -> None:
    served.sql(
        'CREATE SCHEMA "Odd";'
        'CREATE TABLE "Odd"."t.<b>é" ("a ""b" INTEGER, "select" VARCHAR);'
        'CREATE MATERIALIZED VIEW "Odd"."v ""1"".&" AS SELECT * FROM "Odd"."t.<b>é";'
        """INSERT INTO "Odd"."t.<b>é" VALUES (1, '<img src=x>'), (2, 'y')"""
    )
    page = console.open().page
    page.get_by_role("link", name='"v ""1"".&"').click()
    expect(page.locator("#rows thead")).to_contain_text('a "b')
    expect(page.locator("#rows tbody")).to_contain_text("<img src=x>")
    page.get_by_role("tab", name="Charts").click()
    expect(page.locator("figcaption").last).to_have_text('sum of a "b: 3')
    page.get_by_role("tab", name="Dataflow").click()
    expect(page.locator("#operators")).to_contain_text("t.<b>é")
    page.get_by_role("link", name="Views").click()
    page.get_by_role("link", name='"t.<b>é"').click()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#result tbody tr")).to_have_count(2)
    page.get_by_label("Tables and views").get_by_role("button", name='"v ""1"".&"').click()
    expect(page.locator(".cm-content")).to_contain_text('Odd."v ""1"".&"')
    served.sql('DROP SCHEMA "Odd" CASCADE')


def test_charts_follow_a_view(console: Console, order: Callable[..., int]) -> None:
    page = console.open("#/view/revenue").page
    page.get_by_role("tab", name="Charts").click()
    page.get_by_label("Key", exact=True).select_option("region")
    page.get_by_label("Value of the key").fill("CHART")
    page.get_by_label("Value of the key").press("Enter")
    expect(page.locator("figcaption").first).to_have_text(re.compile(r"^Rows: \d+$"))
    order("CHART", 41)
    caption = page.locator("figcaption").last
    expect(caption).to_have_text("sum of total where region = CHART: 41")
    order("CHART", 1)
    expect(caption).to_have_text("sum of total where region = CHART: 42")
    expect(page.locator(".chart canvas")).to_have_count(2)


def test_the_dataflow_of_a_view(console: Console, order: Callable[..., int]) -> None:
    page = console.open("#/view/revenue").page
    page.get_by_role("tab", name="Dataflow").click()
    line = page.locator("#operators tbody tr").first
    expect(line).to_contain_text("Aggregate")
    expect(line).to_contain_text("2 views")  # `best` reads it
    expect(page.locator(".graph g.shared").first).to_contain_text("↔ 2 views")
    boxes, lines = page.locator(".graph g[data-id]"), page.locator("#operators tbody tr")
    expect(boxes).to_have_count(lines.count())
    expect(line.locator("td").nth(7)).to_have_text("0/s")  # a second reading
    order()
    expect(page.locator(".graph g.busy").first).to_contain_text("/s")


def test_a_recomputed_view_tells_why(console: Console) -> None:
    page = console.open("#/view/listed").page
    expect(page.locator("#rows")).to_contain_text("EU,US,APAC")
    page.get_by_role("tab", name="Dataflow").click()
    expect(page.locator(".note")).to_contain_text("Recomputed as a whole: an aggregate")
    page.get_by_role("tab", name="Definition").click()
    expect(page.locator("pre")).to_contain_text("string_agg(region ORDER BY id)")


# -- SQL -------------------------------------------------------------------------------------------


@pytest.mark.full(smoke=1)
def test_sql_is_completed_and_run(console: Console) -> None:
    page = console.open("#/sql").page
    page.locator(".cm-content").click()
    page.keyboard.type("select r. from rev")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("revenue")
    page.wait_for_timeout(200)  # the editor takes no key as meant for what has just appeared
    page.keyboard.press("Enter")
    page.keyboard.type(" r")
    page.keyboard.press("Escape")
    for _ in range(len(" from revenue r")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("tot")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("total")
    page.wait_for_timeout(200)
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#ran")).to_have_text(
        re.compile(r"\d+ rows · .* · read from (memory|DuckDB)")
    )
    expect(page.locator("#result th")).to_have_text("totalDECIMAL(38,2)")


def test_what_is_selected_is_run(console: Console) -> None:
    page = console.open("#/sql").page
    console.run_sql("SELECT 1 AS a")
    expect(page.locator("#result th")).to_contain_text("a")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("SELECT nonsense; SELECT 2 AS b")
    for _ in range(len("SELECT 2 AS b")):
        page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result th")).to_contain_text("b")


def test_an_error_is_marked_at_its_place(console: Console) -> None:
    page = console.open("#/sql").page
    console.run_sql("SELECT 1;\nSELECT regoin FROM revenue")
    expect(page.locator("#failed")).to_contain_text('Candidate bindings: "region"')
    expect(page.locator(".cm-lintRange-error")).to_have_text("regoin")
    console.run_sql("SELECT 2 AS fine")
    expect(page.locator("#result")).to_contain_text("fine")
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    console.faults.clear()  # the browser tells of the 400


def test_a_view_that_is_created_shows_at_once(console: Console, served: Served) -> None:
    page = console.open("#/sql").page
    console.run_sql("CREATE MATERIALIZED VIEW made_here AS SELECT region FROM best")
    made = page.get_by_label("Tables and views").get_by_role("button", name="made_here")
    expect(made).to_be_visible()
    page.get_by_role("link", name="Views").click()
    expect(page.locator("#views")).to_contain_text("made_here")
    served.sql("DROP MATERIALIZED VIEW made_here")


def test_history_and_draft_stay(console: Console) -> None:
    page = console.open("#/sql").page
    console.run_sql("SELECT 42 AS answer")
    expect(page.locator("#result")).to_contain_text("42")
    console.run_sql("CREATE USER eve PASSWORD 'no' ROLE read")
    page.get_by_role("link", name="State").click()
    page.get_by_role("link", name="SQL").click()
    expect(page.locator(".cm-content")).to_contain_text("eve")
    listed = page.get_by_label("History").get_by_role("button")
    expect(listed).to_have_text(["SELECT 42 AS answer"])  # nothing with a password
    listed.click()
    expect(page.locator(".cm-content")).to_have_text("SELECT 42 AS answer")
    page.get_by_role("button", name="Forget the history").click()
    expect(listed).to_have_count(0)
    console.run_sql("DROP USER eve")
    expect(page.locator("#ran")).to_contain_text("ms")


def test_a_long_result_grows_as_it_is_scrolled(console: Console) -> None:
    page = console.open("#/sql").page
    console.run_sql("SELECT i, NULL AS nothing, 12345678901234567890 AS long FROM range(1000) r(i)")
    expect(page.locator("#ran")).to_contain_text("1,000 rows")
    expect(page.locator("#result tbody tr")).to_have_count(200)
    expect(page.locator("#result tbody tr").first).to_have_text("0NULL12345678901234567890")
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#result tbody tr")).to_have_count(400)


def test_of_a_result_that_is_too_large_the_first_rows_are_shown(console: Console) -> None:
    page = console.open("#/sql").page
    console.run_sql("SELECT i, repeat('x', 1000) AS text FROM range(200000) r(i)")
    expect(page.locator("#ran")).to_contain_text("too large to be shown whole", timeout=30_000)
    told = re.match(r"the first ([\d,]+) rows", page.locator("#ran").inner_text())
    assert told is not None
    assert 10_000 < int(told[1].replace(",", "")) < 20_000
    expect(page.locator("#result tbody tr").first).to_have_text("0" + "x" * 1000)


def test_a_statement_is_stopped(console: Console, served: Served) -> None:
    page = console.open("#/sql").page
    console.run_sql(
        "SELECT count(*) FROM range(100000) a(i), range(1000000) b(j) WHERE i * j % 7 = 3"
    )
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#ran")).to_contain_text("Stopped")
    for _ in range(100):
        text = httpx.get(f"{served.url}/metrics").text
        if re.search(r"^ivm_statements_running [01]$", text, re.MULTILINE):
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail("the statement runs on")


# -- state -----------------------------------------------------------------------------------------


def test_sources_sinks_and_errors(console: Console, served: Served, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "a.jsonl").write_text('{"op": "insert", "n": 1}\n{"op": "insert", "n": "x"}\n')
    for name in ("b", "c", "d", "e"):
        (tmp_path / f"{name}.jsonl").write_text('{"op": "insert", "n": 2}\n')
    served.sql(
        "CREATE TABLE events (n INTEGER);"
        "CREATE MATERIALIZED VIEW seen AS SELECT n FROM events;"
        f"CREATE SOURCE clicks INTO events FROM FILES (path '{tmp_path}/*.jsonl', format 'json');"
        f"CREATE SINK out FROM seen INTO FILES (path '{tmp_path}/out/seen.jsonl');"
    )
    page = console.open("#/state").page
    expect(page.locator("#sources")).to_contain_text("● running")
    expect(page.locator("#sources td.bad")).to_have_text("1")  # dead letter
    position = page.locator("#sources td").last
    expect(position).to_have_text(re.compile(r"^….*/e\.jsonl: 1$"))
    expect(position).to_have_attribute("title", re.compile(r"^/.*/a\.jsonl: 2, .*/e\.jsonl: 1$"))
    expect(page.locator("#sinks")).to_contain_text("seen")
    expect(page.locator("figcaption").first).to_contain_text("/s")
    served.sql("DROP SINK out; DROP SOURCE clicks; DROP MATERIALIZED VIEW seen; DROP TABLE events")
    expect(page.locator("#state")).to_contain_text("None. CREATE SOURCE makes one.")


def test_watermarks(console: Console, served: Served) -> None:
    served.sql("""
        CREATE TABLE "a ""<b>" (ts TIMESTAMP, device VARCHAR,
            WATERMARK FOR ts AS ts - INTERVAL '5 minutes')
            WITH (watermark_by = device, idle_after = INTERVAL '1 day', late = 'refuse');
        CREATE TABLE beats (d DATE, WATERMARK FOR d AS d - INTERVAL '1 day');
        CREATE MATERIALIZED VIEW hours AS SELECT window_end, count(*) AS n
            FROM tumble("a ""<b>", ts, INTERVAL '1 hour') GROUP BY ALL EMIT ON WINDOW CLOSE
    """)
    page = console.open().page
    clicks = page.locator("#tables").get_by_role("row", name='"a ""<b>"')
    expect(clicks).to_contain_text("none yet")
    expect(page.get_by_role("row", name="hours")).to_contain_text("live, nothing is final yet")
    served.sql("""
        INSERT INTO "a ""<b>" VALUES
            ('2026-03-02 10:20:00', 'phone'), ('2026-03-02 10:15:00', '<i>slow</i>');
        INSERT INTO beats VALUES ('2026-03-02'), ('infinity');
        INSERT INTO beats VALUES ('2026-02-02');
    """)
    expect(clicks).to_contain_text("2026-03-02 10:10:00")
    page.get_by_role("link", name="hours").click()
    expect(page.locator(".tools").first).to_contain_text("final until 2026-03-02 10:10:00, indexed")
    page.get_by_role("link", name="State").click()
    lines = page.locator("#watermarks tbody tr")
    expect(lines).to_have_count(2)
    expect(lines.nth(0).locator("td")).to_have_text(
        [
            *('"a ""<b>"', "ts", "2026-03-02 10:10:00", "2026-03-02 10:20:00"),
            *("10 min", "refused", "<i>slow</i>", "0 of 2"),
        ]
    )
    served.sql("ALTER TABLE beats ADVANCE WATERMARK TO 'infinity'")
    expect(lines.nth(1).locator("td")).to_have_text(
        ["beats", "d", "infinity", "2026-03-02 00:00:00", "past it", "1", "", ""]
    )
    served.sql("""DROP MATERIALIZED VIEW hours; DROP TABLE "a ""<b>"; DROP TABLE beats""")
    expect(page.locator("#watermarks")).to_have_count(0)


# -- who is there, and how it looks ----------------------------------------------------------------


def test_users_log_in(chromium: Browser, tmp_path: Path) -> None:
    trusting = Served(tmp_path)
    with trusting.running():
        trusting.sql(MADE + "CREATE USER ann PASSWORD 'right' ROLE read;")
        [[_, token]] = trusting.sql("CREATE TOKEN desk FOR USER ann")
    served = Served(tmp_path, trusted=False)
    with served.running(), chromium.new_context() as context:
        console = Console(context.new_page(), served.url).open("#/view/revenue")
        page = console.page
        page.get_by_label("User").fill("ann")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("status")).to_contain_text("wrong")
        page.get_by_label("Password").fill("right")
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#rows tbody tr")).to_have_count(3)
        page.get_by_role("link", name="State").click()
        expect(page.locator("#state")).to_contain_text("For admins.")
        page.get_by_role("link", name="SQL").click()
        console.run_sql("DELETE FROM orders")
        expect(page.locator("#failed")).to_contain_text("the role read changes nothing")
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Password").fill(token)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator(".cm-content")).to_be_visible()
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
        assert "right" not in kept
        assert token not in kept


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(console: Console, scheme: Any) -> None:
    page = console.page
    page.emulate_media(color_scheme=scheme)
    console.open()
    ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    expect(page.locator("#views")).to_be_visible()
    assert (page.evaluate(ground) < 100) == (scheme == "dark")
    other = {"light": "Dark", "dark": "Light"}[scheme]
    while other not in page.locator("#theme").inner_text():
        page.locator("#theme").click()
    assert (page.evaluate(ground) < 100) == (scheme != "dark")
    page.reload()
    expect(page.locator("#theme")).to_contain_text(other)  # it is kept


def test_a_small_window_and_the_keyboard(console: Console) -> None:
    page = console.page
    page.set_viewport_size({"width": 360, "height": 640})
    for place in ("", "#/view/revenue", "#/sql", "#/state"):
        console.open(place)
        expect(page.locator("h1")).not_to_have_count(0)
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0, place
    console.open()
    page.get_by_role("link", name="revenue").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="revenue")).to_be_visible()
    page.get_by_role("tab", name="Rows").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Charts")).to_have_attribute("aria-selected", "true")
