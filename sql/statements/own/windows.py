"""Windows of time in FROM (tumble, hop, cumulate, session), spelled out in DuckDB's SQL.

Law: the rows of such a call are the rows of its relation, each once for every window that holds its
time, with `window_start`, inclusive, and `window_end`, exclusive, in the place of columns that have
these names; a row without a time, or with an infinite one, is in none. Days are 24 hours, so that
windows of a TIMESTAMPTZ do not depend on who asks; those of a zone are made of its local time.

The names and arguments are those of Flink's and RisingWave's window functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ivm.sql.statements.own.durations import Duration, duration
from ivm.sql.statements.text.spelling import Edit, Spelling
from ivm.sql.statements.text.tokens import NESTING, Reader, Token, is_name, is_string, text_of
from ivm.sql.statements.text.tokens import kept_tokens as tokens_of
from ivm.storage.errors import SqlError

_NAMES = ("tumble", "hop", "cumulate", "session")
_CALL = re.compile(rf"\b(?:{'|'.join(_NAMES)})\s*\(")
_USAGE = {
    "TUMBLE": "tumble(relation, time, length[, origin or time zone])",
    "HOP": "hop(relation, time, slide, length[, origin or time zone])",
    "CUMULATE": "cumulate(relation, time, step, length[, origin or time zone])",
    "SESSION": "session(relation, time, gap[, partition_by := [columns]])",
}
_IN_FROM = frozenset(["FROM", "JOIN", "USING"])
_BEYOND = frozenset(
    [
        *("SELECT", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET"),
        *("VALUES", "SET", "BY", "RETURNING", "WITH", "CASE", "THEN", "IN", ";"),
    ]
)
_DAY = 24 * 3_600_000_000
_OTHERS = "* NOT SIMILAR TO '(?i)(window_(start|end)|session (begin|end))'"
_BEGIN, _END = '"session begin"', '"session end"'


class _Call(NamedTuple):
    """A call.

    Attributes:
        name: in upper case.
        relation: the tokens of its first argument.
        arguments: those of the others.
        begin: of the call in the script.
        end: behind it.
    """

    name: str
    relation: Sequence[Token]
    arguments: Sequence[Sequence[Token]]
    begin: int
    end: int


def may_have_windows(script: str) -> bool:
    """Returns whether a script may call one of the functions."""
    text = script.lower()  # most have no such word, and a search for these takes ten times as long
    return any(name in text for name in _NAMES) and _CALL.search(text) is not None


def with_windows(spelling: Spelling) -> Spelling:
    """The spelling of a script with its windows spelled out.

    Raises:
        SqlError: a call is wrong; the position is one in the user's script.
    """
    script = spelling.text
    found = tokens_of(script)
    edits = list[Edit]()
    try:
        for at, token in enumerate(found):
            if token.word in _USAGE and _is_call(found, at):
                edits += _edits(script, _call(found, at))
    except SqlError as error:
        error.position = None if error.position is None else spelling.written(error.position)
        raise
    return Spelling(script, sorted(edits), spelling) if edits else spelling


# -- reading ------------------------------------------------------------------------------------


def _is_call(found: Sequence[Token], at: int) -> bool:
    """Returns whether a call of ours begins here: in FROM, on something that is no string."""
    if [token.word for token in found[at + 1 : at + 2]] != ["("] or at + 2 >= len(found):
        return False
    first = found[at + 2]
    return not is_string(first) and (first.word == "(" or is_name(first)) and _is_in_from(found, at)


def _is_in_from(found: Sequence[Token], at: int) -> bool:
    """Returns whether a relation is expected here."""
    before = found[at - 1].word if at else ""
    if before == "(" and at > 1:
        outer = at - 2
        return found[outer].word in _IN_FROM or (
            found[outer].word in _USAGE and _is_in_from(found, outer)
        )
    return before in _IN_FROM or (before == "," and _lists_relations(found, at - 1))


def _lists_relations(found: Sequence[Token], comma: int) -> bool:
    """Returns whether a comma stands between relations."""
    depth = 0
    for at in range(comma - 1, -1, -1):
        word = found[at].word
        depth -= NESTING.get(word, 0)
        if depth < 0 or (depth == 0 and word in _BEYOND):
            return False
        if depth == 0 and word in _IN_FROM:
            return True
    return False


def _call(found: Sequence[Token], at: int) -> _Call:
    """Reads the call.

    Raises:
        SqlError: it has other arguments.
    """
    reader = Reader(found, at + 1)
    reader.skip_parentheses()
    name, close = found[at].word, reader.at - 1
    relation, *arguments = _split(found[at + 2 : close])
    least = _USAGE[name].partition("[")[0].count(",") + 1
    if not least <= len(arguments) + 1 <= least + 1 or not all([relation, *arguments]):
        raise SqlError(
            f'expected {_USAGE[name]}; a function of your own is called as "{found[at].text}"(…)',
            found[at].start,
        )
    return _Call(name, relation, arguments, found[at].start, found[close].end)


def _split(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The parts between commas outside of any brackets."""
    parts, begin, depth = list[Sequence[Token]](), 0, 0
    for at, token in enumerate(tokens):
        depth += NESTING.get(token.word, 0)
        if depth == 0 and token.word == ",":
            parts.append(tokens[begin:at])
            begin = at + 1
    return [*parts, tokens[begin:]]


def _length(argument: Sequence[Token]) -> Duration:
    """The constant length that an argument is, of months or of hours.

    Raises:
        SqlError: it is none, or a mixture.
    """
    reader = Reader(argument)
    length = duration(reader)
    reader.finish()
    if length.months and (length.days or length.micros):
        raise SqlError("a window has months, or days and less, not both", argument[0].start)
    return length


