"""The dialect of SQLAlchemy: the ORM, reflection, pandas, transactions and pools."""

from __future__ import annotations

import datetime
import decimal
import importlib
import threading
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

import ivm
from tests import support

registry.register("ivm", "ivm.integrations.dialect", "IvmDialect")  # as the entry point does


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(50))
    mail: Mapped[str | None] = mapped_column(unique=True)
    orders: Mapped[list[Order]] = relationship(back_populates="customer")


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customers.id"))
    amount: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(8, 2))
    at: Mapped[datetime.datetime | None]
    customer: Mapped[Customer] = relationship(back_populates="orders")


class Everything(Base):
    __tablename__ = "everything"
    key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    flag: Mapped[bool]
    big: Mapped[int] = mapped_column(sa.BigInteger)
    ratio: Mapped[float]
    day: Mapped[datetime.date]
    clock: Mapped[datetime.time]
    zoned: Mapped[datetime.datetime] = mapped_column(sa.DateTime(timezone=True))
    raw: Mapped[bytes]
    tree: Mapped[dict[str, object]] = mapped_column(sa.JSON)
    span: Mapped[datetime.timedelta] = mapped_column(sa.Interval(native=True))
    many: Mapped[list[int]] = mapped_column(sa.ARRAY(sa.Integer))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"ivm:///{tmp_path / 'shop.duckdb'}")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def test_the_entry_point_names_the_dialect() -> None:
    project = tomllib.loads((support.ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["sqlalchemy.dialects"]["ivm"].partition(":")
    assert getattr(importlib.import_module(module), name).name == "ivm"


def test_the_orm_writes_and_views_follow(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE MATERIALIZED VIEW revenue AS"
                " SELECT customer_id, sum(amount) AS total FROM orders GROUP BY customer_id"
            )
        )
    with Session(engine) as session:
        ann = Customer(name="Ann", orders=[Order(amount=decimal.Decimal("9.50")), Order(amount=3)])
        session.add_all([ann, Customer(name="Bob", mail="b@x")])
        session.commit()
        assert sorted(order.id for order in ann.orders) == [1, 2]
        total = sa.text("SELECT total FROM revenue")
        assert session.scalars(total).all() == [decimal.Decimal("12.50")]
        ann.name = "Anna"
        session.delete(ann.orders[0])
        session.commit()
        assert session.scalars(total).all() == [3]
        query = sa.select(Customer.name, sa.func.count(Order.id)).join(Order, isouter=True)
        found = session.execute(query.group_by(Customer.name).order_by(Customer.name).limit(5))
        assert [tuple(row) for row in found] == [("Anna", 1), ("Bob", 0)]
        session.add(Customer(name="Bo", mail="b@x"))
        with pytest.raises(sa.exc.IntegrityError):
            session.commit()
        session.rollback()
        assert len(session.scalars(sa.select(Customer)).all()) == 2


def test_many_rows_in_one_flush(engine: sa.Engine) -> None:
    with Session(engine) as session:
        session.add_all(Customer(name=str(i)) for i in range(300))
        session.commit()
        names = session.scalars(sa.select(Customer.name).order_by(Customer.id)).all()
        assert names == [str(i) for i in range(300)]


def test_every_type_comes_back(engine: sa.Engine) -> None:
    key = uuid.uuid4()
    row = {
        "key": key,
        "flag": True,
        "big": 2**62,
        "ratio": 0.1,
        "day": datetime.date(2024, 2, 29),
        "clock": datetime.time(1, 2, 3),
        "zoned": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        "raw": b"\x00\xff",
        "tree": {"a": [1, None]},
        "span": datetime.timedelta(days=1, seconds=2),
        "many": [1, 2],
    }
    with Session(engine) as session:
        session.add(Everything(**row))
        session.commit()
    with Session(engine) as session:
        found = session.get(Everything, key)
        assert found is not None
        assert {name: getattr(found, name) for name in row} == row
    reflected = sa.Table("everything", sa.MetaData(), autoload_with=engine)
    for column in Everything.__table__.columns:
        kind = reflected.c[column.name].type
        assert kind._type_affinity is column.type._type_affinity, column.name


def test_reflection(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE VIEW plain AS SELECT 1 AS one"))
        connection.execute(sa.text("CREATE MATERIALIZED VIEW mv AS SELECT id FROM orders"))
        connection.execute(sa.text("CREATE SCHEMA s"))
        connection.execute(sa.text("CREATE TABLE s.t (a INTEGER CHECK (a > 0))"))
        connection.execute(sa.text("CREATE MATERIALIZED VIEW s.w AS SELECT a FROM s.t"))
        connection.execute(sa.text("CREATE INDEX by_amount ON orders (amount)"))
    found = sa.inspect(engine)
    assert found.get_table_names() == ["customers", "everything", "orders"]
    assert found.get_view_names() == ["plain", "mv"]
    assert found.get_materialized_view_names() == ["mv"]
    assert found.get_view_definition("mv") == "SELECT id FROM orders"
    assert "SELECT 1" in found.get_view_definition("plain")
    assert found.get_schema_names() == ["main", "s"]
    assert (found.get_table_names("s"), found.get_view_names("s")) == (["t"], ["w"])
    assert found.get_check_constraints("t", "s")[0]["sqltext"]
    assert found.get_pk_constraint("orders")["constrained_columns"] == ["id"]
    (key,) = found.get_foreign_keys("orders")
    assert (key["constrained_columns"], key["referred_table"]) == (["customer_id"], "customers")
    assert found.get_unique_constraints("customers")[0]["column_names"] == ["mail"]
    assert found.get_indexes("orders") == [
        {"name": "by_amount", "unique": False, "column_names": ["amount"]}
    ]
    assert found.has_table("orders")
    assert not found.has_table("nothing")
    assert found.has_sequence("orders_id_seq")
    nullable = {c["name"]: c["nullable"] for c in found.get_columns("orders")}
    assert nullable == {"id": False, "customer_id": False, "amount": False, "at": True}
    with pytest.raises(sa.exc.NoSuchTableError):
        found.get_columns("nothing")
    tables = sa.MetaData()
    tables.reflect(engine, views=True)
    assert set(tables.tables) == {"customers", "everything", "orders", "plain", "mv"}


def test_pandas(engine: sa.Engine) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.to_datetime(["2024-01-01"] * 2)})
    assert frame.to_sql("frame", engine, index=False) == 2
    found = pd.read_sql("SELECT * FROM frame ORDER BY a", engine)
    assert found["a"].tolist() == [1, 2]
    assert found["c"].tolist() == frame["c"].tolist()
    assert pd.read_sql_table("frame", engine).shape == (2, 3)
    frame.to_sql("frame", engine, index=False, if_exists="append", method="multi")
    frame.to_sql("frame", engine, index=False, if_exists="replace")
    query = sa.text("SELECT count(*) AS n FROM frame WHERE a > :a")
    assert pd.read_sql(query, engine, params={"a": 0})["n"].tolist() == [2]


