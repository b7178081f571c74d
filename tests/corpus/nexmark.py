# Queries and values in one piece are easier to read.
# ruff: noqa: E501
"""Nexmark's queries, as DuckDB runs them and with windows of time, and a small auction for them.

`QUERIES` are in DuckDB's SQL, the oracle's: TUMBLE and HOP windows are time_bucket; q6, q10 to q13
say what can be said without a clock: q12 and q13 use event time and a plain side table, q11's
sessions are gaps between a bidder's bids. `WINDOWED` are those of them that have windows, as their
authors mean them, with the same rows as long as all times are known; a bid without one is in no
window, and in a group of its own in the plain q11 and q12:

- q5: hop() for the series of begins of each bid's windows.
- q7: the bids of a window joined with its maximum by tumble()'s window, not by a range of times.
- q8: tumble() for time_bucket, whose ends are compared, too.
- q11: session() for the running sum of its gaps; a session ends ten seconds after its last bid.
- q12: tumble() for time_bucket.

`FINAL` are these with EMIT ON WINDOW CLOSE, for tables with watermarks: each row once, at the end.
q7 has its window's end besides, since no other column of it tells when a row is final.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

SCHEMA = """
CREATE TABLE person (id BIGINT PRIMARY KEY, name VARCHAR, email VARCHAR, city VARCHAR,
    state VARCHAR, ts TIMESTAMP, extra VARCHAR);
CREATE TABLE auction (id BIGINT PRIMARY KEY, item VARCHAR, description VARCHAR, initial BIGINT,
    reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra VARCHAR);
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,
    ts TIMESTAMP, extra VARCHAR);
