"""The znodes of Apache Kafka 3.9: one class each with its path, ``encode`` and ``decode``.

``encode`` gives the bytes that Kafka 3.9.1 writes; ``decode`` takes what any Kafka since 0.8.2 wrote and ignores keys
that it does not know. Only :class:`~pkafka.coordination.znode_json.ZnodeFormatError` leaves a ``decode``. Nothing here
talks to a store. Those of ACLs and delegation tokens are in :mod:`pkafka.coordination.znodes_security`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar
from urllib.parse import quote, unquote

from pkafka.coordination.znode_json import (
    Json,
    ZnodeFormatError,
    from_json,
    in_properties_order,
    in_scala_order,
    to_json,
)
from pkafka.java.numbers import parse_long
from pkafka.model import BrokerId, LeaderEpoch, Millis, TopicId, TopicPartition, parse_topic_id, topic_id_text

BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CONFIG_CHANGES: Final = "/config/changes"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
CONSUMERS: Final = "/consumers"

DEFAULT_ENTITY: Final = "<default>"
"""Stands in a config path for the default of an entity type."""

PERSISTENT_PATHS: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""What a broker creates at its start, in Kafka's order."""

SENSITIVE_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Subtrees that hold secrets and must not be world readable once zookeeper.set.acl is on."""

_NO_FEATURES: Final[Mapping[str, Any]] = {}

P = ParamSpec("P")
T = TypeVar("T")


def decoder(decode: Callable[P, T]) -> Callable[P, T]:
    """Turn what missing keys and wrong types raise into :class:`ZnodeFormatError`."""

    @wraps(decode)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return decode(*args, **kwargs)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ZnodeFormatError(f"{decode.__qualname__}: {type(error).__name__}: {error}") from error

    return guarded


def sanitize(name: str) -> str:
    """A user name or client id as a part of a path: percent-encoded as Kafka's ``Sanitizer`` does."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(part: str) -> str:
    """Invert :func:`sanitize`."""
    return unquote(part)


class Endpoint(NamedTuple):
    """Where one listener of a broker is reached."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


_ENDPOINT: Final = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*?)\]?:(-?[0-9]+)")


class BrokerRegistration(NamedTuple):
    """``/brokers/ids/N`` (ephemeral): a live broker. Its czxid is the broker epoch.

    v1 host, port · v2 endpoints · v3 rack · v4 listener_security_protocol_map · v5 features (KIP-584)
    """

    endpoints: tuple[Endpoint, ...]
    timestamp_ms: Millis
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, Mapping[str, int]] = _NO_FEATURES
    version: int = 5
    is_pkafka: bool = False
    """Its processes close its listeners when they die, and it registers anew when its node is gone: a pkafka broker,
    which says so by a key that Kafka does not look at."""

    @staticmethod
    def path(broker_id: BrokerId) -> str:
        return f"{BROKER_IDS}/{broker_id}"

    def encode(self) -> bytes:
        plaintext = next((each for each in self.endpoints if each.security_protocol == "PLAINTEXT"), None)
        value: dict[str, Json] = {
            "features": self.features,
            "listener_security_protocol_map": {
                each.listener: each.security_protocol for each in self.endpoints
            },
            "endpoints": [str(each) for each in self.endpoints],
        }
        if self.rack is not None:
            value["rack"] = self.rack
        value |= {
            "jmx_port": self.jmx_port,
            "port": plaintext.port if plaintext else -1,
            "host": plaintext.host if plaintext else None,
            "version": self.version,
            "timestamp": str(self.timestamp_ms),
        }
        if self.is_pkafka:
            value["pkafka"] = True
        return to_json(value)

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "BrokerRegistration":
        value = from_json(data, "broker registration")
        version = int(value["version"])
        if version < 1:
            raise ValueError(f"unsupported version {version}")
        if version == 1:
            endpoints = [Endpoint("PLAINTEXT", str(value["host"]), int(value["port"]))]
        else:
            protocols = value.get("listener_security_protocol_map")
            endpoints = [_parse_endpoint(each, protocols) for each in value["endpoints"]]
        return cls(
            endpoints=tuple(endpoints),
            timestamp_ms=int(value.get("timestamp", -1)),
            rack=value.get("rack"),
            jmx_port=int(value.get("jmx_port", -1)),
            features=value.get("features") or {},
            version=version,
            is_pkafka=value.get("pkafka") is True,
        )


def _parse_endpoint(text: str, protocols: Mapping[str, str] | None) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no endpoint")
    listener, host, port = match[1], match[2], int(match[3])
    return Endpoint(listener, host, port, protocols[listener] if protocols is not None else listener)


class PartitionAssignment(NamedTuple):
    """The replicas of one partition; while it moves, which of them are new and which will go (KIP-455)."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()


