"""A shop in two minutes: tables, a materialized view, changes by SQL and from Python."""

import ivm

with ivm.connect() as db:  # in memory; give a file name to keep it
    db.execute("""
        CREATE TABLE customers (id INTEGER PRIMARY KEY, region VARCHAR);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(10, 2));
        CREATE MATERIALIZED VIEW revenue AS
            SELECT region, count(*) AS orders, sum(amount) AS total
            FROM orders JOIN customers ON customer = customers.id
            GROUP BY region;
    """)

    def show(what: str) -> None:
        rows = db.execute("SELECT * FROM revenue ORDER BY region").fetchall()
        print(f"{what}: " + ", ".join(f"{region} {n} / {total}" for region, n, total in rows))

    db.execute("INSERT INTO customers VALUES (1, 'north'), (2, 'south')")
    db.execute("INSERT INTO orders VALUES (?, ?, ?)", [10, 1, 9.5])
    show("one order")

    # From Python, without SQL: a list of dicts, a dict of columns, Arrow, pandas or polars.
    db.insert("orders", [{"id": 11, "customer": 2, "amount": 20}])
    db.upsert("orders", {"id": [10, 12], "customer": [1, 1], "amount": [8, 2]})
    show("a new price and two more")

    with db.transaction():  # one epoch: readers see both changes or neither
        db.delete("orders", {"id": [12]})
        db.execute("UPDATE customers SET region = 'north' WHERE id = 2")
    show("all moved north")

    # Recompute and compare: view, rows, rows missing, rows extra, ok.
    print("verified:", db.execute("VERIFY MATERIALIZED VIEW revenue").fetchall())
