"""Materialized views come, go, and are filled and checked anew.

Law: a view's table is filled in the transaction that creates it, from the SQL whose answer it must
equal from then on; its circuit state is built right after, at the same epoch.
"""

from __future__ import annotations

import re

import duckdb

from ivm.catalog.catalog import View
from ivm.catalog.fatal_types import refuse_fatal_types
from ivm.engine.engine import Engine
from ivm.engine.transaction import Transaction
from ivm.sql.parse.function_list import REACHED, FunctionList
from ivm.sql.resolve.bound_relations import bound_relations
from ivm.sql.resolve.determinism import check_deterministic
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import canonical_name, fold, path_of, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duck import Cursor, describe, rows, run
from ivm.storage.warehouse.duckdb_errors import translated
from ivm.storage.warehouse.system_tables import delete_view, save_view

_STAND_INS = f"""
SELECT view_name, sql FROM system.main.duckdb_views() WHERE NOT internal AND {REACHED} UNION ALL
SELECT function_name, macro_definition FROM system.main.duckdb_functions()
WHERE NOT internal AND function_type IN ('macro', 'table_macro') AND {REACHED}
"""
StandIn = tuple[str, str]
"""The name and the text of what stands for other relations."""


def define(
    engine: Engine,
    cursor: Cursor,
    name: str,
    query: str,
    columns: tuple[str, ...],
    functions: FunctionList,
) -> View:
    """A view that is not in the catalog yet, bound.

    Args:
        cursor: in whose transaction the relations it reads exist.
        name: canonical.
        query: the SELECT, verbatim.
        columns: names to give its first columns; the others keep the query's.
        functions: those the cursor sees.

    Raises:
        SqlError: the query does not bind, or gives fewer columns than are named.
        UnsupportedError: it has no meaning as a view.
    """
    check_deterministic(query, cursor, functions)
    described = _described(cursor, query)
    if len(columns) > len(described):
        raise SqlError(
            f"view {name!r} names {len(columns)} columns ({', '.join(columns)}), but its query "
            f"gives {len(described)}"
        )
    reads = relations_read(engine, cursor, query, name)
    refuse_fatal_types(f"view {name!r}", described)
    for relation in reads:
        schema_read = engine.catalog.relation_schema(relation)
        refuse_fatal_types(f"view {name!r} over {relation!r}", schema_read)
    renamed = tuple((n, t) for n, (_, t) in zip(columns, described, strict=False))
    schema = renamed + described[len(columns) :]
    view = View(name, query, _unique_names(schema), reads, described=described)
    engine.maintenance.bind(view, cursor, functions)
    return view


def _described(cursor: Cursor, query: str) -> Schema:
    try:
        return describe(cursor, query)
    except duckdb.Error as error:
        raise translated(error, text=query, before="DESCRIBE ") from error


def _unique_names(schema: Schema) -> Schema:
    """A table's columns need different names: a repeated one gets a number, as DuckDB does."""
    taken: set[str] = set()
    result = []
    for name, type in schema:
        unique, number = name, 1
        while fold(unique) in taken:
            unique, number = f"{name}_{number}", number + 1
        taken.add(fold(unique))
        result.append((unique, type))
    return tuple(result)


def relations_read(engine: Engine, cursor: Cursor, query: str, name: str) -> frozenset[str]:
    """Canonical names of what a view's query reads, also through plain views and macros.

    Raises:
        UnsupportedError: something whose changes cannot be followed.
        SqlError: the view itself.
    """
    found = bound_relations(cursor, query)
    if found is None:  # a plan of thousands of levels
        return _mentioned(engine, cursor, query) - {name}
    reads = set()
    for database, *path in found:
        resolved = canonical_name(path)
        if database != engine.warehouse.database or resolved not in engine.catalog.qualified:
            raise UnsupportedError(
                f"view {name!r} reads {'.'.join([database, *path])}, which is no table of this "
                "database (a temporary table, a file, or a table of another database): its changes "
                "cannot be followed; load it into a table first"
            )
        if resolved == name:
            raise SqlError(f"view {name!r} cannot read itself; WITH RECURSIVE says recursion")
        reads.add(resolved)
    return frozenset(reads)


def _mentioned(engine: Engine, cursor: Cursor, query: str) -> frozenset[str]:
    """Relations named by a word of the query, or of the views and macros named in it."""
    words = words_behind(query, stand_ins(cursor))
    every = (*engine.catalog.tables, *engine.catalog.views)
    return frozenset(n for n in every if words.issuperset(words_of(path_of(n)[-1])))


def stand_ins(cursor: Cursor) -> list[StandIn]:
    """All plain views and macros that the cursor sees."""
    return [(name, text) for name, text in rows(cursor, _STAND_INS)]


def words_behind(query: str, waiting: list[StandIn]) -> set[str]:
    """The words of a query, and of the views and macros named in it."""
    words = words_of(query)
    while found := [(name, text) for name, text in waiting if words.issuperset(words_of(name))]:
        waiting = [stand_in for stand_in in waiting if stand_in not in found]
        words.update(*(words_of(text) for _, text in found))
    return words


def words_of(text: str) -> set[str]:
    """The words of a text, in lower case."""
    return set(re.findall(r"\w+", text.lower()))


def could_capture(engine: Engine, cursor: Cursor, name: str) -> list[View]:
    """Views over plain views of a schema in which a new relation's name meant main's.

    Args:
        name: the canonical name of the relation.
    """
    *schemas, last = path_of(name)
    views = list(engine.catalog.views.values()) if schemas[-1] != "main" else []
    named, behind = words_of(f"{schemas[-1]} {last}"), stand_ins(cursor) if views else []
    return [v for v in views if words_behind(v.query, behind) >= named and v.name != name]


def create(engine: Engine, transaction: Transaction, cursor: Cursor, view: View) -> None:
    """Create a defined view's table in the transaction, filled; enter it into the catalog."""
    catalog = engine.catalog
    transaction.change_catalog()
    columns = ", ".join(f"{quote(name)} {type.sql}" for name, type in view.schema)
    path = (engine.warehouse.database, *path_of(view.name))
    table = ".".join([quote(part) for part in path])
    run(cursor, f"CREATE TABLE {table} ({columns})")
    engine.view_tables.fill(cursor, view, table)
    save_view(cursor, engine.view_tables.stored(view, exact=not view.rounds))
    catalog.add_view(view)
    transaction.create_view(view)
    engine.reload_tables(cursor)


def drop(engine: Engine, transaction: Transaction, cursor: Cursor, view: View) -> None:
    """Drop a view's table in the transaction and forget the view when it commits."""
    catalog = engine.catalog
    transaction.change_catalog()
    run(cursor, f"DROP TABLE {catalog.qualified[view.name]}")
    delete_view(cursor, view.name)
    catalog.remove_view(view.name)
    transaction.drop_view(view.name)
    engine.reload_tables(cursor)


def refuse_readers(engine: Engine, names: list[str], what: str) -> None:
    """Something other views read cannot go.

    Raises:
        UnsupportedError: naming them.
    """
    readers = [v.name for v in engine.catalog.readers(names) if v.name not in names]
    if readers:
        raise UnsupportedError(
            f"cannot {what}: {', '.join(readers)} read{'s' if len(readers) == 1 else ''} it; "
            f"drop {'it' if len(readers) == 1 else 'them'} first, or add CASCADE to drop them too"
        )
