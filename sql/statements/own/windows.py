"""Windows of time in FROM (tumble, hop, cumulate, session), spelled out in DuckDB's SQL.

Law: the rows of such a call are the rows of its relation, each once for every window that holds its
time, with `window_start`, inclusive, and `window_end`, exclusive, in the place of columns that have
these names; a row without a time, or with an infinite one, is in none. Days are 24 hours, so that
windows of a TIMESTAMPTZ do not depend on who asks; those of a zone are made of its local time, of
which an hour may come twice: they are days or longer. Each argument is written once, so that its
parameters are counted once, and where the relation's names are known.

The names and arguments are those of Flink's and RisingWave's window functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ivm.sql.statements.own.durations import Duration, duration
from ivm.sql.statements.own.window_calls import Call, innermost, named
from ivm.sql.statements.text.spelling import Edit, Spelling
from ivm.sql.statements.text.tokens import Reader, Token, is_name, is_string, split, text_of
from ivm.sql.statements.text.tokens import kept_tokens as tokens_of
from ivm.storage.errors import SqlError

_UNITS = {"hours": 3_600_000_000, "minutes": 60_000_000, "seconds": 1_000_000}
_DAY = 24 * _UNITS["hours"]
NOTHING = "INTERVAL '0 seconds'"
"""What is added to whatever has to be a timestamp."""
# What is computed once below the windows. They end where the user's columns are listed.
_TIME, _ORIGIN, _PART = "__ivm_time", "__ivm_origin", "__ivm_part"
_BEGIN, _END = "__ivm_begin", "__ivm_end"
_OTHERS = "* NOT SIMILAR TO '(?i)(window_(start|end)|__ivm_[a-z0-9]+)'"


def with_windows(spelling: Spelling) -> Spelling:
    """The spelling of a script with its windows spelled out, the innermost first.

    Raises:
        SqlError: a call is wrong; the position is one in the user's script.
    """
    while True:
        script = spelling.text
        try:
            edits = [edit for call in innermost(tokens_of(script)) for edit in _edits(script, call)]
        except SqlError as error:
            if error.position is not None:
                error.position = spelling.written(error.position)
            raise
        if not edits:
            return spelling
        spelling = Spelling(script, edits, spelling)


def _length(argument: Sequence[Token]) -> Duration:
    """The constant length that an argument is, of months or of hours.

    Raises:
        SqlError: it is none, or a mixture.
    """
    reader = Reader(argument)
    length = duration(reader)
    if not reader.done:
        raise reader.error("expected a comma behind the length")
    if length.months and (length.days or length.micros):
        raise SqlError("a window has months, or days and less, not both", argument[0].start)
    return length


def _size(length: Duration) -> int:
    """The months of a length, or else its microseconds."""
    return length.months or length.days * _DAY + length.micros


def _interval(length: Duration) -> str:
    if length.months:
        return f"INTERVAL '{length.months} months'"
    for unit, micros in _UNITS.items():
        if _size(length) % micros == 0:
            return f"INTERVAL '{_size(length) // micros} {unit}'"
    return f"INTERVAL '{_size(length)} microseconds'"


class _Spelled(NamedTuple):
    """How a call is written.

    Attributes:
        computed: columns that are computed once, beside the relation's.
        chosen: the rest of the outer SELECT.
    """

    computed: Sequence[str]
    chosen: str


class _Time(NamedTuple):
    """How the times of a call are written.

    Attributes:
        computed: see `_Spelled`.
        local: what is counted: the time, or the local time of the zone.
        origin: of the buckets, as a further argument.
        zone: of the local time, as SQL; "" if there is none.
    """

    computed: Sequence[str]
    local: str = _TIME
    origin: str = ""
    zone: str = ""

    def bucket(self, width: str) -> str:
        """The beginning of the bucket that the time is in."""
        return f"time_bucket({width}, {self.local}{self.origin})"

    def selected(self, begin: str, end: str) -> _Spelled:
        """The windows that begin and end so, in the zone's local time if there is one."""
        if self.zone:
            begin, end = (f"{value} AT TIME ZONE {self.zone}" for value in (begin, end))
        windows = f"{begin} AS window_start, {end} AS window_end"
        told = f"isfinite({_TIME})" + (f" AND isfinite({_ORIGIN})" if self.origin else "")
        return _Spelled(self.computed, f"{_OTHERS}, {windows} WHERE {told}")


def _time(script: str, call: Call, whole: Sequence[Duration]) -> _Time:
    """The time of a call, and its last argument.

    Args:
        whole: lengths that are whole days or months if a time zone counts them.
    """
    computed = [_column(script, call)]
    if not call.further:
        return _Time(computed)
    last = named(call.further[0], "ORIGIN") or call.further[0]
    text = text_of(script, last)
    if len(last) != 1 or not is_string(last[0]):
        return _Time([*computed, _timestamp(text, _ORIGIN)], _TIME, f", {_ORIGIN}")
    if text.lstrip("'")[:1].isdigit():
        raise SqlError(
            f"a text names a time zone: write the origin TIMESTAMP {text}", last[0].start
        )
    if any(not each.months and each.micros % _DAY for each in whole):
        raise SqlError("windows in a time zone have whole days, or months", last[0].start)
    return _Time(computed, f"({_TIME}::TIMESTAMPTZ AT TIME ZONE {text})", "", text)


