"""INSERT … SELECT that differs in literals alone from one whose rows memory has given.

Law: such a text is the known one to the last character, but for literals of the same form (a
string, an integer of the same sign); so it means that one with these as values, and is not read
anew. Names may mean something else meanwhile, or a literal may not fit: what runs it finds that out
each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ivm.reads.literals import PREFIX, Shape, shape_of
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.cached_by_text import LONGEST, kept
from ivm.storage.warehouse.tables.table_info import TableInfo

_MOST = 64
_MARK = re.compile(rf"\$({PREFIX}[0-9]+)")
_STRING, _POSITIVE = "'((?:[^'\0]|'')*)'", "[1-9][0-9]{0,17}"  # of 64 bits


class Template(NamedTuple):
    """A statement whose rows memory has given.

    Attributes:
        info: its table.
        insert: the statement, without rows.
        positions: of the columns that it gives.
        query: that gives the rows, with parameters for its literals.
        literals: these.
    """

    info: TableInfo
    insert: st.Dml
    positions: Sequence[int]
    query: str
    literals: Mapping[str, int | str]


class KnownInsert(NamedTuple):
    """A statement that is like a known one.

    Attributes:
        template: the known one.
        literals: its own values of the query's parameters.
    """

    template: Template
    literals: Mapping[str, int | str]


class InsertTemplates:
    """The statements that one session knows."""

    def __init__(self) -> None:
        self._befores: tuple[str, ...] = ()  # what stands before the queries
        self._templates: dict[re.Pattern[str], Template] = {}

    def learn(self, insert: st.Dml, query: str, info: TableInfo, positions: Sequence[int]) -> None:
        """Notes a statement without parameters.

        Args:
            insert: the statement, without rows; it has no RETURNING and no clause about conflicts.
            query: at its end, of which memory has given the rows.
            info: its table.
            positions: of the columns that it gives.
        """
        text = insert.text
        before = text[: len(text) - len(query)]
        if len(text) > LONGEST or before + query != text:
            return
        shape = _shape(query)
        if not shape.literals:
            return
        if len(self._templates) >= _MOST:
            self._befores, self._templates = (), {}
        if before not in self._befores:
            self._befores += (before,)
        template = Template(info, insert, positions, shape.text, shape.literals)
        self._templates[re.compile(_pattern(before, shape))] = template

    def find(self, text: str) -> KnownInsert | None:
        """The known statement that a text is with other literals; None if it is none such."""
        if not text.startswith(self._befores) or len(text) > LONGEST:
            return None
        for pattern, template in self._templates.items():
            found = pattern.fullmatch(text)
            if found is not None:
                return KnownInsert(template, _values(template.literals, found.groups()))
        return None

    def forget(self, known: KnownInsert) -> None:
        """Drops what is known: it is learnt anew if memory gives the rows of such a one again."""
        templates = self._templates.items()
        self._templates = {p: each for p, each in templates if each is not known.template}


@kept(texts=64)
def _shape(query: str) -> Shape:
    return shape_of(query, of_source=True)


def _pattern(before: str, shape: Shape) -> str:
    """The texts that are these characters and then a query of this shape."""
    parts = _MARK.split(shape.text)  # every second one is a mark's name
    parts[1::2] = [_form(shape.literals[name]) for name in parts[1::2]]
    parts[::2] = [re.escape(part) for part in parts[::2]]
    return "".join([re.escape(before), *parts])


def _form(literal: int | str) -> str:
    """The literals that may stand in the place of another; 0 may stand only where it has stood."""
    if isinstance(literal, str):
        return _STRING
    if literal < 0:
        return f"(-{_POSITIVE})"
    return f"({_POSITIVE})" if literal else f"(0|{_POSITIVE})"


def _values(known: Mapping[str, int | str], texts: Iterable[str]) -> dict[str, int | str]:
    return {
        name: text.replace("''", "'") if isinstance(value, str) else int(text)
        for (name, value), text in zip(known.items(), texts, strict=True)
    }
