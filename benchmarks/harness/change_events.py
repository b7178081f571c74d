"""Debezium's events of a table of orders, as JSON lines.

`python -m benchmarks.harness.change_events FILE` writes them.

Every order has a life: an insert, updates at random times, and often a delete. The stream is all
lives in the order of time, so that each event fits the row before it. To this come duplicates, as
a connector sends them that begins again a little before where it stopped, and lines of dirt, which
are damaged copies of inserts. The lines depend on the arguments alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

TABLE = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INTEGER NOT NULL, amount DECIMAL(12,2),
                     status VARCHAR, note VARCHAR, made TIMESTAMP)
"""
QUERY = """
SELECT status, customer % 100 AS region, count(*) AS orders, sum(amount) AS amount,
       max(made) AS last
FROM orders GROUP BY status, customer % 100
"""
DUPLICATES, DIRT = 0.05, 0.001
_MOST_REPEATED = 100  # events that are sent again at once
_UPDATES, _DELETED = 0.8, 0.2  # of an order
_CHUNK = 200_000  # lines that are made at once
_EPOCH = 1_700_000_000_000_000  # the first order, in microseconds
_SOURCE = (
    '{"version":"3.2.0.Final","connector":"mysql","name":"shop","db":"shop","table":"orders",'
    '"file":"binlog.000017"'
)
_CONNECT = "org.apache.kafka.connect.data.Decimal"

Numbers = npt.NDArray[np.int64]

DAMAGES = {
    "cut": "left(line, 150)",
    "two in a line": "line || line",
    "no number": """replace(line, '"amount":', '"amount":"twelve","was":')""",
    "too large": r"""regexp_replace(line, '"customer":\d+', '"customer":9999999999')""",
    "no time": """replace(line, '"made":', '"made":"yesterday","was":')""",
    "unknown operation": """replace(line, '"op":"c"', '"op":"x"')""",
    "no operation": """replace(line, '"op":"c"', '"po":"c"')""",
    "no row": r"""regexp_replace(line, '"after":\{[^}]*\}', '"after":null')""",
    "NULL": r"""regexp_replace(line, '"customer":\d+', '"customer":null')""",
    "no key": r"""regexp_replace(line, '"id":\d+', '"id":null')""",
}
"""SQL that damages the line of an insert, by the kind of dirt."""


