"""SQLAlchemy's dialect: tables, the ORM, reflection and pandas through it."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

import ivm


class Base(DeclarativeBase):
    """The tables."""


class Customer(Base):
    """Its keys come from a sequence."""

    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(sa.Sequence("customer_ids"), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    orders: Mapped[list[Order]] = relationship(back_populates="customer", order_by="Order.id")


class Order(Base):
    """Columns of many types."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customers.id"))
    amount: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2))
    at: Mapped[datetime.datetime | None]
    code: Mapped[uuid.UUID | None]
    notes: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    took: Mapped[datetime.timedelta | None]
    customer: Mapped[Customer] = relationship(back_populates="orders")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"ivm:///{tmp_path}/shop.duckdb")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE MATERIALIZED VIEW revenue AS SELECT customer_id, sum(amount) AS total "
                "FROM orders GROUP BY customer_id"
            )
        )
        connection.execute(sa.text("CREATE VIEW plain AS SELECT id FROM orders"))
    yield engine
    engine.dispose()


def revenue(session: Session) -> list[tuple[int, Decimal]]:
    found = session.execute(sa.text("SELECT * FROM revenue ORDER BY ALL"))
    return [tuple(row) for row in found]


def test_objects_make_the_round_trip_and_views_follow(engine: sa.Engine) -> None:
    values = {
        "amount": Decimal("9.50"), "at": datetime.datetime(2024, 1, 1, 10), "notes": {"a": [1]},
        "code": uuid.UUID(int=5), "took": datetime.timedelta(hours=2),
    }  # fmt: skip
    with Session(engine) as session:
        ann = Customer(name="ann")
        session.add(Order(id=1, customer=ann, **values))
        session.add(Order(id=2, customer=ann, amount=Decimal("1.50")))
        session.commit()
        assert revenue(session) == [(ann.id, Decimal("11.00"))]
        first = session.get(Order, 1)
        assert first is not None
        assert {name: getattr(first, name) for name in values} == values
        first.amount = Decimal(3)
        session.delete(ann.orders[1])
        session.commit()
        assert revenue(session) == [(ann.id, Decimal("3.00"))]
        first.amount = Decimal(4)
        session.flush()
        assert revenue(session) == [(ann.id, Decimal("4.00"))]
        session.rollback()
        assert revenue(session) == [(ann.id, Decimal("3.00"))]


@pytest.mark.full
def test_a_broken_constraint_is_sqlalchemys_integrity_error(engine: sa.Engine) -> None:
    with Session(engine) as session:
        session.add_all([Customer(name="ann"), Customer(name="ann")])
        with pytest.raises(sa.exc.IntegrityError, match="ann"):
            session.commit()
        session.rollback()
        session.add(Customer(name="bob"))
        session.commit()
        with pytest.raises(sa.exc.ProgrammingError):
            session.execute(sa.text("SELECT nothing FROM nowhere"))


