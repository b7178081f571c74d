"""COPY over the connection: rows come as text or CSV into a file that DuckDB then copies, and go as
DuckDB's texts.

Law: what has come is applied by one COPY of the database's, with its keys, constraints and views;
if the client ends it, or a row is refused, nothing has changed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ivm.serve.pg import codec
from ivm.serve.pg.actions import CopyRows, actions_of
from ivm.serve.pg.columns import Wanted, framed, one_buffer, value_bytes
from ivm.sql.statements import parse as st
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.identifiers import literal
from ivm.storage.warehouse.duck import rows

if TYPE_CHECKING:
    from ivm.serve.pg.statements import Statements

_BATCH = 20_000
_NAMED = re.compile(r"(?P<table>[^()]+?)\s*(?:\((?P<columns>.*)\))?", re.DOTALL)
_MARK = re.compile(rb"\n\\\.\r?\n?\Z")
_ENDS = [pa.scalar(each, pa.large_binary()) for each in (b"\n", b"")]
_KNOWN = frozenset(("FORMAT", "DELIMITER", "NULL", "HEADER", "QUOTE", "ESCAPE", "ENCODING"))


class CopyIn:
    """Rows that come from the client.

    Args:
        action: the statement.
        statements: of the connection; the result is one of them.

    Attributes:
        columns: the number of columns.

    Raises:
        UnsupportedError: a format or an option that is not offered.
        SqlError: there is no such table.
    """

    def __init__(self, action: CopyRows, statements: Statements) -> None:
        self._action = action
        self._statements = statements
        self._options = Options(action)
        names = _NAMED.fullmatch(action.relation)
        if names is None:
            raise InputError(f"COPY takes a table, not {action.relation!r}")
        listed = names["columns"] or "*"
        statements.demand(f"INSERT INTO {names['table']} VALUES (NULL)")
        statements.demand(f"SELECT {listed} FROM {names['table']}")
        self.columns = statements.with_session(
            lambda session: len(
                rows(session.cursor, f"DESCRIBE SELECT {listed} FROM {names['table']}")
            )
        )
        self._file = tempfile.NamedTemporaryFile(prefix="ivm-copy-", suffix=".csv", delete=False)  # noqa: SIM115
        self._tail = b""

    def write(self, data: bytes) -> None:
        """Takes a piece of the rows."""
        self._file.write(data)

    def finish(self) -> int:
        """Copies the rows into the table; returns their count."""
        self._file.close()
        path, relation = Path(self._file.name), self._action.relation
        if not self._options.csv:
            _end_at_mark(path)
        if not path.stat().st_size:
            return 0
        read = self._options.reading(path, self.columns)
        cells = ", ".join(
            f"c{i}" if self._options.csv else _plain(f"c{i}") for i in range(self.columns)
        )
        (asked,) = st.parse(f"INSERT INTO {relation} VALUES ({', '.join(['NULL'] * self.columns)})")
        (statement,) = st.parse(f"INSERT INTO {relation} SELECT {cells} FROM {read}")
        outcome = self._statements.change(statement, asked)
        return max(outcome.rowcount, 0)

    def drop(self) -> None:
        """Removes the file."""
        self._file.close()
        Path(self._file.name).unlink(missing_ok=True)


class Options:
    """The options of COPY.

    Args:
        action: the statement.

    Attributes:
        csv: whether it is CSV, else PostgreSQL's text.
    """

    def __init__(self, action: CopyRows) -> None:
        given = dict(action.options)
        unknown = given.keys() - _KNOWN
        if unknown:
            raise UnsupportedError(f"COPY has no option {', '.join(sorted(unknown))} here")
        format = given.get("FORMAT", "text").lower()
        if format not in ("text", "csv"):
            raise UnsupportedError(f"COPY has the formats text and csv here, not {format}")
        self.csv = format == "csv"
        self.delimiter = given.get("DELIMITER", "," if self.csv else "\t")
        self.null = given.get("NULL", "" if self.csv else "\\N")
        self.header = given.get("HEADER", "false").lower() in ("true", "on", "1", "match")
        self.quote = given.get("QUOTE", '"')
        self.escape = given.get("ESCAPE", self.quote)

    def reading(self, path: Path, columns: int) -> str:
        """A call of DuckDB's that reads a file of the rows as texts, named c0, c1, …"""
        found = {
            "delim": literal(self.delimiter),
            "nullstr": literal(self.null),
            "header": str(self.header).lower(),
            "auto_detect": "false",
            "quote": literal(self.quote if self.csv else ""),
            "escape": literal(self.escape if self.csv else ""),
            "allow_quoted_nulls": "false",
            "columns": "{" + ", ".join(f"'c{i}': 'VARCHAR'" for i in range(columns)) + "}",
        }
        options = ", ".join(f"{name} = {value}" for name, value in found.items())
        return f"read_csv({literal(str(path))}, {options})"


