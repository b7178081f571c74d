"""SQL text to a syntax tree that says exactly what the text says.

Law: a tree is used only if the SQL written from it parses, in DuckDB, to the same syntax tree as
the user's text (function and type synonyms taken as equal). sqlglot respells some constructs; where
its usual reading changes the meaning, a reading that leaves all function names alone is tried.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType

from ivm.sql.bind_collation import without_collations
from ivm.sql.bind_methods import refuse_places, without_methods
from ivm.sql.built_in import synonyms
from ivm.sql.columns import Writer, balanced, text
from ivm.sql.hiding_macros import refuse_unseen
from ivm.sql.plan import NotIncremental
from ivm.sql.serialized import syntax_tree
from ivm.storage.duck import Cursor
from ivm.storage.identifiers import fold

_PLAIN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")
_PLACES = ("query_location", "query_location_length", "syntax_type", "is_operator")
_TURNED = {
    "OPERATOR_IS_NULL": "OPERATOR_IS_NOT_NULL",
    "COMPARE_NOT_DISTINCT_FROM": "COMPARE_DISTINCT_FROM",
}
_UNITS = {"dayofweek": "dow", "dayofyear": "doy"}
_PASSING: dict[object, type[exp.Expression]] = {
    exp.First: exp.FirstValue, "first": exp.FirstValue, "first_value": exp.FirstValue,
    exp.Last: exp.LastValue, "last": exp.LastValue, "last_value": exp.LastValue,
    "nth_value": exp.NthValue, "lag": exp.Lag, "lead": exp.Lead,
}  # fmt: skip
_INTERVAL = re.compile(r"\s*(-?\d+)\s+([a-z]+?)s?\s*")


class _Parser(DuckDBParser):
    """Reads names for the values in a PIVOT's IN, expressions in its USING, and what ends it; and
    an arrow between the arguments of a function as JSON's, as lambdas have the word."""

    LAMBDAS: ClassVar[dict[TokenType, Any]] = {
        token: parser for token, parser in DuckDBParser.LAMBDAS.items() if token != TokenType.ARROW
    }
    FUNC_TOKENS = {*DuckDBParser.FUNC_TOKENS, TokenType.APPLY}  # noqa: RUF012  # as sqlglot does
    FUNCTION_PARSERS = {  # noqa: RUF012  # as sqlglot does
        **DuckDBParser.FUNCTION_PARSERS,
        "POSITION": lambda self: self._parse_position(haystack_first=True),
    }

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """An index is written back as it is read, whatever takes the place of what it indexes;
        sqlglot counts from 0 and back, where it takes that for a list."""
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

    def _parse_primary(self) -> exp.Expr | None:
        """0.5 is another type than .5."""
        if self._match_pair(TokenType.DOT, TokenType.NUMBER):
            return exp.Literal.number(f".{self._prev.text}")
        return super()._parse_primary()

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        """A list behind IN is one value, not the values in it: NULL in it is not asked."""
        if self._curr is not None and self._curr.token_type == TokenType.L_BRACKET:
            return self.expression(exp.In(this=this, field=self._parse_column()))
        return super()._parse_in(this, alias)

    def _parse_escape(self, this: exp.Expr | None) -> exp.Expr | None:
        """Any expression may be the character."""
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
    """Knows x'AA'."""

    HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]


class Read(DuckDB):
    """DuckDB's dialect, with what sqlglot does not read of it."""

    INDEX_OFFSET = 0
    Parser = _Parser
    Tokenizer = _Tokenizer


class _VerbatimParser(_Parser):
    """Reads every function as a name and its arguments, but for what is none."""

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
    """DuckDB's dialect with function names left alone."""

    INDEX_OFFSET = 0
    Parser = _VerbatimParser
    Tokenizer = _Tokenizer


