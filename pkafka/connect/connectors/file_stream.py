"""Lines of a file as records, and records as lines: ``FileStreamSource`` and ``FileStreamSink``.

The source counts bytes of the file. Java's counts characters as it reads and skips bytes when it starts again, so that
it goes wrong in texts that are not ASCII; where a file is ASCII, either goes on where the other stopped.
"""

import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, ClassVar, Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import non_empty
from pkafka.connect.connector import (
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourcePlace,
    SourceTask,
    check_offset_number,
)
from pkafka.connect.data.headers import Headers
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.records import SinkRecord, SourceRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugins import name_of

log = logging.getLogger(__name__)

_FILENAME: Final = "filename"
_POSITION: Final = "position"
_PAUSE_S: Final = 1.0
_CHUNK_BYTES: Final = 256 * 1024
_PACKAGE: Final = "org.apache.kafka.connect.file."


class FileStreamSourceTask(SourceTask):
    """Reads the lines of a file, those that are appended too; or of the standard input."""

    JAVA_NAME: ClassVar[str] = _PACKAGE + "FileStreamSourceTask"

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._file: IO[bytes] | None = None
        self._pending = b""
        self._position = 0
        """Of the first byte of ``_pending`` in the file."""

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings; the file is opened by the first poll, and may come later."""
        parsed = FileStreamSourceConnector.CONFIG.parse(configs)
        self._path: str | None = parsed["file"] or None
        self._topic: str = parsed["topic"]
        self._batch: int = parsed["batch.size"]
        if self._path is None:
            self._file = sys.stdin.buffer

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next lines that are whole, at most ``batch.size`` of them."""
        if self._file is None and not self._open():
            self.context.wait(_PAUSE_S)
            return None
        lines = self._lines()
        if not lines:
            self.context.wait(_PAUSE_S)
            return None
        now_ms = int(time.time() * 1000)
        partition = None if self._path is None else {_FILENAME: self._path}
        return [
            SourceRecord(
                self._topic,
                None,
                None,
                None,
                Schema.STRING,
                line.decode("utf-8", "replace"),
                now_ms,
                Headers(),
                partition,
                None if partition is None else {_POSITION: end},
            )
            for line, end in lines
        ]

    def stop(self) -> None:
        """Close the file."""
        self._stopping.set()
        if self._file is not None and self._path is not None:
            self._file.close()

    def _open(self) -> bool:
        assert self._path is not None
        stored = self.context.offset_reader.offset({_FILENAME: self._path})
        position = None if stored is None else stored.get(_POSITION)
        if position is not None and not isinstance(position, int):
            raise ConnectError("Offset position is the incorrect type")
        try:
            self._file = open(self._path, "rb")  # noqa: SIM115 - closed by stop()
        except FileNotFoundError:
            log.warning(
                "Couldn't find file %s for FileStreamSourceTask, sleeping to wait for it to be created",
                self._path,
            )
            return False
        except OSError as error:
            raise ConnectError(f"The file {self._path} cannot be read: {error.strerror}") from error
        self._position = position or 0
        self._file.seek(self._position)
        return True

    def _lines(self) -> list[tuple[bytes, int]]:
        """Whole lines without their ends, each with the position behind it."""
        assert self._file is not None
        lines = self._split()
        while len(lines) < self._batch and not self._stopping.is_set():
            data = self._file.readline(_CHUNK_BYTES) if self._path is None else self._file.read(_CHUNK_BYTES)
            if not data:
                break
            self._pending += data
            lines += self._split(self._batch - len(lines))
            if self._path is None:
                break
        return lines

    def _split(self, most: int | None = None) -> list[tuple[bytes, int]]:
        r"""Take whole lines off what was read. A line ends with \n, \r or \r\n; a last \r may be half of an end."""
        most = self._batch if most is None else most
        if b"\r" not in self._pending:
            return self._split_at_feeds(most)
        found: list[tuple[bytes, int]] = []
        start = 0
        data = self._pending
        while len(found) < most:
            feed, back = data.find(b"\n", start), data.find(b"\r", start)
            at = min((each for each in (feed, back) if each >= 0), default=-1)
            if at < 0 or (at == back and at + 1 == len(data)):
                break
            end = at + 2 if at == back and data[at + 1 : at + 2] == b"\n" else at + 1
            found.append((data[start:at], self._position + end))
            start = end
        self._position += start
        self._pending = data[start:]
        return found

    def _split_at_feeds(self, most: int) -> list[tuple[bytes, int]]:
        r"""The same where every line ends with \n, as nearly always."""
        *lines, rest = self._pending.split(b"\n", most)
        self._pending = rest
        found = []
        position = self._position
        for line in lines:
            position += len(line) + 1
            found.append((line, position))
        self._position = position
        return found


