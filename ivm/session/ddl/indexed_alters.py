"""ALTER TABLE of a table with indexes, most of which DuckDB refuses while there is one.

Law: the indexes go before the statement and are made again behind it, in its transaction, by their
own texts: those of the table's and its columns' new names. What adds or drops a column or changes a
default is left to DuckDB, which needs no index to go, or tells the user which one must.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import Reader, tokens, unquoted
from ivm.storage.identifiers import fold, path_of, quote
from ivm.storage.warehouse.duckdb.duck import run


class _Renaming(NamedTuple):
    """What ALTER TABLE renames: a column, or the table where that is None; or nothing."""

    column: str | None
    name: str | None


@contextlib.contextmanager
def without_indexes(session: Session, statement: st.Ddl) -> Iterator[None]:
    """Takes away the indexes that are in a statement's way while the block runs it.

    Args:
        session: in a transaction that has begun in DuckDB.
        statement: any DDL.

    Raises:
        duckdb.Error: an index cannot be dropped, or made again.
    """
    name = _table(session, statement)
    info = None if name is None else session.engine.catalog.tables.get(name)
    renaming = _renaming(statement) if info is not None and info.indexes else None
    if info is None or renaming is None:
        yield
        return
    schemas = path_of(info.name)[:-1]
    prefix = "".join([f"{quote(part)}." for part in schemas])
    for text in info.indexes:
        run(session.cursor, f"DROP INDEX {prefix}{_reader(text).tokens[0].text}")
    yield
    renamed = renaming.name if renaming.column is None else None
    table = prefix + quote(path_of(info.name)[-1] if renamed is None else renamed)
    for text in info.indexes:
        run(session.cursor, _moved(text, table, renaming))


def renames_table(statement: st.Ddl) -> bool:
    """Returns whether a statement is ALTER TABLE … RENAME TO."""
    if (statement.action, statement.target) != ("alter", "table"):
        return False
    renaming = _renaming(statement)
    return renaming is not None and renaming.column is None and renaming.name is not None


def _table(session: Session, statement: st.Ddl) -> str | None:
    if (statement.action, statement.target) != ("alter", "table") or not statement.names:
        return None
    return session.names.resolve(statement.names[0])


def _renaming(statement: st.Ddl) -> _Renaming | None:
    """What a statement renames; None if it is left to DuckDB."""
    reader = Reader(tokens(statement.text))
    reader.expect("ALTER", "TABLE")
    reader.accept("IF", "EXISTS")
    reader.name()
    if reader.accept("RENAME"):
        if reader.accept("TO"):
            return _Renaming(None, reader.identifier())
        reader.accept("COLUMN")
        column = reader.identifier()
        reader.expect("TO")
        return _Renaming(column, reader.identifier())
    is_default = reader.find("SET", "DEFAULT") or reader.find("DROP", "DEFAULT")
    adds = reader.peek() == "ADD" and not reader.find("PRIMARY", "KEY")
    return None if is_default or adds or reader.peek() == "DROP" else _Renaming(None, None)


def _reader(index: str) -> Reader:
    """A reader of CREATE [UNIQUE] INDEX, from the index's name on."""
    found = tokens(index)
    return Reader(found[3 if found[1].word == "UNIQUE" else 2 :])


def _moved(index: str, table: str, renaming: _Renaming) -> str:
    """The text of an index on a table of another name, or with a column of another name."""
    reader = _reader(index)
    reader.at = 2
    reader.name()
    parts, end = [f"{index[: reader.tokens[1].end]} {table}"], reader.tokens[reader.at - 1].end
    column = None if renaming.column is None else fold(renaming.column)
    for at in range(reader.at, len(reader.tokens)):
        token, before = reader.tokens[at], reader.tokens[at - 1]
        called = at + 1 < len(reader.tokens) and reader.tokens[at + 1].word == "("
        named = column is not None and token.text[0] != "'" and fold(unquoted(token)) == column
        if named and before.word != "." and not called:
            assert renaming.name is not None
            parts += [index[end : token.start], quote(renaming.name)]
            end = token.end
    return "".join(parts) + index[end:]