class _Writer(Writer):
    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        """A comma stays a comma, also before UNNEST."""
        if not any(value for part, value in expression.args.items() if part != "this"):
            return f", {self.sql(expression, 'this')}"
        return str(super().join_sql(expression, join_op))

    def pivot_sql(self, expression: exp.Pivot) -> str:
        """The ORDER BY and LIMIT of a PIVOT statement stay there."""
        parts = [self.sql(expression, part) for part in ("order", "limit", "offset")]
        return super().pivot_sql(expression) + "".join(parts)

    def limitoptions_sql(self, expression: exp.LimitOptions) -> str:
        """DuckDB takes the word PERCENT behind a number only."""
        return " %" if expression.args.get("percent") else ""

    def hexstring_sql(
        self, expression: exp.HexString, binary_function_repr: str | None = None
    ) -> str:
        """Bytes stay a literal."""
        return f"x'{expression.name}'"


class Written(DuckDB):
    """DuckDB's dialect that writes joins and percentages as they were read."""

    Generator = _Writer


def parse_query(sql: str, cursor: Cursor, hiding: frozenset[str] = frozenset()) -> exp.Expression:
    """The faithful syntax tree of a SELECT (or VALUES, FROM, set operation), in plain terms.

    Args:
        sql: one query that DuckDB accepts.
        cursor: answers with DuckDB's own parse.
        hiding: names of macros that hide built-in functions.

    Raises:
        NotIncremental: sqlglot cannot say this query exactly.
    """
    names = _synonyms_beside(hiding)
    parsed = syntax_tree(sql, cursor)
    if parsed is None:
        raise NotIncremental("a query that DuckDB does not serialize")
    wanted = _canonical(parsed, names)
    for dialect in (Read, Verbatim):
        try:
            tree = _passing_nulls(sqlglot.parse_one(sql, dialect=dialect))
            written = tree.sql(dialect=Written, unsupported_level=ErrorLevel.IGNORE, comments=False)
        except (SqlglotError, ValueError):  # of a path that sqlglot reads, but cannot write
            continue
        if not isinstance(tree, exp.Expression):
            continue
        if _canonical(syntax_tree(written, cursor), names) == wanted:
            tree = balanced(without_collations(without_methods(tree)))
            refuse_places(parsed, cursor)
            refuse_unseen(tree, parsed, hiding)
            return tree
    raise NotIncremental("a construct that the planner cannot read back exactly")


def _passing_nulls(tree: exp.Expr) -> exp.Expr:
    """The tree in which IGNORE NULLS stands where sqlglot writes it back, around window functions.

    FIRST and LAST over a window are FIRST_VALUE and LAST_VALUE to DuckDB.
    """
    for word in list(tree.find_all(exp.IgnoreNulls)):
        inside = isinstance(word.parent, (exp.First, exp.Last, exp.Anonymous))
        call, whole = (word.parent, word.parent) if inside else (word.this, word)
        if not isinstance(call, exp.Expression) or not isinstance(whole, exp.Expression):
            continue
        around = whole.parent.parent if isinstance(whole.parent, exp.Filter) else whole.parent
        kind = _PASSING.get(type(call)) or _PASSING.get(call.name.lower())
        if kind is None or not isinstance(around, exp.Window):
            continue
        if inside:
            word.replace(word.this)
        given = call.expressions if isinstance(call, exp.Anonymous) else [call.this]
        parts = dict(zip(kind.arg_types, given, strict=False))
        whole.replace(exp.IgnoreNulls(this=kind(**parts)))
    return tree


def verbatim(expr: exp.Expression) -> exp.Expression:
    """The expression with every function as its plain name and arguments."""
    tree = sqlglot.parse_one(text(expr), dialect=Verbatim)
    assert isinstance(tree, exp.Expression)
    for call in list(tree.find_all(exp.Anonymous)):
        call.set("expressions", _arguments(call.expressions))
    return tree


def _arguments(listed: list[exp.Expression]) -> list[exp.Expression]:
    """The arguments one by one: DISTINCT is of the first, and sqlglot would write a tuple."""
    order = listed[0] if listed else None
    distinct = order.this if isinstance(order, exp.Order) else order
    if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
        return listed
    first, *others = distinct.expressions
    found = [exp.Distinct(expressions=[first]), *others, *listed[1:]]
    if isinstance(order, exp.Order):
        found[-1] = exp.Order(this=found[-1], expressions=order.expressions)
    return found


