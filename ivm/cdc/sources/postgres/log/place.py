"""Where a stream stands: on which server, on which of its timelines, and behind which commit.

Law: a log position alone tells nothing of a server whose disk was put back, and whose log has grown
past it again. So the last commit is asked for once more when the stream is opened, and a timeline
must have the position in its history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ivm.cdc.sources.postgres.log.messages import Commit, lsn_number
from ivm.cdc.sources.postgres.log.transactions import Transactions

_MOST = 10_000  # changes of a transaction that is sent again


@dataclass(frozen=True)
class Server:
    """The server that the stream is of.

    Attributes:
        system: tells its data from those of all others.
        timeline: of its log; 0 if it is not known, as older versions have not written it.
    """

    system: str
    timeline: int


@dataclass(frozen=True)
class Place:
    """The detail of a stream's position.

    Attributes:
        server: of the stream.
        commit: the last one, if it may be asked for again.
    """

    server: Server
    commit: Commit | None = None

    @property
    def text(self) -> str:
        """From which `place` makes it again."""
        server, commit = self.server, self.commit
        numbers = [] if commit is None else [commit.start, commit.end, commit.micros]
        return " ".join(map(str, [server.system, server.timeline, *numbers]))


def place(text: str) -> Place:
    """The place that such a text tells."""
    system, *numbers = text.split(" ")
    timeline, *commit = map(int, numbers or ["0"])
    return Place(Server(system, timeline), Commit(*commit) if commit else None)


def last_commit(found: Transactions) -> Commit | None:
    """The last commit, unless its transaction is too large to be sent again."""
    begin = found.ends[-2] if len(found.ends) > 1 else 0
    return found.commits[-1] if found.ends[-1] - begin <= _MOST else None


def follows(timeline: int, position: int, history: Iterable[str]) -> bool:
    """Whether a timeline with this history has another one up to a position.

    Args:
        timeline: the other one.
        position: in the log.
        history: lines of parent timelines, and where each was left.
    """
    lines = [line.split() for line in history]
    parents = [words for words in lines if len(words) > 1 and words[0].isdigit()]
    return any(int(at) == timeline and lsn_number(left) >= position for at, left, *_ in parents)


def behind_first(found: Transactions) -> Transactions:
    """Transactions without the first one, which was read before.

    Of each table's shapes within it the last one stays, as the others are over.
    """
    end = found.ends[0]
    own = {shape.oid: (0, shape) for at, shape in found.shapes if at < end}
    later = [(at - end, shape) for at, shape in found.shapes if at >= end]
    return replace(
        found,
        messages=found.messages[end:],
        shapes=[*own.values(), *later],
        ends=[at - end for at in found.ends[1:]],
        commits=found.commits[1:],
    )
