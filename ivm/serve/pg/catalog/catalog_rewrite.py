"""Queries about PostgreSQL's catalog as DuckDB runs them over the relations and macros of ours.

Law: a relation of `pg_catalog` becomes the one of `pgc`, and one of `information_schema` that of
`pgi`; a function the macro of its name, and a cast to a type of names (regclass, regtype) the
look-up that it is.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from ivm.serve.from_clauses import sources
from ivm.serve.pg.catalog.catalog_relations import INFORMATION, RELATION_NAMES
from ivm.serve.pg.values.parameter_places import is_marked, marked
from ivm.sql.statements.text.placeholders import filled
from ivm.sql.statements.text.tokens import tokens, unquoted
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import quote

_TEXTS = frozenset(("text", "name", "varchar", "regproc", "regprocedure", "regoper", "aclitem"))
_NUMBERS = frozenset(("oid", "xid", "regrole", "regnamespace", "cid"))
_TYPES = {
    "int2vector": "INTEGER[]",
    "oidvector": "BIGINT[]",
    "char": "VARCHAR",
    "bpchar": "VARCHAR",
}
_WORDS = re.compile(r"(?i)\bOPERATOR\s*\(\s*pg_catalog\s*\.\s*([^\s)]+)\s*\)")
_COLLATE = re.compile(r'(?i)\s+COLLATE\s+(?:pg_catalog\s*\.\s*)?"?(?:default|C)"?')
_CATALOG = re.compile(r"(?i)\b(?:pg_catalog|information_schema)\s*\.\s*(?=\w+\s*\()")
_TYPE = re.compile(r'(?i)(::\s*|\bAS\s+)(?:pg_catalog\s*\.\s*)"?(\w+)"?')
_CHAR = re.compile(r'(?i)::\s*"char"')
_CALLED = {"json_build_object": "json_object", "jsonb_build_object": "json_object"}
_VECTORS = frozenset(("indkey", "indcollation", "indclass", "indoption"))
_SPECIAL = frozenset(("current_user", "session_user", "current_role", "user", "current_catalog"))
_OID = re.compile(r"(?i)(::\s*)(?:oid|xid|cid)\b")
_ARRAY = re.compile(r"\{([\d, ]*)\}")
_COLOURS = re.compile(r"\x1b\[\d*m")
_PARAMETER = re.compile(rf"\b{marked('')}(\d+)\b")


class Rewritten(NamedTuple):
    """A query for DuckDB, and the settings that it sets by the way."""

    sql: str
    settings: tuple[tuple[str, str], ...]


@functools.lru_cache(maxsize=512)
def rewritten(text: str) -> Rewritten:
    """The query for DuckDB.

    Raises:
        SqlError: it does not parse.
        UnsupportedError: it reads relations that are not of the catalog.
    """
    plain = _WORDS.sub(r"\1", _in_double_quotes(text))
    plain = _COLLATE.sub("", plain)
    plain = _CATALOG.sub("", plain)
    plain = _TYPE.sub(r"\1\2", plain)
    plain = _CHAR.sub("::text", plain)
    plain = _OID.sub(r"\1bigint", plain)
    plain = filled(plain, marked)
    try:
        tree = sqlglot.parse_one(plain, read="postgres")
    except sqlglot.errors.SqlglotError as error:
        told = _COLOURS.sub("", str(error))
        raise SqlError(f"syntax error in a query about the catalog: {told}") from error
    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        _place(table, named)
    settings: list[tuple[str, str]] = []
    _name_columns(tree)
    for node in reversed(list(tree.walk())):
        mended = _set_config(node, settings) or _mended(node)
        if mended is not node:
            if node is tree:
                tree = mended
            else:
                node.replace(mended)
    return Rewritten(_PARAMETER.sub(r"$\1", tree.sql("duckdb")), tuple(settings))


def _in_double_quotes(text: str) -> str:
    """The text with names as PostgreSQL has them: DuckDB takes backticks, and strings in FROM."""
    found, parts, done = tokens(text), [], 0
    named = {each.token.start: each.name for each in sources(found) if each.token.text[:1] == "'"}
    for token in found:
        if token.text[:1] == "`" or token.start in named:
            [name] = named.get(token.start, (unquoted(token),))
            parts += [text[done : token.start], quote(name)]
            done = token.end
    return "".join([*parts, text[done:]])


def _name_columns(tree: exp.Expr) -> None:
    """Gives the columns of the result, and of all queries inside, PostgreSQL's names."""
    selects = list(tree.find_all(exp.Select))
    top = selects[:1] if isinstance(tree, exp.Select | exp.SetOperation) else []
    for select in selects:
        named = _shown if any(select is each for each in top) else _named  # == reads whole trees
        select.set("expressions", [named(each) for each in select.expressions])


def _named(node: exp.Expr) -> exp.Expr:
    """A column of a query inside, which the query around may name."""
    has_name = isinstance(node, exp.Alias | exp.Column | exp.Star) and _is_real(node)
    name = node.alias_or_name if has_name else _name_of(node)
    return node if has_name or name == "?column?" else exp.alias_(node.copy(), name, quoted=True)


def _shown(node: exp.Expr) -> exp.Expr:
    """A column of the result under the name that PostgreSQL gives it."""
    inner = node.this if isinstance(node, exp.Alias) else node
    if isinstance(inner, exp.Column) and inner.name.lower() in _VECTORS:
        joined = exp.func("array_to_string", inner.copy(), exp.Literal.string(" "))
        return exp.alias_(joined, node.alias_or_name, quoted=True)
    if isinstance(node, exp.Alias | exp.Column | exp.Star) and _is_real(node):
        return node
    return exp.alias_(node.copy(), _name_of(node), quoted=True)


