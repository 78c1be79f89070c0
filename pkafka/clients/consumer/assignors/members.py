"""The order of members that Range and RoundRobin share."""

from collections.abc import Iterable, Mapping

from pkafka.clients.consumer.assignors.api import Subscription


def sorted_members(members: Iterable[str], subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Static members by instance id, which outlives a restart, before the others by member id (KIP-345)."""

    def place(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(members, key=place)
