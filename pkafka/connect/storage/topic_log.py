"""A compacted topic as a table that several workers share: ``KafkaBasedLog``.

The topic is made when it is missing, read from its beginning, and followed. One thread reads; any thread may write, and
wait until all has been read that was there when it asked.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import ConfigResource, ResourceType
from pkafka.clients.admin.topic_results import NewTopic
from pkafka.clients.consumer import Consumer
from pkafka.clients.consumer.records import ConsumerRecord
from pkafka.clients.errors import ClientError, WakeupError
from pkafka.clients.producer import Producer
from pkafka.clients.producer.callbacks import Callback
from pkafka.clients.producer.futures import RecordFuture
from pkafka.connect.errors import ConfigError, ConnectError
from pkafka.connect.worker_config import WorkerConfig
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import LATEST, TopicPartition

log = logging.getLogger("org.apache.kafka.connect.util.KafkaBasedLog")

_COMPACT: Final = "compact"
_POLICY: Final = "cleanup.policy"
_POLL_MS: Final = 60_000
_STEP_MS: Final = 50
"""How long to wait for records on the way to the end: a poll does not return for a transaction's marker alone, and that
may be all there is."""
_RETRY_S: Final = 0.5
_LOOK_S: Final = 0.1
_METADATA_S: Final = 30.0
"""How long the partitions of a topic may be unknown after it was made."""
_END_OFFSETS_MS: Final = 10_000
_CLOSE_S: Final = 10.0
_API_TIMEOUT: Final = "default.api.timeout.ms"
_API_TIMEOUT_MS: Final = "60000"
_BACKOFF: Final = "retry.backoff.ms"
_BACKOFF_MS: Final = "100"
_FOREVER_MS: Final = str(0x7FFFFFFF)
_OWN: Final = ("topic", "partitions", "replication.factor", _POLICY)
_STRANGE: Final = (
    *("access.", "admin.", "config.", "connect.", "connector.", "consumer.", "exactly.", "group.", "header."),
    *(
        "heartbeat.",
        "inter.",
        "key.",
        "listeners",
        "offset.",
        "plugin.",
        "producer.",
        "rebalance.",
        "response.",
    ),
    *("rest.", "scheduled.", "session.", "status.", "task.", "topic.", "value.", "worker."),
)
"""How the settings of a worker begin that are none of a client's."""
_UNTOLD: Final = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
})  # fmt: skip
"""Why a broker does not make a topic, or tell its settings, without there being anything wrong with the topic."""


class _TooEarlyError(ConnectError):
    """A topic cannot be made yet: there are too few brokers, or they are too busy."""


class LogTimeoutError(ConnectError):
    """The end of a log was not reached in time."""

    JAVA_NAME = "java.util.concurrent.TimeoutException"


@dataclass(frozen=True, slots=True)
class LogTopic:
    """A topic, and what it is to be like when it has to be made.

    Args:
        name: of the topic.
        setting: that names it, for refusals, such as ``config.storage.topic``.
        purpose: what is in it, for refusals, such as ``connector configurations``.
        partitions, replicas: -1: as many as the brokers give.
        configs: of the topic, beside ``cleanup.policy``.
    """

    name: str
    setting: str
    purpose: str
    partitions: int = -1
    replicas: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogClients:
    """The settings of the three clients of a log."""

    producer: Mapping[str, str]
    consumer: Mapping[str, str]
    admin: Mapping[str, str]


def storage_topic(
    config: WorkerConfig, kind: str, purpose: str, *, partitions: int | None = None
) -> LogTopic:
    """The topic that a worker's settings name.

    Args:
        config: of a distributed worker.
        kind: ``config``, ``offset`` or ``status``.
        purpose: see :class:`LogTopic`.
        partitions: as many, whatever the settings say.
    """
    prefix = f"{kind}.storage."
    more = {
        name.removeprefix(prefix): value
        for name, value in config.originals.items()
        if name.startswith(prefix)
    }
    if partitions is not None and "partitions" in more:
        log.warning(
            "Ignoring '%spartitions=%s' setting, since config topic partitions is always %d",
            prefix,
            more["partitions"],
            partitions,
        )
    if _POLICY in more:
        log.warning(
            "Ignoring '%scleanup.policy=%s' setting, since compaction is always used", prefix, more[_POLICY]
        )
    return LogTopic(
        config.parsed[f"{prefix}topic"],
        f"{prefix}topic",
        purpose,
        config.parsed[f"{prefix}partitions"] if partitions is None else partitions,
        config.parsed[f"{prefix}replication.factor"],
        {name: value for name, value in more.items() if name not in _OWN},
    )


