"""Time everyday statements beside plain DuckDB's: `python -m benchmarks.everyday`.

Two copies of one file hold a million orders and their customers. One is opened by ivm, with live
views on the tables, the other by plain DuckDB without any. Each statement runs on both, durable, in
turns of a few; shown are the median and the 99th percentile in milliseconds, and how many times
DuckDB's median ours is. A view's read is compared with DuckDB's run of the view's query, as plain
DuckDB has no view that is fresh. The goals are those of V1 alone; then all is run with three views.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

import ivm
from benchmarks.harness import workload
from benchmarks.harness.page import Page, with_keep

BY_ORDER = """SELECT customer_id, id, count(*) AS n, max(amount) AS amount
    FROM orders GROUP BY customer_id, id"""
TOTAL = "SELECT count(*) AS n, sum(amount) AS revenue FROM orders WHERE status = 'paid'"
VIEWS = {"v1": workload.VIEWS["v1"], "by_order": BY_ORDER, "total": TOTAL}
_ROUND = 20  # runs of a statement on one side before those on the other


class Side:
    """One of the two databases.

    Args:
        db: the database.
        live: it has the views; else their queries stand for them.
    """

    def __init__(self, db: Any, *, live: bool) -> None:
        self.db = db
        self._live = live

    def run(self, text: str, values: list[Any] | None = None) -> list[Any]:
        """Runs a statement, and reads its rows."""
        rows: list[Any] = self.db.execute(text, values).fetchall()
        return rows

    def view(self, name: str, rest: str = "", values: list[Any] | None = None) -> list[Any]:
        """Reads a view."""
        source = name if self._live else f"({VIEWS[name]})"
        return self.run(f"SELECT * FROM {source} {rest}", values)


Act = Callable[[Side, int], object]
"""Runs a case's statements; the number is another one each time."""


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        name: what is run.
        act: runs it, timed.
        goal: milliseconds, or times DuckDB's median where `relative`.
        before: runs before it, not timed.
        view: the view that it needs.
        times: how often it is run at most; 0 for the number asked for.
    """

    name: str
    act: Act
    goal: float
    relative: bool = False
    before: Act | None = None
    view: str = "v1"
    times: int = 0


def _order(number: int, customer: int = 5) -> list[Any]:
    return [number, customer, 9.5, "paid", "2024-05-01 10:00:00"]


_VALUES = "orders VALUES (?, ?, ?, ?, ?)"
_SET = "DO UPDATE SET amount = excluded.amount, status = excluded.status"


def _sql(text: str, values: Callable[[int], list[Any] | None] = lambda n: None) -> Act:
    return lambda side, number: side.run(text, values(number))


def _new(number: int) -> list[Any]:
    return _order(10**9 + number)


def _known(number: int) -> list[Any]:
    return _order(number * 97 % 10**5)


def _key(number: int) -> list[Any]:
    return [number * 89 % 10**5]


def _keys(number: int) -> list[Any]:
    return [number * 89, number * 89 + 9]


def _customers(number: int) -> list[Any]:
    first = number * 89 % 99_000
    return [first, first + 9]


def _transaction(side: Side, number: int) -> None:
    side.run("BEGIN")
    side.run("SELECT amount FROM orders WHERE id = ?", _key(number))
    side.run("UPDATE orders SET amount = ? WHERE id = ?", [1.5, *_key(number)])
    side.run("COMMIT")


def _thousand(side: Side, number: int) -> None:
    rows = [_new(number * 1000 + i + 10**8) for i in range(1000)]
    side.db.executemany(f"INSERT INTO {_VALUES}", rows)


def _range(number: int, count: int) -> str:
    first = 3 * 10**9 + number * count
    row = "i, 7, 1.25, 'open', TIMESTAMP '2024-06-01'"
    return f"SELECT {row} FROM range({first}, {first + count}) r(i)"


def _select(count: int) -> Act:
    return lambda side, number: side.run(f"INSERT INTO orders {_range(number, count)}")


def _update_from(count: int) -> Act:
    return lambda side, number: side.run(
        f"UPDATE orders SET amount = o.a FROM (SELECT i, i % 7 + {number} AS a "
        f"FROM range({count}) r(i)) o WHERE id = o.i"
    )


def _merge(count: int) -> Act:
    return lambda side, number: side.run(
        f"MERGE INTO orders USING ({_range(number, count)}) o(id, c, a, s, t) ON orders.id = o.id "
        "WHEN MATCHED THEN UPDATE SET amount = o.a WHEN NOT MATCHED THEN INSERT"
    )


def cases(folder: Path) -> Iterator[Case]:
    """The table's lines.

    Args:
        folder: for the files that COPY reads.
    """
    insert = _sql(f"INSERT INTO {_VALUES}", _new)
    yield Case("commit a row, read the view of 125 rows", _then(_touch, _view("v1")), 0.9)
    yield Case("read it after a commit", _view("v1"), 0.4, before=_touch)
    look_up = "look up a row of a view of 10⁶ rows after a commit"
    yield Case(look_up, _lookup, 0.1, before=_touch, view="by_order")
    one_row = "read a view of one row after a commit"
    yield Case(one_row, _view("total"), 0.1, before=_touch, view="total")
    yield Case("INSERT of a row", insert, 1)
    yield Case("INSERT OR REPLACE", _sql(f"INSERT OR REPLACE INTO {_VALUES}", _known), 1)
    yield Case("INSERT OR IGNORE", _sql(f"INSERT OR IGNORE INTO {_VALUES}", _known), 1)
    conflict = f"INSERT INTO {_VALUES} ON CONFLICT"
    yield Case("ON CONFLICT DO NOTHING", _sql(f"{conflict} (id) DO NOTHING", _known), 1)
    yield Case("ON CONFLICT DO UPDATE", _sql(f"{conflict} (id) {_SET}", _known), 1)
    yield Case("INSERT … RETURNING", _sql(f"INSERT INTO {_VALUES} RETURNING id", _again), 1)
    update = "UPDATE orders SET amount = amount + 1 WHERE"
    yield Case("UPDATE by key", _sql(f"{update} id = ?", _key), 1)
    yield Case("UPDATE by key, RETURNING", _sql(f"{update} id = ? RETURNING *", _key), 1)
    now = _sql("UPDATE orders SET ts = now() WHERE id = ?", _key)
    yield Case("UPDATE by key, SET ts = now()", now, 1)
    indexed = _sql(f"{update} customer_id = ?", _key)
    yield Case("UPDATE of ten rows by an indexed column", indexed, 2, True)
    yield Case("UPDATE of a row by an indexed column", indexed, 1, before=_only)
    between = _sql(f"{update} id BETWEEN ? AND ?", _keys)
    yield Case("UPDATE of a range of keys", between, 2, True)
    by_rest = _sql("DELETE FROM orders WHERE id % 50000 = ?", lambda n: [n])
    yield Case("DELETE by an expression", by_rest, 2, True)
    delete = _sql("DELETE FROM orders WHERE id = ?", _key)
    yield Case("DELETE by key", delete, 1)
    look = _sql("SELECT * FROM orders WHERE id = ?", _key)
    yield Case("SELECT by key after an INSERT", look, 0.5, before=_touch)
    both = "FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.id = ?"
    pair = _sql(f"SELECT o.*, c.region {both}", _key)
    yield Case("SELECT of a row by key and of its customer", pair, 1, True, before=_touch)
    yield Case("BEGIN; SELECT by key; UPDATE by key; COMMIT", _transaction, 1.2)
    yield Case("executemany of 1 000 rows", _thousand, 6, times=10)
    columns = "id + ?, customer_id, amount, status, ts"
    by_key = _sql(f"INSERT INTO orders SELECT {columns} FROM orders WHERE id = ?", _copied)
    yield Case("INSERT … SELECT of a row by key", by_key, 1, True)
    ten = f"(VALUES {', '.join(['(?, ?)'] * 10)}) o(i, a)"
    listed = _sql(f"UPDATE orders SET amount = o.a FROM {ten} WHERE id = o.i", _ten)
    yield Case("UPDATE … FROM ten rows of parameters", listed, 1, True)
    joined = "FROM customers c WHERE orders.id = c.id AND c.id BETWEEN ? AND ?"
    by_table = _sql(f"UPDATE orders SET amount = amount + 1 {joined}", _customers)
    yield Case("UPDATE … FROM ten rows of a table", by_table, 2, True)
    joined = f"FROM customers c JOIN {ten} ON c.id = o.i WHERE orders.id = c.id"
    by_both = _sql(f"UPDATE orders SET amount = o.a {joined}", _ten)
    yield Case("UPDATE … FROM ten rows of parameters and a table", by_both, 2, True)
    within = "SELECT id FROM customers WHERE id BETWEEN ? AND ?"
    by_query = _sql(f"{update} id IN ({within})", _customers)
    yield Case("UPDATE of ten rows whose key is IN a query", by_query, 2, True)
    for count in (10, 10**5):
        few = 0 if count == 10 else 5
        file = folder / f"{count}.parquet"
        yield Case(f"INSERT … SELECT of {count} rows", _select(count), 2, True, times=few)
        yield Case(f"UPDATE … FROM of {count} rows", _update_from(count), 2, True, times=few)
        yield Case(f"MERGE of {count} rows", _merge(count), 2, True, _next(count), times=few)
        copy = _sql(f"COPY orders FROM '{file}'")
        yield Case(f"COPY of {count} rows", copy, 2, True, _file(file, count), times=few)


def _view(name: str) -> Act:
    return lambda side, number: side.view(name)


def _lookup(side: Side, number: int) -> None:
    side.view("by_order", "WHERE customer_id = ? AND id = ?", [5, 2 * 10**9 + number])


def _touch(side: Side, number: int) -> None:
    side.run(f"INSERT INTO {_VALUES}", _order(2 * 10**9 + number))


def _only(side: Side, number: int) -> None:
    """Leaves a customer one order."""
    side.run("DELETE FROM orders WHERE customer_id = ?", _key(number))
    side.run(f"INSERT INTO {_VALUES}", _order(4 * 10**9 + number, *_key(number)))


def _again(number: int) -> list[Any]:
    return _order(15 * 10**8 + number)


def _then(first: Act, second: Act) -> Act:
    return lambda side, number: (first(side, number), second(side, number))


def _next(count: int) -> Act:
    """Half of the rows that MERGE gives are there."""
    return lambda side, number: side.run(
        f"INSERT INTO orders {_range(number, count)} LIMIT {count // 2}"
    )


def _copied(number: int) -> list[Any]:
    return [6 * 10**9 + number * 10**6, *_key(number)]


def _ten(number: int) -> list[Any]:
    return [value for i in range(10) for value in (number * 97 % 10**5 + i, i + 0.5)]


def _file(file: Path, count: int) -> Act:
    def write(side: Side, number: int) -> None:
        text = _range(number + 10**4, count)
        with duckdb.connect() as writer:
            writer.execute(f"COPY ({text}) TO '{file}' (FORMAT parquet)").fetchall()

    return write


def times_of(case: Case, side: Side, numbers: range) -> list[float]:
    """Milliseconds of each run."""
    found = []
    for number in numbers:
        if case.before is not None:
            case.before(side, number)
        began = time.perf_counter()
        case.act(side, number)
        found.append((time.perf_counter() - began) * 1e3)
    return found


def measure(case: Case, ours: Side, plain: Side, first: int, times: int) -> str:
    """The case's line of the table, in Markdown."""
    mine, theirs = [], []
    for start in range(first, first + times, _ROUND):
        numbers = range(start, min(start + _ROUND, first + times))
        mine += times_of(case, ours, numbers)
        theirs += times_of(case, plain, numbers)
    median, base = statistics.median(mine), statistics.median(theirs)
    worst = sorted(mine)[int(len(mine) * 0.99)]
    reached = median <= case.goal * (base if case.relative else 1)
    goal = f"{case.goal:g} ×" if case.relative else f"{case.goal:g}"
    shown = f"{median:.3g} | {worst:.3g} | {base:.3g} | {median / base:.2f} ×"
    return f"| {case.name} | {shown} | {goal} | {'yes' if reached else 'no'} |"


