"""The report of `ivm recover` on a database file and its log."""

from __future__ import annotations

from collections.abc import Iterator

from ivm.recovery import Recovery


def report_lines(found: Recovery) -> Iterator[str]:
    """Yields the lines of the report."""
    if found.trouble is not None:
        yield found.trouble
        yield from _ways(found)
    elif not found.done:
        yield f"{found.path} and its log fit each other: nothing is to be done."
        if found.commits:
            yield f"{_number(found.commits)} of the log will be replayed by the next opening."
    elif found.set_aside is None and found.commits:
        yield f"{_number(found.commits)} of the log replayed."
    else:
        yield f"{_given_up(found)}."
        yield "The views were filled anew from the tables."


def _given_up(found: Recovery) -> str:
    if found.set_aside is None:
        return f"{found.path} goes on with what it holds itself: its log is not there any more"
    return f"{_number(found.commits)} given up; the log lies in {found.set_aside}"


def _ways(found: Recovery) -> Iterator[str]:
    yield ""
    if found.commits:
        yield f"{_number(found.commits)} can be read in the log."
        yield f"  ivm recover {found.path} --replay     apply the log to the tables as they are now"
    yield f"  ivm recover {found.path} --give-up    go on without the log; it is set aside"


def _number(commits: int | None) -> str:
    if not commits:
        return "No commit that can be read"
    return "1 commit" if commits == 1 else f"{commits} commits"
