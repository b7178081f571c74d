"""Finds what may follow in the statements on sources and sinks.

Contract: an "option" has `of` ("SOURCE" or "SINK", kind or "", name or "", option, …): the kind
where the statement names it, else the name of the source, and the options that are given already.
A "value" has the same with the option whose value it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ivm.cdc.kinds import KINDS
from ivm.cdc.sinks.kinds import KINDS as SINK_KINDS
from ivm.cdc.sources.kafka.start_option import WORDS as PLACES
from ivm.shell.editing.expected_kind import Expected
from ivm.sql.statements.text.tokens import Token, unquoted

_CHANGES = ("PAUSE", "RESUME", "DROP", "ALTER")
_LETTERS = ("RETRY", "DISCARD")
_WORDS = {  # by the first words
    ("PAUSE",): ("SOURCE", "SINK"),
    ("RESUME",): ("SOURCE", "SINK"),
    ("RETRY",): ("DEAD LETTERS FOR",),
    ("DISCARD",): ("DEAD LETTERS FOR",),
    ("RETRY", "DEAD"): ("LETTERS FOR",),
    ("DISCARD", "DEAD"): ("LETTERS FOR",),
}


def in_stream_statement(done: Sequence[Token]) -> tuple[Expected, ...] | None:
    """Returns the kinds that may follow the tokens, None if they begin another statement."""
    words = [token.word for token in done]
    if tuple(words) in _WORDS:
        return (Expected("word", _WORDS[tuple(words)]),)
    if words[:1] and words[0] in _LETTERS and words[1:3] == ["DEAD", "LETTERS"]:
        return _names("SOURCE") if words[3:] == ["FOR"] else ()
    if len(words) < 2 or words[1] not in ("SOURCE", "SINK"):
        return None
    if words[0] == "CREATE":
        return _created(words[1], done)
    return _changed(words[1], done) if words[0] in _CHANGES else None


def _names(what: str) -> tuple[Expected, ...]:
    return (Expected(what.lower()),)


def _changed(what: str, done: Sequence[Token]) -> tuple[Expected, ...]:
    """After `PAUSE SOURCE` and the like."""
    words = [token.word for token in done]
    rest = words[4:] if words[2:4] == ["IF", "EXISTS"] else words[2:]
    if not rest:
        return (*_names(what), *_also(words[0] == "DROP" and len(words) == 2, "IF EXISTS"))
    if words[0] != "ALTER":
        return ()
    if "(" in rest:
        return _in_options((what, "", unquoted(done[2])), done[words.index("(") :])
    if rest[1:] == ["SET"]:
        return _also(True, "POSITION", "(")
    if rest[1:] == ["SET", "POSITION"]:
        return _also(True, *(f"'{place}'" for place in PLACES))
    return _also(len(rest) == 1, "SET (", "SET POSITION", "ADD TABLE", "DROP TABLE")


def _also(expected: bool, *words: str) -> tuple[Expected, ...]:
    return (Expected("word", words),) if expected else ()


def _created(what: str, done: Sequence[Token]) -> tuple[Expected, ...]:
    """After `CREATE SOURCE` or `CREATE SINK`."""
    words = [token.word for token in done]
    if "(" in words:
        at = words.index("(")
        return _in_options((what, words[at - 1], ""), done[at:])
    begin = 5 if words[2:5] == ["IF", "NOT", "EXISTS"] else 2
    rest = words[begin:]
    if not rest:
        return _also(begin == 2, "IF NOT EXISTS")
    kind = _also(True, *(KINDS if what == "SOURCE" else SINK_KINDS))
    last = {"SOURCE": "FROM", "SINK": "INTO"}[what]
    if rest[-1] == last:
        return kind
    if rest[-1] in ("INTO", "FROM"):
        return (Expected("table" if what == "SOURCE" else "view"),)
    if last in rest[1:]:
        return _also(rest[-2] == last, "(")
    both = ("INTO", "FROM") if what == "SOURCE" else ("FROM",)
    return _also(True, *(both if len(rest) == 1 else (last,)))


def _in_options(of: tuple[str, str, str], done: Sequence[Token]) -> tuple[Expected, ...]:
    """Inside of `(option value, …)`."""
    given: list[str] = []
    for before, token in pairwise(done):
        if before.word in ("(", ",") and token.word != ")":
            given.append(unquoted(token).lower())
    match done[-1].word:
        case "(" | ",":
            return (Expected("option", (*of, *given)),)
        case ")":
            return ()
    follows_name = len(done) > 1 and done[-2].word in ("(", ",")
    return (Expected("value", (*of, given[-1])),) if follows_name else ()