def test_each_connection_has_a_transaction(engine: sa.Engine) -> None:
    count = sa.select(sa.func.count()).select_from(Customer)
    with engine.connect() as one, engine.connect() as two:
        one.execute(sa.insert(Customer).values(name="Ann"))
        assert (one.scalar(count), two.scalar(count)) == (1, 0)
        one.rollback()
        one.execute(sa.insert(Customer).values(name="Bob"))
        one.commit()
        assert two.scalar(count) == 1
    with engine.connect() as connection:
        connection.execute(sa.delete(Customer))  # rolled back as it is given back
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.scalar(count) == 1
        connection.execute(sa.insert(Customer).values(name="Cat"))
    with engine.connect() as connection:
        assert connection.scalar(count) == 2


def test_threads_share_a_pool(engine: sa.Engine) -> None:
    def work(name: str) -> None:
        for _ in range(5):
            with Session(engine) as session:
                session.add(Customer(name=name))
                session.commit()

    threads = [threading.Thread(target=work, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(Customer)) == 20


def test_on_conflict_and_returning(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        statement = insert(Customer).values(id=1, name="Ann").returning(Customer.id)
        assert connection.scalar(statement) == 1
        change = insert(Customer).values(id=1, name="Eve")
        change = change.on_conflict_do_update(index_elements=["id"], set_={"name": "Eve"})
        connection.execute(change)
        update = sa.update(Customer).values(name="Eva").returning(Customer.name)
        assert connection.scalars(update).all() == ["Eva"]


def test_errors_are_sqlalchemys(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        with pytest.raises(sa.exc.ProgrammingError):
            connection.execute(sa.text("SELECT nope"))
        with pytest.raises(sa.exc.DataError):
            connection.execute(sa.text("SELECT CAST('x' AS INTEGER)")).all()
        with pytest.raises(sa.exc.NotSupportedError):
            connection.execute(sa.text("USE memory"))


def test_the_engine_shares_the_database_that_is_open(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        engine = sa.create_engine(f"ivm:///{path}")
        with engine.begin() as connection:
            connection.execute(sa.text("INSERT INTO t VALUES (1)"))
        assert db.execute("FROM t").fetchall() == [(1,)]
        engine.dispose()
        assert db.execute("FROM t").fetchall() == [(1,)]
    engine = sa.create_engine(f"ivm:///{path}?durability=interval&threads=1")
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT a FROM t")) == 1
    with pytest.raises(ivm.OperationalError):
        ivm.connect(path)
    engine.dispose()
    ivm.connect(path).close()


def test_a_database_in_memory() -> None:
    engine = sa.create_engine("ivm://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Customer(name="Ann"))
        session.commit()
    with engine.connect() as connection:
        assert connection.scalar(sa.select(Customer.name)) == "Ann"
    Base.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []
    assert not sa.inspect(engine).has_sequence("customers_id_seq")
    engine.dispose()