class TopicAssignment(NamedTuple):
    """``/brokers/topics/T``: the partitions of a topic and where they live.

    v1 partitions · v2 adding_replicas, removing_replicas · v3 topic_id (KIP-516; absent when never assigned)
    """

    partitions: Mapping[int, PartitionAssignment]
    topic_id: TopicId | None

    @staticmethod
    def path(topic: str) -> str:
        return f"{TOPICS}/{topic}"

    def encode(self) -> bytes:
        by_name = {str(number): each for number, each in self.partitions.items()}
        order = in_scala_order(by_name)
        adding = in_scala_order(name for name, each in by_name.items() if each.adding)
        removing = in_scala_order(name for name, each in by_name.items() if each.removing)
        value: dict[str, Json] = {"partitions": {name: by_name[name].replicas for name in order}}
        if self.topic_id is not None:
            value["topic_id"] = topic_id_text(self.topic_id)
        value["adding_replicas"] = {name: by_name[name].adding for name in adding}
        value["removing_replicas"] = {name: by_name[name].removing for name in removing}
        value["version"] = 3
        return to_json(value)

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "TopicAssignment":
        value = from_json(data, "topic")
        adding = value.get("adding_replicas") or {}
        removing = value.get("removing_replicas") or {}
        topic_id = value.get("topic_id")
        partitions = {
            int(name): PartitionAssignment(
                _ids(replicas), _ids(adding.get(name, ())), _ids(removing.get(name, ()))
            )
            for name, replicas in value["partitions"].items()
        }
        return cls(
            partitions=dict(sorted(partitions.items())),
            topic_id=None if topic_id is None else parse_topic_id(topic_id),
        )


def _ids(values: Iterable[Json]) -> tuple[BrokerId, ...]:
    return tuple(int(each) for each in values)


class PartitionState(NamedTuple):
    """``/brokers/topics/T/partitions/P/state``: its leader. The znode's version is the partition epoch.

    ``recovering`` is written only when true (KIP-704).
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    recovering: bool = False

    @staticmethod
    def partitions_path(topic: str) -> str:
        return f"{TOPICS}/{topic}/partitions"

    @staticmethod
    def path(partition: TopicPartition) -> str:
        return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"

    def encode(self) -> bytes:
        value: dict[str, Json] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
        }
        if self.recovering:
            value["leader_recovery_state"] = 1
        value["leader_epoch"] = self.leader_epoch
        value["isr"] = self.isr
        return to_json(value)

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "PartitionState":
        value = from_json(data, "partition state")
        return cls(
            leader=int(value["leader"]),
            leader_epoch=int(value["leader_epoch"]),
            isr=_ids(value["isr"]),
            controller_epoch=int(value["controller_epoch"]),
            recovering=int(value.get("leader_recovery_state", 0)) == 1,
        )


class Controller(NamedTuple):
    """``/controller`` (ephemeral): the broker that is the controller. v2 adds kraftControllerEpoch (KIP-866)."""

    broker_id: BrokerId
    timestamp_ms: Millis
    kraft_controller_epoch: int = -1

    @staticmethod
    def path() -> str:
        return CONTROLLER

    def encode(self) -> bytes:
        return to_json(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "Controller":
        value = from_json(data, "controller")
        return cls(
            broker_id=int(value["brokerid"]),
            timestamp_ms=int(value.get("timestamp", -1)),
            kraft_controller_epoch=int(value.get("kraftControllerEpoch", -1)),
        )


class ControllerEpoch(NamedTuple):
    """``/controller_epoch``: counts elections; its version guards every write of the controller."""

    epoch: int

    @staticmethod
    def path() -> str:
        return CONTROLLER_EPOCH

    def encode(self) -> bytes:
        return b"%d" % self.epoch

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "ControllerEpoch":
        return cls(parse_long(data.decode()))


class EntityConfig(NamedTuple):
    """``/config/TYPE/NAME``: overrides of a topic, broker, user, client or ip; all values are strings."""

    config: Mapping[str, str]

    @staticmethod
    def path(entity_type: str, entity_name: str) -> str:
        """Of ``topics``, ``brokers``, ``users``, ``clients`` or ``ips``.

        Names of users and clients come :func:`sanitize`-d; :data:`DEFAULT_ENTITY` is the default. A quota of one
        client of one user has the type ``users`` and the name ``USER/clients/CLIENT``.
        """
        return f"/config/{entity_type}/{entity_name}"

    def encode(self) -> bytes:
        config = {key: self.config[key] for key in in_properties_order(self.config)}
        return to_json({"version": 1, "config": config})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "EntityConfig":
        if not data:  # a node made only as the parent of another
            return cls({})
        value = from_json(data, "config")
        return cls({str(key): str(each) for key, each in (value.get("config") or {}).items()})


class ConfigChange(NamedTuple):
    """``/config/changes/config_change_N`` (sequential): the config at ``entity_path`` changed.

    v1 entity_type, entity_name · v2 entity_path (``topics/T``, ``users/U/clients/C``)
    """

    entity_path: str

    @staticmethod
    def create_path() -> str:
        return f"{CONFIG_CHANGES}/config_change_"

    def encode(self) -> bytes:
        return to_json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "ConfigChange":
        value = from_json(data, "config change")
        if int(value["version"]) == 1:
            return cls(f"{value['entity_type']}/{value['entity_name']}")
        return cls(str(value["entity_path"]))


class DeletedTopic:
    """``/admin/delete_topics/T`` (without data): a topic waits for its deletion."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{DELETE_TOPICS}/{topic}"


