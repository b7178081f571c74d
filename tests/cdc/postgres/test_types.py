"""Values of every type of PostgreSQL arrive as the equal values of DuckDB, from a real server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
import pytest

import ivm
from ivm.cdc.formats.events import Decoded
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.copying import Copier
from ivm.cdc.sources.postgres.snapshot import Copies, Snapshot
from ivm.cdc.sources.postgres.tables.described import Catalog
from ivm.cdc.sources.postgres.tables.identities import Identities
from ivm.session.row_calls import table_info
from ivm.storage.values.types import type_of
from tests.cdc.postgres.received import SLOT, Received
from tests.support.postgres import Database

MOST = "9" * 38
# By PostgreSQL's type: DuckDB's, and values as literals of both, None if refused.
VALUES: dict[str, tuple[str, list[tuple[str, str | None]]]] = {
    "boolean": ("BOOLEAN", [("true", "true"), ("false", "false")]),
    "smallint": ("SMALLINT", [("-32768", "-32768"), ("32767", "32767")]),
    "integer": ("INTEGER", [("-2147483648", "-2147483648"), ("0", "0")]),
    "bigint": ("BIGINT", [("-9223372036854775808", "'-9223372036854775808'"), ("1", "1")]),
    "oid": ("UINTEGER", [("4294967295", "4294967295")]),
    "xid8": ("UBIGINT", [("'18446744073709551615'", "18446744073709551615")]),
    "real": (
        "FLOAT",
        [("'NaN'", "'nan'"), ("'-Infinity'", "'-inf'"), ("1e-45", "1e-45"), ("'-0'", "'-0.0'")],
    ),
    "double precision": (
        "DOUBLE",
        [("'NaN'", "'nan'"), ("'Infinity'", "'inf'"), ("0.1", "0.1"), ("5e-324", "5e-324")],
    ),
    "numeric(10,2)": ("DECIMAL(10,2)", [("-0.01", "-0.01"), ("99999999.99", "99999999.99")]),
    "numeric(5,0)": ("DECIMAL(5,0)", [("99999", "99999"), ("'NaN'", None)]),
    "numeric(38,0)": ("DECIMAL(38,0)", [(MOST, MOST), (f"-{MOST}", f"-{MOST}")]),
    "numeric(4,-2)": ("DECIMAL(6,0)", [("123456", "123500")]),
    "numeric(2,5)": ("DECIMAL(5,5)", [("0.00012", "0.00012")]),
    "numeric(39,1)": ("VARCHAR", [(f"{MOST}.5", f"'{MOST}.5'"), ("'NaN'", "'NaN'")]),
    "numeric": ("VARCHAR", [("1e100", f"'1{'0' * 100}'"), ("'-Infinity'", "'-Infinity'")]),
    "money": ("VARCHAR", [("1234.5", "'$1,234.50'")]),
    "text": ("VARCHAR", [("''", "''"), ("'ä€😀\n\"'", "'ä€😀\n\"'"), ("'NULL'", "'NULL'")]),
    "varchar(3)": ("VARCHAR", [("'abc'", "'abc'")]),
    "char(3)": ("VARCHAR", [("'a'", "'a  '")]),
    '"char"': ("VARCHAR", [("'x'", "'x'")]),
    "name": ("VARCHAR", [("'x'", "'x'")]),
    "bytea": ("BLOB", [("''", "''"), (r"'\x00ff61'", r"'\x00\xFFa'")]),
    "date": (
        "DATE",
        [
            *[("'infinity'", "'infinity'"), ("'-infinity'", "'-infinity'")],
            *[("'0044-03-15 BC'", "'0044-03-15 (BC)'"), ("'4713-01-01 BC'", "'4713-01-01 (BC)'")],
            *[("'5874897-12-31'", "'5874897-12-31'"), ("'2024-02-29'", "'2024-02-29'")],
        ],
    ),
    "timestamp": (
        "TIMESTAMP",
        [
            *[("'infinity'", "'infinity'"), ("'-infinity'", "'-infinity'")],
            ("'0044-03-15 12:00:00.5 BC'", "'0044-03-15 (BC) 12:00:00.5'"),
            ("'2024-02-29 23:59:59.999999'", "'2024-02-29 23:59:59.999999'"),
            ("'294276-12-31 23:59:59.999999'", None),
        ],
    ),
    "timestamp(0)": ("TIMESTAMP", [("'2024-02-29 23:59:59.6'", "'2024-03-01'")]),
    "timestamptz": (
        "TIMESTAMP WITH TIME ZONE",
        [
            *[("'infinity'", "'infinity'"), ("'-infinity'", "'-infinity'")],
            ("'0044-03-15 12:00:00+02 BC'", "'0044-03-15 (BC) 10:00:00+00'"),
            ("'2024-02-29 23:59:59.999999-05'", "'2024-03-01 04:59:59.999999+00'"),
        ],
    ),
    "time": ("TIME", [("'24:00'", "'24:00:00'"), ("'23:59:59.999999'", "'23:59:59.999999'")]),
    "timetz": (
        "TIME WITH TIME ZONE",
        [("'12:00:00.5-15:59'", "'12:00:00.5-15:59'"), ("'00:00+01:23:45'", "'00:00:00+01:23:45'")],
    ),
    "interval": (
        "INTERVAL",
        [
            ("'1 year 2 mons 3 days 04:05:06.789'", "'1 year 2 months 3 days 04:05:06.789'"),
            ("'-1 year +2 days -00:00:01'", "'-1 year 2 days -00:00:01'"),
            ("'-1 day +02:03:04'", "'-1 day 02:03:04'"),
            *[("'0'", "'0 days'"), ("'178000000 years'", "'178000000 years'")],
            *[("'1 month'", "'1 month'"), ("'3000000 hours'", None)],
        ],
    ),
    "uuid": ("UUID", [("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",) * 2]),
    "json": ("JSON", [("'{\"a\" :  1}'",) * 2, ("'null'",) * 2]),
    "jsonb": ("JSON", [("'{\"a\" :  1}'", "'{\"a\": 1}'"), ("'\"ä\"'",) * 2]),
    "xml": ("VARCHAR", []),  # servers may be built without it
    "bit(4)": ("BIT", [("B'0101'", "'0101'")]),
    "varbit": ("BIT", [("B'1'", "'1'"), ("B'0000000011'", "'0000000011'"), ("B''", None)]),
    "inet": ("VARCHAR", [("'192.168.0.1/24'",) * 2]),
    "cidr": ("VARCHAR", [("'10.0.0.0/8'",) * 2]),
    "macaddr": ("VARCHAR", [("'08:00:2b:01:02:03'",) * 2]),
    "point": ("VARCHAR", [("'(1,2)'",) * 2]),
    "box": ("VARCHAR", [("'(2,2),(1,1)'",) * 2]),
    "tsvector": ("VARCHAR", [("'a b'", "'''a'' ''b'''")]),
    "pg_lsn": ("VARCHAR", [("'16/B374D848'",) * 2]),
    "int4range": ("VARCHAR", [("'[1,3)'",) * 2, ("'empty'",) * 2]),
    "tsrange": ("VARCHAR", [("'[2024-01-01,)'", "'[\"2024-01-01 00:00:00\",)'")]),
    "int8multirange": ("VARCHAR", [("'{[1,3),[5,6)}'",) * 2]),
    "mood": ("VARCHAR", [("'sad, very'",) * 2]),
    "pair": ("VARCHAR", [("'(1,\"a b\")'",) * 2]),
    "price": ("DECIMAL(8,3)", [("1.5", "1.5")]),
    "integer[]": (
        "INTEGER[]",
        [
            *[("'{}'", "[]"), ("'{1,NULL,-3}'", "[1, NULL, -3]"), ("'{{1,2},{3,4}}'", None)],
            ("'[0:1]={1,2}'", None),
        ],
    ),
    "text[]": (
        "VARCHAR[]",
        [
            (
                r"""ARRAY['', 'a,b', '"', '\', 'NULL', NULL, ' x ', '{[}]', 'ä', E'a\nb']""",
                r"""['', 'a,b', '"', '\', 'NULL', NULL, ' x ', '{[}]', 'ä', E'a\nb']""",
            )
        ],
    ),
    "numeric(5,1)[]": ("DECIMAL(5,1)[]", [("'{1.5,NULL}'", "[1.5, NULL]"), ("'{NaN}'", None)]),
    "timestamptz[]": (
        "TIMESTAMP WITH TIME ZONE[]",
        [("'{2024-01-01 00:00:00+01}'", "['2023-12-31 23:00:00+00']")],
    ),
    "bytea[]": ("BLOB[]", [(r"ARRAY['\x00ff'::bytea]", r"['\x00\xFF']")]),
    "boolean[]": ("BOOLEAN[]", [("'{t,f,NULL}'", "[true, false, NULL]")]),
    "mood[]": ("VARCHAR[]", [("ARRAY['ok','sad, very']::mood[]", "['ok', 'sad, very']")]),
    "box[]": ("VARCHAR", [("'{(2,2),(1,1);(4,4),(3,3)}'",) * 2]),
    "int2vector": ("VARCHAR", [("'1 2'",) * 2]),
}
OWN_TYPES = """
    CREATE TYPE mood AS ENUM ('ok', 'sad, very');
    CREATE TYPE pair AS (a integer, b text);
    CREATE DOMAIN price AS numeric(8,3) CHECK (value > 0);
"""


