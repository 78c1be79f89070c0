"""Which requests pkafka speaks, at which versions, and where their classes are.

An index beside the declarations: the ApiVersions answer and every request header need ranges and flexibility of
all keys, but importing all modules of messages for that would take longer than starting. A test compares both.

Brokers serve what Kafka 3.9.1 has (:func:`versions`). What clients say to later brokers is declared as well, and goes
out only where the caller of a connection names a higher version than that (:func:`declared_versions`).
"""

from importlib import import_module
from typing import Final

from pkafka.protocol.api import ApiKey
from pkafka.protocol.schema import Message

_NEVER: Final = 0x8000  # above every int16

# key: (highest version, first flexible version or None). Every range of 3.9.1 begins at 0. Not here: what only
# KRaft controllers say to each other, and share groups, which 3.9 has as an unfinished preview.
_VERSIONS: Final[dict[ApiKey, tuple[int, int | None]]] = {
    ApiKey.PRODUCE: (11, 9),
    ApiKey.FETCH: (17, 12),
    ApiKey.LIST_OFFSETS: (9, 6),
    ApiKey.METADATA: (12, 9),
    ApiKey.LEADER_AND_ISR: (7, 4),
    ApiKey.STOP_REPLICA: (4, 2),
    ApiKey.UPDATE_METADATA: (8, 6),
    ApiKey.CONTROLLED_SHUTDOWN: (3, 3),
    ApiKey.OFFSET_COMMIT: (9, 8),
    ApiKey.OFFSET_FETCH: (9, 6),
    ApiKey.FIND_COORDINATOR: (6, 3),
    ApiKey.JOIN_GROUP: (9, 6),
    ApiKey.HEARTBEAT: (4, 4),
    ApiKey.LEAVE_GROUP: (5, 4),
    ApiKey.SYNC_GROUP: (5, 4),
    ApiKey.DESCRIBE_GROUPS: (5, 5),
    ApiKey.LIST_GROUPS: (5, 3),
    ApiKey.SASL_HANDSHAKE: (1, None),
    ApiKey.API_VERSIONS: (4, 3),
    ApiKey.CREATE_TOPICS: (7, 5),
    ApiKey.DELETE_TOPICS: (6, 4),
    ApiKey.DELETE_RECORDS: (2, 2),
    ApiKey.INIT_PRODUCER_ID: (5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (4, 3),
    ApiKey.END_TXN: (4, 3),
    ApiKey.WRITE_TXN_MARKERS: (1, 1),
    ApiKey.TXN_OFFSET_COMMIT: (4, 3),
    ApiKey.DESCRIBE_ACLS: (3, 2),
    ApiKey.CREATE_ACLS: (3, 2),
    ApiKey.DELETE_ACLS: (3, 2),
    ApiKey.DESCRIBE_CONFIGS: (4, 4),
    ApiKey.ALTER_CONFIGS: (2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (4, 2),
    ApiKey.SASL_AUTHENTICATE: (2, 2),
    ApiKey.CREATE_PARTITIONS: (3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: (3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: (2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (3, 2),
    ApiKey.DELETE_GROUPS: (2, 2),
    ApiKey.ELECT_LEADERS: (2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, None),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (2, 0),
    ApiKey.ALTER_PARTITION: (3, 0),
    ApiKey.UPDATE_FEATURES: (1, 0),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (1, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (1, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0),
    ApiKey.LIST_CLIENT_METRICS_RESOURCES: (0, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.ADD_RAFT_VOTER: (0, 0),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
}

# What pkafka's clients say beside that, to brokers of Kafka 4 alone: transactions of version 2 (KIP-890).
_LATER: Final[dict[int, int]] = {
    int(ApiKey.PRODUCE): 12,
    int(ApiKey.END_TXN): 5,
    int(ApiKey.TXN_OFFSET_COMMIT): 5,
}

_HIGHEST: Final = {int(key): highest for key, (highest, _) in _VERSIONS.items()}
_FLEXIBLE_FROM: Final = {
    int(key): _NEVER if first is None else first for key, (_, first) in _VERSIONS.items()
}
_CONTROLLED_SHUTDOWN: Final = int(ApiKey.CONTROLLED_SHUTDOWN)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)

_requests: dict[int, type[Message]] = {}
_responses: dict[int, type[Message]] = {}


def keys() -> list[ApiKey]:
    """Every key with declared messages, ascending."""
    return list(_VERSIONS)


def versions(key: int) -> range:
    """All versions of ``key`` that Kafka 3.9.1 has: those that a broker serves, and a client uses unless it asks for a
    later one; empty when pkafka does not know the key."""
    return range(_HIGHEST.get(key, -1) + 1)


def declared_versions(key: int) -> range:
    """:func:`versions`, and later ones that only clients use; empty when pkafka does not know ``key``."""
    return range(_LATER.get(key, _HIGHEST.get(key, -1)) + 1)


def is_flexible(key: int, version: int) -> bool:
    """Whether bodies have compact sizes and tag sections (KIP-482); answers for unknown higher versions too.

    Raises:
        KeyError: pkafka does not know ``key``.
    """
    return version >= _FLEXIBLE_FROM[key]


def request_header_version(key: int, version: int) -> int:
    """0 (without client id), 1, or 2 (with a tag section).

    Raises:
        KeyError: pkafka does not know ``key``.
    """
    if version >= _FLEXIBLE_FROM[key]:
        return 2
    return 0 if key == _CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(key: int, version: int) -> int:
    """0, or 1 with a tag section. ApiVersions answers with 0 always: its reader may not know the version yet.

    Raises:
        KeyError: pkafka does not know ``key``.
    """
    return 1 if version >= _FLEXIBLE_FROM[key] and key != _API_VERSIONS else 0


def request_class(key: int) -> type[Message]:
    """The class of the request with this key; its module is imported when first asked for.

    Raises:
        KeyError: pkafka does not know ``key``.
    """
    cls = _requests.get(key)
    if cls is None:
        cls = _requests[key] = _load(key, "Request")
    return cls


def response_class(key: int) -> type[Message]:
    """The class of the response with this key; its module is imported when first asked for.

    Raises:
        KeyError: pkafka does not know ``key``.
    """
    cls = _responses.get(key)
    if cls is None:
        cls = _responses[key] = _load(key, "Response")
    return cls


def _load(key: int, suffix: str) -> type[Message]:
    if key not in _HIGHEST:
        raise KeyError(key)
    name = ApiKey(key).name
    module = import_module(f"pkafka.protocol.messages.{name.lower()}")
    class_name = "".join([word.capitalize() for word in name.split("_")]) + suffix
    cls: type[Message] = getattr(module, class_name)
    return cls
