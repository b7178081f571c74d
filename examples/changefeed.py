"""A changefeed: what each commit did to a view, as an Arrow table with weights."""

import ivm

with ivm.connect() as db:
    db.execute("""
        CREATE TABLE stock (item VARCHAR, place VARCHAR, pieces INTEGER, PRIMARY KEY (item, place));
        CREATE MATERIALIZED VIEW low AS
            SELECT item, sum(pieces)::INTEGER AS pieces FROM stock GROUP BY item
            HAVING sum(pieces) < 10;
    """)
    with db.subscribe("low") as feed:
        db.insert("stock", {"item": ["nut", "bolt"], "place": ["A", "A"], "pieces": [5, 50]})
        db.insert("stock", [{"item": "nut", "place": "B", "pieces": 3}])
        db.upsert("stock", [{"item": "bolt", "place": "A", "pieces": 1}])
        db.delete("stock", [{"item": "nut", "place": "A"}, {"item": "nut", "place": "B"}])

    # Closed above, so the loop ends once what was queued is read; an open feed waits for more.
    for number, (_, delta) in enumerate(feed, 1):
        rows = sorted(delta.to_pylist(), key=lambda row: row["_weight"])
        signs = [f"{row['_weight']:+d} {row['item']} {row['pieces']}" for row in rows]
        print(f"commit {number}: " + ", ".join(signs))