def _column(script: str, call: Call) -> str:
    """The column of the times."""
    return _timestamp(text_of(script, call.arguments[0]), _TIME)


def _timestamp(value: str, name: str) -> str:
    """A timestamp under a name: a DATE becomes one by the sum, and what tells no time has none."""
    return f"({value}) + {NOTHING} AS {name}"


def _tumble(script: str, call: Call) -> _Spelled:
    length = _length(call.arguments[1])
    time, width = _time(script, call, [length]), _interval(length)
    begin = time.bucket(width)
    return time.selected(begin, f"({begin} + {width})")


def _hop(script: str, call: Call) -> _Spelled:
    slide, length = _length(call.arguments[1]), _length(call.arguments[2])
    time, step, width = _time(script, call, [slide, length]), _interval(slide), _interval(length)
    begin = f"unnest(range({time.bucket(step)}, {time.local} - {width}, -{step}))"
    return time.selected(begin, f"({begin} + {width})")


def _cumulate(script: str, call: Call) -> _Spelled:
    step, length = _length(call.arguments[1]), _length(call.arguments[2])
    if bool(step.months) != bool(length.months) or _size(length) % _size(step):
        raise SqlError(
            "the length of cumulate() is a multiple of its step", call.arguments[2][0].start
        )
    time, width = _time(script, call, [length]), _interval(length)
    begin = time.bucket(width)
    end = f"unnest(range({begin} + {width}, {time.local}, -{_interval(step)}))"
    return time.selected(begin, end)


def _session(script: str, call: Call) -> _Spelled:
    """A row begins a session if the one before is further away than the gap, and so for its end.

    The last beginning up to a row is looked for, and not the greatest one: a change is then met by
    the rows of its session alone.
    """
    length = _length(call.arguments[1])
    if length.months:
        raise SqlError("a gap has no months", call.arguments[1][0].start)
    gap, parts = _interval(length), _partition(script, call.further)
    computed = [_column(script, call), *[f"{text} AS {_PART}{i}" for i, text in enumerate(parts)]]
    by = f"PARTITION BY {', '.join([f'{_PART}{i}' for i in range(len(parts))])} " if parts else ""
    within = f"OVER ({by}ORDER BY {_TIME}"
    return _Spelled(
        computed,
        f"*, CASE WHEN {_TIME} - {gap} <= lag({_TIME}) {within}) THEN NULL ELSE {_TIME} END"
        f" AS {_BEGIN}, CASE WHEN {_TIME} + {gap} >= lead({_TIME}) {within}) THEN NULL"
        f" ELSE {_TIME} + {gap} END AS {_END} WHERE isfinite({_TIME}))"
        f" SELECT {_OTHERS}, last_value({_BEGIN} IGNORE NULLS) {within}) AS window_start,"
        f" first_value({_END} IGNORE NULLS) {within} RANGE BETWEEN CURRENT ROW AND UNBOUNDED"
        " FOLLOWING) AS window_end",
    )


def _partition(script: str, further: Sequence[Sequence[Token]]) -> list[str]:
    """The columns of `partition_by := [columns]`, or of one column alone."""
    if not further:
        return []
    argument = further[0]
    columns = named(argument, "PARTITION_BY")
    if columns and columns[0].word == "[" and columns[-1].word == "]":
        columns = columns[1:-1]
    parts = [part for part in split(columns or ()) if part]
    if not parts or not all(map(_is_column, parts)):
        raise SqlError("expected partition_by := [columns]", argument[0].start)
    return [text_of(script, part) for part in parts]


def _is_column(part: Sequence[Token]) -> bool:
    """Returns whether an expression may be one column: no constant, and no star."""
    words = [token.word for token in part]
    return words[-1] != "*" and "COLUMNS" not in words and (len(part) > 1 or is_name(part[0]))


_WRITTEN: Mapping[str, Callable[[str, Call], _Spelled]] = {
    "TUMBLE": _tumble,
    "HOP": _hop,
    "CUMULATE": _cumulate,
    "SESSION": _session,
}


def _edits(script: str, call: Call) -> list[Edit]:
    """What stands in the place of the call, around its relation."""
    opening = "(FROM (FROM (FROM " if call.name == "SESSION" else "(FROM (FROM "
    spelled = _WRITTEN[call.name](script, call)
    text = f" SELECT *, {', '.join(spelled.computed)}) SELECT {spelled.chosen})"
    return [
        Edit(call.begin, call.relation[0].start, opening),
        Edit(call.relation[-1].end, call.end, text),
    ]
