"""The documentation holds: its examples run and print what it says, and nothing public is left out.

A page runs from top to bottom on one database. A ```text block after a ```sql or ```python block
is its output; "…" in it stands for anything. Rows are shown as `a | b`, a plan as its text, an
error as `Error: message`.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

import ivm
from ivm.cdc.sinks.tail import Tail
from ivm.engine.feeds.changefeed import Subscription
from ivm.row_writes import RowWrites
from ivm.session.results.result import Result
from ivm.sql.statements.nodes import nodes, own_nodes
from ivm.streams import Streams
from tests.project.test_layers import LAYERS, ROOMS, layer_of, modules_of, room_of
from tests.support import ROOT
from tests.support.spark import session
from tests.support.view_oracle import assert_verified

PAGES = (
    "README.md",
    "docs/sql.md",
    "docs/python.md",
    "docs/sources.md",
    "docs/sinks.md",
    "docs/serving.md",
    "docs/streams.md",
)
SPARK_PAGES = ("docs/scaling.md",)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSTRUCT = re.compile(r"^\| ([^|]+) \| `([^`]+)` \| ([a-z ]+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A fenced block, the line it stands at, and the output that the page promises."""

    language: str
    code: str
    line: int
    output: str | None


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def examples_of(text: str) -> Iterator[Example]:
    """The ```sql and ```python blocks of a page."""
    fences = list(FENCE.finditer(text))
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        if fence[1] in ("sql", "python"):
            output = following[2] if following is not None and following[1] == "text" else None
            yield Example(fence[1], fence[2], text.count("\n", 0, fence.start()) + 1, output)


class Page:
    """Runs the examples of a page, in one namespace and on one in-memory database for its SQL."""

    def __init__(self) -> None:
        self.database = ivm.connect()
        self.namespace: dict[str, Any] = {}

    def run(self, example: Example) -> str:
        """What an example prints."""
        if example.language == "sql":
            return self._sql(example.code)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.code, f"line {example.line}", "exec"), self.namespace)
        return printed.getvalue()

    def _sql(self, script: str) -> str:
        try:
            result = self.database.execute(script)
        except ivm.errors.IvmError as error:
            return f"Error: {error}"
        if result.columns == ["explain_key", "explain_value"]:
            return "\n".join(str(text) for _, text in result)
        rows = [result.columns, *result.fetchall()] if result.kind == "rows" else []
        return "\n".join(" | ".join(shown(value) for value in row) for row in rows)


def shown(value: object) -> str:
    """A value on one line, as SQL writes it."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    return " ".join(str(value).split())


def normal(text: str) -> str:
    """Text without the blanks that only align it."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def matches(output: str, promised: str) -> bool:
    """Whether the output is what was promised, "…" standing for anything."""
    pattern = ".*".join(re.escape(part) for part in normal(promised).split("…"))
    return re.fullmatch(pattern, normal(output), re.DOTALL) is not None


@pytest.mark.full(smoke=2)
@pytest.mark.parametrize("page", [*PAGES, *SPARK_PAGES])
def test_examples_print_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page in SPARK_PAGES:
        session()  # or it is not run
    monkeypatch.chdir(tmp_path)
    runner = Page()
    with runner.database:
        for example in examples_of(text_of(page)):
            output = runner.run(example)
            where = f"{page}:{example.line}"
            if example.output is None:
                assert not output.startswith("Error:"), f"{where}: {output}"
            else:
                assert matches(output, example.output), f"{where} printed:\n{output}"


def test_the_checks_see_a_wrong_page() -> None:
    text = "```sql\nSELECT 1 AS a\n```\n\n```text\na\n2\n```\n"
    (example,) = examples_of(text)
    runner = Page()
    with runner.database:
        assert not matches(runner.run(example), example.output or "")
    assert matches("a  | b\n1 | 2", "a | b\n1 | …")


CONSTRUCTS = CONSTRUCT.findall(text_of("docs/sql.md"))


@pytest.fixture(scope="module")
def shop() -> Iterator[ivm.Database]:
    """The tables that the constructs of docs/sql.md speak of."""
    with ivm.connect() as db:
        db.execute("""
            CREATE TABLE customers (
                id INTEGER PRIMARY KEY, region VARCHAR NOT NULL, segment VARCHAR);
            CREATE TABLE orders (
                id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(10, 2), status VARCHAR,
                placed DATE);
            INSERT INTO customers VALUES (1, 'north', 'home'), (2, 'south', 'office');
            INSERT INTO orders
                SELECT i, i % 2 + 1, i * 1.5, 's' || (i % 3), NULL FROM range(20) r(i);
            CREATE MATERIALIZED VIEW open_orders AS SELECT * FROM orders WHERE status = 's1';
        """)
        yield db


