"""The znodes of the controller: their paths, and their content as the controller's values."""

from collections.abc import Mapping, Sequence
from typing import Final

from pkafka.coordination import znodes
from pkafka.model import NO_TOPIC_ID, BrokerId, Millis, TopicId, TopicPartition
from pkafka.server.cluster.metadata import SECURITY_PROTOCOL_IDS, BrokerInfo, Endpoint
from pkafka.server.controller.context import Assignment, Leadership

CONTROLLER: Final = znodes.CONTROLLER
CONTROLLER_EPOCH: Final = znodes.CONTROLLER_EPOCH
BROKER_IDS: Final = znodes.BROKER_IDS
TOPICS: Final = znodes.TOPICS
DELETE_TOPICS: Final = znodes.DELETE_TOPICS
REASSIGN_PARTITIONS: Final = znodes.REASSIGN_PARTITIONS
PREFERRED_REPLICA_ELECTION: Final = znodes.PREFERRED_REPLICA_ELECTION
ISR_NOTIFICATIONS: Final = znodes.ISR_CHANGES
LOG_DIR_NOTIFICATIONS: Final = znodes.LOG_DIR_EVENTS

_PROTOCOL_NAMES: Final = {number: name for name, number in SECURITY_PROTOCOL_IDS.items()}


def broker(broker_id: BrokerId) -> str:
    """Path of a broker's registration."""
    return znodes.BrokerRegistration.path(broker_id)


def topic(name: str) -> str:
    """Path of a topic."""
    return znodes.TopicAssignment.path(name)


def topic_config(name: str) -> str:
    """Path of a topic's settings."""
    return znodes.EntityConfig.path("topics", name)


def partitions(name: str) -> str:
    """Path of the parent of a topic's partitions."""
    return znodes.PartitionState.partitions_path(name)


def partition(one: TopicPartition) -> str:
    """Path of a partition."""
    return f"{partitions(one.topic)}/{one.partition}"


def partition_state(one: TopicPartition) -> str:
    """Path of a partition's state."""
    return znodes.PartitionState.path(one)


def encode_controller(broker_id: BrokerId, now_ms: Millis) -> bytes:
    """/controller of this broker."""
    return znodes.Controller(broker_id, now_ms).encode()


def decode_controller(data: bytes) -> BrokerId:
    """The broker that /controller names."""
    return znodes.Controller.decode(data).broker_id


def encode_leadership(leadership: Leadership) -> bytes:
    """A partition's state."""
    return znodes.PartitionState(
        leader=leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=leadership.isr,
        controller_epoch=leadership.controller_epoch,
        recovering=leadership.recovering,
    ).encode()


def decode_leadership(data: bytes, version: int) -> Leadership:
    """A partition's state, read at a version of its node."""
    state = znodes.PartitionState.decode(data)
    return Leadership(
        state.leader, state.leader_epoch, state.isr, state.controller_epoch, version, state.recovering
    )


def encode_topic(topic_id: TopicId, assignments: Mapping[int, Assignment]) -> bytes:
    """A topic's node."""
    moved = {number: znodes.PartitionAssignment(*one) for number, one in assignments.items()}
    return znodes.TopicAssignment(moved, topic_id if topic_id != NO_TOPIC_ID else None).encode()


def decode_topic(data: bytes) -> tuple[TopicId, dict[int, Assignment]]:
    """A topic's id, zeros when it has none, and its assignments."""
    found = znodes.TopicAssignment.decode(data)
    return found.topic_id or NO_TOPIC_ID, {
        number: Assignment(one.replicas, one.adding, one.removing) for number, one in found.partitions.items()
    }


def decode_config(data: bytes) -> Mapping[str, str]:
    """What an entity overrides."""
    return znodes.EntityConfig.decode(data).config


def decode_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a notification of changed ISRs."""
    return znodes.IsrChange.decode(data).partitions


def encode_moves(moves: Mapping[TopicPartition, Sequence[BrokerId]]) -> bytes:
    """/admin/reassign_partitions: where partitions are to go."""
    return znodes.Reassignments({one: tuple(brokers) for one, brokers in moves.items()}).encode()


def decode_moves(data: bytes) -> Mapping[TopicPartition, tuple[BrokerId, ...]]:
    """Where /admin/reassign_partitions wants partitions to go."""
    return znodes.Reassignments.decode(data).targets


def decode_elections(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions that /admin/preferred_replica_election names."""
    return znodes.PreferredReplicaElection.decode(data).partitions


def decode_log_dir_event(data: bytes) -> BrokerId:
    """The broker that a notification of a failed log directory is from."""
    return znodes.LogDirEvent.decode(data).broker_id


def encode_broker(info: BrokerInfo, now_ms: Millis) -> bytes:
    """A broker's registration."""
    endpoints = tuple(
        znodes.Endpoint(one.listener, one.host, one.port, _PROTOCOL_NAMES[one.security_protocol])
        for one in info.endpoints.values()
    )
    return znodes.BrokerRegistration(endpoints, now_ms, info.rack).encode()


@znodes.decoder  # a security protocol that is none is no registration either
def decode_broker(broker_id: BrokerId, data: bytes) -> BrokerInfo:
    """What a broker's registration says."""
    found = znodes.BrokerRegistration.decode(data)
    return BrokerInfo(
        broker_id,
        found.rack,
        {
            one.listener: Endpoint(
                one.listener, one.host, one.port, SECURITY_PROTOCOL_IDS[one.security_protocol]
            )
            for one in found.endpoints
        },
        found.is_pkafka,
    )
