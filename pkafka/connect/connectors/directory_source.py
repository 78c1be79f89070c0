"""The files of a directory as records: ``DirectorySource``, one file after the other.

How far a file was read is an offset, so that a restart goes on in the middle of it. A file that is done stays where it
is, is moved or deleted; that happens when the offset of its last record is stored, so nothing is lost by a kill.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from pkafka.connect.config_class import config_def_of, read_settings, setting
from pkafka.connect.config_def import ConfigValue, Importance
from pkafka.connect.config_validators import in_range, non_empty, one_of
from pkafka.connect.connector import SourceConnector, SourcePlace, SourceTask, check_offset_number
from pkafka.connect.connectors.directory_files import FileDirectory, Place, Prefix, Seen, begin_of
from pkafka.connect.connectors.directory_formats import FORMATS, WHOLE, Read, reader_of
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.errors import ConnectError, DataError

log = logging.getLogger(__name__)

_FILE: Final = "file"
_SHARE: Final = "task.share"
_KEEP, _MOVE, _DELETE = "keep", "move", "delete"


@dataclass(frozen=True)
class DirectorySettings:
    """The settings of :class:`DirectorySourceConnector`."""

    directory: str = setting(
        "directory", "The directory whose files are read.", validator=non_empty, importance=Importance.HIGH
    )
    topic: str = setting(
        "topic", "The topic that the records go to.", validator=non_empty, importance=Importance.HIGH
    )
    pattern: str = setting(
        "file.pattern",
        "Which files are read: a glob of names below the directory, as *.csv, or **/*.csv for directories in it as"
        " well.",
        default="*",
        validator=non_empty,
    )
    format: str = setting(
        "format",
        "What a record is: a line of text (lines), a line of JSON (json), a row of CSV under a header (csv), or a"
        " whole file as text or bytes, with its name as the key.",
        default="lines",
        validator=one_of(*FORMATS),
        importance=Importance.HIGH,
    )
    order: str = setting(
        "file.order",
        "Which file comes next: the first by name, or the one that changed first (mtime). Files of several tasks come"
        " side by side.",
        default="name",
        validator=one_of("name", "mtime"),
    )
    after: str = setting(
        "file.after",
        "What becomes of a file when its records are in Kafka: keep, where what is appended is read as well; move; or"
        " delete.",
        default=_KEEP,
        validator=one_of(_KEEP, _MOVE, _DELETE),
        importance=Importance.HIGH,
    )
    done: str = setting(
        "done.directory",
        "Where file.after=move moves files; it keeps their names below the directory.",
        default="",
    )
    age_ms: int = setting(
        "file.min.age.ms",
        "How long a file has to be unchanged before it is read. It should be whole then: its last line counts also"
        " without an end.",
        default=1000,
        validator=in_range(0),
    )
    malformed: str = setting(
        "malformed.records",
        "What becomes of a line that is not of the format: fail ends the task, skip writes a warning into the log.",
        default="fail",
        validator=one_of("fail", "skip"),
    )
    separator: str = setting(
        "csv.separator", "The character between the values of a row.", default=",", importance=Importance.LOW
    )
    batch_size: int = setting(
        "batch.size",
        "How many records one poll gives at most.",
        default=2000,
        validator=in_range(1),
        importance=Importance.LOW,
    )
    poll_ms: int = setting(
        "poll.interval.ms",
        "How long to wait before the directory is looked at again.",
        default=1000,
        validator=in_range(1),
        importance=Importance.LOW,
    )


CONFIG: Final = config_def_of(DirectorySettings)


class DirectorySourceTask(SourceTask):
    """Reads its share of the files."""

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings; the directory is looked at by the first poll."""
        self._settings = settings = read_settings(DirectorySettings, configs)
        number, _, count = configs.get(_SHARE, "0/1").partition("/")
        path = Path(settings.directory)
        done = Path(settings.done) if settings.after == _MOVE else None
        self._files = FileDirectory(path, settings.pattern, settings.order, (int(number), int(count)), done)
        self._read_on = reader_of(settings.format, settings.separator)
        self._waiting: deque[Seen] = deque()
        self._known: dict[str, Place] = {}
        self._undone: dict[str, int] = {}
        """Files that are read, with the position that has to be stored before they leave the directory."""
        self._stored = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records, all of one file.

        Raises:
            DataError: a file cannot be understood.
            ConnectError: it cannot be read or moved.
        """
        if self._stored.is_set():
            self._stored.clear()
            self._remove_stored()
        if not self._waiting:
            self._look()
        while self._waiting:
            records = self._next_of(self._waiting[0])
            if records:
                return records
        self.context.wait(self._settings.poll_ms / 1000)
        return None

    def commit(self) -> None:
        """Remember that offsets were stored: files may be done."""
        self._stored.set()

    def stop(self) -> None:
        """Do nothing: no file is open between two polls, and the wait of the context ends by itself."""

    # -- which file is next --

    def _look(self) -> None:
        now_ns = time.time_ns()
        found = self._files.scan(now_ns, self._settings.age_ms * 1_000_000)
        unknown = [each.name for each in found if each.name not in self._known]
        for partition, offset in self.context.offset_reader.offsets([{_FILE: name} for name in unknown]):
            place = Place.read(offset)
            if place is not None:
                self._known[str(partition[_FILE])] = place
        gone = self._known.keys() - {each.name for each in found} - self._undone.keys()
        for name in gone if self._leaves else ():
            del self._known[name]
        for each in found:
            known = self._known.get(each.name)
            if known is None or not known.is_end_of(each):
                self._waiting.append(each)
            elif self._leaves and each.name not in self._undone:
                self._remove(each.name)  # the worker ended before it could

    @property
    def _leaves(self) -> bool:
        return self._settings.after != _KEEP

    # -- reading --

    def _next_of(self, waiting: Seen) -> list[SourceRecord]:
        """The next records of the first file; none: it is read, or gone."""
        seen = self._files.look(waiting.name)
        if seen is None:
            self._waiting.popleft()
            return []
        try:
            with self._files.open(seen.name) as file:
                return self._read(file, seen)
        except OSError as error:
            raise ConnectError(f"The file {seen.name} cannot be read: {error.strerror}") from error

    def _read(self, file: BinaryIO, seen: Seen) -> list[SourceRecord]:
        prefix = Prefix(file)
        begin = begin_of(prefix, seen, self._known.get(seen.name), leaves=self._leaves)
        read = self._parts(file, seen.name, begin)
        self._known[seen.name] = Place(read.end, seen.modified_ns, prefix.crc(read.end))
        records = self._records(prefix, seen, read)
        if records:
            self._undone[seen.name] = read.parts[-1].end
        if read.is_all:
            self._waiting.popleft()
            self._stored.set()  # perhaps all of it is in Kafka already, and no more offsets come
            if self._leaves and seen.name not in self._undone:
                self._remove(seen.name)  # there is nothing in it
        return records

    def _parts(self, file: BinaryIO, name: str, begin: int) -> Read:
        def bad(end: int, error: Exception) -> None:
            text = f"What ends at byte {end} of {name} is no {self._settings.format}: {error}"
            if self._settings.malformed == "fail":
                raise DataError(text) from error
            log.warning("%s; it is left out.", text)

        try:
            return self._read_on(file, begin, self._settings.batch_size, bad)
        except DataError as error:
            raise DataError(f"{name}: {error}") from error
        except ValueError as error:
            raise DataError(f"The header of {name} cannot be read: {error}") from error

    def _records(self, prefix: Prefix, seen: Seen, read: Read) -> list[SourceRecord]:
        partition = {_FILE: seen.name}
        is_whole = self._settings.format in WHOLE
        return [
            SourceRecord(
                self._settings.topic,
                None,
                Schema.STRING if is_whole else None,
                seen.name if is_whole else None,
                part.schema,
                part.value,
                source_partition=partition,
                source_offset=Place(part.end, seen.modified_ns, prefix.crc(part.end)).offset(),
            )
            for part in read.parts
        ]

    # -- what is done --

    def _remove_stored(self) -> None:
        """Let files go whose last record is in Kafka, as the stored offsets say."""
        reading = {each.name for each in self._waiting}
        names = [name for name in self._undone if name not in reading]
        for partition, offset in self.context.offset_reader.offsets([{_FILE: name} for name in names]):
            name, place = str(partition[_FILE]), Place.read(offset)
            if place is None or place.position < self._undone[name]:
                continue
            del self._undone[name]
            seen = self._files.look(name)
            if self._leaves and seen is not None and self._known[name].is_end_of(seen):
                self._remove(name)

    def _remove(self, name: str) -> None:
        self._known.pop(name, None)
        try:
            self._files.remove(name)
        except OSError as error:
            raise ConnectError(
                f"The file {name} is read, and cannot be put away: {error.strerror}"
            ) from error


class DirectorySourceConnector(SourceConnector):
    """``DirectorySource``: the files of a directory, which its tasks share among them."""

    CONFIG = CONFIG
    task_class = DirectorySourceTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings.

        Raises:
            ConnectError: there is no such directory.
        """
        self._configs = dict(configs)
        settings = read_settings(DirectorySettings, configs)
        if not Path(settings.directory).is_dir():
            raise ConnectError(f"{settings.directory} is no directory")

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """As many as are allowed; each has the files whose names fall to it."""
        return [{**self._configs, _SHARE: f"{number}/{tasks_max}"} for number in range(tasks_max)]

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """Look at settings, also at those that go together."""
        values = CONFIG.validate(configs)
        found = {each.name: each for each in values}
        done, separator = found["done.directory"], str(found["csv.separator"].value)
        if found["file.after"].value == _MOVE and not done.value:
            done.errors.append("file.after=move needs a directory to move files to.")
        elif done.value and Path(str(done.value)) == Path(str(found["directory"].value)):
            done.errors.append("Files cannot be moved to the directory that they are read from.")
        if len(separator) != 1 or separator in '"\r\n':
            found["csv.separator"].errors.append(
                "The separator has to be one character, and no quote or end of a line."
            )
        pattern = str(found["file.pattern"].value)
        if pattern.startswith("/") or ".." in pattern.split("/"):
            found["file.pattern"].errors.append("The pattern has to be of names below the directory.")
        return values

    def alter_offsets(
        self, configs: Mapping[str, str], offsets: Mapping[int, tuple[SourcePlace | None, SourcePlace | None]]
    ) -> bool:
        """Look at offsets that an operator wants to set.

        Raises:
            ConnectError: a partition has no file, or an offset is none of this connector's.
        """
        for partition, offset in offsets.values():
            if partition is None or _FILE not in partition:
                raise ConnectError("Partition objects should contain the key 'file'")
            for name in Place._fields if offset is not None else ():
                assert offset is not None
                check_offset_number(offset.get(name), name)
        return True