def test_the_table_of_constructs_is_read() -> None:
    assert len(CONSTRUCTS) > 20
    words = {"linear", "indexed", "group recompute", "whole recompute"}
    assert {strategy for _, _, strategy in CONSTRUCTS} == words


@pytest.mark.cases(4)
@pytest.mark.parametrize(("construct", "query", "strategy"), CONSTRUCTS)
def test_construct_is_maintained_as_said(
    shop: ivm.Database, construct: str, query: str, strategy: str
) -> None:
    shop.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
    shop.execute("INSERT INTO orders VALUES (100, 1, 7.25, 's1', NULL)")
    shop.execute("DELETE FROM orders WHERE id = 100")
    shop.execute("UPDATE orders SET amount = amount + 1 WHERE id = 3")
    (view,) = [view for view in shop.views() if view.name == "v"]
    assert_verified(shop, "v")
    shop.execute("DROP MATERIALIZED VIEW v")
    assert view.strategy == strategy, construct


STATEMENTS = {
    "CreateView": ["CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS]"],
    "DropView": ["DROP MATERIALIZED VIEW [IF EXISTS]"],
    "ExplainView": ["EXPLAIN [ANALYZE] MATERIALIZED VIEW"],
    "VerifyView": ["VERIFY MATERIALIZED VIEW", "VERIFY MATERIALIZED VIEWS"],
    "RefreshView": ["REFRESH MATERIALIZED VIEW name"],
    "ShowViews": ["SHOW MATERIALIZED VIEWS"],
    "CreateSource": ["CREATE SOURCE"],
    "ChangeSource": [
        *("PAUSE SOURCE", "RESUME SOURCE", "ALTER SOURCE", "DROP SOURCE", "SET POSITION"),
        *("RETRY DEAD LETTERS FOR", "DISCARD DEAD LETTERS FOR"),
    ],
    "ShowSources": ["SHOW SOURCES"],
    "CreateSink": ["CREATE SINK"],
    "ChangeSink": ["PAUSE SINK", "RESUME SINK", "DROP SINK"],
    "ShowSinks": ["SHOW SINKS"],
    "CreateHistory": ["CREATE TABLE [IF NOT EXISTS] name [(columns)] FROM PARQUET"],
    "SetRetention": ["ALTER TABLE name SET (retain = length"],
    "SetWatermark": ["ALTER TABLE name SET WATERMARK FOR", "ALTER TABLE name DROP WATERMARK"],
    "AdvanceWatermark": ["ALTER TABLE name ADVANCE WATERMARK TO"],
    "SetHistory": ["ALTER TABLE name SET HISTORY 'place' AT [EPOCH]"],
    "Subscribe": ["SUBSCRIBE [TO]"],
    "ChangeUser": ["CREATE USER", "ALTER USER", "DROP USER"],
    "ChangeToken": ["CREATE TOKEN", "DROP TOKEN"],
    "ShowUsers": ["SHOW USERS", "SHOW TOKENS"],
    "Insert": ["### INSERT"],
    "KeyedChange": ["WHERE key = value"],
    "Dml": ["INSERT", "UPDATE", "DELETE", "TRUNCATE", "MERGE", "COPY"],
    "Ddl": [
        *("CREATE", "ALTER", "DROP", "COMMENT", "ATTACH", "DETACH", "USE", "SET", "RESET"),
        *("PRAGMA", "CALL", "LOAD", "INSTALL", "IMPORT"),
    ],
    "Query": ["SELECT", "FROM", "WITH", "VALUES", "DESCRIBE", "SUMMARIZE", "SHOW", "EXPLAIN"],
    "TransactionControl": ["BEGIN", "COMMIT", "ROLLBACK"],
    "Prepare": ["PREPARE"],
    "Execute": ["EXECUTE"],
    "Deallocate": ["DEALLOCATE"],
    "Other": ["CHECKPOINT", "VACUUM"],
}


