"""The changes of a slot, read by SQL: what the decoder makes of the server's own messages."""

from __future__ import annotations

from contextlib import closing

import numpy as np

import ivm
from ivm.cdc.formats.events import Decoded
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.connections.types import SESSION_SETTINGS
from ivm.cdc.sources.postgres.log.transactions import Assembler
from ivm.cdc.sources.postgres.rows.decode import decode
from ivm.cdc.sources.postgres.rows.texts import Texts, cut
from ivm.cdc.sources.postgres.rows.tuples import Messages
from ivm.cdc.sources.postgres.tables.catalog import load_table, load_types
from ivm.session.row_calls import table_info
from tests.support.postgres import Database

SLOT = "SELECT pg_create_logical_replication_slot('s', 'pgoutput')"
CHANGES = """
    SELECT data FROM pg_logical_slot_get_binary_changes(
        's', NULL, NULL, 'proto_version', '2', 'streaming', 'on', 'publication_names', 'p')
"""


class Received:
    """The changes of a slot since it was read last."""

    def __init__(self, shop: Database) -> None:
        with closing(shop.connect()) as connection, connection.cursor() as cursor:
            for setting, value in SESSION_SETTINGS.items():
                cursor.execute(f"SET {setting} = '{value}'")
            cursor.execute("SET logical_decoding_work_mem = '64kB'")
            cursor.execute(CHANGES)
            assembler = Assembler()
            for (data,) in cursor.fetchall():
                assembler.add(bytes(data))
            taken = assembler.take()
            self._taken = taken
            self.shapes = {shape.name: shape for _, shape in taken.shapes}
            types = load_types(connection)
            names = {name: TableName("public", name) for name in self.shapes}
            self.tables = {name: load_table(connection, types, names[name]) for name in names}
        self.messages = Messages(taken.messages)

    def texts(self, name: str) -> Texts:
        """The changes of a table."""
        shape = self.shapes[name]
        chosen = (self.messages.relations == shape.oid).nonzero()[0]
        return cut(self.messages, chosen, [column.name for column in shape.columns])

    def runs(self, name: str) -> list[Texts]:
        """The changes of a table, cut where its shape changes."""
        shapes = [(at, shape) for at, shape in self._taken.shapes if shape.name == name]
        bounds = [*(at for at, _ in shapes), len(self.messages)]
        return [
            cut(self.messages, np.arange(bounds[i], bounds[i + 1]), [c.name for c in s.columns])
            for i, (_, s) in enumerate(shapes)
        ]

    def decoded(self, db: ivm.Database, name: str) -> Decoded:
        """The changes of a table, for our table of that name."""
        texts = self.texts(name)
        readings = {column.name: column.reading for column in self.tables[name].columns}
        session = db._session()
        return decode(
            session.cursor, texts, readings, table_info(session, name), np.arange(len(texts))
        )