def _synonyms_beside(hiding: frozenset[str]) -> dict[str, str]:
    """The synonyms that still are some beside macros with such names."""
    known = synonyms()
    return {n: chief for n, chief in known.items() if not {n, chief} & hiding} if hiding else known


def _canonical(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, list):
        return [_canonical(part, names) for part in node]
    if not isinstance(node, dict):
        return node
    plain = {k: _canonical(v, names) for k, v in node.items() if k not in _PLACES}
    if "function_name" in plain:
        return _canonical_call(plain, names)
    if "type_name" in plain:
        return _canonical_type(plain, names)
    if plain.get("type") == "ARRAY_CONSTRUCTOR":
        return _list_of(plain)
    if plain.get("class") == "LAMBDA":
        return _canonical_arrow(plain, node["expr"])
    if plain.get("alias") == "_values" and "column_name_alias" in plain:
        return _bare_values(plain)
    if plain.get("type") == "OPERATOR_CAST":
        return _canonical_cast(plain)
    if "null_order" in plain:
        return _canonical_order(plain)
    if plain.get("type") == "OPERATOR_NOT":
        return _canonical_not(plain)
    if plain.get("class") == "CONSTANT" and "literal" in plain:
        plain["literal"]["text"] = _canonical_literal(plain["literal"])
    return plain


def _canonical_type(type: dict[str, Any], names: dict[str, str]) -> Any:
    """NUMERIC is DECIMAL(18, 3); the length of a VARCHAR says nothing."""
    name = fold(type["type_name"])
    type["type_name"] = name = names.get(f"type {name}", name)
    del type["qualified_name"]
    if name == "varchar":
        type["children"] = [c for c in type.get("children", []) if c.get("class") != "CONSTANT"]
    elif name == "decimal" and not type.get("children"):
        type["children"] = [_integer("18"), _integer("3")]
    elif name == "decimal" and len(type["children"]) == 1:
        type["children"].append(_integer("0"))
    return type


def _list_of(constructor: dict[str, Any]) -> Any:
    """ARRAY[a, b] is [a, b]."""
    arguments = [{"name": "", "expression": part} for part in constructor["children"]]
    return {
        "class": "FUNCTION", "type": "FUNCTION", "alias": constructor["alias"],
        "function_name": "list_value", "schema": "", "filter": None,
        "order_bys": {"type": "ORDER_MODIFIER", "orders": []}, "distinct": False,
        "export_state": False, "catalog": "", "arguments": arguments,
    }  # fmt: skip


def _canonical_arrow(arrow: dict[str, Any], written: dict[str, Any]) -> Any:
    """j -> 'a' ->> 'b' is (j -> 'a') ->> 'b', though the parser takes it from the right.

    Args:
        written: what is right of the arrow, as it was.
    """
    whole = arrow["expr"]
    if written.get("function_name") != "->>" or not written["is_operator"]:
        return arrow
    first, *others = whole["arguments"]
    left = {**arrow, "expr": first["expression"], "alias": ""}
    left = _canonical_arrow(left, written["arguments"][0]["expression"])
    arguments = [{**first, "expression": left}, *others]
    return {**whole, "arguments": arguments, "alias": arrow["alias"]}


def _bare_values(item: dict[str, Any]) -> Any:
    """WITH t AS (VALUES …), which sqlglot writes back as a SELECT from a derived table."""
    query = item.get("subquery", {}).get("node", {})
    source = query.get("from_table") or {}
    plain = item.get("type") == "SUBQUERY" and not item["column_name_alias"]
    if not plain or source.get("type") != "EXPRESSION_LIST" or query["modifiers"]:
        return item
    stars = [part for part in query["select_list"] if part["class"] == "STAR"]
    only = len(query["select_list"]) == len(stars) == 1 and query["where_clause"] is None
    return source if only else item


def _integer(text: str) -> dict[str, Any]:
    literal = {"kind": "INTEGER", "text": text}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "literal": literal}


