"""Records as rows of tables: ``SqlSink``, with the settings of the JDBC sink connector.

With ``insert.mode=upsert`` a record that comes twice, as after a kill, is one row.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pkafka.connect.config_def import ConfigType, ConfigValue, Importance
from pkafka.connect.config_validators import in_range, one_of
from pkafka.connect.connector import SinkConnector, SinkTask
from pkafka.connect.connectors.sql_tables import column_type, column_value, connection_config, open_engine
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import ConnectError, DataError, RetriableError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

_INSERT, _UPSERT, _UPDATE = "insert", "upsert", "update"
_NONE, _KAFKA, _KEY, _VALUE = "none", "kafka", "record_key", "record_value"
_PLACE: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
_CONFIG: Final = (
    connection_config()
    .define("insert.mode", ConfigType.STRING, _INSERT, one_of(_INSERT, _UPSERT, _UPDATE), Importance.HIGH,
            "insert, upsert (insert, or update the row of the key) or update.")
    .define("pk.mode", ConfigType.STRING, _NONE, one_of(_NONE, _KAFKA, _KEY, _VALUE), Importance.HIGH,
            "Where the key of a row comes from: none, kafka (topic, partition and offset), record_key or record_value.")
    .define("pk.fields", ConfigType.LIST, "", None, Importance.MEDIUM,
            "The columns of the key; left out: all fields of the key or the value.")
    .define("table.name.format", ConfigType.STRING, "${topic}", None, Importance.MEDIUM, "The table of a topic.")
    .define("fields.whitelist", ConfigType.LIST, "", None, Importance.MEDIUM,
            "The fields of values to write; left out: all.")
    .define("auto.create", ConfigType.BOOLEAN, False, None, Importance.MEDIUM,
            "Whether a table that is missing is created.")
    .define("auto.evolve", ConfigType.BOOLEAN, False, None, Importance.MEDIUM,
            "Whether columns that are missing are added.")
    .define("delete.enabled", ConfigType.BOOLEAN, False, None, Importance.MEDIUM,
            "Whether a record without a value deletes the row of its key; pk.mode has to be record_key.")
    .define("max.retries", ConfigType.INT, 10, in_range(0), Importance.MEDIUM,
            "How often records are written again when the database does not answer.")
    .define("retry.backoff.ms", ConfigType.INT, 3000, in_range(0), Importance.MEDIUM, "The pause before that.")
)  # fmt: skip


class SqlSinkTask(SinkTask):
    """Writes rows, those of one ``put`` in one transaction."""

    JAVA_NAME = "io.confluent.connect.jdbc.sink.JdbcSinkTask"

    def start(self, configs: Mapping[str, str]) -> None:
        """Open the database.

        Raises:
            ConnectError: it cannot be opened.
        """
        self._parsed = _CONFIG.parse(configs)
        self._engine = open_engine(self._parsed)
        self._tables: dict[str, _TableWriter] = {}
        self._failures = 0

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records.

        Raises:
            RetriableError: the database does not answer for now.
            DataError: a constraint or a column forbids one of the rows; none is written.
            ConnectError: it refuses the rows for another reason.
        """
        from sqlalchemy.exc import DataError as ValueRefusedError
        from sqlalchemy.exc import (
            DBAPIError,
            IntegrityError,
            InterfaceError,
            OperationalError,
            SQLAlchemyError,
        )

        if not records:
            return
        try:
            with self._engine.begin() as connection:
                for record in records:
                    self._write(connection, record)
        except (OperationalError, InterfaceError) as error:
            self._tables.clear()
            self._failures += 1
            if self._failures > self._parsed["max.retries"]:
                raise ConnectError(f"The rows were not written in {self._failures} tries: {error}") from error
            self.context.timeout(self._parsed["retry.backoff.ms"])
            raise RetriableError(f"The rows are not written for now: {error}") from error
        except (IntegrityError, ValueRefusedError) as error:
            self._tables.clear()
            raise DataError(f"The database refuses the rows: {error}") from error
        except (DBAPIError, SQLAlchemyError) as error:
            self._tables.clear()
            raise ConnectError(f"The database refuses the rows: {error}") from error
        self._failures = 0

    def stop(self) -> None:
        """Close the connections."""
        engine = getattr(self, "_engine", None)
        if engine is not None:
            engine.dispose()

    def _write(self, connection: "Connection", record: SinkRecord) -> None:
        """Write one record; one that no row can be made of is reported, if errors are tolerated."""
        try:
            self._writer(record).write(connection, record)
        except DataError as error:
            reporter = self.context.errant_records
            if reporter is None:
                raise
            reporter.report(record, error)

    def _writer(self, record: SinkRecord) -> "_TableWriter":
        name = self._parsed["table.name.format"].replace("${topic}", record.topic or "")
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = _TableWriter(self._engine, name, self._parsed)
        return found


