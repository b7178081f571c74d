"""Plans that neither Spark nor its workers can compute: known from the plan, before any job starts.

Law: a worker's DuckDB is a plain one. It has no macro, function or type of the database's own.
"""

from __future__ import annotations

import duckdb
from sqlglot import exp

from ivm.spark_backfill.workers.carriers import NotCarriedError, carrier
from ivm.sql.plan.built_in import duck_text, is_ours, schema_prefixes
from ivm.sql.plan.columns import expressions
from ivm.sql.plan.nodes import Plan, types
from ivm.sql.plan.walks import nodes
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold
from ivm.storage.scratch import Scratch
from ivm.storage.warehouse.duckdb.duck import rows

_SYNTAX = frozenset(["coalesce", "if", "ifnull", "nullif", "try"])
"""What DuckDB's grammar reads like calls of functions."""
_STRUCTURED = frozenset(
    ["from_json", "from_json_strict", "json_transform", "json_transform_strict"]
)
"""Functions whose second argument is a text that names types."""
_WAY = "write it out in the view, or let DuckDB fill it (backfill = 'duckdb')"
_plain = Scratch()


def refuse_unsayable(plan: Plan) -> None:
    """Refuses a plan with values, functions or types that Spark and its workers do not have.

    Raises:
        UnsupportedError: names the first of them, and the way out.
    """
    try:
        for node in nodes(plan):
            refuse_foreign(node)
            for type in types(node):
                carrier(type)
    except NotCarriedError as error:
        raise not_carried(error) from error


def not_carried(error: NotCarriedError) -> UnsupportedError:
    """The error that values of a type have no carrier, for the user."""
    return UnsupportedError(
        f"Spark has no form for values of type {error}; cast them to another type, or let DuckDB "
        "fill the view (backfill = 'duckdb')"
    )


def refuse_foreign(node: Plan) -> None:
    """Refuses a node that calls or names what is the database's own."""
    for expr in expressions(node):
        for call in expr.find_all(exp.Anonymous):
            name = fold(call.name)
            if not is_ours(call) and name not in schema_prefixes() and name not in _SYNTAX:
                raise UnsupportedError(
                    f"{call.name}() is no function of DuckDB's own, and Spark's workers do not "
                    f"have it: {_WAY}"
                )
            if name in _STRUCTURED and not _is_bound(call):
                raise UnsupportedError(
                    f"the structure that {call.name}() is given names a type that is not DuckDB's "
                    f"own, and Spark's workers do not have it: {_WAY}"
                )
        for name in {duck_text(type) for type in expr.find_all(exp.DataType)}:
            if not _is_known(name):
                raise UnsupportedError(
                    f"{name} is no type of DuckDB's own, and Spark's workers do not have it: {_WAY}"
                )


def _is_known(type: str) -> bool:
    return _is_sql(f"CAST(NULL AS {type})")


def _is_bound(call: exp.Anonymous) -> bool:
    """Returns whether a plain DuckDB knows the types in the structure of a JSON function."""
    _, structure = call.expressions
    return _is_sql(f"{call.name}('{{}}', {duck_text(structure)})")


def _is_sql(expression: str) -> bool:
    with _plain.borrow() as cursor:
        try:
            rows(cursor, f"SELECT {expression} LIMIT 0")
        except duckdb.Error:
            return False
    return True
