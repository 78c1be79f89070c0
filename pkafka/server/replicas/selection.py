"""The replica from which a consumer should read (KIP-392): ``replica.selector.class`` under Kafka's own names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from pkafka.model import BrokerId, Millis, Offset
from pkafka.server.config.rules import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from pkafka.server.replicas.leadership import Leadership


class ReplicaView(NamedTuple):
    """Describes a replica that has the records for which a consumer asks."""

    broker_id: BrokerId
    rack: str | None
    log_end_offset: Offset
    lag_ms: Millis
    """The time since it was caught up last; 0 for the leader."""


def replica_views(
    leadership: Leadership,
    log_end_offset: Offset,
    racks: Mapping[BrokerId, str | None],
    offset: Offset,
    now_ms: Millis,
) -> list[ReplicaView]:
    """List the leader, and after it the followers that have an offset.

    Args:
        leadership: of the partition.
        log_end_offset: of the leader.
        racks: of the brokers that the consumer can reach.
        offset: the first one that it wants.
        now_ms: of the monotonic clock.
    """
    leader = ReplicaView(leadership.broker_id, racks.get(leadership.broker_id), log_end_offset, 0)
    return [
        leader,
        *(
            ReplicaView(one.broker_id, racks[one.broker_id], one.log_end_offset, now_ms - one.caught_up_ms)
            for one in leadership.followers.values()
            if one.broker_id in racks and one.log_start_offset <= offset <= one.log_end_offset
        ),
    ]


Selector: TypeAlias = Callable[[str, ReplicaView, Sequence[ReplicaView]], BrokerId]
"""Takes the client's rack, the leader, and all replicas that have the offset with the leader; returns the best one."""


def in_the_same_rack(rack: str, leader: ReplicaView, replicas: Sequence[ReplicaView]) -> BrokerId:
    """Choose the furthest replica in the client's rack; the leader when it is there, too, or when the rack has none."""
    near = [one for one in replicas if rack and one.rack == rack]
    if not near or leader in near:
        return leader.broker_id
    return max(near, key=lambda one: (one.log_end_offset, -one.lag_ms, one.broker_id)).broker_id


def always_the_leader(_rack: str, leader: ReplicaView, _replicas: Sequence[ReplicaView]) -> BrokerId:
    """Choose the leader always."""
    return leader.broker_id


_BY_NAME: Final[dict[str, Selector]] = {
    RACK_AWARE_SELECTOR: in_the_same_rack,
    LEADER_SELECTOR: always_the_leader,
}


def selector_of(name: str | None) -> Selector | None:
    """Return the selector of that name, which the configuration has checked; None when none is configured."""
    return None if name is None else _BY_NAME[name]