def copy_out(action: CopyRows, statements: Statements) -> tuple[int, Iterator[tuple[int, bytes]]]:
    """The number of columns, and the rows' messages in pieces with their counts."""
    options = Options(action)
    relation = action.relation
    if relation.startswith("("):
        sql = relation[1:-1]
    else:
        names = _NAMED.fullmatch(relation)
        assert names is not None
        sql = f"SELECT {names['columns'] or '*'} FROM {names['table']}"
    (found,) = actions_of(sql)
    result = statements.run(found).result
    wanted = [Wanted(type, False) for type in result.types]
    zone = statements.settings.get("timezone")

    def pieces() -> Iterator[tuple[int, bytes]]:
        if options.header:
            names = options.delimiter.join(result.columns).encode() + b"\n"
            yield 0, codec.copy_data(names)
        while (table := result.batch(_BATCH)) is not None:
            yield len(table), _lines(value_bytes(table, wanted, zone), options)

    return len(wanted), pieces()


def _lines(columns: list[pa.Array], options: Options) -> bytes:
    """Rows as messages of one line each."""
    cells = [_cells(column.cast(pa.large_string()), options) for column in columns]
    delimiter = pa.scalar(options.delimiter, pa.large_string())
    lines = pc.binary_join_element_wise(*cells, delimiter).cast(pa.large_binary())
    return one_buffer(framed(b"d", pc.binary_join_element_wise(lines, *_ENDS)))


def _cells(column: pa.Array, options: Options) -> pa.Array:
    if options.csv:
        quote, special = options.quote, f"[{re.escape(options.delimiter + options.quote)}\r\n]"
        needs = pc.or_(pc.match_substring_regex(column, special), pc.equal(column, options.null))
        doubled = pc.replace_substring(column, quote, options.escape + quote)
        mark, nothing = (pa.scalar(each, pa.large_string()) for each in (quote, ""))
        quoted = pc.binary_join_element_wise(mark, doubled, mark, nothing)
        told = pc.if_else(needs, quoted, column)
    else:
        told = pc.replace_substring(column, "\\", "\\\\")
        for sign, written in (("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
            told = pc.replace_substring(told, sign, written)
    return pc.fill_null(told, options.null)


def _plain(cell: str) -> str:
    """A cell of PostgreSQL's text without its escapes."""
    told = f"replace({cell}, '\\\\', chr(1))"
    for written, sign in (
        ("\\t", 9),
        ("\\n", 10),
        ("\\r", 13),
        ("\\b", 8),
        ("\\f", 12),
        ("\\v", 11),
    ):
        told = f"replace({told}, '{written}', chr({sign}))"
    return f"CASE WHEN contains({cell}, '\\') THEN replace({told}, chr(1), '\\') ELSE {cell} END"


def _end_at_mark(path: Path) -> None:
    """Cuts a file of text at the line `\\.`, which ended the rows in older protocols."""
    size = path.stat().st_size
    with path.open("rb+") as file:
        file.seek(max(size - 5, 0))
        end = file.read()
        found = _MARK.search(end) if size > 4 else _MARK.search(b"\n" + end)
        if found is not None:
            file.truncate(size - len(found[0]) + (size > 4))
