"""Tables of a database as Connect's schemas, and the other way round; on SQLAlchemy, which knows the dialects."""

import datetime
import decimal
import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance, Password
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp
from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import ConnectError, DataError

if TYPE_CHECKING:
    from sqlalchemy import Column, Engine, FromClause, RowMapping, Table

_JDBC: Final = "jdbc:"
_POSTGRES: Final = "postgresql:"
_EPOCH_DAY: Final = datetime.date(1970, 1, 1)
_QUERY: Final = "pkafka_query"
_MAYBE_PARAMETER: Final = re.compile(r"(?<!:):(?=\w)")
"""What SQLAlchemy may take for a parameter, but not the two colons of a cast."""


def connection_config() -> ConfigDef:
    """The settings by which a connector finds its database, under the names of the JDBC connectors."""
    return (
        ConfigDef()
        .define("connection.url", ConfigType.STRING, importance=Importance.HIGH,
                documentation="The database: a URL of SQLAlchemy (sqlite:///file, postgresql+psycopg://host/db) or of"
                " JDBC (jdbc:sqlite:file, jdbc:postgresql://host/db).")
        .define("connection.user", ConfigType.STRING, None, None, Importance.HIGH, "The user, unless the URL has one.")
        .define("connection.password", ConfigType.PASSWORD, None, None, Importance.HIGH,
                "The password, unless the URL has one.")
    )  # fmt: skip


