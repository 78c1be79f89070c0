"""Connectors that count, for tests of a cluster: what one sends and the other gets is printed, a JSON object a line.

``VerifiableSource`` sends the numbers 0, 1, 2 and so on from each task; ``VerifiableSink`` prints what arrives.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.connector import SinkConnector, SinkTask, SourceConnector, SourceTask
from pkafka.connect.data.records import SinkRecord, SourceRecord
from pkafka.connect.data.schema import Schema
from pkafka.java.numbers import parse_integer

if TYPE_CHECKING:
    from pkafka.clients.producer import RecordMetadata

_PACKAGE: Final = "org.apache.kafka.connect.tools."
_ID: Final = "id"
_SEQUENCE: Final = "seqno"
_PER_POLL: Final = 100


def _tell(**facts: object) -> None:
    print(json.dumps(facts, separators=(",", ":")), flush=True)  # noqa: T201 - what these connectors are for


def _now_ms() -> int:
    return int(time.time() * 1000)


class VerifiableSourceTask(SourceTask):
    """Sends counting numbers, at most ``throughput`` of them a second."""

    JAVA_NAME: ClassVar[str] = _PACKAGE + "VerifiableSourceTask"

    def start(self, configs: Mapping[str, str]) -> None:
        """Go on behind the last number that an earlier task sent."""
        self._name = configs["name"]
        self._id = parse_integer(configs[_ID], 32)
        self._topic = configs["topic"]
        self._throughput = parse_integer(configs.get("throughput") or "-1", 32)
        self._stopped = False
        self._partition = {_ID: self._id}
        stored = self.context.offset_reader.offset(self._partition)
        self._next = 0 if stored is None else stored[_SEQUENCE] + 1
        self._began_s = time.monotonic()
        self._sent = 0

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next numbers."""
        count = _PER_POLL
        if self._throughput > 0:
            due = int((time.monotonic() - self._began_s) * self._throughput) - self._sent
            if due <= 0:
                self.context.wait(min(0.1, 1 / self._throughput))
                return None
            count = min(count, due)
        records = [self._record(self._next + index) for index in range(count)]
        self._next += count
        self._sent += count
        return records

    def commit_record(self, record: SourceRecord, metadata: "RecordMetadata | None") -> None:
        """Print a number that is in Kafka."""
        _tell(task=self._id, seqno=record.value, time_ms=_now_ms(), name=self._name, topic=self._topic,
              committed=metadata is not None)  # fmt: skip

    def stop(self) -> None:
        """Nothing is held."""

    def _record(self, number: int) -> SourceRecord:
        return SourceRecord(
            self._topic,
            None,
            Schema.INT32,
            self._id,
            Schema.INT64,
            number,
            source_partition=self._partition,
            source_offset={_SEQUENCE: number},
        )


class VerifiableSourceConnector(SourceConnector):
    """``VerifiableSource``: counting numbers."""

    JAVA_NAME = _PACKAGE + "VerifiableSourceConnector"
    CONFIG = (
        ConfigDef()
        .define("topic", ConfigType.STRING, importance=Importance.HIGH, documentation="Where the numbers go.")
        .define("throughput", ConfigType.INT, -1, None, Importance.MEDIUM,
                "How many a second and task; -1: as fast as can be.")
    )  # fmt: skip
    task_class = VerifiableSourceTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._configs = dict(configs)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """As many as are allowed, each with a number."""
        return [{**self._configs, _ID: str(number)} for number in range(tasks_max)]


class VerifiableSinkTask(SinkTask):
    """Prints what arrives, and what is flushed."""

    JAVA_NAME: ClassVar[str] = _PACKAGE + "VerifiableSinkTask"

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._name = configs["name"]
        self._id = parse_integer(configs[_ID], 32)
        self._unflushed: list[tuple[object, object, str]] = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Print records."""
        for record in records:
            self._unflushed.append((record.key, record.value, record.topic or ""))
            self._print(record.key, record.value, record.topic or "", flushed=None)

    def flush(self, _offsets: object) -> None:
        """Print them again: they are flushed."""
        for key, value, topic in self._unflushed:
            self._print(key, value, topic, flushed=True)
        self._unflushed.clear()

    def stop(self) -> None:
        """Nothing is held."""

    def _print(self, key: object, value: object, topic: str, *, flushed: bool | None) -> None:
        more = {} if flushed is None else {"flushed": flushed}
        _tell(
            task=key, sinkTask=self._id, seqno=value, topic=topic, time_ms=_now_ms(), name=self._name, **more
        )


class VerifiableSinkConnector(SinkConnector):
    """``VerifiableSink``: prints records."""

    JAVA_NAME = _PACKAGE + "VerifiableSinkConnector"
    CONFIG = ConfigDef().define(
        _ID, ConfigType.STRING, None, None, Importance.LOW, "Set by the worker for each task.", internal=True
    )
    task_class = VerifiableSinkTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._configs = dict(configs)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """As many as are allowed, each with a number."""
        return [{**self._configs, _ID: str(number)} for number in range(tasks_max)]