@pytest.mark.full
def test_upserts_and_returning(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        put = insert(Customer).values(id=1, name="ann")
        put = put.on_conflict_do_update(index_elements=["id"], set_={"name": "bob"})
        connection.execute(put)
        connection.execute(put)
        assert connection.scalars(sa.select(Customer.name)).all() == ["bob"]
        renamed = sa.update(Customer).values(name="eve").returning(Customer.id)
        assert connection.execute(renamed).all() == [(1,)]


def test_relations_are_reflected(engine: sa.Engine) -> None:
    seen = sa.inspect(engine)
    assert seen.get_table_names() == ["customers", "orders"]
    assert seen.get_view_names() == ["plain"]
    assert seen.get_materialized_view_names() == ["revenue"]
    assert "SELECT customer_id" in seen.get_view_definition("revenue")
    assert seen.get_pk_constraint("orders")["constrained_columns"] == ["id"]
    (key,) = seen.get_foreign_keys("orders")
    assert (key["constrained_columns"], key["referred_table"]) == (["customer_id"], "customers")
    (unique,) = seen.get_unique_constraints("customers")
    assert unique["column_names"] == ["name"]
    types = {column["name"]: str(column["type"]) for column in seen.get_columns("orders")}
    assert types["amount"] == "NUMERIC(12, 2)"
    assert types["at"] == "TIMESTAMP"
    assert seen.has_table("revenue")
    assert not seen.has_table("nothing")
    with pytest.raises(sa.exc.NoSuchTableError):
        seen.get_columns("nothing")


@pytest.mark.full
def test_reflected_tables_can_be_queried_and_made_again(engine: sa.Engine) -> None:
    tables = sa.MetaData()
    tables.reflect(engine)
    assert set(tables.tables) == {"customers", "orders"}
    view = sa.Table("revenue", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sa.select(view)).all() == []
    other = sa.create_engine("ivm://")
    tables.create_all(other)
    assert sa.inspect(other).get_table_names() == ["customers", "orders"]
    other.dispose()


def test_a_final_view_is_defined_as_it_was_written() -> None:
    engine, query = sa.create_engine("ivm://"), "SELECT ts FROM t EMIT ON WINDOW CLOSE"
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts)"))
        connection.execute(sa.text(f"CREATE MATERIALIZED VIEW v AS {query}"))
    assert sa.inspect(engine).get_view_definition("v") == query
    engine.dispose()


@pytest.mark.full
def test_materialized_views_with_odd_names_are_none_of_the_tables() -> None:
    engine = sa.create_engine("ivm://")
    with engine.begin() as connection:
        connection.execute(sa.text('CREATE SCHEMA "S s"; CREATE TABLE t (a INTEGER)'))
        for name in ('"x.y"', '"S s"."x.y"', '"q""x"'):
            connection.execute(sa.text(f"CREATE MATERIALIZED VIEW {name} AS SELECT a FROM t"))
    seen = sa.inspect(engine)
    assert (seen.get_table_names(), seen.get_table_names("S s")) == (["t"], [])
    assert seen.get_materialized_view_names() == ['q"x', "x.y"]
    assert seen.get_materialized_view_names("S s") == ["x.y"]
    assert seen.get_view_definition("x.y", "S s") == "SELECT a FROM t"
    engine.dispose()


def test_keys_that_count_and_generated_columns_are_reflected_as_such() -> None:
    """Bug: a table with either could not be made again."""
    before, after, tables = sa.MetaData(), sa.MetaData(), ("It's", "later")
    for name, schema in zip(tables, (None, "S s"), strict=True):
        key = sa.Column("Id", sa.Integer, primary_key=True)
        double = sa.Column("double", sa.Integer, sa.Computed('"Id" * 2'))
        sa.Table(name, before, key, sa.Column("n", sa.Integer), double, schema=schema)
    one, other = sa.create_engine("ivm://"), sa.create_engine("ivm://")
    for engine in (one, other):
        with engine.begin() as connection:
            connection.execute(sa.schema.CreateSchema("S s"))
    before.create_all(one)
    for schema in (None, "S s"):
        after.reflect(one, schema=schema)
    after.create_all(other)
    with other.begin() as connection:
        for table in after.tables.values():
            for id in (1, 2):
                done = connection.execute(table.insert(), {"n": 5})
                assert done.inserted_primary_key == (id,)
            assert connection.execute(sa.select(table)).all() == [(1, 5, 2), (2, 5, 4)]
    after.drop_all(other)
    assert sa.inspect(other).get_sequence_names() == []
    one.dispose()
    other.dispose()


@pytest.mark.full
def test_a_temporary_table_hides_the_columns_of_another() -> None:
    engine = sa.create_engine("ivm://")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (a INTEGER); CREATE TEMP TABLE t (b INTEGER)"))
    assert [column["name"] for column in sa.inspect(engine).get_columns("t")] == ["b"]
    engine.dispose()