def test_every_kind_of_statement_is_listed() -> None:
    kinds = {
        name
        for name, kind in (vars(nodes) | vars(own_nodes)).items()
        if inspect.isclass(kind) and issubclass(kind, nodes.Statement)
    }
    assert kinds - {"Statement"} == STATEMENTS.keys()


@pytest.mark.parametrize("kind", STATEMENTS)
def test_every_statement_is_documented(kind: str) -> None:
    page = text_of("docs/sql.md")
    assert [words for words in STATEMENTS[kind] if words not in page] == []


def public(kind: type) -> list[str]:
    """Names of a class that its users see."""
    return [name for name in vars(kind) if not name.startswith("_")]


@pytest.mark.parametrize("kind", [ivm.Database, RowWrites, Streams, Result, Subscription, Tail])
def test_every_public_method_is_documented(kind: type) -> None:
    page = text_of("docs/python.md")
    inner = {
        "put",
        "take",
        "fail",
        "streaming",
        "of_table",
        "count",
        "in_batches",
        "is_of_change",
        "let_go",
    }  # called by the database, not by its users
    missing = [n for n in public(kind) if n not in inner and f".{n}" not in page]
    assert missing == []


def test_every_public_name_is_documented() -> None:
    page = text_of("docs/python.md")
    assert [name for name in ivm.__all__ if f"`{name}`" not in page and f"{name}" not in page] == []
    assert [name for name in ivm.errors.__all__ if f"| `{name}` |" not in page] == []


def test_every_argument_of_connect_is_documented() -> None:
    page = text_of("docs/python.md")
    arguments = inspect.signature(ivm.connect).parameters
    assert [name for name in arguments if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md"])
def test_numbers_of_the_readme_come_from_the_kept_run(page: str) -> None:
    numbers = text_of(page)
    if page == "README.md":
        numbers = numbers.split("## Numbers")[1].split("\n## ")[0]
    rows = [line for line in numbers.splitlines() if line.startswith("|")]
    tables = ("table", "shapes", "tpch", "nexmark", "endless", "everyday", "load", "steady")
    kept = "".join(text_of(f"benchmarks/results/{name}.md") for name in tables)
    assert len(rows) > 10
    assert [row for row in rows if row not in kept] == []


SEPARATOR = re.compile(r"\|(:?-+:?\|)+")


def columns_of(row: str) -> int:
    return len(re.split(r"(?<!\\)\|", row)) - 2


@pytest.mark.parametrize("page", sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("*.md")]))
def test_tables_have_as_many_columns_as_their_heads(page: Path) -> None:
    """Where they have not, no table is shown."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(lines):
        if i and SEPARATOR.fullmatch(line.replace(" ", "")):
            assert columns_of(line) == columns_of(lines[i - 1]), f"line {i + 1}"


NAMED = re.compile(r"\[`([\w.]+)`\]\(([\w/]+\.py)\)")
LINKED = re.compile(r"\]\(([\w/]+\.py)\)")


def source_of(path: str) -> Path:
    """A repository path such as `sql/bind/bind.py` in the package that is imported."""
    if path.startswith("tests/"):
        return ROOT / path
    package = Path(ivm.__file__).parent
    return package if path == "ivm" else package / path.removeprefix("ivm/")


def defined_in(tree: ast.AST, prefix: str = "") -> Iterator[str]:
    """Dotted names of the classes, functions and methods of a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield prefix + node.name
            yield from defined_in(node, f"{prefix}{node.name}.")


def test_the_architecture_names_what_exists() -> None:
    page = text_of("ARCHITECTURE.md")
    assert [path for path in LINKED.findall(page) if not source_of(path).exists()] == []
    for name, path in NAMED.findall(page):
        tree = ast.parse(source_of(path).read_text(encoding="utf-8"))
        assert name in set(defined_in(tree)), f"{name} is not in {path}"


STEP = re.compile(r"^(\d+)\. \*\*\w+\.\*\*", re.MULTILINE)
ROOM = re.compile(r"^\| \[([\w/]+)\]\(\1\) \|", re.MULTILINE)


def test_the_architecture_lists_the_rooms_in_their_order() -> None:
    rooms = []
    for layer in LAYERS:
        filled = {room_of(module)[1] for module, _ in modules_of(layer)}
        rooms += [
            f"{layer}/{room}".rstrip("/")
            for room in ROOMS[layer]
            if room in filled or len(ROOMS[layer]) == 1
        ]
    assert ROOM.findall(text_of("ARCHITECTURE.md")) == rooms