def _interval(length: Duration) -> str:
    if length.months:
        return f"INTERVAL '{length.months} months'"
    micros = length.days * _DAY + length.micros
    for unit, size in (("hours", 3_600_000_000), ("minutes", 60_000_000), ("seconds", 1_000_000)):
        if micros % size == 0:
            return f"INTERVAL '{micros // size} {unit}'"
    return f"INTERVAL '{micros} microseconds'"


# -- writing ------------------------------------------------------------------------------------


class _Time(NamedTuple):
    """How the times of a call are written.

    Attributes:
        given: the argument.
        local: what is counted: the argument, or the local time of the zone.
        origin: of the buckets, as a further argument.
        zone: of the local time, as SQL; "" if there is none.
    """

    given: str
    local: str
    origin: str
    zone: str

    def bucket(self, width: str) -> str:
        """The beginning of the bucket that the time is in."""
        return f"time_bucket({width}, {self.local}{self.origin})"

    def told(self, value: str) -> str:
        """A value as the user sees it."""
        return f"{value} AT TIME ZONE {self.zone}" if self.zone else value


def _time(script: str, call: _Call, further: Sequence[Sequence[Token]]) -> _Time:
    given = text_of(script, call.arguments[0])
    if not further:
        return _Time(given, given, "", "")
    last = further[0]
    if [token.word for token in last[1:3]] == [":", "="] or last[0].word == "ORIGIN":
        last = last[3:] if last[1:2] and last[1].word == ":" else last[2:]
    text = text_of(script, last)
    if len(last) == 1 and is_string(last[0]):
        return _Time(given, f"(({given})::TIMESTAMPTZ AT TIME ZONE {text})", "", text)
    return _Time(given, given, f", {text}", "")


def _tumble(script: str, call: _Call) -> str:
    length, time = _length(call.arguments[1]), _time(script, call, call.arguments[2:])
    width = _interval(length)
    begin = time.bucket(width)
    return _selected(time, time.told(begin), time.told(f"({begin} + {width})"))


def _hop(script: str, call: _Call) -> str:
    slide, width = (_interval(_length(each)) for each in call.arguments[1:3])
    time = _time(script, call, call.arguments[3:])
    begin = f"unnest(range({time.bucket(slide)}, {time.local} - {width}, -{slide}))"
    return _selected(time, time.told(begin), time.told(f"({begin} + {width})"))


def _cumulate(script: str, call: _Call) -> str:
    step, length = _length(call.arguments[1]), _length(call.arguments[2])
    sizes = [(each.months, each.days * _DAY + each.micros) for each in (step, length)]
    (months, micros), (all_months, all_micros) = sizes
    if bool(months) != bool(all_months) or (all_months % months if months else all_micros % micros):
        raise SqlError(
            "the length of cumulate() is a multiple of its step", call.arguments[2][0].start
        )
    time, width = _time(script, call, call.arguments[3:]), _interval(length)
    begin = time.bucket(width)
    end = f"unnest(range({begin} + {width}, {time.local}, -{_interval(step)}))"
    return _selected(time, time.told(begin), time.told(end))


def _selected(time: _Time, begin: str, end: str) -> str:
    found = f"{begin} AS window_start, {end} AS window_end"
    return f" SELECT {_OTHERS}, {found} WHERE isfinite({time.given}))"


def _session(script: str, call: _Call) -> str:
    """A row begins a session if the one before is further away than the gap, and so for its end."""
    time, length = text_of(script, call.arguments[0]), _length(call.arguments[1])
    if length.months:
        raise SqlError("a gap has no months", call.arguments[1][0].start)
    gap = _interval(length)
    parts = _partition(script, call.arguments[2:])
    within = f"OVER ({parts}ORDER BY {time}"
    return (
        f" SELECT *, CASE WHEN {time} - {gap} <= lag({time}) {within}) THEN NULL"
        f" ELSE {time} END AS {_BEGIN}, CASE WHEN {time} + {gap} >= lead({time}) {within})"
        f" THEN NULL ELSE {time} + {gap} END AS {_END} WHERE isfinite({time}))"
        f" SELECT {_OTHERS}, max({_BEGIN}) {within}) AS window_start,"
        f" min({_END}) {within} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS window_end)"
    )


def _partition(script: str, further: Sequence[Sequence[Token]]) -> str:
    """The PARTITION BY of `partition_by := [columns]`, or of one column alone."""
    if not further:
        return ""
    argument = further[0]
    words = [token.word for token in argument]
    named = words[:3] == ["PARTITION_BY", ":", "="] or words[:2] == ["PARTITION_BY", ":="]
    columns = argument[3 if words[1:2] == [":"] else 2 :] if named else ()
    if not columns:
        raise SqlError("expected partition_by := [columns]", argument[0].start)
    if columns[0].word == "[" and columns[-1].word == "]":
        columns = columns[1:-1]
    return f"PARTITION BY {text_of(script, columns)} "


_WRITTEN: Mapping[str, Callable[[str, _Call], str]] = {
    "TUMBLE": _tumble,
    "HOP": _hop,
    "CUMULATE": _cumulate,
    "SESSION": _session,
}


def _edits(script: str, call: _Call) -> list[Edit]:
    """What stands in the place of the call, around its relation."""
    opening = "(FROM (FROM " if call.name == "SESSION" else "(FROM "
    return [
        Edit(call.begin, call.relation[0].start, opening),
        Edit(call.relation[-1].end, call.end, _WRITTEN[call.name](script, call)),
    ]
