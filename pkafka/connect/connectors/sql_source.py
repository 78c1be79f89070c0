"""Rows of tables as records: ``SqlSource``, with the settings and the offsets of the JDBC source connector.

A mode says which rows are new: all (``bulk``), those with a greater number (``incrementing``), those that changed later
(``timestamp``), or both (``timestamp+incrementing``).
"""

import datetime
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pkafka.connect.config_def import ConfigType, ConfigValue, Importance
from pkafka.connect.config_validators import in_range, one_of
from pkafka.connect.connector import SourceConnector, SourceTask
from pkafka.connect.connectors.sql_tables import (
    connection_config,
    open_engine,
    rows_of_query,
    schema_of_table,
    struct_of_row,
)
from pkafka.connect.data.logical import from_millis, to_millis
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConnectError, RetriableError

if TYPE_CHECKING:
    from sqlalchemy import Engine, FromClause, RowMapping, Select

    from pkafka.connect.data.schema import Schema

_BULK, _INCREMENTING, _TIMESTAMP = "bulk", "incrementing", "timestamp"
_BOTH: Final = "timestamp+incrementing"
_TABLES: Final = "tables"
_QUERY_PARTITION: Final = {"query": "query"}
"""Under which the offset of a query is kept."""
_CONFIG: Final = (
    connection_config()
    .define("mode", ConfigType.STRING, "", one_of("", _BULK, _INCREMENTING, _TIMESTAMP, _BOTH), Importance.HIGH,
            "Which rows are new: bulk, incrementing, timestamp, or timestamp+incrementing.")
    .define("incrementing.column.name", ConfigType.STRING, "", None, Importance.MEDIUM,
            "The column that grows with every new row; left out: the table's only key.")
    .define("timestamp.column.name", ConfigType.STRING, "", None, Importance.MEDIUM,
            "The column that has the time of a row's last change.")
    .define("table.whitelist", ConfigType.LIST, "", None, Importance.MEDIUM, "The tables to read; left out: all.")
    .define("table.blacklist", ConfigType.LIST, "", None, Importance.MEDIUM, "Tables not to read.")
    .define("query", ConfigType.STRING, "", None, Importance.MEDIUM,
            "A SELECT whose rows are read in place of tables; the mode's conditions are put around it.")
    .define("topic.prefix", ConfigType.STRING, importance=Importance.HIGH,
            documentation="What stands before the name of a table in the name of its topic; with query: the topic.")
    .define("poll.interval.ms", ConfigType.INT, 5000, in_range(0), Importance.HIGH,
            "How often a table is asked for new rows.")
    .define("batch.max.rows", ConfigType.INT, 100, in_range(1), Importance.LOW, "How many rows one poll gives at most.")
    .define("timestamp.delay.interval.ms", ConfigType.LONG, 0, in_range(0), Importance.HIGH,
            "How old a change has to be before it is read, so that transactions that end late are not missed.")
)  # fmt: skip


class SqlSourceTask(SourceTask):
    """Reads some tables, in turns."""

    JAVA_NAME = "io.confluent.connect.jdbc.source.JdbcSourceTask"

    def start(self, configs: Mapping[str, str]) -> None:
        """Look at the tables, and go on where an earlier task stopped.

        Raises:
            ConnectError: the database cannot be reached, or a table lacks the columns of the mode.
        """
        from sqlalchemy.exc import SQLAlchemyError

        self._parsed = _CONFIG.parse(configs)
        self._engine = open_engine(self._parsed)
        self._readers: list[_TableReader] = []
        try:
            if self._parsed["query"]:
                self._readers.append(self._reader_of_query(self._parsed["query"]))
            for name in (each for each in configs.get(_TABLES, "").split(",") if each):
                self._readers.append(self._reader_of_table(name))
        except SQLAlchemyError as error:
            self._engine.dispose()
            what = "query" if self._parsed["query"] else "tables"
            raise ConnectError(f"The {what} cannot be looked at: {error}") from error

    def _reader_of_table(self, name: str) -> "_TableReader":
        from sqlalchemy import MetaData, Table

        dialect = self._engine.dialect.name
        table = Table(name, MetaData(), autoload_with=self._engine, info={"dialect": dialect})
        topic = self._parsed["topic.prefix"] + name
        return self._reader(table, schema_of_table(table, name), topic, {"protocol": "1", "table": name})

    def _reader_of_query(self, query: str) -> "_TableReader":
        topic = self._parsed["topic.prefix"]
        rows, table = rows_of_query(self._engine, query)
        return self._reader(rows, schema_of_table(table, topic), topic, _QUERY_PARTITION)

    def _reader(
        self, rows: "FromClause", schema: "Schema", topic: str, partition: Mapping[str, Value]
    ) -> "_TableReader":
        stored = self.context.offset_reader.offset(partition) or {}
        return _TableReader(self._engine, rows, schema, topic, self._parsed, partition, stored)

    def poll(self) -> Sequence[SourceRecord] | None:
        """New rows of the table whose turn it is.

        Raises:
            RetriableError: the database does not answer for now.
        """
        from sqlalchemy.exc import DBAPIError

        if not self._readers:
            self.context.wait(1.0)
            return None
        reader = min(self._readers, key=lambda each: each.due_s)
        pause_s = reader.due_s - time.monotonic()
        if pause_s > 0 and self.context.wait(min(pause_s, 1.0)):
            return None
        if reader.due_s > time.monotonic():
            return None
        try:
            return reader.read()
        except DBAPIError as error:
            reader.due_s = time.monotonic() + self._parsed["poll.interval.ms"] / 1000
            raise RetriableError(f"The table {reader.name} cannot be read for now: {error}") from error

    def stop(self) -> None:
        """Close the connections."""
        engine = getattr(self, "_engine", None)
        if engine is not None:
            engine.dispose()