HEAD = """| ms | p50 | p99 | DuckDB's p50 | ratio | goal | |
|---|---|---|---|---|---|---|"""


def main() -> None:
    """Measure all lines, or those whose names have a word."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.everyday", description=__doc__)
    parser.add_argument("--orders", type=float, default=1e6, help="rows of orders (default 1e6)")
    parser.add_argument("--times", type=int, default=200, help="runs of a short statement")
    parser.add_argument("--only", default="", help="lines whose names have this text")
    given = with_keep(parser)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        workload.create(folder / "plain.duckdb", int(given.orders), "double")
        shutil.copyfile(folder / "plain.duckdb", folder / "ours.duckdb")
        with (
            ivm.connect(folder / "ours.duckdb") as db,
            duckdb.connect(str(folder / "plain.duckdb")) as plain,
        ):
            for side in (db, plain):
                side.execute("CREATE INDEX by_customer ON orders (customer_id)").fetchall()
            page = Page("everyday.md")
            page.add(f"{given.orders:g} orders")
            sides, first = (Side(db, live=True), Side(plain, live=False)), 0
            for views in (["v1"], list(VIEWS)):
                for name in views:
                    db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
                page.add("", f"views: {', '.join(views)}", "", HEAD)
                for case in cases(folder):
                    if given.only.lower() in case.name.lower() and case.view in views:
                        times = min(case.times or given.times, given.times)
                        page.add(measure(case, *sides, first, times))
                        first += times
    if given.keep:
        page.keep()


if __name__ == "__main__":
    main()
