"""Records as files: ``FilesSink``, lines of JSON or Parquet, in a directory, in S3, or wherever fsspec writes.

A file is named by topic, partition and the offset of its first record, and its offsets are committed when it is
written. A task that reads records again, after a kill, writes over what was written; files that begin inside a new one,
which another rotation has left, are deleted. So each record is in one file.
"""

import json
import logging
import re
import time
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pkafka.connect.config_class import config_def_of, read_settings, setting
from pkafka.connect.config_def import ConfigType, ConfigValue, Importance, Password
from pkafka.connect.config_validators import in_range, non_empty, one_of
from pkafka.connect.connector import SinkConnector, SinkTask
from pkafka.connect.connectors.file_buffers import Encoded, FileOfRecords, PartitionFiles, Rotation
from pkafka.connect.connectors.file_formats import COMPRESSIONS, JSON, PARQUET, format_of
from pkafka.connect.connectors.file_store import FileStore
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.offsets import OffsetAndMetadata

log = logging.getLogger(__name__)

_IGNORE, _FAIL = "ignore", "fail"
_OFF: Final = -1


def _is_object(name: str, value: Value) -> None:
    try:
        is_object = value is None or isinstance(json.loads(value.value), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise ConfigError.of(name, value, "an object of JSON is expected")


@dataclass(frozen=True)
class FilesSettings:
    """The settings of :class:`FilesSinkConnector`."""

    url: str = setting(
        "files.url",
        "Where files are written: a directory, or a URL that fsspec knows, as s3://bucket/prefix.",
        validator=non_empty,
        importance=Importance.HIGH,
    )
    format: str = setting(
        "format",
        "What files are: lines of JSON (json), or Parquet (parquet), which needs records with a schema.",
        default=JSON,
        validator=one_of(JSON, PARQUET),
        importance=Importance.HIGH,
    )
    compression: str = setting(
        "compression",
        "How files are compressed: none or gzip for JSON, none, snappy, gzip or zstd for Parquet; left out: none for"
        " JSON, snappy for Parquet.",
        default="",
    )
    records: int = setting(
        "rotate.records",
        "How many records a file has at most. They are in memory until it is written.",
        default=10_000,
        validator=in_range(1),
    )
    size_bytes: int = setting(
        "rotate.bytes",
        "How many bytes of records, about, a file has at most, before it is compressed.",
        default=64 * 1024 * 1024,
        validator=in_range(1),
    )
    interval_ms: int = setting(
        "rotate.interval.ms",
        "A record whose time is so much later than that of the first one in a file begins another; -1: none does.",
        type=ConfigType.LONG,
        default=_OFF,
        validator=in_range(_OFF),
    )
    wait_ms: int = setting(
        "rotate.wait.ms",
        "How long after its first record has come a file is written at the latest; -1: it waits until it is full.",
        type=ConfigType.LONG,
        default=300_000,
        validator=in_range(_OFF),
    )
    on_null: str = setting(
        "behavior.on.null.values",
        "What becomes of a record without a value: ignore, or fail (a dead letter, if errors are tolerated).",
        default=_IGNORE,
        validator=one_of(_IGNORE, _FAIL),
    )
    endpoint: str | None = setting(
        "s3.endpoint.url", "For S3: the server, if it is not Amazon's.", default=None
    )
    region: str | None = setting("s3.region", "For S3: the region.", default=None)
    key: str | None = setting(
        "s3.access.key", "For S3: the access key; left out: as boto3 finds credentials.", default=None
    )
    secret: Password | None = setting("s3.secret.key", "For S3: its secret.", default=None)
    options: Password | None = setting(
        "storage.options",
        "More options of fsspec's file system, as an object of JSON.",
        default=None,
        validator=_is_object,
        importance=Importance.LOW,
    )
    retries: int = setting(
        "max.retries",
        "How often a file is written again before the task fails.",
        default=10,
        validator=in_range(0),
    )
    backoff_ms: int = setting(
        "retry.backoff.ms", "How long to wait before that.", default=3000, validator=in_range(0)
    )


CONFIG: Final = config_def_of(FilesSettings)


class FilesSinkTask(SinkTask):
    """Gathers records, and writes files that are whole."""

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings.

        Raises:
            ConnectError: a package is missing, or the URL is none.
        """
        self._settings = settings = read_settings(FilesSettings, configs)
        self._format = format_of(settings.format, settings.compression)
        self._store = FileStore(settings.url, _options(settings))
        self._rotation = Rotation(
            settings.records,
            settings.size_bytes,
            None if settings.interval_ms == _OFF else settings.interval_ms,
            None if settings.wait_ms == _OFF else settings.wait_ms,
        )
        self._partitions: dict[TopicPartition, PartitionFiles] = {}
        self._present: dict[TopicPartition, list[int]] = {}
        """The offsets by which files are named that were there before this task wrote any."""
        self._failures = 0

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Forget records that are in no file yet; whoever has the partitions next reads them again."""
        for each in partitions:
            self._partitions.pop(each, None)
            self._present.pop(each, None)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records, and write the files that are whole.

        Raises:
            RetriableError: a file cannot be written for now.
            ConnectError: it could not be for long.
        """
        now_ms = time.monotonic_ns() // 1_000_000
        for record in records:
            at = TopicPartition(str(record.original_topic), record.original_partition or 0)
            files = self._partitions.get(at)
            if files is None:
                files = self._partitions[at] = PartitionFiles(self._rotation, self._encode)
            files.add(record, now_ms)
        try:
            for at, files in self._partitions.items():
                files.look(now_ms)
                while files.whole:
                    self._write(at, files.whole[0])
                    del files.whole[0]
                    self._failures = 0
                    self.context.request_commit()
        except RetriableError as error:
            self._failures += 1
            if self._failures > self._settings.retries:
                raise ConnectError(f"{error}, in {self._failures} tries") from error
            self.context.timeout(self._settings.backoff_ms)
            raise

    def pre_commit(
        self, offsets: "Mapping[TopicPartition, OffsetAndMetadata]"
    ) -> "Mapping[TopicPartition, OffsetAndMetadata]":
        """The offsets up to which records are in files, or left out."""
        return {
            at: offset._replace(offset=self._partitions[at].may_commit(offset.offset))
            if at in self._partitions
            else offset
            for at, offset in offsets.items()
        }

    def stop(self) -> None:
        """Hold nothing: records that are in no file are read again."""

    def _encode(self, record: SinkRecord) -> Encoded | None:
        """A record as the format holds it; None: it is left out, or reported."""
        try:
            if record.value is not None:
                return self._format.encode(record)
            if self._settings.on_null == _FAIL:
                place = f"offset {record.offset} of {record.topic}-{record.partition}"
                raise DataError(f"The record at {place} has no value")
        except DataError as error:
            reporter = self.context.errant_records
            if reporter is None:
                raise
            reporter.report(record, error)
        return None

    def _write(self, at: TopicPartition, file: FileOfRecords) -> None:
        directory = f"{at.topic}/partition={at.partition}"
        prefix = f"{at.topic}+{at.partition}+"
        if at not in self._present:
            self._present[at] = _offsets(self._store.names(directory), prefix, self._format.suffix)
        name = f"{directory}/{prefix}{file.first:020}{self._format.suffix}"
        self._store.write(name, self._format.file(file.schema, file.rows))
        log.info("%d records of %s, from offset %d on, are in %s", len(file.rows), at, file.first, name)
        present = self._present[at]
        while (index := bisect_right(present, file.first)) < len(present) and present[index] <= file.last:
            self._store.remove(f"{directory}/{prefix}{present[index]:020}{self._format.suffix}")
            del present[index]


def _offsets(names: Sequence[str], prefix: str, suffix: str) -> list[int]:
    pattern = re.compile(re.escape(prefix) + r"(\d{20})" + re.escape(suffix), re.ASCII)
    return sorted(int(found[1]) for found in map(pattern.fullmatch, names) if found is not None)


def _options(settings: FilesSettings) -> dict[str, object]:
    options: dict[str, object] = json.loads(settings.options.value) if settings.options is not None else {}
    if settings.url.startswith("s3"):
        client = {"endpoint_url": settings.endpoint, "region_name": settings.region}
        chosen = {name: value for name, value in client.items() if value}
        if chosen:
            options.setdefault("client_kwargs", chosen)
        if settings.key is not None:
            options.setdefault("key", settings.key)
        if settings.secret is not None:
            options.setdefault("secret", settings.secret.value)
    return options


class FilesSinkConnector(SinkConnector):
    """``FilesSink``: records as files."""

    CONFIG = CONFIG
    task_class = FilesSinkTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._configs = dict(configs)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """As many as are allowed."""
        return [self._configs] * tasks_max

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """Look at settings, also at those that go together."""
        values = CONFIG.validate(configs)
        found = {each.name: each for each in values}
        compression, allowed = found["compression"], COMPRESSIONS.get(str(found["format"].value))
        if compression.value and allowed is not None and compression.value not in allowed:
            compression.errors.append(f"Files of {found['format'].value} can be {', '.join(allowed)}.")
        return values

    def alter_offsets(self, _configs: object, _offsets: object) -> bool:
        """Take any: a consumer reads from wherever it is told."""
        return True