def test_indexes_are_reflected_by_their_columns_names() -> None:
    engine = sa.create_engine("ivm://")
    with engine.begin() as connection:
        connection.execute(sa.text('CREATE TABLE t (a INTEGER, "q""x" INTEGER, "a,b" INTEGER)'))
        connection.execute(sa.text('CREATE INDEX i ON t ("q""x", A); CREATE INDEX j ON t ("a,b")'))
        connection.execute(sa.text("CREATE UNIQUE INDEX k ON t ((a + 1))"))
    found = {i["name"]: i["column_names"] for i in sa.inspect(engine).get_indexes("t")}
    engine.dispose()
    assert found == {"i": ['q"x', "a"], "j": ["a,b"]}


@pytest.mark.full
def test_pandas_writes_and_reads_through_it(engine: sa.Engine) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [0.5, None, 1.5]})
    assert frame.to_sql("frame", engine, index=False) == 3
    assert frame.to_sql("frame", engine, index=False, if_exists="append", method="multi") == 3
    read = pd.read_sql("SELECT * FROM frame ORDER BY a", engine)
    assert read["a"].tolist() == [1, 1, 2, 2, 3, 3]
    pd.testing.assert_frame_equal(pd.read_sql_table("frame", engine).iloc[:3], frame)


@pytest.mark.full
def test_an_engine_joins_the_programs_own_database(tmp_path: Path) -> None:
    path = tmp_path / "own.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        engine = sa.create_engine(f"ivm:///{path}")
        with engine.begin() as connection:
            connection.execute(sa.text("INSERT INTO t VALUES (:a)"), [{"a": 1}, {"a": 2}])
        engine.dispose()
        assert db.execute("SELECT * FROM t ORDER BY a").fetchall() == [(1,), (2,)]


@pytest.mark.full
def test_readers_hold_up_no_writer(engine: sa.Engine) -> None:
    with engine.connect() as reader:
        reader.execute(sa.text("SELECT count(*) FROM orders"))
        with engine.begin() as writer:
            writer.execute(sa.text("INSERT INTO customers VALUES (7, 'ann')"))
        assert reader.scalar(sa.text("SELECT count(*) FROM customers")) == 1


@pytest.mark.full
def test_autocommit_needs_no_transaction(engine: sa.Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("INSERT INTO customers VALUES (7, 'ann')"))
        with engine.connect() as other:
            assert other.scalar(sa.text("SELECT count(*) FROM customers")) == 1


class Declared(DeclarativeBase):
    pass


class Counted(Declared):
    __tablename__ = "counted things"
    id: Mapped[int] = mapped_column(primary_key=True)
    raw: Mapped[bytes | None]


@pytest.mark.full
def test_keys_that_count_by_themselves() -> None:
    engine = sa.create_engine("ivm://")
    Declared.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Counted(raw=b"\x00\xff"), Counted(), Counted()])
        session.commit()
        found = session.scalars(sa.select(Counted).order_by(Counted.id)).all()
        assert [(each.id, each.raw) for each in found] == [(1, b"\x00\xff"), (2, None), (3, None)]
    Declared.metadata.drop_all(engine)
    Declared.metadata.create_all(engine)  # the sequence went with the table
    with Session(engine) as session:
        session.add(Counted())
        session.commit()
        assert session.scalars(sa.select(Counted.id)).all() == [1]
    engine.dispose()


def test_options_of_connect_stand_in_the_url(tmp_path: Path) -> None:
    url = f"ivm:///{tmp_path}/a.duckdb?durability=interval&threads=1&memory_limit=200000000"
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT current_setting('threads')")) == 1
    engine.dispose()
    engine = sa.create_engine(f"ivm:///{tmp_path}/b.duckdb?durability=never")
    with pytest.raises(sa.exc.ProgrammingError, match="durability"):
        engine.connect()


def test_a_url_with_a_host_is_refused() -> None:
    """Bug: a served database, and a file behind two slashes, were an empty one in memory."""
    for url in ("ivm://ann:violet@127.0.0.1:8080", "ivm://shop.duckdb", "ivm://host/shop.duckdb"):
        with pytest.raises(sa.exc.ArgumentError, match=r"ivm:///shop\.duckdb") as caught:
            sa.create_engine(url).connect()
        assert "violet" not in str(caught.value)
