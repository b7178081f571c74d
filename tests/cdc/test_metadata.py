"""The option `metadata` of sources: what it says, and what is refused before anything is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ivm
from ivm import errors
from ivm.cdc.sources.definition import DefinitionError
from ivm.cdc.sources.kafka.facts import FACTS
from ivm.cdc.sources.metadata import HEADER, TIME, holds, parse_metadata
from ivm.storage.values.types import type_of


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute("""
            CREATE TABLE t (id INTEGER, nr BIGINT, part SMALLINT, seen TIMESTAMPTZ, day DATE);
            CREATE TABLE keyed (id INTEGER, topic VARCHAR, nr BIGINT, PRIMARY KEY (topic, id));
        """)
        yield opened


def create(db: ivm.Database, metadata: str, into: str = "t", format: str = "json appends") -> None:
    db.execute(f"""
        CREATE SOURCE s INTO {into} FROM KAFKA (brokers 'localhost:1', topic 'x',
            format '{format}', metadata '{metadata}')
    """)


def test_columns_and_facts_are_read_as_they_may_be_written() -> None:
    text = ' a=offset,"b, ""c=" =  Timestamp , d = HEADER:X-id,e= header:"p, q" , f="header:r=s" '
    assert dict(parse_metadata(text, FACTS, appends=True).columns) == {
        "a": "offset",
        'b, "c=': "timestamp",
        "d": HEADER + "X-id",
        "e": HEADER + "p, q",
        "f": HEADER + "r=s",
    }
    assert not parse_metadata(" ", FACTS, appends=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("offset", "metadata is a list of columns and their facts, as 'seen = timestamp', not"),
        ("a = offset,", "metadata is a list"),
        ("a = offset b = key", "there is no fact 'offset b = key'"),
        ("a = offest", "there is no fact 'offest'; did you mean 'offset'?"),
        ("a = lsn", "there are: timestamp, partition, offset, key, topic, header:NAME"),
        ("a = header:", "there is no fact 'header:'"),
        ('a = key, "A" = topic', "metadata gives two facts to column 'A': it can have one"),
    ],
)
def test_what_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as error:
        parse_metadata(text, FACTS, appends=True)
    assert message in str(error.value)


def test_the_place_in_the_statement_is_told(db: ivm.Database) -> None:
    options = "brokers 'localhost:1', topic 'x', metadata 'nr = offest'"
    statement = f"CREATE SOURCE s INTO t FROM KAFKA ({options})"
    with pytest.raises(errors.SqlError, match="no fact 'offest'") as error:
        db.execute(statement)
    assert error.value.position == statement.index("metadata")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            'nr = offset, "Odd" = header:a',
            "gives the header:a to column 'Odd', which table 't' lacks: "
            'ALTER TABLE t ADD COLUMN "Odd" VARCHAR',
        ),
        ("part = offset", "is SMALLINT, which does not hold every offset"),
        ("part = partition", 'ALTER TABLE t ALTER COLUMN "part" TYPE INTEGER'),
        ("nr = timestamp", "'nr' of table 't' is BIGINT, which does not hold every timestamp"),
        ("day = timestamp", 'ALTER TABLE t ALTER COLUMN "day" TYPE TIMESTAMP WITH TIME ZONE'),
    ],
)
def test_a_table_that_cannot_have_the_facts_is_refused(
    db: ivm.Database, metadata: str, message: str
) -> None:
    with pytest.raises(errors.InputError) as error:
        create(db, metadata)
    assert message in str(error.value)
    assert db.sources() == []


def test_rows_that_change_are_not_found_by_facts(db: ivm.Database) -> None:
    with pytest.raises(errors.InputError, match="has no primary key, so an event"):
        create(db, "nr = offset", format="json")
    with pytest.raises(errors.InputError, match=r"primary key of .* the partition of an event"):
        create(db, "id = partition", "keyed", "json upserts")
    db.execute("CREATE TABLE one (topic VARCHAR PRIMARY KEY)")
    with pytest.raises(errors.InputError, match="has columns of metadata alone"):
        create(db, "topic = topic", "one", "debezium")
    create(db, "topic = topic, nr = offset", "keyed", "debezium")


def test_alter_source_looks_at_the_table_too(db: ivm.Database) -> None:
    create(db, "nr = offset")
    with pytest.raises(errors.InputError, match="lacks: ALTER TABLE t ADD COLUMN"):
        db.execute("ALTER SOURCE s SET (metadata 'nr = offset, other = key')")
    with pytest.raises(errors.SqlError, match="there is no fact 'lsn'"):
        db.execute("ALTER SOURCE s SET (metadata 'nr = lsn')")
    db.execute("ALTER SOURCE s SET (metadata 'id = header:n')")
    [(options,)] = db.execute("SELECT options ->> 'metadata' FROM _ivm.sources").fetchall()
    assert options == "id = header:n"


def test_debezium_has_no_such_option(db: ivm.Database) -> None:
    with pytest.raises(errors.SqlError, match="DEBEZIUM has no option 'metadata'"):
        db.execute("CREATE SOURCE s FROM DEBEZIUM (connector 'mysql', metadata 'a = b')")


@pytest.mark.parametrize(
    ("type", "is_held"),
    [
        *[(type, True) for type in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "VARCHAR")],
        *[(type, False) for type in ("DATE", "TIME", "BIGINT", "BOOLEAN", "BLOB", "TIMESTAMP_S")],
    ],
)
def test_times_go_where_all_of_them_fit(type: str, is_held: bool) -> None:
    assert holds(type_of(type), TIME) == is_held