def _canonical_order(key: dict[str, Any]) -> Any:
    """ASC NULLS LAST is the default; `bind` refuses to read orders under other settings."""
    defaults = {"NULLS LAST": "ORDER_DEFAULT", "ASCENDING": "ORDER_DEFAULT"}
    nulls, direction = key["null_order"], key["type"]
    kept = {"null_order": defaults.get(nulls, nulls), "type": defaults.get(direction, direction)}
    return {**key, **kept}


def _canonical_not(negation: dict[str, Any]) -> Any:
    """NOT x IS NULL and x IS NOT NULL are one; so are NOT x IS TRUE and x IS NOT TRUE."""
    (inner,) = negation["children"]
    turned = _TURNED.get(inner.get("type"))
    return negation if turned is None else {**inner, "type": turned}


def _canonical_call(call: dict[str, Any], names: dict[str, str]) -> Any:
    name = fold(call["function_name"])
    while name in names:
        name = names[name]
    call["function_name"] = name
    call.pop("qualified_name", None)
    arguments = call.get("arguments", [])
    if name == "+" and len(arguments) == 1:
        return arguments[0]["expression"]
    if name in ("bool_and", "bool_or") and len(arguments) == 1:
        arguments[0]["expression"] = _uncast(arguments[0]["expression"], "boolean")
    if name == "string_agg" and len(arguments) == 2:
        _drop_comma(arguments)
    if name.startswith("quantile") and len(arguments) == 2:
        _within_group(call)
    if name.startswith("date") and arguments:
        _lower_unit(arguments[0]["expression"])
    if name.startswith("to_") and len(arguments) == 1:
        return _canonical_interval(call, name[3:].rstrip("s"))
    return call


def _uncast(node: Any, type_name: str) -> Any:
    if node.get("class") == "CAST" and node["type_expr"].get("type_name") == type_name:
        return node["child"]
    return node


def _within_group(call: dict[str, Any]) -> None:
    """quantile(x, 0.5 ORDER BY x) is how WITHIN GROUP (ORDER BY x) is written back."""
    orders = call.get("order_bys", {}).get("orders", [])
    value = call["arguments"][0]["expression"]
    if len(orders) == 1 and orders[0]["expression"] == value:
        del call["arguments"][0]


def _drop_comma(arguments: list[Any]) -> None:
    """string_agg(x) and string_agg(x, ',') are one."""
    literal = arguments[1]["expression"].get("literal", {})
    if literal.get("kind") == "STRING" and literal.get("text") == ",":
        del arguments[1]


def _lower_unit(node: Any) -> None:
    """date_trunc('MONTH', …) and date_trunc('month', …) are one; so are dow and dayofweek."""
    if node.get("class") == "CONSTANT" and isinstance(node["literal"].get("text"), str):
        unit = node["literal"]["text"].lower()
        node["literal"]["text"] = _UNITS.get(unit, unit)


def _canonical_interval(call: dict[str, Any], unit: str) -> Any:
    """INTERVAL 3 DAY, INTERVAL '3' DAY and INTERVAL '3 days' are one."""
    value = call["arguments"][0]["expression"]
    while value.get("class") == "CAST" or value.get("function_name") == "trunc":
        value = value["child"] if "child" in value else value["arguments"][0]["expression"]
    text = str(value.get("literal", {}).get("text"))
    whole = text.lstrip("-").isdigit()
    return {"interval": text, "unit": unit} if whole else call


def _canonical_cast(cast: dict[str, Any]) -> Any:
    text = cast["child"].get("literal", {}).get("text") if cast["child"] else None
    if cast["type_expr"].get("type_name") == "interval" and text is not None:
        parts = _INTERVAL.fullmatch(text.lower())
        if parts:
            return {"interval": parts[1], "unit": parts[2]}
    return cast


def _canonical_literal(constant: dict[str, Any]) -> Any:
    text = constant.get("text")
    if constant.get("kind") == "STRING" or not isinstance(text, str):
        return text
    return text.replace("_", "").lower()