def test_the_walks_of_the_architecture_have_at_most_twelve_steps() -> None:
    sections = text_of("ARCHITECTURE.md").split("\n## ")
    walks = [section for section in sections if section.startswith(("One insert", "One view"))]
    assert len(walks) == 2
    for walk in walks:
        assert 9 < len(steps_of(walk)) <= 12
    (others,) = [section for section in sections if section.startswith("Other ways in")]
    for walk in others.split("\n### ")[1:]:
        assert 3 < len(steps_of(walk)) <= 12


def steps_of(walk: str) -> list[int]:
    """The numbers of a walk's steps, which count from 1."""
    steps = [int(number) for number in re.findall(r"^(\d+)\. \*\*[\w ]+\.\*\*", walk, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    return steps


WORK = [
    ("ivm.sql.scalar.compile", "cast_column"),
    ("ivm.storage.arrangement.arrangement", "Arrangement.latest"),
    ("ivm.storage.arrangement.arrangement", "Arrangement.append"),
    ("ivm.delta_ops.circuit", "Circuit.step"),
    ("ivm.storage.log.change_log", "ChangeLog.append"),
    ("ivm.delta_ops.circuit", "Circuit.commit"),
    ("ivm.storage.warehouse.pending", "PendingDeltas.follow"),
    ("ivm.storage.log.change_log", "ChangeLog.sync"),
]
"""Where the work of an insert goes from `ivm` into a lower layer, in this order."""
AROUND = (
    "ivm.storage.values.",  # makes or measures a value
    "ivm.storage.log.change:",
    "ivm.storage.identifiers:",
    "ivm.storage.interrupts:",  # holds back signals, tells of failures
    "ivm.storage.troubles:",
    "ivm.storage.warehouse.duckdb.duckdb_errors:",
    "ivm.delta_ops.circuit:Circuit.needs_hydration",
)


class Crossing(NamedTuple):
    """A call from one layer into another."""

    caller: str
    called: str
    module: str
    function: str


def crossings(call: Callable[[], object]) -> list[Crossing]:
    """The calls from one layer into another that a call makes in its own thread."""
    found: list[Crossing] = []
    stack = ["ivm"]

    def follow(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            name = frame.f_globals.get("__name__", "")
            stack.append(layer_of(name) if name.startswith("ivm.") else stack[-1])
            if stack[-1] != stack[-2]:
                found.append(Crossing(stack[-2], stack[-1], name, frame.f_code.co_qualname))
        elif event == "return" and len(stack) > 1:
            stack.pop()

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def test_an_insert_crosses_the_layers_as_the_architecture_says(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute("""
            CREATE TABLE customers (id INTEGER PRIMARY KEY, region VARCHAR);
            CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(10, 2));
            CREATE MATERIALIZED VIEW revenue AS
                SELECT region, count(*) AS orders, sum(amount) AS total
                FROM orders JOIN customers ON customer = customers.id GROUP BY region;
            INSERT INTO customers VALUES (1, 'north')
        """)
        for i in range(3):  # the first ones build the key index and the circuit's state
            db.insert("orders", {"id": [i], "customer": [1], "amount": [9.5]})
        row = {"id": [10], "customer": [1], "amount": [9.5]}
        found = crossings(lambda: db.insert("orders", row))
    assert all(LAYERS.index(each.called) < LAYERS.index(each.caller) for each in found)
    (most,) = re.findall(r"at most (\d+) cross", text_of("ARCHITECTURE.md"))
    assert 10 <= len(found) <= int(most), found
    entered = [each[2:] for each in found if each.caller == "ivm"]
    assert [e for e in entered if not ":".join(e).startswith(AROUND)] == WORK


PROSE = (
    *PAGES,
    *SPARK_PAGES,
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "docs/shell.md",
    "docs/console.md",
    "docs/benchmarks.md",
)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors_of(text: str) -> set[str]:
    """What a link to a heading ends with."""
    headings = [re.sub(r"[^\w -]", "", heading.lower()) for heading in HEADING.findall(text)]
    return {heading.replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PROSE)
def test_every_link_leads_somewhere(page: str) -> None:
    for path, anchor in LINK.findall(text_of(page)):
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.exists() or source_of(path).exists(), path
        if anchor:
            assert anchor in anchors_of(linked.read_text(encoding="utf-8")), f"{path}#{anchor}"
