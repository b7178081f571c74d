"""A live view over a lake: `python examples/lake_backfill/lake_backfill.py [--lines N]`.

The history is a folder of Parquet files, which stays where it is. Spark computes the view's first
rows and the state behind them from these files; meanwhile change events pile up in another folder,
as Debezium writes them. Then a pipeline of Structured Streaming applies them, and the view follows.
It needs `pip install 'ivmdb[spark]'` and Java 17 or 21.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import duckdb

import ivm

LINES = 2_000_000  # of the history
CHANGES = 50_000

REVENUE = """
    SELECT region, count(*) AS lines, sum(price * (1 - discount)) AS revenue, max(shipped) AS latest
    FROM lineitem JOIN customers ON customers.id = lineitem.customer GROUP BY region
"""


def write_history(lake: Path, lines: int) -> None:
    """The lake, as some other program has written it."""
    with duckdb.connect() as con:
        con.execute(f"""
            COPY (SELECT range AS id, ['north', 'south', 'east', 'west'][1 + range % 4] AS region
                  FROM range(10000)) TO '{lake}/customers.parquet';
            COPY (SELECT range AS id, range * 7919 % 10000 AS customer,
                         ((range % 9973) / 10)::DECIMAL(10, 2) AS price,
                         ((range % 11) / 100)::DECIMAL(4, 2) AS discount,
                         DATE '2024-01-01' + (range % 700)::INTEGER AS shipped
                  FROM range({lines}))
            TO '{lake}/lineitem' (FORMAT parquet, FILE_SIZE_BYTES '8MB');
        """)


def write_changes(inbox: Path, lines: int) -> None:
    """Change events: prices fall, lines are cancelled, new ones come."""
    events = []
    for i in range(CHANGES):
        key = {"id": i * 37 % (lines + lines // 10)}
        row = {**key, "customer": i % 10_000, "price": f"{i % 500}.50", "discount": "0.05"}
        written = {"op": "u", "after": {**row, "shipped": 20_500}}
        events.append({"op": "d", "before": key, "after": None} if i % 10 == 0 else written)
    draft = inbox / ".changes"
    draft.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    draft.rename(inbox / "changes.json")  # whole when it is first seen


def show(db: ivm.Database) -> None:
    """Prints the view."""
    for region, lines, revenue, latest in db.execute("FROM revenue ORDER BY region").fetchall():
        print(f"  {region:6} {lines:>9,} lines  {revenue:>18,.4f}  latest {latest}")


def main() -> None:
    """Fill a view from the lake, then follow the changes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES, help="of the history")
    lines = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as folder:
        lake, inbox = Path(folder) / "lake", Path(folder) / "inbox"
        lake.mkdir()
        inbox.mkdir()
        write_history(lake, lines)
        size = sum(file.stat().st_size for file in lake.rglob("*.parquet"))
        print(f"the lake: {lines:,} lines, {size / 1e6:.1f} MB of Parquet")
        with ivm.connect(Path(folder) / "shop.duckdb", spark={"spark.master": "local[2]"}) as db:
            db.execute(f"""
                CREATE TABLE customers (PRIMARY KEY (id)) FROM PARQUET '{lake}/customers.parquet'
                    WITH (stored = false);
                CREATE TABLE lineitem (PRIMARY KEY (id)) FROM PARQUET '{lake}/lineitem/'
                    WITH (stored = false);
                CREATE SOURCE changes INTO lineitem
                    FROM FILES (path '{inbox}/*.json', format 'debezium');
            """)
            began = time.perf_counter()
            db.execute(f"CREATE MATERIALIZED VIEW revenue WITH (backfill = 'spark') AS {REVENUE}")
            write_changes(inbox, lines)  # they come while Spark works
            db.backfill("revenue")
            print(f"filled by Spark in {time.perf_counter() - began:.0f} s:")
            show(db)
            db.start_pipeline()
            while not db.sources()[0].caught_up:
                time.sleep(0.1)
            (source,) = db.sources()
            print(f"{source.events:,} changes applied by the pipeline:")
            show(db)
            db.stop_sources(60)
            print("verified:", db.execute("VERIFY MATERIALIZED VIEW revenue").fetchall())


if __name__ == "__main__":
    main()
