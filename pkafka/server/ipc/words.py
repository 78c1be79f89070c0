"""What the processes of a broker say to each other: the names, and what goes along with each.

A payload travels as the plain row of its fields, so frames stay small. ``Said(*row)`` reads it on the other side.
Requests of controllers travel as on the wire, in the blob (:mod:`pkafka.server.cluster.control_requests`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pkafka.model import NO_EPOCH, BrokerId, TopicId

Settings: TypeAlias = Mapping[str, str | None]
"""The broker's settings that differ from the file, by key; None for one that is gone."""
TopicSettings: TypeAlias = Mapping[str, Mapping[str, str]]
"""The own settings of topics, by topic."""
Checkpoints: TypeAlias = Mapping[str, Mapping[str, Sequence[Sequence[Any]]]]
"""Log directory -> checkpoint file -> rows of topic, partition and offset, of one worker."""

# Worker -> control process.
SETTINGS: Final = "settings"
"""The worker is about to open its logs, and needs the settings."""
HELLO: Final = "hello"
"""The worker has opened its logs."""
API: Final = "api"
"""A request of a client that the control process serves."""
AUTO_CREATE: Final = "auto_create"
"""Payload: names of topics; the answer: an error code by name."""
PRODUCER_ID: Final = "producer_id"
"""The answer: a producer id that no producer has had, or None when there is none at the moment."""
EXISTING_PARTITIONS: Final = "existing_partitions"
"""Payload: rows of topic and partition; the answer: those that the store has, or None when the store does not say."""
COMMIT_TO_STORE: Final = "commit_to_store"
"""OffsetCommit v0; the answer: an error code for each row."""
FETCH_FROM_STORE: Final = "fetch_from_store"
"""OffsetFetch v0; the answer: an error code and an offset for each row."""
ALTER_PARTITION: Final = "alter_partition"
"""Payload: rows of :class:`ProposedIsr`; the answer: an :class:`IsrAnswer` for each."""

# Control process -> worker.
IDENTITY: Final = "identity"
SERVE: Final = "serve"
"""The broker is registered, and the first metadata are here: let clients in."""
LEAVING: Final = "leaving"
"""The broker gives its leaders away, before it stops."""
TOPIC_CONFIGS: Final = "topic_configs"
"""Payload: :data:`TopicSettings` of the topics whose settings have changed."""
EVERY_TOPIC_CONFIG: Final = "every_topic_config"
"""Payload: :data:`TopicSettings` of all topics that have any."""
LEADER_AND_ISR: Final = "leader_and_isr"
"""Payload: rows of :class:`ProposedIsr` that a predecessor of this worker made, or None; blob: the request."""
UPDATE_METADATA: Final = "update_metadata"
STOP_REPLICA: Final = "stop_replica"
KNOWN_METADATA: Final = "known_metadata"
"""What has the predecessor of this control process said of the cluster? Blob of the answer: an UpdateMetadata."""
KNOWN_LEADERS: Final = "known_leaders"
"""The same of partitions: rows of :class:`ProposedIsr` without an answer; blob: a LeaderAndIsr."""

# Control process -> worker and cleaner.
BROKER_CONFIG: Final = "broker_config"
"""Payload: :data:`Settings`."""
METRICS: Final = "metrics"

# Worker -> cleaner.
CHECKPOINT: Final = "checkpoint"
"""Payload: :data:`Checkpoints`."""
UNLINK: Final = "unlink"
ABORT_CLEANING: Final = "abort_cleaning"
"""The log is not to be cleaned any more. Payload: a :class:`CleaningRound`."""

# Cleaner -> worker.
CLEANABLE: Final = "cleanable"
"""Payload: topic and partition of each log that the cleaner is at; the answer: a :class:`Due`."""
BEGIN_CLEANING: Final = "begin_cleaning"
"""Payload: topic and partition; the answer: the number of the round and its plan, or None."""
REPLACE_SEGMENTS: Final = "replace_segments"
"""Payload: a :class:`CleaningRound` and the replacement; the answer: whether the worker took it over."""
END_CLEANING: Final = "end_cleaning"
"""Payload: a :class:`CleaningRound` and the outcome."""

# Any -> worker, worker -> control process.
LOG_DIR_FAILED: Final = "log_dir_failed"
"""Payload: the path of the log directory whose disk has failed."""


class Hello(NamedTuple):
    """Goes along with :data:`HELLO`."""

    producer_id_max: int
    """The highest producer id in the worker's logs."""
    knows: bool
    """Whether an earlier control process has told the worker about the cluster."""


class Identity(NamedTuple):
    """Goes along with :data:`IDENTITY`."""

    broker_id: BrokerId
    cluster_id: str


class StoreCommit(NamedTuple):
    """Goes along with :data:`COMMIT_TO_STORE`."""

    group: str
    rows: Sequence[tuple[str, int, int]]
    """Topic, partition and offset."""


class StoreFetch(NamedTuple):
    """Goes along with :data:`FETCH_FROM_STORE`."""

    group: str
    rows: Sequence[tuple[str, int]]
    """Topic and partition."""


class ProposedIsr(NamedTuple):
    """A leader of this broker proposes another ISR."""

    topic: str
    partition: int
    topic_id: TopicId | None
    leader_epoch: int
    isr: Sequence[BrokerId]
    partition_epoch: int


class IsrAnswer(NamedTuple):
    """What became of a proposal, with the code NONE: the state of the partition now."""

    code: int
    leader_epoch: int = NO_EPOCH
    isr: Sequence[BrokerId] = ()
    partition_epoch: int = NO_EPOCH


class Unlink(NamedTuple):
    """Goes along with :data:`UNLINK`."""

    paths: Sequence[str]
    delay_ms: int


class Offer(NamedTuple):
    """The dirtiest log of a worker that is due."""

    topic: str
    partition: int
    dirty_ratio: float


class Due(NamedTuple):
    """What a worker answers to :data:`CLEANABLE`."""

    offer: Offer | None
    dirtiest: float
    """The largest dirty ratio, of a log that is due or not."""
    due: int
    late: int
    delay_ms: int
    """How late the latest log is."""


class CleaningRound(NamedTuple):
    """One cleaning of a log; its number tells it from another one of the same partition."""

    topic: str
    partition: int
    number: int