CREATE TABLE side (key BIGINT PRIMARY KEY, value VARCHAR);
"""
NEWCOMERS = """
INSERT INTO person SELECT i, 'p', 'a@b', 'c', 'or', TIMESTAMP '2026-01-01 05:00:01', ''
FROM range(9000, 9009) AS r(i);
INSERT INTO auction SELECT i, 'item', '', 1, 5, ts, ts + INTERVAL 1 HOUR, i, 10, ''
FROM person AS p(i) WHERE i >= 9000;
"""
"""Sellers who open an auction as they come, which query 8 is about."""
_DAY = "strftime(ts, '%Y-%m-%d')"
_RANKS = ", ".join(
    f"count({what}) FILTER (WHERE {where}) AS {name}_{label}"
    for what, name in (("*", "bids"), ("DISTINCT bidder", "bidders"), ("DISTINCT auction", "auctions"))
    for where, label in (
        ("price < 100", "low"), ("price >= 100 AND price < 1000", "middle"), ("price >= 1000", "high"),
    )
)  # fmt: skip
_TOTALS = "count(*) AS bids, count(DISTINCT bidder) AS bidders, count(DISTINCT auction) AS auctions"
_WON = """
    SELECT a.id, a.seller, a.category, b.price, b.ts AS sold,
           row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts, b.bidder) AS place
    FROM auction AS a JOIN bid AS b ON a.id = b.auction
    WHERE b.ts BETWEEN a.ts AND a.expires"""
_HOPS = """
    SELECT auction, w AS starts
    FROM bid, unnest(generate_series(time_bucket(INTERVAL 2 SECOND, ts) - INTERVAL 8 SECOND,
                                     time_bucket(INTERVAL 2 SECOND, ts), INTERVAL 2 SECOND)) AS u(w)"""

QUERIES = {
    "q0": "SELECT auction, bidder, price, ts FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, ts FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 5 = 0",
    "q3": "SELECT name, city, state, a.id FROM auction AS a JOIN person AS p ON seller = p.id "
    "WHERE category = 10 AND state IN ('or', 'id', 'ca')",
    "q4": "SELECT category, avg(final) AS final FROM (SELECT a.id, category, max(price) AS final "
    "FROM auction AS a JOIN bid AS b ON a.id = b.auction "
    "WHERE b.ts BETWEEN a.ts AND a.expires GROUP BY a.id, category) AS q GROUP BY category",
    "q5": f"WITH counted AS (SELECT starts, auction, count(*) AS n FROM ({_HOPS}) AS h "
    "GROUP BY starts, auction) SELECT c.starts, c.auction, c.n FROM counted AS c "
    "JOIN (SELECT starts, max(n) AS most FROM counted GROUP BY starts) AS m "
    "ON c.starts = m.starts AND c.n >= m.most",
    "q6": "SELECT seller, sold, id, avg(price) OVER (PARTITION BY seller ORDER BY sold, id "
    f"ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS mean FROM ({_WON}) AS w WHERE place = 1",
    "q7": "SELECT b.auction, b.price, b.bidder, b.ts FROM bid AS b JOIN (SELECT max(price) AS most, "
    "time_bucket(INTERVAL 10 SECOND, ts) AS starts FROM bid GROUP BY starts) AS m "
    "ON b.price = m.most "
    "WHERE b.ts >= m.starts AND b.ts < m.starts + INTERVAL 10 SECOND",
    "q8": "SELECT p.id, p.name, p.starts FROM (SELECT DISTINCT id, name, "
    "time_bucket(INTERVAL 10 SECOND, ts) AS starts FROM person) AS p "
    "JOIN (SELECT DISTINCT seller, time_bucket(INTERVAL 10 SECOND, ts) AS starts FROM auction) AS a "
    "ON p.id = a.seller AND p.starts = a.starts",
    "q9": f"SELECT * EXCLUDE (place) FROM ({_WON}) AS w WHERE place = 1",
    "q10": f"SELECT auction, bidder, price, ts, {_DAY} AS day, strftime(ts, '%H:%M') AS minute FROM bid",
    "q11": "SELECT bidder, count(*) AS bids, min(ts) AS starts, max(ts) AS ends FROM (SELECT *, "
    "sum(fresh) OVER (PARTITION BY bidder ORDER BY ts) AS session FROM (SELECT bidder, ts, CASE WHEN "
    "ts - lag(ts) OVER (PARTITION BY bidder ORDER BY ts) <= INTERVAL 10 SECOND THEN 0 ELSE 1 END "
    "AS fresh FROM bid) AS gaps) AS sessions GROUP BY bidder, session",
    "q12": "SELECT bidder, count(*) AS bids, time_bucket(INTERVAL 10 SECOND, ts) AS starts FROM bid "
    "GROUP BY bidder, starts",
    "q13": "SELECT auction, bidder, price, ts, value FROM bid JOIN side ON auction % 10 = key",
    "q14": "SELECT auction, bidder, 0.908 * price AS price, CASE WHEN hour(ts) BETWEEN 8 AND 18 "
    "THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night' ELSE 'other' END AS kind, "
    "ts, length(extra) - length(replace(extra, 'c', '')) AS cs FROM bid "
    "WHERE 0.908 * price > 100 AND 0.908 * price < 1500",
    "q15": f"SELECT {_DAY} AS day, {_TOTALS}, {_RANKS} FROM bid GROUP BY day",
    "q16": f"SELECT channel, {_DAY} AS day, max(strftime(ts, '%H:%M')) AS minute, {_TOTALS}, {_RANKS} "
    "FROM bid GROUP BY channel, day",
    "q17": f"SELECT auction, {_DAY} AS day, count(*) AS bids, min(price) AS least, max(price) AS most, "
    "avg(price) AS mean, sum(price) AS total FROM bid GROUP BY auction, day",
    "q18": "SELECT * FROM bid QUALIFY "
    "row_number() OVER (PARTITION BY bidder, auction ORDER BY ts DESC, price, extra) = 1",
    "q19": "SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, ts, bidder, extra) "
    "AS place FROM bid QUALIFY place <= 10",
    "q20": "SELECT b.auction, bidder, price, channel, b.ts, item, a.ts AS opened, expires, seller "
    "FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE category = 10",
    "q21": "SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' "
    "WHEN 'google' THEN '1' ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id "
    "FROM bid WHERE lower(channel) IN ('apple', 'google') "
    "OR regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''",
    "q22": "SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, "
    "split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid",
}

_TEN = "INTERVAL '10 seconds'"
_HIGHEST = (
    "SELECT auction, price, bidder, ts{} "
    f"FROM tumble(bid, ts, {_TEN}) AS b JOIN (SELECT max(price) AS most, window_start, window_end "
    f"FROM tumble(bid, ts, {_TEN}) GROUP BY ALL) AS m USING (window_start, window_end) "
    "WHERE price = most"
)

WINDOWED = {
    "q5": "WITH counted AS (SELECT window_start, window_end, auction, count(*) AS n "
    f"FROM hop(bid, ts, INTERVAL '2 seconds', {_TEN}) GROUP BY ALL) "
    "SELECT window_start AS starts, auction, n FROM counted JOIN "
    "(SELECT window_start, window_end, max(n) AS most FROM counted GROUP BY ALL) AS m "
    "USING (window_start, window_end) WHERE n >= most",
    "q7": _HIGHEST.format(""),
    "q8": "SELECT id, name, window_start AS starts FROM "
    f"(SELECT DISTINCT id, name, window_start, window_end FROM tumble(person, ts, {_TEN})) AS p JOIN "
    f"(SELECT DISTINCT seller, window_start, window_end FROM tumble(auction, ts, {_TEN})) AS a "
    "USING (window_start, window_end) WHERE id = seller",
    "q11": "SELECT bidder, count(*) AS bids, window_start AS starts, "
    f"window_end - {_TEN} AS ends FROM session(bid, ts, {_TEN}, partition_by := [bidder]) GROUP BY ALL",
    "q12": "SELECT bidder, count(*) AS bids, window_start AS starts "
    f"FROM tumble(bid, ts, {_TEN}) GROUP BY ALL",
}
FINAL = {
    name: f"{_HIGHEST.format(', window_end') if name == 'q7' else query} EMIT ON WINDOW CLOSE"
    for name, query in WINDOWED.items()
}


def changes(seed: int, rounds: int) -> Iterator[str]:
    """Statements: people, auctions and bids come, are corrected and go.

    Args:
        seed: decides everything.
        rounds: statements.
    """
    random = Random(seed)
    people, auctions = 0, 0
    for number in range(rounds):
        kind = random.choice(["person", "auction", "bid", "bid", "bid", "update", "delete"])
        count = random.choice([1, 1, 5, 20])
        if kind == "person" or not people:
            rows = [_person(random, people + i) for i in range(count)]
            people += count
            yield f"INSERT INTO person VALUES {', '.join(rows)}"
        elif kind == "auction" or not auctions:
            rows = [_auction(random, auctions + i, people) for i in range(count)]
            auctions += count
            yield f"INSERT INTO auction VALUES {', '.join(rows)}"
        elif kind == "bid":
            rows = [_bid(random, auctions, people) for _ in range(count)]
            yield f"INSERT INTO bid VALUES {', '.join(rows)}"
        elif kind == "update":
            yield random.choice([
                f"UPDATE auction SET category = 10, expires = expires + INTERVAL 5 SECOND "
                f"WHERE id % 7 = {number % 7}",
                f"UPDATE bid SET price = price * 2 WHERE price % 5 = {number % 5}",
                f"UPDATE person SET state = 'or' WHERE id % 3 = {number % 3}",
            ])  # fmt: skip
        else:
            table, key = random.choice([("person", "id"), ("auction", "id"), ("bid", "price")])
            yield f"DELETE FROM {table} WHERE {key} % 9 = {number % 9}"


def _time(random: Random) -> str:
    return f"TIMESTAMP '2026-01-0{random.randint(1, 2)} 0{random.randint(5, 9)}:00:{random.randint(0, 40):02d}'"


def _text(random: Random, *options: str) -> str:
    return random.choice([*(f"'{option}'" for option in options), "NULL"])


def _person(random: Random, number: int) -> str:
    state = _text(random, "or", "id", "ca", "ny")
    return f"({number}, 'p{number % 4}', 'a@b', 'c{number % 3}', {state}, {_time(random)}, '')"


def _auction(random: Random, number: int, people: int) -> str:
    opened = _time(random)
    return (
        f"({number}, 'item{number % 5}', '', 1, {random.choice(['NULL', '5'])}, {opened}, "
        f"{opened} + INTERVAL {random.randint(1, 3000)} SECOND, {random.randrange(people)}, "
        f"{random.choice([10, 10, 11, 12])}, '')"
    )


def _bid(random: Random, auctions: int, people: int) -> str:
    channel = _text(random, "Apple", "google", "x")
    url = _text(random, "https://n/a/b/c?q=1&channel_id=7", "https://n/d")
    return (
        f"({random.randrange(auctions)}, {random.randrange(people)}, {random.randint(1, 2000)}, "
        f"{channel}, {url}, {_time(random)}, {_text(random, 'abcc', '')})"
    )