class ChangeEvents:
    """A stream of events, made in chunks.

    Args:
        count: lines in all.
        seed: of all that is random.
        schema: whether each event comes with its schema, as Kafka Connect writes it.

    Attributes:
        dirt: int64, ascending, the numbers of the lines that cannot be applied.
    """

    def __init__(self, count: int, seed: int = 12, *, schema: bool = False) -> None:
        self._random = np.random.default_rng(seed)
        self._duck = duckdb.connect()
        self._schema = f'{{"schema":{_schema()},"payload":' if schema else ""
        dirt, repeated = round(count * DIRT), round(count * DUPLICATES)
        self._live(count - dirt - repeated)
        self._values()
        at, events, damages = self._sent(dirt, repeated)
        order = at.argsort(kind="stable")
        self._events, self._damages = events[order], damages[order]
        self.dirt: Numbers = self._damages.nonzero()[0]

    def _live(self, count: int) -> None:
        """The events as lives: order, operation, and the event before of the same order."""
        random = self._random
        orders = round(count / (1 + _UPDATES + _DELETED)) + 1
        deleted = random.random(orders) < _DELETED
        sizes = 1 + random.poisson(_UPDATES, orders) + deleted
        order = np.repeat(np.arange(orders), sizes)[:count]
        order = np.append(order, np.arange(orders, orders + count - len(order)))
        time = random.random(count)
        by_life = np.lexsort((time, order))
        begins = np.append(True, order[by_life][1:] != order[by_life][:-1])
        ends = np.append(begins[1:], True)
        deleted = np.append(deleted, np.zeros(count, np.bool_))
        operation = np.where(begins, 0, np.where(ends & deleted[order[by_life]], 2, 1))
        rank = np.empty(count, np.int64)
        rank[time.argsort()] = np.arange(count)
        now = rank[by_life]
        self._operation, self._before, first = (np.empty(count, np.int64) for _ in range(3))
        self._operation[now] = operation
        self._before[now] = np.where(begins, -1, np.append(-1, now[:-1]))
        first[now] = np.maximum.accumulate(np.where(begins, np.arange(count), 0))
        inserts = self._operation == 0
        ids = np.cumsum(inserts)
        self._id = np.empty(count, np.int64)
        self._id[now] = ids[now[first[now]]]

    def _values(self) -> None:
        """The row that each event leaves, and that it was before."""
        count, random = len(self._id), self._random
        self._rows = {
            "id": self._id,
            "customer": random.integers(1, max(2, count // 20), count),
            "cents": random.integers(-10_000, 1_000_000, count),
            "status": random.integers(0, 6, count),
            "note": random.integers(0, 100_000, count),
            "made": _EPOCH + np.arange(count) * 1_000 + random.integers(0, 1_000, count),
        }

    def _sent(self, dirt: int, repeated: int) -> tuple[Numbers, Numbers, Numbers]:
        """What is sent: after which event, which event, and its damage (0 for none)."""
        count, random = len(self._id), self._random
        sizes = random.integers(1, _MOST_REPEATED + 1, repeated + 1)
        sizes = sizes[: int(np.searchsorted(sizes.cumsum(), repeated)) + 1]
        last = random.integers(_MOST_REPEATED, count, len(sizes))
        begins = np.repeat(sizes.cumsum() - sizes, sizes)
        again = np.repeat(last - sizes + 1, sizes) + np.arange(len(begins)) - begins
        inserts = (self._operation == 0).nonzero()[0]
        at = [np.arange(count), np.repeat(last, sizes)[:repeated], random.integers(0, count, dirt)]
        events = [np.arange(count), again[:repeated], random.choice(inserts, dirt)]
        damages = np.zeros(count + repeated + dirt, np.int64)
        damages[count + repeated :] = 1 + np.arange(dirt) % len(DAMAGES)
        return np.concatenate(at), np.concatenate(events), damages

    def chunks(self) -> Iterator[pa.Array]:
        """The lines in order, each with its newline."""
        for start in range(0, len(self._events), _CHUNK):
            events = self._events[start : start + _CHUNK]
            before = np.maximum(self._before[events], 0)
            given = {"op": self._operation[events], "damage": self._damages[start : start + _CHUNK]}
            given |= {f"a_{name}": values[events] for name, values in self._rows.items()}
            given |= {f"b_{name}": values[before] for name, values in self._rows.items()}
            self._duck.register("events", pa.table({**given, "number": events}))
            yield self._duck.sql(self._text()).to_arrow_table()["line"].combine_chunks()

    def _text(self) -> str:
        base64 = bool(self._schema)
        damages = " ".join([f"WHEN {i} THEN {sql}" for i, sql in enumerate(DAMAGES.values(), 1)])
        end = "}}" if base64 else "}"
        parts = [
            f"""'{self._schema}{{"before":'""",
            f"CASE WHEN op = 0 THEN 'null' ELSE {_row('b', base64)} END",
            "',\"after\":'",
            f"CASE WHEN op = 2 THEN 'null' ELSE {_row('a', base64)} END",
            f"""',"source":{_SOURCE},"ts_ms":' || (a_made // 1000) || ',"pos":' || number * 310""",
            """'},"op":"' || ['c', 'u', 'd'][op + 1] || '","ts_ms":' || (a_made // 1000)""",
            f"'{end}'",
        ]
        return (
            f"SELECT CASE damage {damages} ELSE line END || chr(10) AS line"
            f" FROM (SELECT damage, {' || '.join(parts)} AS line FROM events)"
        )

    def write(self, path: Path) -> None:
        """Writes the lines to a file."""
        with path.open("wb") as file:
            for lines in self.chunks():
                data = lines.cast(pa.large_string()).buffers()[2]
                file.write(data)


def _row(prefix: str, base64: bool) -> str:
    """SQL of a row as JSON."""
    amount = f"printf('%.2f', {prefix}_cents / 100)"
    if base64:  # the unscaled number in two's complement
        word = f"printf('%08X', ({prefix}_cents + 4294967296) % 4294967296)"
        amount = f"to_base64(unhex({word}))"
    note = f"'\"please ring at door no. ' || {prefix}_note || '\"'"
    note = f"CASE WHEN {prefix}_note % 10 = 0 THEN 'null' ELSE {note} END"
    status = f"['new', 'paid', 'packed', 'shipped', 'delivered', 'returned'][{prefix}_status + 1]"
    names = ["id", "customer"]
    head = " || ".join([f"'\"{name}\":' || {prefix}_{name} || ','" for name in names])
    return (
        f"""('{{' || {head} || '"amount":"' || {amount} || '","status":"' || {status}"""
        f""" || '","note":' || {note} || ',"made":' || {prefix}_made || '}}')"""
    )


def _schema() -> str:
    """Kafka Connect's schema of the events."""
    scale = {"name": _CONNECT, "version": 1, "parameters": {"scale": "2"}}
    made = {"name": "io.debezium.time.MicroTimestamp", "version": 1}
    kinds: dict[str, dict[str, Any]] = {
        "id": {"type": "int64", "optional": False},
        "customer": {"type": "int32", "optional": False},
        "amount": {"type": "bytes", "optional": True, **scale},
        "status": {"type": "string", "optional": True},
        "note": {"type": "string", "optional": True},
        "made": {"type": "int64", "optional": True, **made},
    }
    row = [{"field": name, **kind} for name, kind in kinds.items()]
    sides = [
        {"type": "struct", "fields": row, "optional": True, "field": side}
        for side in ("before", "after")
    ]
    fields = [*sides, {"type": "string", "optional": False, "field": "op"}]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def main() -> None:
    """Write a file."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.harness.change_events",
        description=__doc__,
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--events", type=int, default=5_000_000, help="lines (default 5_000_000)")
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--schema", action="store_true", help="each event with its schema")
    options = parser.parse_args()
    ChangeEvents(options.events, options.seed, schema=options.schema).write(options.file)


if __name__ == "__main__":
    main()
