"""Queries about PostgreSQL's catalog as DuckDB runs them over the relations and macros of ours.

Law: a relation of `pg_catalog` or `information_schema` becomes the one of `pgc` or `pgi`, a function
the macro of its name, and a cast to a type of names (regclass, regtype, …) the look-up that it is.
"""

from __future__ import annotations

import functools
import re

import sqlglot
from sqlglot import exp

from ivm.serve.pg.catalog_sql import EMPTY, INFORMATION, MACROS, RELATIONS
from ivm.storage.errors import SqlError, UnsupportedError

_RELATIONS = RELATIONS.keys() | EMPTY.keys()
_MACROS = frozenset(re.findall(r"CREATE MACRO (\w+)\(", MACROS))
_TEXTS = frozenset(("text", "name", "varchar", "regproc", "regprocedure", "regoper", "aclitem"))
_NUMBERS = frozenset(("oid", "xid", "regrole", "regnamespace", "cid"))
_TYPES = {"int2vector": "INTEGER[]", "oidvector": "BIGINT[]", "char": "VARCHAR", "bpchar": "VARCHAR"}
_WORDS = re.compile(r"(?i)\bOPERATOR\s*\(\s*pg_catalog\s*\.\s*([^\s)]+)\s*\)")
_COLLATE = re.compile(r'(?i)\s+COLLATE\s+(?:pg_catalog\s*\.\s*)?"?(?:default|C)"?')
_CATALOG = re.compile(r"(?i)\bpg_catalog\s*\.\s*(?=\w+\s*\()")
_TYPE = re.compile(r'(?i)(::\s*|\bAS\s+)(?:pg_catalog\s*\.\s*)"?(\w+)"?')
_CHAR = re.compile(r'(?i)::\s*"char"')
_ARRAY_AT = re.compile(r"(?i)\bgenerate_subscripts\b")


@functools.lru_cache(maxsize=512)
def rewritten(text: str) -> str:
    """The query for DuckDB.

    Raises:
        SqlError: it does not parse.
        UnsupportedError: it reads relations that are not of the catalog.
    """
    plain = _WORDS.sub(r"\1", text)
    plain = _COLLATE.sub("", plain)
    plain = _CATALOG.sub("", plain)
    plain = _TYPE.sub(r"\1\2", plain)
    plain = _CHAR.sub("::text", plain)
    try:
        tree = sqlglot.parse_one(plain, read="postgres")
    except sqlglot.errors.SqlglotError as error:
        raise SqlError(f"syntax error in a query about the catalog: {error}") from error
    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        _place(table, named)
    return tree.transform(_mended).sql("duckdb")


def _place(table: exp.Table, named: set[str]) -> None:
    """Says in which schema of ours a relation lies."""
    if not isinstance(table.this, exp.Identifier):
        return
    name, schema = table.name.lower(), table.db.lower()
    if schema == "information_schema" and name in INFORMATION:
        _set(table, "pgi", name)
    elif schema in ("", "pg_catalog") and name in _RELATIONS and name not in named:
        _set(table, "pgc", name)
    elif schema in ("pg_catalog", "information_schema"):
        raise UnsupportedError(f"there is no {schema}.{name} here")
    elif name not in named:
        raise UnsupportedError(
            f"a query reads the catalog or the tables, not both: {table.sql('postgres')} is none of "
            "pg_catalog"
        )


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
    if isinstance(node, exp.CurrentUser | exp.SessionUser):
        return exp.func("current_user_name")
    if isinstance(node, exp.CurrentSchema):
        return exp.func("current_schema")
    if isinstance(node, exp.Column) and not node.table:
        if node.name.lower() in ("current_user", "session_user", "current_role", "user"):
            return exp.func("current_user_name")
        if node.name.lower() == "current_catalog":
            return exp.func("current_database")
    if isinstance(node, exp.Column) and node.table.lower() in _RELATIONS:
        node.set("db", None)
    return node


def _cast(node: exp.Cast) -> exp.Expr:
    kind = node.to
    name = (kind.args.get("kind") or kind.sql("postgres")).lower() if kind else ""
    name = str(name).split(".")[-1].strip('"')
    value = node.this
    if name in ("regclass", "regtype"):
        what = "relation" if name == "regclass" else "type"
        is_name = isinstance(value, exp.Literal) and value.is_string
        is_name = is_name or isinstance(value, exp.Parameter | exp.Placeholder)
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
    return node