class _TableReader:
    """Reads one table, or the rows of a query.

    Args:
        partition: under which its offsets are stored.
        stored: where an earlier task stopped.
    """

    def __init__(
        self,
        engine: "Engine",
        table: "FromClause",
        schema: "Schema",
        topic: str,
        parsed: Mapping[str, Value],
        partition: Mapping[str, Value],
        stored: Mapping[str, Value],
    ) -> None:
        self._engine = engine
        self._table = table
        self.name: str = getattr(table, "name", topic)
        self._schema = schema
        self._topic = topic
        self._partition = partition
        self._interval_s = parsed["poll.interval.ms"] / 1000
        self._rows_max: int = parsed["batch.max.rows"]
        self._delay_ms: int = parsed["timestamp.delay.interval.ms"]
        mode = parsed["mode"]
        self._number = (
            self._column(parsed["incrementing.column.name"], mode, _INCREMENTING) if "incr" in mode else None
        )
        self._changed = (
            self._column(parsed["timestamp.column.name"], mode, _TIMESTAMP) if "time" in mode else None
        )
        self._last: int | None = stored.get("incrementing")
        nanos = stored.get("timestamp_nanos")
        self._last_ms: int | None = stored.get("timestamp")
        self._last_us = 0 if nanos is None else nanos // 1000 % 1000
        self._bulk: list[SourceRecord] = []
        self.due_s = time.monotonic()

    def _column(self, name: str, mode: str, kind: str) -> Any:  # noqa: ANN401 - a column of SQLAlchemy
        if not name and kind == _INCREMENTING:
            keys: list[Any] = list(self._table.primary_key)
            if len(keys) != 1:
                raise ConnectError(
                    f"The table {self.name} has {len(keys)} columns of a key: incrementing.column.name has to say"
                    " which one grows"
                )
            return keys[0]
        if name not in self._table.columns:
            raise ConnectError(f"The table {self.name} has no column {name!r}, which the mode {mode} needs")
        return self._table.columns[name]

    def read(self) -> list[SourceRecord] | None:
        """The next rows; None: there are none for now."""
        if self._number is None and self._changed is None:
            return self._read_all()
        with self._engine.connect() as connection:
            rows = connection.execute(self._query()).mappings().all()
        if len(rows) < self._rows_max:
            self.due_s = time.monotonic() + self._interval_s
        records = [self._record(row) for row in rows]
        return records or None

    def _read_all(self) -> list[SourceRecord] | None:
        if not self._bulk:
            with self._engine.connect() as connection:
                rows = connection.execute(self._table.select()).mappings().all()
            self._bulk = [self._made(row, None) for row in rows]
        taken, self._bulk = self._bulk[: self._rows_max], self._bulk[self._rows_max :]
        if not self._bulk:
            self.due_s = time.monotonic() + self._interval_s
        return taken or None

    def _query(self) -> "Select[Any]":
        from sqlalchemy import and_, or_

        query = self._table.select()
        number, changed = self._number, self._changed
        if changed is not None:
            end = datetime.datetime.now(datetime.UTC) - datetime.timedelta(milliseconds=self._delay_ms)
            query = query.where(changed.is_not(None), changed <= self._for_column(end))
        if number is not None and changed is None:
            if self._last is not None:
                query = query.where(number > self._last)
            return query.order_by(number).limit(self._rows_max)
        assert changed is not None
        if self._last_ms is not None:
            last = self._last_change()
            later = changed > last
            if number is not None and self._last is not None:
                later = or_(later, and_(changed == last, number > self._last))
            query = query.where(later)
        return query.order_by(changed, *([] if number is None else [number])).limit(self._rows_max)

    def _last_change(self) -> datetime.datetime:
        assert self._last_ms is not None
        return self._for_column(from_millis(self._last_ms) + datetime.timedelta(microseconds=self._last_us))

    def _for_column(self, moment: datetime.datetime) -> datetime.datetime:
        """A moment as the column has it: with a zone, or without, which is read as UTC."""
        assert self._changed is not None
        has_zone = getattr(self._changed.type, "timezone", False)
        return moment if has_zone else moment.replace(tzinfo=None)

    def _record(self, row: "RowMapping") -> SourceRecord:
        offset: dict[str, Value] = {}
        if self._number is not None:
            offset["incrementing"] = self._last = int(row[self._number.name])
        if self._changed is not None:
            at = row[self._changed.name]
            if not isinstance(at, datetime.datetime):
                raise ConnectError(
                    f"The column {self._changed.name} of {self.name} has no times, but {type(at).__name__}"
                )
            self._last_ms, self._last_us = to_millis(at), at.microsecond % 1000
            offset |= {"timestamp": self._last_ms, "timestamp_nanos": at.microsecond * 1000}
        return self._made(row, offset)

    def _made(self, row: "RowMapping", offset: Mapping[str, Value] | None) -> SourceRecord:
        return SourceRecord(
            self._topic,
            None,
            None,
            None,
            self._schema,
            struct_of_row(self._schema, row),
            source_partition=self._partition,
            source_offset=offset,
        )