def open_engine(parsed: Mapping[str, Value]) -> "Engine":
    """Connections to the database of a configuration.

    Raises:
        ConnectError: SQLAlchemy or the driver of the database is not installed, or the URL is none.
    """
    try:
        from sqlalchemy import create_engine, event
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    except ImportError as error:
        raise ConnectError("SQL connectors need SQLAlchemy: pip install 'pkafka[sql]'") from error
    try:
        url = _url(parsed["connection.url"], parsed["connection.user"], parsed["connection.password"])
        engine = create_engine(url, pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise ConnectError(f"connection.url is no URL of a database that is known here: {error}") from error
    except ImportError as error:
        raise ConnectError(f"The driver of the database is not installed: {error}") from error
    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", _use_utc)
    return engine


def _use_utc(connection: Any, _record: object) -> None:  # noqa: ANN401 - of the driver
    """Have PostgreSQL take times without a zone for UTC, as Connect means them, whatever its own zone is."""
    before = connection.autocommit
    connection.autocommit = True  # what a transaction sets, its end takes back
    with connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'UTC'")
    connection.autocommit = before


def _url(text: str, user: str | None, password: Password | None) -> Any:  # noqa: ANN401 - SQLAlchemy's URL
    from sqlalchemy import make_url

    if text.startswith(_JDBC):
        text = text.removeprefix(_JDBC)
        if text.startswith("sqlite:") and not text.startswith("sqlite://"):
            text = f"sqlite:///{text.removeprefix('sqlite:')}"
        elif text.startswith(_POSTGRES) and find_spec("psycopg") is not None:
            text = (
                f"postgresql+psycopg:{text.removeprefix(_POSTGRES)}"  # else SQLAlchemy's own choice, psycopg2
            )
    url = make_url(text)
    if user is not None:
        url = url.set(username=user)
    if password is not None:
        url = url.set(password=password.value)
    return url


# -- queries --


def rows_of_query(engine: "Engine", query: str) -> "tuple[FromClause, Table]":
    """The rows of a query, to select from, and a table with their columns.

    The database describes them itself: as a view of this connection alone, which is dropped at once.

    Raises:
        SQLAlchemyError: the database refuses the query, or has no temporary views.
    """
    from sqlalchemy import MetaData, Table, column, text

    query = query.strip().rstrip(";")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE TEMPORARY VIEW {_QUERY} AS {_without_places(engine, query)}")
        table = Table(_QUERY, MetaData(), autoload_with=connection, info={"dialect": engine.dialect.name})
        connection.exec_driver_sql(f"DROP VIEW {_QUERY}")
    columns = [column(each.name, each.type) for each in table.columns]
    escaped = _MAYBE_PARAMETER.sub(r"\\:", query)
    return text(escaped).columns(*columns).subquery(_QUERY), table


def _without_places(engine: "Engine", query: str) -> str:
    """A query for a driver that takes ``%`` for the place of a parameter."""
    return query.replace("%", "%%") if engine.dialect.paramstyle in ("format", "pyformat") else query


# -- rows to structs --


def schema_of_table(table: "Table", name: str) -> Schema:
    """The schema of a table's rows."""
    builder = SchemaBuilder.struct().name(name)
    for column in table.columns:
        builder.field(column.name, schema_of_column(column))
    return builder.build()


def schema_of_column(column: "Column[Any]") -> Schema:
    """The schema of a column; a type that has none in Connect becomes text, also numbers with any count of decimals."""
    from sqlalchemy import types

    kind = column.type
    if isinstance(kind, types.Boolean):
        builder = SchemaBuilder.bool()
    elif isinstance(kind, types.SmallInteger):
        builder = SchemaBuilder.int16()
    elif isinstance(kind, types.BigInteger):
        builder = SchemaBuilder.int64()
    elif isinstance(kind, types.Integer):
        # SQLite has integers of 64 bits under this name.
        builder = SchemaBuilder.int64() if _is_sqlite(column) else SchemaBuilder.int32()
    elif isinstance(kind, types.Float):
        builder = SchemaBuilder.float64()
    elif isinstance(kind, types.Numeric) and kind.scale is not None:
        builder = Decimal.builder(kind.scale)
    elif isinstance(kind, types.DateTime):
        builder = Timestamp.builder()
    elif isinstance(kind, types.Date):
        builder = Date.builder()
    elif isinstance(kind, types.Time):
        builder = Time.builder()
    elif isinstance(kind, types.LargeBinary):
        builder = SchemaBuilder.bytes()
    else:
        builder = SchemaBuilder.string()
    return (builder.optional() if column.nullable else builder).build()


def _is_sqlite(column: "Column[Any]") -> bool:
    return type(column.type).__module__.startswith("sqlalchemy.dialects.sqlite") or (
        column.table is not None and column.table.info.get("dialect") == "sqlite"
    )


def struct_of_row(schema: Schema, row: "RowMapping") -> Struct:
    """A row as a struct.

    Raises:
        DataError: a value does not fit its column.
    """
    struct = Struct(schema)
    for field in schema.fields:
        struct.put(field, _value_of(field.schema, row[field.name]))
    return struct


def _value_of(schema: Schema, value: Any) -> Value:  # noqa: ANN401 - what the driver gives
    if value is None:
        return None
    if isinstance(value, datetime.datetime) and schema.type is not Type.STRING:
        return value.astimezone(datetime.UTC) if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    if isinstance(value, datetime.time):
        return datetime.datetime.combine(_EPOCH_DAY, value.replace(tzinfo=datetime.UTC))
    if isinstance(value, decimal.Decimal):
        if schema.type is Type.FLOAT64:
            return float(value)
        if schema.type is Type.STRING:
            return format(value.normalize(), "f")
        scale = int((schema.parameters or {}).get("scale", "0"))
        return value.quantize(decimal.Decimal(1).scaleb(-scale))
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if schema.type is Type.FLOAT64 and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if schema.type is Type.STRING and isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if schema.type is Type.STRING and not isinstance(value, str):
        return str(value)
    return value


# -- structs to columns --


def column_type(schema: Schema) -> Any:  # noqa: ANN401 - a type of SQLAlchemy
    """The type of a column for values of a schema.

    Raises:
        DataError: tables have no such values.
    """
    from sqlalchemy import types

    if schema.name == Decimal.LOGICAL_NAME:
        return types.Numeric(38, int((schema.parameters or {}).get("scale", "0")))
    found: Any = {
        Timestamp.LOGICAL_NAME: types.DateTime,
        Date.LOGICAL_NAME: types.Date,
        Time.LOGICAL_NAME: types.Time,
    }.get(schema.name or "") or {
        Type.INT8: types.SmallInteger,
        Type.INT16: types.SmallInteger,
        Type.INT32: types.Integer,
        Type.INT64: types.BigInteger,
        Type.FLOAT32: types.Float,
        Type.FLOAT64: types.Double,
        Type.BOOLEAN: types.Boolean,
        Type.STRING: types.Text,
        Type.BYTES: types.LargeBinary,
    }.get(schema.type)
    if found is None:
        raise DataError(
            f"A column cannot have values of the schema {schema}; flatten the record first (Flatten)"
        )
    return found()


def column_value(schema: Schema, value: Value) -> Any:  # noqa: ANN401 - what the driver takes
    """A value as a driver takes it."""
    if value is None:
        return None
    if schema.name == Date.LOGICAL_NAME:
        return value.date()
    if schema.name == Time.LOGICAL_NAME:
        return value.time()
    if schema.name == Timestamp.LOGICAL_NAME:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, float) else value
