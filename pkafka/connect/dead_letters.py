"""Where failures of records are told: in the log, and in a topic of dead letters (KIP-298)."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.producer import Producer, RecordMetadata
from pkafka.connect.data.records import NO_TIMESTAMP_TYPE, TIMESTAMP_TYPES, SourceRecord
from pkafka.connect.tolerance import Failure
from pkafka.connect.traces import class_name, trace_of

log = logging.getLogger("org.apache.kafka.connect.runtime.errors.LogReporter")

PREFIX: Final = "__connect.errors."
"""Of the headers that say why a record is a dead letter."""


class LogReporter:
    """Writes each failure into the worker's log.

    Args:
        task: its name, as in ``connector-0``.
        shows_records: whether a line says which record it was.
    """

    def __init__(self, task: str, *, shows_records: bool) -> None:
        self._task = task
        self._shows_records = shows_records

    def report(self, failure: Failure) -> None:
        """Write one line, and the trace."""
        text = (
            f"Error encountered in task {self._task}. Executing stage '{failure.stage.value}' with class"
            f" '{failure.executing}'"
        )
        if self._shows_records:
            text += f", where {_described(failure.record)}"
        log.error("%s.", text, exc_info=failure.error)

    def close(self) -> None:
        """Hold nothing."""


def _described(record: ConsumerRecord | SourceRecord) -> str:
    if isinstance(record, SourceRecord):
        return f"source record is = {record}"
    return (
        f"consumed record is {{topic='{record.topic}', partition={record.partition}, offset={record.offset},"
        f" timestamp={record.timestamp},"
        f" timestampType={TIMESTAMP_TYPES.get(record.timestamp_type, NO_TIMESTAMP_TYPE)}}}"
    )


class DeadLetters:
    """Sends the raw records that a sink connector cannot take to a topic.

    Args:
        producer: writes them; belongs to this object.
        topic: of dead letters.
        connector, task_id: whose they are, for the headers.
        tells_why: whether headers say what went wrong.
        failed: told when one cannot be written: the task must not go on as if it were.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        connector: str,
        task_id: int,
        *,
        tells_why: bool,
        failed: Callable[[Exception], None],
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._connector = connector
        self._task_id = task_id
        self._tells_why = tells_why
        self._failed = failed
        self._idle = threading.Condition()
        self._pending = 0
        self.sent = 0

    def report(self, failure: Failure) -> None:
        """Send one; :meth:`flush` waits for it."""
        self.send(failure)

    def send(self, failure: Failure) -> "Future[None]":
        """Send one.

        Returns:
            What is done when it is in the topic.
        """
        done: Future[None] = Future()
        record = failure.record
        if isinstance(record, SourceRecord):
            done.set_result(None)
            return done
        headers = list(record.headers)
        if self._tells_why:
            headers += self._reasons(record, failure)

        def over(_metadata: RecordMetadata, error: Exception | None) -> None:
            if error is not None:
                self._failed(error)
                done.set_exception(error)
            else:
                self.sent += 1
                done.set_result(None)
            with self._idle:
                self._pending -= 1
                self._idle.notify_all()

        with self._idle:
            self._pending += 1
        self._producer.send(
            self._topic,
            record.value,
            record.key,
            timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
            headers=headers,
            callback=over,
        )
        return done

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was sent is in the topic, or refused.

        Returns:
            Whether that came in time.
        """
        with self._idle:
            return self._idle.wait_for(lambda: self._pending == 0, timeout_s)

    def close(self) -> None:
        """Send what is left, and let go of the producer."""
        self._producer.close(5)

    def _reasons(self, record: ConsumerRecord, failure: Failure) -> list[tuple[str, bytes | None]]:
        error = failure.error
        told = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "connector.name": self._connector,
            "task.id": str(self._task_id),
            "stage": failure.stage.value,
            "class.name": failure.executing,
            "exception.class.name": class_name(error),
            "exception.message": str(error) or None,
            "exception.stacktrace": trace_of(error),
        }
        return [(PREFIX + name, None if text is None else text.encode()) for name, text in told.items()]
