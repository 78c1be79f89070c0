"""The status topic of a Connect cluster: what connectors and tasks do, by word of the workers that run them."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from pkafka.clients.consumer import ConsumerRecord
from pkafka.connect.caller_thread import CallerThread
from pkafka.connect.errors import ConfigError
from pkafka.connect.states import State, TaskName
from pkafka.connect.storage.statuses import (
    ConnectorStatus,
    Status,
    Statuses,
    StatusRecord,
    TaskStatus,
    TopicStatus,
    status_record,
    topic_record,
    topic_tombstone,
)
from pkafka.connect.storage.topic_log import LogClients, LogTopic, TopicLog, internal_clients, storage_topic
from pkafka.connect.worker_config import WorkerConfig
from pkafka.errors import PkafkaError

log = logging.getLogger("org.apache.kafka.connect.storage.KafkaStatusBackingStore")

_PURPOSE: Final = "connector and task statuses"
_RETRY_S: Final = 0.1
_GIVEN_AWAY: Final = frozenset({State.UNASSIGNED, State.DESTROYED})
"""What a worker says last of what it does not have any more."""


class StatusTopic:
    """Writes what this worker's connectors and tasks do, and knows what those of all workers do.

    Any thread may call it. No write waits: what the brokers do not take at once is tried again, as long as it is still
    true.

    Args:
        topic: which, and how it is made.
        clients: by which; the producer must not try again by itself, since it does not know what is still true.
    """

    def __init__(self, topic: LogTopic, clients: LogClients) -> None:
        self._lock = threading.Lock()
        """Guards the fold, and the generation."""
        self._statuses = Statuses()
        self._generation = -1
        """The last in which this worker wrote something."""
        self._own: dict[bytes, Status] = {}
        """What this worker has said last of what it has, by the keys of the records."""
        self._ended: dict[bytes, Status] = {}
        """The records that say UNASSIGNED and are the last ones of their keys."""
        self.heard_of_an_end: Callable[[], None] = lambda: None
        """Called when somebody has said that a connector or a task is UNASSIGNED, on the thread that reads."""
        self._log = TopicLog(topic, clients, self._consumed)
        self._retries: CallerThread | None = None
        self._stopping = threading.Event()

    @classmethod
    def of(cls, config: WorkerConfig, *, client_id: str) -> "StatusTopic":
        """That of a distributed worker.

        Args:
            config: of the worker.
            client_id: what the clients of the worker are called by; ``statuses`` is put behind.

        Raises:
            ConfigError: no topic is named.
        """
        topic = storage_topic(config, "status", _PURPOSE)
        if not topic.name.strip():
            raise ConfigError("Must specify topic for connector status.")
        clients = internal_clients(config, f"{client_id}statuses", read_committed=False)
        producer = {name: value for name, value in clients.producer.items() if name != "delivery.timeout.ms"}
        return cls(topic, LogClients({**producer, "retries": "0"}, clients.consumer, clients.admin))

    def start(self) -> None:
        """Read all that is there.

        Raises:
            ConfigError: the topic is not as it has to be.
            ConnectError, ClientError: it cannot be made or read.
        """
        self._log.start()
        self._retries = CallerThread(f"status-store-retry-{self._log.topic.name}")

    def stop(self) -> None:
        """Read and write no more."""
        self._stopping.set()
        self._log.close()
        if self._retries is not None:
            self._retries.close()

    # -- what is known --

    def connector(self, name: str) -> ConnectorStatus | None:
        """What a connector does; None: nothing is known."""
        with self._lock:
            return self._statuses.connector(name)

    def task(self, name: TaskName) -> TaskStatus | None:
        """What a task does; None: nothing is known."""
        with self._lock:
            return self._statuses.task(name)

    def tasks(self, connector: str) -> list[TaskStatus]:
        """What the tasks of a connector do, by number."""
        with self._lock:
            return self._statuses.tasks(connector)

    def connectors(self) -> list[str]:
        """The connectors of which something was written."""
        with self._lock:
            return self._statuses.connectors()

    def topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Since when a connector uses a topic; None: it does not."""
        with self._lock:
            return self._statuses.topic(connector, topic)

    def topics(self, connector: str) -> list[TopicStatus]:
        """The topics that a connector uses."""
        with self._lock:
            return self._statuses.topics(connector)

    def ended(self) -> list[Status]:
        """Of which the last word is that they have ended.

        They may be unknown otherwise, or known to run: who gives something away does not hide its new owner, and a
        connector that is forgotten takes its tasks along, although theirs may be the later word, in another partition.
        """
        with self._lock:
            return list(self._ended.values())

    def refresh(self, timeout_s: float) -> None:
        """Read what others have written.

        Raises:
            LogTimeoutError: not in time.
            ConnectError: the topic cannot be read.
        """
        self._log.read_to_end(timeout_s)

    def _consumed(self, record: ConsumerRecord) -> None:
        with self._lock:
            status = self._statuses.apply(record.key, record.value)
            hidden = None if status is None else self._hidden_by(status)
            has_ended = self._note_end(record.key, status)
        if has_ended:
            self.heard_of_an_end()
        if hidden is not None and self._retries is not None:
            log.info("What is true is written again, since %s has come late", status)
            self._retries.submit(partial(self._repeat, hidden))

    def _note_end(self, key: bytes | None, status: Status | None) -> bool:
        """Keep what is the last word on something if that has ended; returns whether it has."""
        if status is not None and status.state is State.UNASSIGNED:
            self._ended[status.key] = status
            return True
        if key is not None:
            self._ended.pop(key, None)
        return False

    def _hidden_by(self, status: Status) -> Status | None:
        """What this worker has to say again, since a former owner has hidden it: one that was cut off, or hung.

        Java's workers leave it at that; who is asked says for good what is not so.
        """
        own = self._own.get(status.key)
        if own is None or own.worker_id == status.worker_id:
            return None
        if own.generation > status.generation:
            return own
        if own.generation < status.generation:
            del self._own[status.key]  # it is another worker's by now
        return None

    # -- writing --

    def put(self, status: Status) -> None:
        """Say what a connector or a task does; a state of DESTROYED makes it forgotten."""
        self._put(status, is_safe=False)

    def put_safe(self, status: Status) -> None:
        """Say it unless another worker has said something in a later generation, which it would hide.

        For what a worker says of connectors and tasks that it may not have any more: UNASSIGNED, FAILED.
        """
        self._put(status, is_safe=True)

    def put_topic(self, status: TopicStatus) -> None:
        """Say that a connector uses a topic."""
        self._send_until_taken(topic_record(status))

    def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic."""
        self._send_until_taken(topic_tombstone(topic, connector))

    def _put(self, status: Status, *, is_safe: bool) -> None:
        with self._lock:
            self._generation = status.generation
            entry = self._statuses.entry(status)
            self._own.pop(status.key, None)
            if is_safe and not entry.lets_write(status):
                return
            entry.sequence += 1
            sequence = entry.sequence
            if status.state not in _GIVEN_AWAY:
                self._own[status.key] = status

        def is_true() -> bool:
            with self._lock:
                if entry.is_gone or status.generation != self._generation:
                    return False
                # Java's workers write an unsafe one again also when there is a newer one, which it hides for good then.
                return entry.sequence == sequence and (not is_safe or entry.lets_write(status))

        self._send(status_record(status), is_true)

    def _repeat(self, status: Status) -> None:
        """Say again what this worker has said, if it is its last word."""

        def is_true() -> bool:
            with self._lock:
                return self._own.get(status.key) is status

        if is_true():
            self._send(status_record(status), is_true)

    def _send_until_taken(self, record: StatusRecord) -> None:
        self._send(record, lambda: True)

    def _send(self, record: StatusRecord, is_true: Callable[[], bool]) -> None:
        def settle(_metadata: object, error: Exception | None) -> None:
            if error is None:
                return
            if not getattr(error, "retriable", False):
                log.error("Failed to write status update: %s", error)
            elif is_true() and self._retries is not None:
                # Not on the producer's thread, where a send might wait for itself.
                self._retries.submit(partial(self._send_again, record, is_true, time.monotonic() + _RETRY_S))

        try:
            self._log.send(record.key, record.value, settle)
        except PkafkaError as error:
            log.error("Failed to write status update: %s", error)

    def _send_again(self, record: StatusRecord, is_true: Callable[[], bool], due_s: float) -> None:
        if not self._stopping.wait(max(0.0, due_s - time.monotonic())) and is_true():
            self._send(record, is_true)
