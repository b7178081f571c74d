"""The changes that are held while a table is copied are given in whole transactions."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from ivm.cdc.sources.postgres.added import Held

SHAPES: Any = [(0, "relation", "described")]


def test_no_transaction_is_cut() -> None:
    commits = [1, 2, 2, 2, 3, 3, 4]
    messages = [b"%d" % i for i in range(len(commits))]
    with closing(Held()) as held:
        for first, end in ((0, 4), (4, 7)):
            held.add(messages[first:end], commits[first:end], SHAPES)
        given = []
        while (found := held.take(2, start=2)) is not None:
            given.append(found[0])
    assert given == [messages[1:4], messages[4:6], messages[6:]]