def _is_real(node: exp.Expr) -> bool:
    return not (isinstance(node, exp.Column) and node.name.lower() in _SPECIAL)


def _name_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Subquery):
        inner = node.find(exp.Select)
        return _name_of(inner.expressions[0]) if inner is not None else "?column?"
    if isinstance(node, exp.Cast | exp.Paren):
        return _name_of(node.this)
    if isinstance(node, exp.Column | exp.Alias):
        return node.alias_or_name
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Case):
        return "case"
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        return node.sql_name().lower().replace("current_version", "version")
    return "?column?"


def _set_config(node: exp.Expr, settings: list[tuple[str, str]]) -> exp.Expr | None:
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "set_config":
        return None
    given = node.expressions[:2]
    if not all(isinstance(each, exp.Literal) for each in given):
        raise UnsupportedError("set_config() takes texts as they stand: write SET instead")
    name, value = (each.name for each in given)
    settings.append((name, value))
    return exp.Literal.string(value)


def _place(table: exp.Table, named: set[str]) -> None:
    """Says in which schema of ours a relation lies."""
    if not isinstance(table.this, exp.Identifier):
        _name_its_column(table)
        return
    name, schema = table.name.lower(), table.db.lower()
    if schema == "information_schema" and name in INFORMATION:
        _set(table, "pgi", name)
    elif schema in ("", "pg_catalog") and name in RELATION_NAMES and name not in named:
        _set(table, "pgc", name)
    elif schema in ("pg_catalog", "information_schema"):
        raise UnsupportedError(f"there is no {schema}.{name} here")
    elif name not in named:
        raise UnsupportedError(
            f"a query reads the catalog or the tables, not both: {table.sql('postgres')} is "
            "none of pg_catalog"
        )


def _name_its_column(table: exp.Table) -> None:
    """Of a function in FROM the alias names the column, too; one that gives one value is a row."""
    alias, function = table.args.get("alias"), table.this
    if isinstance(function, exp.CurrentSchema | exp.CurrentDatabase | exp.CurrentVersion):
        name = table.alias or _name_of(function)
        table.replace(exp.select(exp.alias_(function.copy(), name)).subquery(name))
        return
    if alias is None or alias.columns:
        return
    if isinstance(function, exp.GenerateSeries):
        alias.set("columns", [exp.to_identifier(alias.name)])
    elif isinstance(function, exp.StringToArray):
        row = exp.select(exp.alias_(function.copy(), alias.name))
        table.replace(row.subquery(alias.name))


def _set(table: exp.Table, schema: str, name: str) -> None:
    alias = table.args.get("alias")
    table.set("db", exp.to_identifier(schema))
    table.set("catalog", None)
    table.set("this", exp.to_identifier(name))
    if alias is None:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))


def _mended(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.Div) and _is_integer(node.this) and _is_integer(node.expression):
        return exp.IntDiv(this=node.this.copy(), expression=node.expression.copy())
    if isinstance(node, exp.Literal) and node.is_string and _ARRAY.fullmatch(node.name):
        return exp.Literal.string(_ARRAY.sub(r"[\1]", node.name))
    if isinstance(node, exp.Anonymous) and node.name.lower() in _CALLED:
        return exp.Anonymous(this=_CALLED[node.name.lower()], expressions=node.expressions[:])
    if isinstance(node, exp.CurrentUser | exp.SessionUser):
        return exp.func("current_user_name")
    if isinstance(node, exp.CurrentCatalog):
        return exp.func("current_database")
    if isinstance(node, exp.CurrentSchema):
        return exp.func("current_schema")
    if isinstance(node, exp.Column) and not node.table:
        if node.name.lower() == "current_catalog":
            return exp.func("current_database")
        if node.name.lower() in _SPECIAL and not node.args["this"].quoted:
            return exp.func("current_user_name")
    if isinstance(node, exp.Column) and node.table.lower() in RELATION_NAMES:
        node.set("db", None)
    return node


def _is_integer(node: exp.Expr) -> bool:
    return node.is_int or (isinstance(node, exp.Cast) and node.is_type(*exp.DataType.INTEGER_TYPES))


def _cast(node: exp.Cast) -> exp.Expr:
    kind, value = node.to, node.this.copy()
    called = kind.args.get("kind")
    name = called.name if isinstance(called, exp.Expr) else called or kind.sql("postgres")
    name = name.lower()
    if name in ("regclass", "regtype"):
        what = "relation" if name == "regclass" else "type"
        is_name = isinstance(value, exp.Literal) and value.is_string
        is_name = is_name or (isinstance(value, exp.Column) and is_marked(value))
        is_name = is_name or (
            isinstance(value, exp.Cast) and value.is_type(*exp.DataType.TEXT_TYPES)
        )
        if is_name:
            return exp.func(f"oid_of_{what}", exp.cast(value, "VARCHAR"))
        return exp.func(f"name_of_{what}", value)
    if name in _TEXTS:
        return exp.cast(value, "VARCHAR")
    if name in _NUMBERS:
        return exp.cast(value, "BIGINT")
    if name in _TYPES:
        return exp.cast(value, _TYPES[name], dialect="duckdb")
    if name.endswith("[]") and name[:-2] in _TEXTS | _NUMBERS:
        return exp.cast(value, "VARCHAR[]" if name[:-2] in _TEXTS else "BIGINT[]", dialect="duckdb")
    if isinstance(called, exp.Dot) and called.this.name.lower() == "pg_catalog":
        plain = f"{name[1:]}[]" if name[0] == "_" else name  # as "_int4", of lists
        return _cast(exp.cast(value, plain, dialect="postgres"))
    return node