class SqlSourceConnector(SourceConnector):
    """``SqlSource``: the rows of tables, which its tasks share among them."""

    JAVA_NAME = "io.confluent.connect.jdbc.JdbcSourceConnector"
    CONFIG = _CONFIG
    task_class = SqlSourceTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Find the tables, or look at the query.

        Raises:
            ConnectError: the database cannot be reached, it refuses the query, or there is no table to read.
        """
        from sqlalchemy import inspect
        from sqlalchemy.exc import SQLAlchemyError

        self._configs = dict(configs)
        parsed = _CONFIG.parse(configs)
        self._tables: list[str] = []
        engine = open_engine(parsed)
        try:
            if parsed["query"]:
                rows_of_query(engine, parsed["query"])
                return
            names = inspect(engine).get_table_names()
        except SQLAlchemyError as error:
            what = (
                "query cannot be looked at" if parsed["query"] else "tables of the database cannot be listed"
            )
            raise ConnectError(f"The {what}: {error}") from error
        finally:
            engine.dispose()
        wanted, unwanted = parsed["table.whitelist"], set(parsed["table.blacklist"])
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ConnectError(
                f"The database has no table {', '.join(missing)}; it has {', '.join(names) or 'none'}"
            )
        self._tables = [name for name in wanted or names if name not in unwanted]

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """The tables, shared out evenly; one task for a query."""
        if self._configs.get("query"):
            return [self._configs]
        count = min(tasks_max, len(self._tables))
        return [{**self._configs, _TABLES: ",".join(self._tables[number::count])} for number in range(count)]

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """Look at settings, also at those that go together."""
        values = _CONFIG.validate(configs)
        found = {each.name: each for each in values}
        if not found["mode"].errors and not found["mode"].value:
            found["mode"].errors.append("Query mode must be specified")
        if "timestamp" in str(found["mode"].value) and not found["timestamp.column.name"].value:
            found["timestamp.column.name"].errors.append(
                "Timestamp column(s) must be specified when using mode 'timestamp' or 'timestamp+incrementing'"
            )
        if found["table.whitelist"].value and found["table.blacklist"].value:
            found["table.blacklist"].errors.append("table.whitelist and table.blacklist are exclusive.")
        self._check_query(found)
        return values

    def _check_query(self, found: Mapping[str, ConfigValue]) -> None:
        query = found["query"]
        if not query.value:
            return
        if found["table.whitelist"].value or found["table.blacklist"].value:
            query.errors.append(
                "query stands in place of tables: leave out table.whitelist and table.blacklist."
            )
        if _INCREMENTING in str(found["mode"].value) and not found["incrementing.column.name"].value:
            found["incrementing.column.name"].errors.append(
                "The rows of a query have no key: name the column that grows."
            )
