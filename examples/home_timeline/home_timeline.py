"""A home timeline kept live: for everybody the posts of those they follow, newest first.

The view is the classic of the literature, in one statement. A post by somebody with N followers
changes N timelines; the script says how many changed and what it cost.

    python examples/home_timeline/home_timeline.py [followers of the celebrity, default 100000]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import ivm

VIEW = """
CREATE MATERIALIZED VIEW home_timeline AS
SELECT follows.follower_id AS timeline_id,
    array_agg(posts ORDER BY posts.timestamp DESC) AS timeline
FROM posts JOIN follows ON follows.followee_id = posts.sender_id
GROUP BY follows.follower_id
"""
CELEBRITY, ANN, BOB = 0, 1, 2


def main(followers: int) -> None:
    with ivm.connect(":memory:") as db:
        create(db, followers)
        feed = db.subscribe("home_timeline")
        for what, change in CHANGES:
            start = time.perf_counter()
            change(db)
            seconds = time.perf_counter() - start
            _, delta = next(iter(feed))
            changed = len(set(delta.column("timeline_id").to_pylist()))
            print(f"{what}: {changed} timelines changed")
            print(f"  {seconds * 1e3:.1f} ms, {seconds / changed * 1e6:.1f} µs each")
            print(f"  ann reads {titles(db, ANN)}, bob reads {titles(db, BOB)}")
        print("verified:", db.execute("VERIFY MATERIALIZED VIEW home_timeline").fetchall())


def create(db: ivm.Database, followers: int) -> None:
    """Everybody follows the celebrity; Bob follows Ann too. Some have posted."""
    db.execute("CREATE TABLE posts (id BIGINT PRIMARY KEY, sender_id BIGINT, text VARCHAR,"
               " timestamp TIMESTAMP)")  # fmt: skip
    db.execute("CREATE TABLE follows (follower_id BIGINT, followee_id BIGINT,"
               " PRIMARY KEY (follower_id, followee_id))")  # fmt: skip
    people = np.arange(1, followers + 1)
    stars = np.full(followers, CELEBRITY)
    db.insert("follows", pa.table({"follower_id": people, "followee_id": stars}))
    db.execute(f"INSERT INTO follows VALUES ({BOB}, {ANN})")
    db.execute(
        f"INSERT INTO posts VALUES (1, {CELEBRITY}, 'hello', '2026-01-01 08:00:00'),"
        f" (2, {ANN}, 'breakfast', '2026-01-01 09:00:00')"
    )
    db.execute(VIEW)


def titles(db: ivm.Database, person: int) -> list[str]:
    """What a person's timeline shows, from the top."""
    row = db.execute(
        "SELECT list_transform(timeline, lambda post: post.text) FROM home_timeline"
        " WHERE timeline_id = ?", [person]
    ).fetchone()  # fmt: skip
    return [] if row is None else row[0]


def post(db: ivm.Database, number: int, sender: int, text: str, hour: int) -> None:
    at = f"2026-01-01 {hour}:00:00"
    db.insert("posts", {"id": [number], "sender_id": [sender], "text": [text], "timestamp": [at]})


def follow(db: ivm.Database, follower: int, *followees: int) -> None:
    followers = [follower] * len(followees)
    db.insert("follows", {"follower_id": followers, "followee_id": list(followees)})


def unfollow(db: ivm.Database, follower: int, followee: int) -> None:
    db.delete("follows", {"follower_id": [follower], "followee_id": [followee]})


def delete_account(db: ivm.Database, person: int) -> None:
    with db.transaction():
        db.execute(f"DELETE FROM posts WHERE sender_id = {person}")
        db.execute(f"DELETE FROM follows WHERE {person} IN (follower_id, followee_id)")


CHANGES: list[tuple[str, Callable[[ivm.Database], object]]] = [
    ("ann posts", lambda db: post(db, 3, ANN, "lunch", 12)),
    ("the celebrity posts", lambda db: post(db, 4, CELEBRITY, "on tour", 13)),
    ("ann deletes a post", lambda db: db.delete("posts", {"id": [2]})),
    ("ann unfollows the celebrity", lambda db: unfollow(db, ANN, CELEBRITY)),
    ("ann follows bob and the celebrity", lambda db: follow(db, ANN, BOB, CELEBRITY)),
    ("ann deletes the account", lambda db: delete_account(db, ANN)),
    ("the celebrity deletes a post", lambda db: db.delete("posts", {"id": [4]})),
]

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