class FileStreamSourceConnector(SourceConnector):
    """``FileStreamSource``: the lines of one file, by one task."""

    JAVA_NAME = _PACKAGE + "FileStreamSourceConnector"
    CONFIG = (
        ConfigDef()
        .define("file", ConfigType.STRING, None, None, Importance.HIGH,
                "The file to read; left out: the standard input.")
        .define("topic", ConfigType.STRING, validator=non_empty, importance=Importance.HIGH,
                documentation="The topic that the lines go to.")
        .define("batch.size", ConfigType.INT, 2000, None, Importance.LOW, "How many lines one poll gives at most.")
    )  # fmt: skip
    task_class = FileStreamSourceTask

    def supports_exactly_once(self, configs: Mapping[str, str]) -> bool:
        """Of a file that is only appended to, yes; the standard input cannot be read again."""
        return bool(configs.get("file"))

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._configs = dict(configs)
        self.CONFIG.parse(configs)

    def task_configs(self, _tasks_max: int) -> Sequence[Mapping[str, str]]:
        """One task: a file is read by one."""
        return [self._configs]

    def alter_offsets(
        self, configs: Mapping[str, str], offsets: Mapping[int, tuple[SourcePlace | None, SourcePlace | None]]
    ) -> bool:
        """Look at offsets that an operator wants to set.

        Raises:
            ConnectError: a partition has no file's name, an offset no position, or the connector reads no file.
        """
        if not configs.get("file"):
            raise ConnectError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. Stdin is used."
            )
        for partition, offset in offsets.values():
            if offset is None:
                continue
            if _POSITION not in offset:
                raise ConnectError("Offset objects should either be null or contain the key 'position'")
            check_offset_number(offset[_POSITION], _POSITION)
            if partition is None or _FILENAME not in partition:
                raise ConnectError("Partition objects should contain the key 'filename'")
        return True


class FileStreamSinkTask(SinkTask):
    """Appends the values of records to a file, one a line; or writes them to the standard output.

    The lines of one ``put`` are one write to the end of the file: neither a kill nor another task breaks a line in two.
    """

    JAVA_NAME: ClassVar[str] = _PACKAGE + "FileStreamSinkTask"

    def start(self, configs: Mapping[str, str]) -> None:
        """Open the file.

        Raises:
            ConnectError: it can be neither opened nor made.
        """
        path = configs.get("file")
        self._file: IO[bytes] | None = None
        if not path:
            return
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by stop()
        except OSError as error:
            raise ConnectError(
                f"Couldn't find or create file '{path}' for {name_of(type(self)).rpartition('.')[2]}"
            ) from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write the values, as Java shows them."""
        if not records:
            return
        data = memoryview("".join(f"{java_text(record.value)}\n" for record in records).encode())
        if self._file is None:
            sys.stdout.buffer.write(data)
            return
        while data:
            data = data[self._file.write(data) :]

    def flush(self, _offsets: object) -> None:
        """Have the operating system take what was written."""
        if self._file is None:
            sys.stdout.buffer.flush()

    def stop(self) -> None:
        """Close the file."""
        if getattr(self, "_file", None) is not None:
            assert self._file is not None
            self._file.close()


class FileStreamSinkConnector(SinkConnector):
    """``FileStreamSink``: records as lines of one file."""

    JAVA_NAME = _PACKAGE + "FileStreamSinkConnector"
    CONFIG = ConfigDef().define(
        "file",
        ConfigType.STRING,
        None,
        None,
        Importance.HIGH,
        "The file to append to; left out: the standard output.",
    )
    task_class = FileStreamSinkTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._configs = dict(configs)
        self.CONFIG.parse(configs)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """As many as are allowed; each appends whole lines to the same file."""
        return [self._configs] * tasks_max

    def alter_offsets(self, _configs: object, _offsets: object) -> bool:
        """Take any: a consumer reads from wherever it is told."""
        return True
