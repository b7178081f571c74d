"""Corrections of sqlglot's DuckDB dialect, for reading and for writing.

Contract: a text is written back as it was read as far as sqlglot can; `parse_query` checks whether
it was.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType

from ivm.sql.plan.expressions import Writer

_PLAIN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")
_UNITS = re.compile("[a-zA-Z]")
_PLAIN_UNIT = re.compile(
    r"\s*-?[0-9]+\s+(?:year|month|week|day|hour|minute|second|millisecond|microsecond)s?\s*",
    re.IGNORECASE,
)
_TIME_WORDS = (
    TokenType.CURRENT_DATE,
    TokenType.CURRENT_TIME,
    TokenType.CURRENT_TIMESTAMP,
    TokenType.LOCALTIME,
    TokenType.LOCALTIMESTAMP,
)


class _Parser(DuckDBParser):
    """Reads aliases in a PIVOT's IN, expressions in its USING, and its ORDER BY and LIMIT; an arrow
    among a function's arguments is JSON's, since lambdas are written with their keyword; and
    CURRENT_DATE without parentheses is a name, which may be a column's."""

    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {
        token: function
        for token, function in DuckDBParser.NO_PAREN_FUNCTIONS.items()
        if token not in _TIME_WORDS
    }

    LAMBDAS: ClassVar[dict[TokenType, Any]] = {
        token: parser for token, parser in DuckDBParser.LAMBDAS.items() if token != TokenType.ARROW
    }
    FUNC_TOKENS = {*DuckDBParser.FUNC_TOKENS, TokenType.APPLY}  # noqa: RUF012  # as sqlglot does
    FUNCTION_PARSERS = {  # noqa: RUF012  # as sqlglot does
        **DuckDBParser.FUNCTION_PARSERS,
        "POSITION": lambda self: self._parse_position(haystack_first=True),
    }

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """Keeps an index as it is written; sqlglot would convert it to count from 0 and back, but
        only where it takes the indexed expression for a list."""
        if isinstance(this, exp.Bracket):
            this.set("offset", 1)
        return super()._parse_bracket(this)

    def _parse_simplified_pivot(self, is_unpivot: bool | None = None) -> exp.Pivot:
        this = self._parse_table()
        chosen = self._match(TokenType.ON) and self._parse_csv(self._parse_choice)
        into = self._parse_unpivot_columns()
        using = self._match(TokenType.USING) and self._parse_csv(self._parse_call)
        group = self._parse_group()
        given = {"this": this, "expressions": chosen, "into": into, "using": using, "group": group}
        pivot = self.expression(exp.Pivot(**given, unpivot=is_unpivot))
        pivot.set("order", self._parse_order())
        pivot.set("limit", self._parse_limit())
        pivot.set("offset", self._parse_offset())
        return pivot

    def _parse_interval_span(
        self, this: exp.Expr, parse_function_unit: bool = True
    ) -> exp.Interval:
        """Keeps a text with units as it is written, but for a whole number of one unit in full."""
        if this.is_string and _UNITS.search(this.name) and not _PLAIN_UNIT.fullmatch(this.name):
            return self.expression(exp.Interval(this=this))
        return super()._parse_interval_span(this, parse_function_unit)

    def _parse_primary(self) -> exp.Expr | None:
        """Keeps .5 as it is written: 0.5 has another type."""
        if self._match_pair(TokenType.DOT, TokenType.NUMBER):
            return exp.Literal.number(f".{self._prev.text}")
        return super()._parse_primary()

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        """Reads a list after IN as one value: among operands, a NULL would turn FALSE into NULL."""
        if self._curr is not None and self._curr.token_type == TokenType.L_BRACKET:
            return self.expression(exp.In(this=this, field=self._parse_column()))
        return super()._parse_in(this, alias)

    def _parse_escape(self, this: exp.Expr | None) -> exp.Expr | None:
        """Reads any expression as the escape character."""
        if not self._match(TokenType.ESCAPE):
            return this
        return self.expression(exp.Escape(this=this, expression=self._parse_bitwise()))

    def _parse_choice(self) -> exp.Expr | None:
        this = self._parse_bitwise()
        if self._match(TokenType.IN):
            return self._parse_in(this, alias=True)
        return self._parse_alias(this, explicit=True)

    def _parse_call(self) -> exp.Expr | None:
        return self._parse_alias(self._parse_assignment())


class _Tokenizer(DuckDB.Tokenizer):
    """Reads x'AA'."""

    HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]


class Read(DuckDB):
    """DuckDB's dialect, with the syntax that sqlglot lacks."""

    INDEX_OFFSET = 0
    Parser = _Parser
    Tokenizer = _Tokenizer


class _VerbatimParser(_Parser):
    """Reads every function as a name and its arguments; ARRAY, COLUMNS and CAST are none."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {
        name: DuckDBParser.FUNCTIONS[name] for name in ("ARRAY", "COLUMNS")
    }
    FUNCTION_PARSERS = {  # noqa: RUF012  # sqlglot reads it so
        name: parser for name, parser in _Parser.FUNCTION_PARSERS.items() if name in _PLAIN_SYNTAX
    }
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012  # sqlglot reads it so
        name: parser
        for name, parser in DuckDBParser.NO_PAREN_FUNCTION_PARSERS.items()
        if name != "IF"
    }
    COLUMN_OPERATORS = {  # noqa: RUF012  # sqlglot reads it so
        **DuckDBParser.COLUMN_OPERATORS,
        TokenType.ARROW: lambda self, this, path: self.expression(
            exp.JSONExtract(this=this, expression=path)
        ),
        TokenType.DARROW: lambda self, this, path: self.expression(
            exp.JSONExtractScalar(this=this, expression=path)
        ),
    }


class Verbatim(DuckDB):
    """DuckDB's dialect with all function names as they are written."""

    INDEX_OFFSET = 0
    Parser = _VerbatimParser
    Tokenizer = _Tokenizer


class _Writer(Writer):
    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        """Keeps a comma, also before UNNEST."""
        if not any(value for part, value in expression.args.items() if part != "this"):
            return f", {self.sql(expression, 'this')}"
        return str(super().join_sql(expression, join_op))

    def pivot_sql(self, expression: exp.Pivot) -> str:
        """Keeps the ORDER BY and LIMIT of a PIVOT statement in it."""
        parts = [self.sql(expression, part) for part in ("order", "limit", "offset")]
        return super().pivot_sql(expression) + "".join(parts)

    def limitoptions_sql(self, expression: exp.LimitOptions) -> str:
        """Writes %, since DuckDB accepts the word PERCENT only after a number."""
        return " %" if expression.args.get("percent") else ""

    def if_sql(self, expression: exp.If) -> str:
        """Keeps a call: CASE is another tree to DuckDB."""
        return self.func(
            "IF", expression.this, *[expression.args.get(p) for p in ("true", "false")]
        )

    def hexstring_sql(
        self, expression: exp.HexString, binary_function_repr: str | None = None
    ) -> str:
        """Keeps bytes a literal."""
        return f"x'{expression.name}'"


class Written(DuckDB):
    """DuckDB's dialect that writes joins and percentages as they were read."""

    Generator = _Writer
