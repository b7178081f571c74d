"""Types and CREATE TABLE between SQLAlchemy and DuckDB."""

from __future__ import annotations

from typing import Any

from sqlalchemy import schema, types
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.sql import compiler

_KINDS: dict[str, type[types.TypeEngine[Any]]] = {
    "BIGINT": types.BigInteger,
    "BIT": types.String,
    "BLOB": types.LargeBinary,
    "BOOLEAN": types.Boolean,
    "DATE": types.Date,
    "DOUBLE": types.Double,
    "FLOAT": types.Float,
    "HUGEINT": types.Numeric,
    "INTEGER": types.Integer,
    "INTERVAL": INTERVAL,
    "JSON": types.JSON,
    "SMALLINT": types.SmallInteger,
    "TIME": types.Time,
    "TIMESTAMP": types.DateTime,
    "TINYINT": types.SmallInteger,
    "UBIGINT": types.Numeric,
    "UHUGEINT": types.Numeric,
    "UINTEGER": types.BigInteger,
    "USMALLINT": types.Integer,
    "UTINYINT": types.SmallInteger,
    "UUID": types.Uuid,
    "VARCHAR": types.String,
}


def type_of(name: str) -> types.TypeEngine[Any]:
    """SQLAlchemy's type for one of DuckDB's; `NullType` for a nested one that it has none for."""
    if name.endswith("[]"):
        return types.ARRAY(type_of(name[:-2]))
    if name.startswith("DECIMAL("):
        precision, scale = name[len("DECIMAL(") : -1].split(",")
        return types.Numeric(int(precision), int(scale))
    if name.startswith("ENUM("):
        return types.String()
    if name.endswith(" WITH TIME ZONE"):
        return types.Time(True) if name.startswith("TIME ") else types.DateTime(True)
    if name.startswith("TIMESTAMP"):
        return types.DateTime()
    return _KINDS.get(name, types.NullType)()


class TypeCompiler(compiler.GenericTypeCompiler):
    """The names of DuckDB's types."""

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return self.process(type_.item_type, **kw) + "[]" * (type_.dimensions or 1)

    def visit_BLOB(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "BLOB"

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "TIMESTAMP WITH TIME ZONE" if type_.timezone else "TIMESTAMP"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "DOUBLE"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "FLOAT" if type_.precision is not None and type_.precision <= 24 else "DOUBLE"

    def visit_JSON(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "JSON"

    def visit_TIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "TIME WITH TIME ZONE" if type_.timezone else "TIME"

    visit_TIMESTAMP = visit_DATETIME  # noqa: N815

    def visit_UUID(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "UUID"

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "INTERVAL"

    def visit_uuid(self, type_: Any, **kw: Any) -> str:
        return "UUID"


class DdlCompiler(compiler.DDLCompiler):
    """CREATE and DROP TABLE; a key that counts by itself gets a sequence beside the table."""

    def get_column_specification(self, column: Any, **kwargs: Any) -> str:
        text = super().get_column_specification(column, **kwargs)
        sequence = self._sequence(column.table)
        if sequence is None or column is not column.table._autoincrement_column:
            return text
        return f"{text} DEFAULT nextval('{sequence}')"

    def visit_create_table(self, create: Any, **kw: Any) -> str:
        sequence = self._sequence(create.element)
        before = "" if sequence is None else f"CREATE SEQUENCE IF NOT EXISTS {sequence};"
        return before + str(super().visit_create_table(create, **kw))  # type: ignore[no-untyped-call]

    def visit_drop_table(self, drop: Any, **kw: Any) -> str:
        sequence = self._sequence(drop.element)
        after = "" if sequence is None else f";\nDROP SEQUENCE IF EXISTS {sequence}"
        return str(super().visit_drop_table(drop, **kw)) + after  # type: ignore[no-untyped-call]

    def _sequence(self, table: Any) -> str | None:
        """The quoted name of a table's sequence; None if it needs none."""
        column = table._autoincrement_column
        if column is None or column.server_default is not None or column.default is not None:
            return None
        name = schema.Sequence(f"{table.name}_{column.name}_seq", schema=table.schema)
        return self.preparer.format_sequence(name)