def internal_clients(config: WorkerConfig, client_id: str, *, read_committed: bool) -> LogClients:
    """The clients by which a worker uses its own topics: the worker's settings are theirs, without any prefix.

    Args:
        client_id: of all three.
        read_committed: only what was committed counts.
    """
    servers = ",".join(config.parsed["bootstrap.servers"])
    common = {**_worker_settings(config), "bootstrap.servers": servers, "client.id": client_id}
    producer = {**common, "delivery.timeout.ms": _FOREVER_MS, "enable.idempotence": "false"}
    consumer = {**common}
    if read_committed:
        consumer["isolation.level"] = "read_committed"
    return LogClients(producer, consumer, common)


def _worker_settings(config: WorkerConfig) -> dict[str, str]:
    """Those that a client may know; the group is the workers', and no consumer joins it."""
    return {name: value for name, value in config.originals.items() if not name.startswith(_STRANGE)}


class _Wish:
    """Somebody waits for the end of the log."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: Exception | None = None

    def end(self, error: Exception | None = None) -> None:
        self.error = error
        self.done.set()


class TopicLog:
    """Reads and writes one topic.

    Args:
        topic: which, and how it is made.
        clients: by which.
        consumed: takes the records of each partition in their order, on the thread that reads. What it raises is
            logged, and the next record comes.
        producer: writes, and stays its owner's; None: one is made, and closed.
    """

    def __init__(
        self,
        topic: LogTopic,
        clients: LogClients,
        consumed: Callable[[ConsumerRecord], object],
        producer: Producer | None = None,
    ) -> None:
        self.topic = topic
        self._clients = clients
        self._consumed = consumed
        self._lock = threading.Lock()
        self._wishes: list[_Wish] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._admin: Admin | None = None
        self._producer = producer
        self._owns_producer = producer is None
        self._consumer: Consumer | None = None
        self._partitions: list[TopicPartition] = []
        self._begins_committed = False
        """Whether reading what was there at the start ends where the first open transaction begins."""

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has; 0 before the start."""
        return len(self._partitions)

    def start(
        self, caught_up: Callable[[], object] = lambda: None, *, waits_for_transactions: bool = True
    ) -> None:
        """Make the topic if there is none, and read all that is in it.

        Args:
            caught_up: is called once, on the thread that reads, when that is done: between the last record that was
                there and the first that is new.
            waits_for_transactions: whether what is in open transactions is to be read too, as soon as they have ended.

        Raises:
            ConfigError: the topic is there, and is not compacted, or is to be made as it cannot be.
            ConnectError: it cannot be made or found.
            ClientError: a setting of a client is refused.
        """
        log.info("Starting KafkaBasedLog with topic %s", self.topic.name)
        try:
            self._admin = Admin(self._clients.admin)
            self._see_to_topic(self._admin)
            if self._producer is None:
                self._producer = Producer(
                    {**self._clients.producer, "acks": "all", "max.in.flight.requests.per.connection": "1"}
                )
            self._consumer = Consumer(
                {**self._clients.consumer, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
            )
            self._partitions = self._find_partitions(self._consumer)
            # From now on the producer knows where to send: no send waits for a broker that is away.
            self._producer.partitions_for(self.topic.name)
            self._consumer.assign(self._partitions)
            self._consumer.seek_to_beginning(self._partitions)
        except BaseException:
            self.close()
            raise
        first = _Wish()
        self._wishes.append(first)
        self._begins_committed = not waits_for_transactions
        self._thread = threading.Thread(
            target=self._run,
            args=(self._admin, self._consumer, caught_up),
            name=f"KafkaBasedLog Work Thread - {self.topic.name}",
            daemon=True,
        )
        self._thread.start()
        first.done.wait()
        if first.error is not None:
            self.close()
            raise ConnectError(f"The topic {self.topic.name} cannot be read: {first.error}") from first.error
        log.info("Started KafkaBasedLog for topic %s", self.topic.name)

    def _see_to_topic(self, admin: Admin) -> None:
        """Make the topic if need be, and be patient: the brokers may be about to start, like this worker."""
        deadline_s = time.monotonic() + int(self._clients.admin.get(_API_TIMEOUT, _API_TIMEOUT_MS)) / 1000
        while True:
            try:
                see_to_topic(admin, self.topic)
                return
            except _TooEarlyError as error:
                if time.monotonic() >= deadline_s or self._stopping.is_set():
                    raise
                log.info("'%s' topic creation failed due to '%s', retrying", self.topic.name, error.__cause__)
                self._stopping.wait(int(self._clients.admin.get(_BACKOFF, _BACKOFF_MS)) / 1000)

    def close(self) -> None:
        """Read no more, send what is left, and end; whoever waits is told so. Any thread may call it, also twice."""
        self._stopping.set()
        if self._consumer is not None:
            self._consumer.wakeup()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._producer is not None and self._owns_producer:
            _quietly(partial(self._producer.close, _CLOSE_S))
        if self._consumer is not None:
            _quietly(self._consumer.close)
        if self._admin is not None:
            _quietly(self._admin.close)
        self._fail_wishes()

    # -- writing and waiting --

    def send(self, key: bytes | None, value: bytes | None, callback: Callback | None = None) -> RecordFuture:
        """Write a record; any thread may, and none waits for the acknowledgement.

        Args:
            value: None: a tombstone.
            callback: hears of the outcome, on the producer's thread.

        Raises:
            ConnectError: the log is not started, or is closed.
        """
        if self._producer is None or self._stopping.is_set():
            raise ConnectError(f"The log of the topic {self.topic.name} is not open")
        return self._producer.send(self.topic.name, value, key, callback=callback)

    def read_to_end(self, timeout_s: float) -> None:
        """Wait until all was read that is in the topic at this moment; what is still being sent is sent first.

        Any thread may call it but the one that reads.

        Raises:
            LogTimeoutError: the end was not reached in time; reading goes on.
            ConnectError: the log is closed.
        """
        deadline_s = time.monotonic() + timeout_s
        self._flush(timeout_s)
        wish = _Wish()
        with self._lock:
            if self._stopping.is_set() or self._consumer is None:
                raise ConnectError(f"The log of the topic {self.topic.name} is not open")
            self._wishes.append(wish)
        self._consumer.wakeup()
        if not wish.done.wait(max(0.0, deadline_s - time.monotonic())):
            with self._lock:
                if wish in self._wishes:
                    self._wishes.remove(wish)
            raise self._late(timeout_s)
        if wish.error is not None:
            raise ConnectError(f"The topic {self.topic.name} cannot be read: {wish.error}") from wish.error

    def _flush(self, timeout_s: float) -> None:
        if self._producer is None:
            return
        try:
            self._producer.flush(timeout_s)
        except ClientError as error:
            raise self._late(timeout_s) from error

    def _late(self, timeout_s: float) -> LogTimeoutError:
        return LogTimeoutError(
            f"The end of the topic {self.topic.name} was not reached within {timeout_s:g} s"
        )

    # -- the thread that reads --

    def _run(self, admin: Admin, consumer: Consumer, caught_up: Callable[[], object]) -> None:
        is_new = True
        try:
            while not self._stopping.is_set():
                is_new = not self._step(admin, consumer, caught_up if is_new else None) and is_new
        finally:
            self._fail_wishes()

    def _step(self, admin: Admin, consumer: Consumer, caught_up: Callable[[], object] | None) -> bool:
        """Grant the wishes there are, or wait for records; whether the end was reached."""
        with self._lock:
            wishes = list(self._wishes)
        try:
            if not wishes:
                self._poll(consumer, _POLL_MS)
                return False
            self._read_to_end(admin, consumer, committed=self._begins_committed and caught_up is not None)
            if self._stopping.is_set():
                return False
            if caught_up is not None:
                caught_up()
            self._grant(wishes)
            return True
        except WakeupError:
            pass  # there is one more wish, or this is the end
        except PkafkaError as error:
            log.warning("Reading the topic %s failed, which is tried again: %s", self.topic.name, error)
            if not getattr(error, "retriable", False):
                self._grant(wishes, error)
            self._stopping.wait(_RETRY_S)
        except Exception:
            log.exception("Reading the topic %s failed, which is tried again", self.topic.name)
            self._stopping.wait(_RETRY_S)
        return False

    def _read_to_end(self, admin: Admin, consumer: Consumer, *, committed: bool) -> None:
        """Read up to where the partitions end now. Positions are behind transactions' markers, as ends are."""
        ends = self._end_offsets(admin, committed=committed)
        for partition, end in ends.items():
            while not self._stopping.is_set() and consumer.position(partition) < end:
                self._poll(consumer, _STEP_MS)

    def _end_offsets(self, admin: Admin, *, committed: bool) -> dict[TopicPartition, int]:
        """Where the partitions end, with transactions that are open: what a leader has just committed counts, although
        its markers may be missing yet. Asked by another client than the reading one, whose connection is busy while it
        waits for records.

        Args:
            committed: transactions that are open do not count.
        """
        found = admin.list_offsets(
            dict.fromkeys(self._partitions, LATEST), read_committed=committed, timeout_ms=_END_OFFSETS_MS
        )
        ends = {}
        for partition, outcome in found.items():
            if isinstance(outcome, ApiError):
                raise outcome
            ends[partition] = outcome.offset
        return ends

    def _poll(self, consumer: Consumer, timeout_ms: int) -> None:
        for record in consumer.poll(timeout_ms):
            try:
                self._consumed(record)
            except Exception:
                log.exception(
                    "The record at the offset %d of %s-%d is left out",
                    record.offset,
                    record.topic,
                    record.partition,
                )

    def _grant(self, wishes: Sequence[_Wish], error: Exception | None = None) -> None:
        with self._lock:
            self._wishes = [each for each in self._wishes if each not in wishes]
        for wish in wishes:
            wish.end(error)

    def _fail_wishes(self) -> None:
        with self._lock:
            wishes = list(self._wishes)
        self._grant(wishes, ConnectError(f"The log of the topic {self.topic.name} is closed"))

    def _find_partitions(self, consumer: Consumer) -> list[TopicPartition]:
        deadline_s = time.monotonic() + _METADATA_S
        while True:
            view = consumer.partitions_for(self.topic.name)
            if view.partitions:
                return [TopicPartition(self.topic.name, each.partition) for each in view.partitions]
            if time.monotonic() > deadline_s or self._stopping.wait(_LOOK_S):
                raise ConnectError(
                    f"Could not look up partition metadata for topic '{self.topic.name}' in the allotted period. This"
                    " could indicate a connectivity issue, unavailable topic partitions, or if this is your first use"
                    " of the topic it may have taken too long to create."
                )


# -- the topic --


def see_to_topic(admin: Admin, topic: LogTopic) -> bool:
    """Make a topic if there is none; else see that it is compacted, and nothing is deleted from it.

    Returns:
        Whether it was made.

    Raises:
        ConfigError: records are deleted from it.
        ConnectError: it cannot be made.
    """
    configs = {**topic.configs, _POLICY: _COMPACT}
    new = NewTopic(topic.name, topic.partitions, topic.replicas, configs=configs)
    outcome = admin.create_topics([new])[topic.name]
    if not isinstance(outcome, ApiError):
        log.info("Created topic '%s' for %s", topic.name, topic.purpose)
        return True
    if outcome.code in _UNTOLD:
        log.debug("The topic '%s' cannot be made, so it has to be there: %s", topic.name, outcome)
    elif outcome.code == ErrorCode.REQUEST_TIMED_OUT:
        raise _TooEarlyError(
            f"Timed out while checking for or creating topic(s) '{topic.name}'. This could indicate a connectivity"
            " issue, unavailable topic partitions, or if this is your first use of the topic it may have taken too long"
            " to create."
        ) from outcome
    elif outcome.code == ErrorCode.INVALID_CONFIG:
        raise ConnectError(f"Unable to create topic(s) '{topic.name}': {outcome}") from outcome
    elif outcome.code == ErrorCode.INVALID_REPLICATION_FACTOR:
        raise _TooEarlyError(f"Error while attempting to create/find topic(s) '{topic.name}'") from outcome
    elif outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise ConnectError(f"Error while attempting to create/find topic(s) '{topic.name}'") from outcome
    _check_policy(admin, topic)
    return False


def _check_policy(admin: Admin, topic: LogTopic) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    found = admin.describe_configs([resource], keys=[_POLICY])[resource]
    if isinstance(found, ApiError):
        if found.code in _UNTOLD or found.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            log.info(
                "Unable to use admin client to verify the cleanup policy of '%s' topic is '%s': %s",
                topic.name,
                _COMPACT,
                found,
            )
            return
        raise ConnectError(
            f"Error while attempting to describe topic config for topic '{topic.name}'"
        ) from found
    policies = [
        each.strip() for entry in found if entry.name == _POLICY for each in (entry.value or "").split(",")
    ]
    if policies and policies != [_COMPACT]:
        raise ConfigError(
            f"Topic '{topic.name}' supplied via the '{topic.setting}' property is required to have"
            f" '{_POLICY}={_COMPACT}' to guarantee consistency and durability of {topic.purpose}, but found the topic"
            f" currently has '{_POLICY}={','.join(policies)}'. Continuing would likely result in eventually losing"
            f" {topic.purpose} and problems restarting this Connect cluster in the future. Change the"
            f" '{topic.setting}' property in the Connect worker configurations to use a topic with"
            f" '{_POLICY}={_COMPACT}'."
        )


def _quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:
        log.exception("Ignoring a failure while a log is closed")