@pytest.fixture(scope="module")
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        yield opened


def faults(db: ivm.Database, name: str, type: str, decoded: Decoded) -> list[str]:
    """What is wrong with the values of a type."""
    expected, values = VALUES[type]
    column_type = table_info(db._session(), name).schema[1][1]
    arrived = pa.table(
        {
            "id": decoded.events.columns[0].to_arrow(type_of("INTEGER")),
            "v": decoded.events.columns[1].to_arrow(column_type),
        }
    )
    db._session().cursor.register("arrived", arrived)
    rows = dict(db._session().cursor.execute("SELECT id, v::VARCHAR FROM arrived").fetchall())
    assert rows.pop(len(values)) is None
    wrong = []
    for i, (given, value) in enumerate(values):
        ((equal,),) = (
            db._session()
            .cursor.execute(f"SELECT CAST({value or 'NULL'} AS {expected})::VARCHAR")
            .fetchall()
        )
        if rows.get(i) != equal or (i in rows) != (value is not None):
            wrong.append(f"{type}: {given} is {rows.get(i)}, not {equal}; {decoded.refused}")
    return wrong


def copied(shop: Database, db: ivm.Database, tables: Sequence[str]) -> dict[str, Decoded]:
    """The rows of tables, copied and decoded."""
    found = {}
    with closing(Catalog(shop.dsn, None)) as catalog:
        snapshot = Snapshot(shop.dsn, "copy", True, 2)
        names = [TableName("public", name) for name in tables]
        with closing(Copies(snapshot, names, catalog.types, "")) as copies:
            copier = Copier(catalog, {}, Identities({}))
            while not copies.is_over:
                chunk = copies.next(10)
                assert chunk is not None
                part = copier.part(chunk)
                if chunk.count:
                    session = db._session()
                    info = table_info(session, chunk.table.name.name)
                    found[info.name] = part.decode(session.cursor, info)
    return found


def test_every_value_of_every_type(shop: Database, db: ivm.Database) -> None:
    shop.execute(OWN_TYPES)
    tables = {f"t{number}": type for number, type in enumerate(VALUES)}
    for name, type in tables.items():
        shop.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, v {type})")
    shop.execute("CREATE PUBLICATION p FOR ALL TABLES", SLOT)
    for name, type in tables.items():
        values = [*(value for value, _ in VALUES[type][1]), "NULL"]
        rows = ", ".join(f"({i}, CAST({value} AS {type}))" for i, value in enumerate(values))
        shop.execute(f"INSERT INTO {name} VALUES {rows}")
    received = Received(shop)
    for name, type in tables.items():
        own = received.tables[name].columns[1].reading.type
        assert (type, own) == (type, VALUES[type][0])
        db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, v {own})")
    streamed = {name: received.decoded(db, name) for name in tables}
    for found in (streamed, copied(shop, db, list(tables))):
        wrong = [
            why for name, type in tables.items() for why in faults(db, name, type, found[name])
        ]
        assert wrong == []