class _TableWriter:
    """Writes the rows of one table."""

    def __init__(self, engine: "Engine", name: str, parsed: Mapping[str, Value]) -> None:
        self._engine = engine
        self._name = name
        self._parsed = parsed
        self._table: Table | None = None

    def write(self, connection: "Connection", record: SinkRecord) -> None:
        """Write, or delete, the row of a record."""
        keys = self._key_of(record)
        if record.value is None:
            self._delete(connection, record, keys)
            return
        fields = self._fields_of(record)
        columns = {**keys, **fields}
        table = self._ready(connection, columns, list(keys))
        row = {name: column_value(schema, value) for name, (schema, value) in columns.items()}
        mode = self._parsed["insert.mode"]
        if mode == _INSERT:
            connection.execute(table.insert(), row)
        elif mode == _UPDATE:
            connection.execute(table.update().where(*_same_key(table, row, keys)).values(row))
        else:
            self._upsert(connection, table, row, list(keys))

    def _upsert(self, connection: "Connection", table: "Table", row: dict[str, Any], keys: list[str]) -> None:
        rest = {name: value for name, value in row.items() if name not in keys}
        dialect = self._engine.dialect.name
        if dialect in ("sqlite", "postgresql"):
            insert: Any
            if dialect == "sqlite":
                from sqlalchemy.dialects.sqlite import insert
            else:
                from sqlalchemy.dialects.postgresql import insert
            statement = insert(table).values(row)
            if rest:
                connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=rest))
            else:
                connection.execute(statement.on_conflict_do_nothing(index_elements=keys))
            return
        # Any other database: the transaction makes one step of these two.
        connection.execute(table.delete().where(*_same_key(table, row, keys)))
        connection.execute(table.insert(), row)

    def _delete(
        self, connection: "Connection", record: SinkRecord, keys: Mapping[str, tuple[Schema, Value]]
    ) -> None:
        if not self._parsed["delete.enabled"]:
            raise DataError(
                f"The record at offset {record.offset} of {record.topic}-{record.partition} has no value, and"
                " delete.enabled is off"
            )
        table = self._ready(connection, dict(keys), list(keys))
        row = {name: column_value(schema, value) for name, (schema, value) in keys.items()}
        connection.execute(table.delete().where(*_same_key(table, row, keys)))

    # -- columns of a record --

    def _key_of(self, record: SinkRecord) -> dict[str, tuple[Schema, Value]]:
        mode, names = self._parsed["pk.mode"], self._parsed["pk.fields"]
        if mode == _NONE:
            return {}
        if mode == _KAFKA:
            place = (record.original_topic, record.original_partition, record.original_offset)
            schemas = (Schema.STRING, Schema.INT32, Schema.INT64)
            return dict(zip(names or _PLACE, zip(schemas, place, strict=True), strict=True))
        if mode == _KEY:
            if record.key_schema is None or record.key is None:
                raise DataError(
                    f"pk.mode is record_key, and the record at offset {record.offset} has no key with a schema"
                )
            if record.key_schema.type is not Type.STRUCT:
                if len(names) != 1:
                    raise DataError("A key that is no struct needs one name in pk.fields")
                return {names[0]: (record.key_schema, record.key)}
            return _fields(record.key, names)
        return _fields(_struct(record), names)

    def _fields_of(self, record: SinkRecord) -> dict[str, tuple[Schema, Value]]:
        return _fields(_struct(record), self._parsed["fields.whitelist"])

    # -- the table --

    def _ready(
        self, connection: "Connection", columns: Mapping[str, tuple[Schema, Value]], keys: Sequence[str]
    ) -> "Table":
        """The table, with all columns."""
        if self._table is None:
            found = self._found(connection)
            self._table = self._created(connection, columns, keys) if found is None else found
        missing = [name for name in columns if name not in self._table.columns]
        if missing:
            self._table = self._evolved(connection, columns, missing)
        return self._table

    def _found(self, connection: "Connection") -> "Table | None":
        from sqlalchemy import MetaData, Table
        from sqlalchemy.exc import NoSuchTableError

        try:
            return Table(self._name, MetaData(), autoload_with=connection)
        except NoSuchTableError:
            return None

    def _created(
        self, connection: "Connection", columns: Mapping[str, tuple[Schema, Value]], keys: Sequence[str]
    ) -> "Table":
        from sqlalchemy import Column, MetaData, Table

        if not self._parsed["auto.create"]:
            raise ConnectError(f"The table {self._name} is missing, and auto.create is off")
        made = [
            Column(
                name,
                column_type(schema),
                primary_key=name in keys,
                nullable=schema.optional,
                autoincrement=False,
            )
            for name, (schema, _value) in columns.items()
        ]
        table = Table(self._name, MetaData(), *made)
        table.create(connection, checkfirst=True)
        return table

    def _evolved(
        self, connection: "Connection", columns: Mapping[str, tuple[Schema, Value]], missing: Sequence[str]
    ) -> "Table":
        from sqlalchemy import Column
        from sqlalchemy.schema import CreateColumn

        if not self._parsed["auto.evolve"]:
            raise ConnectError(
                f"The table {self._name} lacks the columns {', '.join(missing)}, and auto.evolve is off"
            )
        assert self._table is not None
        prepare = connection.dialect.identifier_preparer
        for name in missing:
            schema, _value = columns[name]
            if not schema.optional:
                raise ConnectError(
                    f"The column {name} cannot be added to {self._name}: old rows have no value for it"
                )
            compiled = CreateColumn(Column(name, column_type(schema))).compile(dialect=connection.dialect)
            connection.exec_driver_sql(
                f"ALTER TABLE {prepare.format_table(self._table)} ADD COLUMN {compiled}"
            )
        found = self._found(connection)
        assert found is not None
        return found


