"""The config topic of a Connect cluster (``KafkaConfigBackingStore``): every worker reads it, the leader writes.

What the records mean is in ``config_state``. A write returns when it is acknowledged and was read back, so that a
snapshot has it; targets and levels of loggers are not read back.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.producer import Producer
from pkafka.connect.errors import ConfigError, ConnectError
from pkafka.connect.states import Target, TaskName
from pkafka.connect.storage import config_records as records
from pkafka.connect.storage.config_records import ConfigRecord
from pkafka.connect.storage.config_state import Change, ClusterConfig, ConfigLog
from pkafka.connect.storage.session_key import SessionKey
from pkafka.connect.storage.topic_log import LogClients, LogTopic, TopicLog, internal_clients, storage_topic
from pkafka.connect.worker_config import WorkerConfig
from pkafka.errors import PkafkaError

log = logging.getLogger("org.apache.kafka.connect.storage.KafkaConfigBackingStore")

WRITE_TIMEOUT_S: Final = 30.0
"""How long a write may take, with what has to be read before and after it."""
_SETTING: Final = "config.storage.topic"
_PURPOSE: Final = "connector configurations"

Listener = Callable[[Change], object]


class FencedError(ConnectError):
    """A write needs privileges that another worker has by now, or that were lost with a failed write.

    Claim them again, if this worker is the leader still.
    """

    JAVA_NAME = "org.apache.kafka.connect.storage.PrivilegedWriteException"


class ConfigTopic:
    """Knows what the cluster is to run, and writes changes of it.

    Any thread may call it. Only one worker may write at a time: the leader of the group.

    Args:
        topic: which, and how it is made.
        clients: by which.
        transactional_id: by which the leader writes, so that an earlier one is fenced (KIP-618); None: leaders write
            without transactions.
        listener: hears of every change after the start, on the thread that reads; it must not wait, nor write.
    """

    def __init__(
        self, topic: LogTopic, clients: LogClients, transactional_id: str | None, listener: Listener
    ) -> None:
        self._clients = clients
        self._transactional_id = transactional_id
        self._listener = listener
        self._lock = threading.Lock()
        """Guards the fold."""
        self._fold = ConfigLog()
        self._is_live = False
        self._writing = threading.Lock()
        """Held while records are written by the leader's producer."""
        self._leader: Producer | None = None
        self._log = TopicLog(topic, clients, self._consumed)

    @classmethod
    def of(cls, config: WorkerConfig, listener: Listener, *, client_id: str) -> "ConfigTopic":
        """That of a distributed worker.

        Args:
            config: of the worker.
            listener: see the class.
            client_id: what the clients of the worker are called by; ``configs`` is put behind.

        Raises:
            ConfigError: no topic is named.
        """
        topic = storage_topic(config, "config", _PURPOSE, partitions=1)
        if not topic.name.strip():
            raise ConfigError("Must specify topic for connector configuration.")
        support = config.parsed["exactly.once.source.support"].lower()
        clients = internal_clients(config, f"{client_id}configs", read_committed=support == "enabled")
        group = config.parsed["group.id"]
        return cls(topic, clients, None if support == "disabled" else transactional_id(group), listener)

    def start(self) -> None:
        """Read all that is there; nobody is told of it.

        Raises:
            ConfigError: the topic is not as it has to be.
            ConnectError, ClientError: it cannot be made or read.
        """
        self._log.start(self._go_live)
        if self._log.partition_count > 1:
            self.stop()
            raise ConfigError(
                f"Topic '{self._log.topic.name}' supplied via the '{_SETTING}' property is required to have a single"
                " partition in order to guarantee consistency of connector configurations, but found"
                f" {self._log.partition_count} partitions."
            )

    def stop(self) -> None:
        """Read and write no more."""
        self.relinquish_write_privileges()
        self._log.close()

    # -- reading --

    def snapshot(self) -> ClusterConfig:
        """What there is as far as was read."""
        with self._lock:
            return self._fold.state()

    def contains(self, connector: str) -> bool:
        """Whether there is a connector."""
        return self.snapshot().contains(connector)

    def refresh(self, timeout_s: float) -> None:
        """Read what others have written.

        Raises:
            LogTimeoutError: not in time.
            ConnectError: the topic cannot be read.
        """
        self._log.read_to_end(timeout_s)

    def _go_live(self) -> None:
        self._is_live = True

    def _consumed(self, record: ConsumerRecord) -> None:
        with self._lock:
            changes = self._fold.apply(record.key, record.value, record.offset)
        if self._is_live:
            for change in changes:
                self._listener(change)

    # -- the right to write --

    def claim_write_privileges(self) -> None:
        """Become the only writer: whoever was it before is fenced. Does nothing where writers use no transactions.

        Raises:
            ConnectError: the coordinator cannot be reached, or refuses.
        """
        with self._writing:
            if self._transactional_id is None or self._leader is not None:
                return
            try:
                self._leader = Producer(self._leader_configs(self._transactional_id))
                self._leader.init_transactions(WRITE_TIMEOUT_S)
            except PkafkaError as error:
                self._close_leader()
                raise ConnectError(
                    "Failed to create and initialize fencable producer for config topic"
                ) from error

    def relinquish_write_privileges(self) -> None:
        """Write no more, until privileges are claimed again."""
        with self._writing:
            self._close_leader()

    def _close_leader(self) -> None:
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.close(0)

    def _leader_configs(self, transactional_id: str) -> dict[str, str]:
        return {
            **self._clients.producer,
            "client.id": f"{self._clients.producer['client.id']}-leader",
            "acks": "all",
            "max.in.flight.requests.per.connection": "5",
            "enable.idempotence": "true",
            "transactional.id": transactional_id,
        }

    # -- changes of the leader --

    def put_connector(self, name: str, configs: Mapping[str, str], target: Target | None = None) -> None:
        """Write what a connector is to be.

        Args:
            target: what it is to do; None: what it was to do before, STARTED when it is new.

        Raises:
            ConnectError: it was not written in time, or not read back.
            FencedError: another worker leads.
        """
        found = [] if target is None else [records.target_record(name, target)]
        found.append(records.connector_record(name, configs))
        self._put(found, "Error writing connector configuration to Kafka")

    def remove_connector(self, name: str) -> None:
        """Write that a connector is gone; else as :meth:`put_connector`."""
        self._put(records.connector_tombstones(name), "Error removing connector configuration from Kafka")

    def put_tasks(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write what the tasks of a connector are to be; all of them count from the same moment on.

        Args:
            configs: of the tasks, by number.

        Raises:
            ConnectError, FencedError: as of :meth:`put_connector`.
        """
        root, tasks = (
            "Error writing root configuration to Kafka",
            "Error writing task configurations to Kafka",
        )
        deadline_s = time.monotonic() + WRITE_TIMEOUT_S
        self._read_back(deadline_s, root)
        written = [
            records.task_record(TaskName(connector, number), each) for number, each in enumerate(configs)
        ]
        if written:
            self._write(written, deadline_s, tasks)
            # The commit record is to follow all of them, whoever wrote between.
            self._read_back(deadline_s, root)
        self._write([records.commit_record(connector, len(written))], deadline_s, root)
        self._read_back(deadline_s, root)

    def put_task_count(self, connector: str, tasks: int) -> None:
        """Write how many tasks the next fencing is about (KIP-618); else as :meth:`put_connector`."""
        self._put([records.task_count_record(connector, tasks)], "Error writing task count record to Kafka")

    def put_session_key(self, key: SessionKey) -> None:
        """Write the key by which workers sign from now on; else as :meth:`put_connector`."""
        self._put([records.session_key_record(key)], "Error writing session key to Kafka")

    def put_restart(self, connector: str, *, only_failed: bool, include_tasks: bool) -> None:
        """Have a connector start anew, wherever it runs; else as :meth:`put_connector`."""
        shown = (
            f"restart request for {{connectorName='{connector}', onlyFailed={str(only_failed).lower()},"
            f" includeTasks={str(include_tasks).lower()}}}"
        )
        record = records.restart_record(connector, only_failed=only_failed, include_tasks=include_tasks)
        self._put([record], f"Error writing {shown} to Kafka")

    # -- changes that any worker may write --

    def put_target(self, connector: str, target: Target) -> None:
        """Write what a connector is to do. Any worker may; it is not read back.

        Raises:
            ConnectError: it was not written in time.
        """
        self._put_unread(records.target_record(connector, target), "Error writing target state to Kafka")

    def remove_target(self, connector: str) -> None:
        """Write that nothing is said of what a connector is to do; else as :meth:`put_target`."""
        self._put_unread(records.target_tombstone(connector), "Error writing target state to Kafka")

    def put_logger_level(self, namespace: str, level: str) -> None:
        """Set the level of a logger on all workers (KIP-976); else as :meth:`put_target`."""
        self._put_unread(records.logger_record(namespace, level), "Error writing logger level to Kafka")

    # -- writing --

    def _put(self, found: Sequence[ConfigRecord], failure: str) -> None:
        deadline_s = time.monotonic() + WRITE_TIMEOUT_S
        self._write(found, deadline_s, failure)
        self._read_back(deadline_s, failure)

    def _put_unread(self, record: ConfigRecord, failure: str) -> None:
        self._write_plainly([record], time.monotonic() + WRITE_TIMEOUT_S, failure)

    def _read_back(self, deadline_s: float, failure: str) -> None:
        try:
            self._log.read_to_end(_left(deadline_s))
        except ConnectError as error:
            raise ConnectError(failure) from error

    def _write(self, found: Sequence[ConfigRecord], deadline_s: float, failure: str) -> None:
        if self._transactional_id is None:
            self._write_plainly(found, deadline_s, failure)
            return
        with self._writing:
            if self._leader is None:
                raise FencedError("Cannot produce to config topic without claiming write privileges first")
            try:
                self._leader.begin_transaction()
                for record in found:
                    self._leader.send(self._log.topic.name, record.value, record.key)
                self._leader.commit_transaction(_left(deadline_s))
            except PkafkaError as error:
                log.warning("Failed to perform fencable send to config topic: %s", error)
                self._close_leader()
                raise FencedError("Failed to perform fencable send to config topic") from error

    def _write_plainly(self, found: Sequence[ConfigRecord], deadline_s: float, failure: str) -> None:
        sent = [self._log.send(record.key, record.value) for record in found]
        try:
            for future in sent:
                future.result(_left(deadline_s))
        except PkafkaError as error:
            log.error("%s: %s", failure, error)
            raise ConnectError(failure) from error


def transactional_id(group: str) -> str:
    """By which the leaders of a cluster write to its config topic."""
    return f"connect-cluster-{group}"


def _left(deadline_s: float) -> float:
    return max(0.0, deadline_s - time.monotonic())
