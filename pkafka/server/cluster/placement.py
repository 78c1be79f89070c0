"""The brokers of new replicas: Kafka's default placement, with and without racks.

Leaders go round robin over the brokers from a random start; the followers of a partition follow its leader at a shift
that grows each time the leaders come round, so that the load of a dead broker spreads over all others.
"""

import random
from collections.abc import Mapping, Sequence

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import BrokerId


def place_replicas(
    racks: Mapping[BrokerId, str | None],
    *,
    partitions: int,
    replication_factor: int,
    fixed_start: int | None = None,
    first_partition: int = 0,
    rng: random.Random | None = None,
) -> dict[int, tuple[BrokerId, ...]]:
    """Assign replicas to brokers.

    Args:
        racks: the live brokers with their racks. Racks count when every broker has one, and none may be missing
            when some have one.
        partitions: how many to place.
        replication_factor: replicas for each.
        fixed_start: index into the brokers sorted by id, of the first leader and of the first shift; random when None.
        first_partition: number of the first of them, when partitions are added to a topic.
        rng: gives the random start.

    Returns:
        Brokers by partition number, the preferred leader first.

    Raises:
        ApiError: INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR, with Kafka's texts.
    """
    if partitions <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
    brokers = sorted(racks)
    start = rng.randrange(len(brokers)) if fixed_start is None else fixed_start
    shift = rng.randrange(len(brokers)) if fixed_start is None else fixed_start
    known = [rack for rack in racks.values() if rack is not None]
    if not known:
        return _place_without_racks(
            brokers, partitions, replication_factor, start=start, shift=shift, first_partition=first_partition
        )
    if len(known) < len(racks):
        # Kafka's AdminOperationException has no code of its own on the wire.
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    return _place_over_racks(
        {broker: racks[broker] or "" for broker in brokers},
        partitions,
        replication_factor,
        start=start,
        shift=shift,
        first_partition=first_partition,
    )


def _place_without_racks(
    brokers: Sequence[BrokerId],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int,
) -> dict[int, tuple[BrokerId, ...]]:
    count = len(brokers)
    placed: dict[int, tuple[BrokerId, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + start) % count
        followers = (
            brokers[_follower_index(leader, shift, number, count)] for number in range(replication_factor - 1)
        )
        placed[partition] = (brokers[leader], *followers)
    return placed


def _place_over_racks(
    racks: Mapping[BrokerId, str],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int,
) -> dict[int, tuple[BrokerId, ...]]:
    brokers = alternate_racks(racks)
    count, rack_count = len(brokers), len(set(racks.values()))
    placed: dict[int, tuple[BrokerId, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + start) % count
        chosen = [brokers[leader]]
        used_racks = {racks[brokers[leader]]}
        step = 0
        while len(chosen) < replication_factor:
            broker = brokers[_follower_index(leader, shift * rack_count, step, count)]
            step += 1
            rack_is_due = racks[broker] not in used_racks or len(used_racks) == rack_count
            # No broker comes a second time before all have come once.
            if rack_is_due and (broker not in chosen or len(set(chosen)) == count):
                chosen.append(broker)
                used_racks.add(racks[broker])
        placed[partition] = tuple(chosen)
    return placed


def alternate_racks(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Order the brokers so that neighbours are on different racks: one of each rack in turn, racks by name."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    ordered: list[BrokerId] = []
    for turn in range(max(map(len, queues), default=0)):
        ordered.extend(queue[turn] for queue in queues if turn < len(queue))
    return ordered


def _follower_index(leader: int, shift: int, number: int, count: int) -> int:
    return (leader + 1 + (shift + number) % (count - 1)) % count if count > 1 else leader
