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
AclRows: TypeAlias = Sequence[tuple[Sequence[Any], Sequence[Sequence[Any]]]]
"""The values of a pattern (:class:`pkafka.security.acl.Pattern`) with those of its entries, for each pattern."""

UserCredentials: TypeAlias = Mapping[str, Sequence["StoredCredential"]]
"""The SCRAM credentials of users, by name; none for a user whose last one is gone."""

# Worker -> control process.
SETTINGS: Final = "settings"
"""The worker is about to open its logs, and needs the settings."""
HELLO: Final = "hello"
"""The worker has opened its logs."""
API: Final = "api"
"""A request of a client that the control process serves."""
AUTO_CREATE: Final = "auto_create"
"""Payload: :class:`AutoCreate`; the answer: an error code by name."""
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

MISSING_KEY: Final = "missing_key"
"""Payload: the address of a key set, and the name of a key that it lacks."""

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
CREDENTIALS: Final = "credentials"
"""Payload: :data:`UserCredentials` of the users whose credentials have changed."""
EVERY_CREDENTIAL: Final = "every_credential"
"""Payload: :data:`UserCredentials` of all users that have any."""
TOKENS: Final = "tokens"
"""Payload: by id a :class:`TokenRow` of each delegation token that has changed, None for one that is gone; the answer
comes when they are in force."""
EVERY_TOKEN: Final = "every_token"  # noqa: S105 - no secret
"""Payload: the same of all delegation tokens."""
KEY_SETS: Final = "key_sets"
"""Payload: by the address of a key set that has changed, its document."""
ACLS: Final = "acls"
"""Payload: :data:`AclRows` of all patterns that have rules."""
ACLS_CHANGED: Final = "acls_changed"
"""Payload: :data:`AclRows` of the patterns whose rules have changed; the answer comes when they are in force."""
CLIENT_QUOTAS: Final = "client_quotas"
"""Payload: :class:`ClientQuotaSettings`."""
HEARD: Final = "heard"
"""The answer comes when all that was told before this is in force."""
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


class AutoCreate(NamedTuple):
    """Names topics that are missing, and the client that uses them."""

    names: Sequence[str]
    caller: Sequence[Any] | None
    """A row of the client, whose quota they count for; None: this broker needs them."""


class ClientQuotaSettings(NamedTuple):
    """Says what quotas users, client ids, pairs and addresses have."""

    is_all: bool
    """Whether all others have none."""
    rows: Sequence[tuple[str, str, Mapping[str, str]]]
    """Type and name of an entity as its settings are stored, and its quotas by key."""


class Identity(NamedTuple):
    """Goes along with :data:`IDENTITY`."""

    broker_id: BrokerId
    cluster_id: str


class StoredCredential(NamedTuple):
    """What the store keeps of a user's password for one mechanism (:class:`pkafka.net.scram.ScramMechanism`)."""

    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"StoredCredential({self.mechanism})"


class TokenRow(NamedTuple):
    """What a worker has to know of a delegation token, beside the secret of all tokens."""

    token_id: str
    owner: str
    """As ``User:alice``."""
    expires_ms: int


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
