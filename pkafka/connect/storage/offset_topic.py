"""Offsets of source connectors in topics: that of a cluster's workers, and those that connectors have of their own."""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.producer import Producer
from pkafka.connect.errors import ConfigError, ConnectError
from pkafka.connect.storage.offset_store import OffsetStore
from pkafka.connect.storage.topic_log import LogClients, LogTopic, TopicLog, internal_clients, storage_topic
from pkafka.connect.worker_config import WorkerConfig
from pkafka.errors import PkafkaError

log = logging.getLogger("org.apache.kafka.connect.storage.KafkaOffsetBackingStore")

PURPOSE: Final = "source connector offsets"
_READ_TIMEOUT_S: Final = 60.0
"""How long a task waits until it knows where to begin."""


class OffsetTopic:
    """Keeps offsets in a compacted topic (``KafkaOffsetBackingStore``), and all of them in memory.

    Any thread may call it. What was put is known when it was read back, after :meth:`refresh` at the latest.

    Args:
        topic: which, and how it is made.
        clients: by which.
        put_timeout_s: how long storing may take, ``offset.flush.timeout.ms``; what is late is stored all the same, as
            soon as the brokers take it. None: as long as the producer tries.
        producer: writes, and stays its owner's; a task that writes exactly once has one with transactions, and begins
            and commits them. None: one is made.
    """

    def __init__(
        self,
        topic: LogTopic,
        clients: LogClients,
        put_timeout_s: float | None,
        producer: Producer | None = None,
    ) -> None:
        self._put_timeout_s = put_timeout_s
        self._lock = threading.Lock()
        self._entries: dict[bytes, bytes] = {}
        self._log = TopicLog(topic, clients, self._consumed, producer)

    @classmethod
    def of(cls, config: WorkerConfig, *, client_id: str) -> "OffsetTopic":
        """That of a distributed worker.

        Args:
            config: of the worker.
            client_id: what the clients of the worker are called by; ``offsets`` is put behind.

        Raises:
            ConfigError: no topic is named.
        """
        topic = storage_topic(config, "offset", PURPOSE)
        if not topic.name.strip():
            raise ConfigError("Offset storage topic must be specified")
        committed = config.parsed["exactly.once.source.support"].lower() == "enabled"
        clients = internal_clients(config, f"{client_id}offsets", read_committed=committed)
        return cls(topic, clients, config.parsed["offset.flush.timeout.ms"] / 1000)

    def start(self, *, waits_for_transactions: bool = True) -> None:
        """Read all that is there.

        Args:
            waits_for_transactions: whether to read also what is in open transactions, as soon as they have ended. Who
                refreshes before it asks needs not: workers that were all killed would wait for the transactions that
                only their own tasks can end, until ``transaction.timeout.ms`` is over. Java's do.

        Raises:
            ConfigError: the topic is not as it has to be.
            ConnectError, ClientError: it cannot be made or read.
        """
        self._log.start(waits_for_transactions=waits_for_transactions)

    def stop(self) -> None:
        """Read and write no more."""
        self._log.close()

    def refresh(self) -> None:
        """Read what others have written.

        Raises:
            ConnectError: not within a minute, or the topic cannot be read.
        """
        self._log.read_to_end(_READ_TIMEOUT_S)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key as far as was read; None: there is none."""
        with self._lock:
            return self._entries.get(key)

    def entries(self) -> dict[bytes, bytes | None]:
        """All that is stored, as far as was read."""
        with self._lock:
            return dict(self._entries)

    def put(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Write values, and return when all are acknowledged; None: a tombstone.

        Raises:
            ConnectError: the brokers refuse one, or did not answer in time.
        """
        limit_s = self._put_timeout_s
        deadline_s = None if limit_s is None else time.monotonic() + limit_s
        sent = [self._log.send(key, value) for key, value in entries.items()]
        try:
            for future in sent:
                future.result(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
        except PkafkaError as error:
            raise ConnectError(f"Offsets cannot be written to {self._log.topic.name}: {error}") from error

    def _consumed(self, record: ConsumerRecord) -> None:
        with self._lock:
            if record.value is None:
                self._entries.pop(record.key, None)
            elif record.key is not None:
                self._entries[record.key] = record.value


def own_offset_topic(config: WorkerConfig, name: str) -> LogTopic:
    """The topic that a connector wants for its offsets; it is made as that of the workers is.

    Args:
        config: of the distributed worker.
        name: ``offsets.storage.topic`` of the connector.
    """
    return replace(storage_topic(config, "offset", PURPOSE), name=name)


class OwnOffsets:
    """The offsets of a connector that has a topic of its own, ``offsets.storage.topic`` (KIP-618).

    What the connector's topic has comes first; what only the workers' topic has counts too, so that a connector goes on
    where it was when it gets a topic. Java's worker is to do the same, but 3.9.1 then finds nothing. Both topics are
    written, so that a connector can go back to that of the workers. Any thread may call it.

    Args:
        own: of the connector; it is started and stopped by whoever has made it.
        workers: of all connectors.
    """

    def __init__(self, own: OffsetStore, workers: OffsetStore) -> None:
        self._own = own
        self._workers = workers

    def refresh(self) -> None:
        """Read what others have written.

        Raises:
            ConnectError: one of the topics cannot be read.
        """
        self._workers.refresh()
        self._own.refresh()

    def get(self, key: bytes) -> bytes | None:
        """The value of a key as far as was read; None: neither has one."""
        found = self._own.get(key)
        return self._workers.get(key) if found is None else found

    def entries(self) -> dict[bytes, bytes | None]:
        """All that is stored, as far as was read."""
        return {**self._workers.entries(), **self._own.entries()}

    def put(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Write values to both topics.

        Tombstones go to the workers' topic first, and have to: without, the value there would count again once that of
        the connector's topic is gone (KAFKA-15018). Of the rest, the workers' topic gets a copy if that works.

        Raises:
            ConnectError: the connector's topic does not take them, or the workers' does not take a tombstone.
        """
        gone: dict[bytes, bytes | None] = {key: None for key, value in entries.items() if value is None}
        if gone:
            self._workers.put(gone)
        self._own.put(entries)
        kept = {key: value for key, value in entries.items() if value is not None}
        if kept:
            try:
                self._workers.put(kept)
            except ConnectError as error:
                log.warning("Failed to write offsets to secondary backing store: %s", error)