class IsrChange(NamedTuple):
    """``/isr_change_notification/isr_change_N`` (sequential): brokers without AlterPartition changed these."""

    partitions: tuple[TopicPartition, ...]

    @staticmethod
    def create_path() -> str:
        return f"{ISR_CHANGES}/isr_change_"

    def encode(self) -> bytes:
        return to_json({"version": 1, "partitions": _partition_rows(self.partitions)})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "IsrChange":
        return cls(_partitions(from_json(data, "ISR change")))


class LogDirEvent(NamedTuple):
    """``/log_dir_event_notification/log_dir_event_N`` (sequential): a log directory of the broker failed."""

    broker_id: BrokerId

    @staticmethod
    def create_path() -> str:
        return f"{LOG_DIR_EVENTS}/log_dir_event_"

    def encode(self) -> bytes:
        return to_json({"version": 1, "broker": self.broker_id, "event": 1})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "LogDirEvent":
        return cls(int(from_json(data, "log directory event")["broker"]))


class Reassignments(NamedTuple):
    """``/admin/reassign_partitions``: moves asked for in the way from before Kafka 2.4."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]

    @staticmethod
    def path() -> str:
        return REASSIGN_PARTITIONS

    def encode(self) -> bytes:
        rows = [
            {"topic": each.topic, "partition": each.partition, "replicas": replicas}
            for each, replicas in self.targets.items()
        ]
        return to_json({"version": 1, "partitions": rows})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "Reassignments":
        rows = from_json(data, "reassignment")["partitions"]
        if not all(isinstance(row["replicas"], list) for row in rows):
            raise TypeError("replicas are no list")
        return cls(
            {TopicPartition(str(row["topic"]), int(row["partition"])): _ids(row["replicas"]) for row in rows}
        )


class PreferredReplicaElection(NamedTuple):
    """``/admin/preferred_replica_election``: partitions whose preferred replica shall lead again."""

    partitions: tuple[TopicPartition, ...]

    @staticmethod
    def path() -> str:
        return PREFERRED_REPLICA_ELECTION

    def encode(self) -> bytes:
        return to_json({"version": 1, "partitions": _partition_rows(self.partitions)})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "PreferredReplicaElection":
        return cls(_partitions(from_json(data, "preferred replica election")))


def _partition_rows(partitions: Iterable[TopicPartition]) -> list[Json]:
    return [{"topic": each.topic, "partition": each.partition} for each in partitions]


def _partitions(value: Mapping[str, Json]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(str(row["topic"]), int(row["partition"])) for row in value["partitions"])


class ProducerIdBlock(NamedTuple):
    """``/latest_producer_id_block``: the last block of producer ids given away, both ends included."""

    broker_id: BrokerId
    first: int
    last: int

    @staticmethod
    def path() -> str:
        return PRODUCER_ID_BLOCK

    def encode(self) -> bytes:
        return to_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "ProducerIdBlock":
        value = from_json(data, "producer id block")
        return cls(int(value["broker"]), int(value["block_start"]), int(value["block_end"]))


class ClusterId(NamedTuple):
    """``/cluster/id``: 22 characters of URL-safe base64, made once."""

    cluster_id: str

    @staticmethod
    def path() -> str:
        return CLUSTER_ID

    def encode(self) -> bytes:
        return to_json({"version": "1", "id": self.cluster_id})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "ClusterId":
        return cls(str(from_json(data, "cluster id")["id"]))


class Features(NamedTuple):
    """``/feature``: finalized features (KIP-584); a cluster without them has an enabled, empty node.

    v1 min and max levels · v2 max levels
    """

    max_levels: Mapping[str, int] = _NO_FEATURES
    enabled: bool = True

    @staticmethod
    def path() -> str:
        return FEATURE

    def encode(self) -> bytes:
        features = {name: {"max_version_level": level} for name, level in self.max_levels.items()}
        return to_json({"features": features, "version": 2, "status": int(self.enabled)})

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "Features":
        value = from_json(data, "feature")
        levels = {
            str(name): int(each["max_version_level"]) for name, each in (value.get("features") or {}).items()
        }
        return cls(levels, int(value["status"]) == 1)


class ConsumerOffset(NamedTuple):
    """``/consumers/G/offsets/T/P``: a group's offset, as the old consumer and OffsetCommit v0 store it."""

    offset: int

    @staticmethod
    def path(group: str, partition: TopicPartition) -> str:
        return f"{CONSUMERS}/{group}/offsets/{partition.topic}/{partition.partition}"

    def encode(self) -> bytes:
        return b"%d" % self.offset

    @classmethod
    @decoder
    def decode(cls, data: bytes) -> "ConsumerOffset":
        return cls(parse_long(data.decode()))
