"""The options of COPY, with PostgreSQL's defaults and its refusals."""

from __future__ import annotations

from collections.abc import Collection

from ivm.serve.pg.statements.copy_syntax import CopyRows
from ivm.serve.pg.wire.errors import SYNTAX, PgError
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.identifiers import fold

_TRUE, _FALSE = ("true", "on", "1"), ("false", "off", "0")
_KNOWN = frozenset(("FORMAT", "DELIMITER", "NULL", "HEADER", "ENCODING", "FREEZE"))
_OF_CSV = frozenset(("QUOTE", "ESCAPE", "FORCE_QUOTE"))
_OF_TEXTS = frozenset(("DELIMITER", "NULL", "HEADER"))
_UTF8 = ("utf8", "utf-8", "unicode")
_NO_DELIMITER = frozenset("\\.abcdefghijklmnopqrstuvwxyz0123456789")


class CopyOptions:
    """The options of one COPY.

    Args:
        action: the statement.

    Attributes:
        format: "text", "csv" or "binary".
        delimiter: between the values of a row.
        null: what stands for NULL.
        header: the first row has the columns' names.
        checks_header: these names are those of the table.
        quote: around values of CSV.
        escape: before a quote in such a value.

    Raises:
        UnsupportedError: what is not offered.
        InputError: what makes no sense.
    """

    def __init__(self, action: CopyRows) -> None:
        given = dict(action.options)
        if len(given) < len(action.options):
            raise PgError(SYNTAX, "COPY has an option twice")
        self.format = given.get("FORMAT", "text").lower()
        if self.format not in ("text", "csv", "binary"):
            raise InputError(f"COPY has the formats text, csv and binary, not {self.format!r}")
        _demand_known(given, self.format, comes=action.comes)
        is_csv = self.format == "csv"
        self.delimiter = given.get("DELIMITER", "," if is_csv else "\t")
        self.null = given.get("NULL", "" if is_csv else "\\N")
        self.checks_header = given.get("HEADER", "").lower() == "match"
        self.header = self.checks_header or _is_on(given, "HEADER")
        self.quote = given.get("QUOTE", '"')
        self.escape = given.get("ESCAPE", self.quote)
        self._quoted = given.get("FORCE_QUOTE", "")
        _is_on(given, "FREEZE")  # rows are frozen by nothing here
        self._demand_sense(given)

    def is_quoted(self, column: str) -> bool:
        """Whether all values of a column but NULL are quoted."""
        names = [fold(name.strip().strip('"')) for name in self._quoted.split(",")]
        return self._quoted == "*" or fold(column) in names

    def _demand_sense(self, given: Collection[str]) -> None:
        is_csv = self.format == "csv"
        for name, sign in (
            ("DELIMITER", self.delimiter),
            ("QUOTE", self.quote),
            ("ESCAPE", self.escape),
        ):
            if len(sign) != 1 or not sign.isascii() or sign in "\r\n\0":
                raise InputError(f"COPY's {name} is one character of ASCII, not {sign!r}")
        if not is_csv and self.delimiter in _NO_DELIMITER:
            raise InputError(f"COPY's DELIMITER cannot be {self.delimiter!r}: use the format csv")
        if is_csv and self.delimiter in (self.quote, self.null):
            raise InputError("COPY's DELIMITER, QUOTE and NULL must differ")
        if set(self.null) & {"\r", "\n", self.delimiter, self.quote if is_csv else "\n"}:
            raise InputError("COPY's NULL has no end of line, delimiter or quote in it")


def _demand_known(given: dict[str, str], format: str, *, comes: bool) -> None:
    known = _KNOWN | (_OF_CSV if format == "csv" else frozenset())
    if format == "binary":
        known -= _OF_TEXTS
    if comes:
        known -= {"FORCE_QUOTE"}
    unknown = given.keys() - known
    if unknown:
        way = "FROM" if comes else "TO"
        raise UnsupportedError(
            f"COPY {way} has no option {', '.join(sorted(unknown))} in the format {format} here"
        )
    encoding = given.get("ENCODING", "utf8")
    if encoding.lower() not in _UTF8:
        raise UnsupportedError(f"COPY has texts in UTF8, not {encoding}: convert them")


def _is_on(given: dict[str, str], name: str) -> bool:
    value = given.get(name, "false").lower()
    if value not in _TRUE + _FALSE:
        raise InputError(f"COPY's {name} is true or false, not {value!r}")
    return value in _TRUE