def _struct(record: SinkRecord) -> Struct:
    if not isinstance(record.value, Struct):
        raise DataError(
            f"The value at offset {record.offset} of {record.topic}-{record.partition} is no struct: rows need records"
            " with a schema, as JsonConverter reads them with schemas.enable"
        )
    return record.value


def _fields(struct: Struct, names: Sequence[str]) -> dict[str, tuple[Schema, Value]]:
    fields = {field.name: field for field in struct.schema.fields}
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise DataError(f"The record has no field {', '.join(unknown)}; it has {', '.join(fields)}")
    return {name: (fields[name].schema, struct.get(name)) for name in names or fields}


def _same_key(
    table: "Table", row: Mapping[str, Any], keys: Mapping[str, object] | Sequence[str]
) -> list[Any]:
    return [table.columns[name] == row[name] for name in keys]


class SqlSinkConnector(SinkConnector):
    """``SqlSink``: records as rows."""

    JAVA_NAME = "io.confluent.connect.jdbc.JdbcSinkConnector"
    CONFIG = _CONFIG
    task_class = SqlSinkTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._configs = dict(configs)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """As many as are allowed."""
        return [self._configs] * tasks_max

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """Look at settings, also at those that go together."""
        values = _CONFIG.validate(configs)
        found = {each.name: each for each in values}
        mode = found["pk.mode"].value
        if found["insert.mode"].value in (_UPSERT, _UPDATE) and mode == _NONE:
            found["pk.mode"].errors.append(
                f"insert.mode={found['insert.mode'].value} needs a key: pk.mode has to be kafka, record_key or"
                " record_value"
            )
        if found["delete.enabled"].value and mode != _KEY:
            found["delete.enabled"].errors.append("Deletes are only supported for pk.mode record_key")
        return values

    def can_repeat_put(self, configs: Mapping[str, str]) -> bool:
        """All rows of a ``put`` are one transaction, so one that fails leaves nothing behind."""
        return True

    def alter_offsets(self, _configs: object, _offsets: object) -> bool:
        """Take any: a consumer reads from wherever it is told."""
        return True
