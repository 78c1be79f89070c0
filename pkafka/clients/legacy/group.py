"""What a member of an old consumer's group reads in ZooKeeper: the members, what each reads, which partitions exist."""

from collections.abc import Iterable, Mapping, Sequence

from pkafka.clients.connection import Address
from pkafka.clients.legacy.topic_filter import Blacklist, Whitelist
from pkafka.coordination.store import NoNodeError, Store
from pkafka.coordination.znodes import BROKER_IDS, TOPICS, BrokerRegistration, TopicAssignment
from pkafka.coordination.znodes_consumers import STATIC, WHITE_LIST, ConsumerRegistration, ConsumerThread


def broker_addresses(store: Store) -> list[Address]:
    """Where the live brokers listen without encryption; the old clients know nothing else."""
    paths = [f"{BROKER_IDS}/{name}" for name in _children(store, BROKER_IDS)]
    addresses = []
    for node in store.get_many(paths):
        if node is not None:
            endpoints = BrokerRegistration.decode(node[0]).endpoints
            addresses += [
                Address(each.host, each.port) for each in endpoints if each.security_protocol == "PLAINTEXT"
            ]
    return addresses


def members(store: Store, group: str) -> dict[str, ConsumerRegistration]:
    """The live members of a group by their ids."""
    parent = ConsumerRegistration.parent(group)
    names = _children(store, parent)
    nodes = store.get_many([f"{parent}/{name}" for name in names])
    return {
        name: ConsumerRegistration.decode(node[0])
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    }


def all_topics(store: Store) -> list[str]:
    """Every topic there is."""
    return _children(store, TOPICS)


def partitions_of(store: Store, topics: Sequence[str]) -> dict[str, list[int]]:
    """The partition numbers of topics; none for one that does not exist."""
    nodes = store.get_many([TopicAssignment.path(topic) for topic in topics])
    return {
        topic: [] if node is None else sorted(TopicAssignment.decode(node[0]).partitions)
        for topic, node in zip(topics, nodes, strict=True)
    }


def threads_by_topic(
    registrations: Mapping[str, ConsumerRegistration], topics: Iterable[str], *, exclude_internal: bool
) -> dict[str, list[ConsumerThread]]:
    """Which threads of which members read each topic.

    Args:
        registrations: the members.
        topics: all that exist, for members that subscribe by a pattern.
        exclude_internal: ``exclude.internal.topics`` of the member that looks, which holds for all.
    """
    existing = list(topics)
    found: dict[str, list[ConsumerThread]] = {}
    for consumer_id, registration in registrations.items():
        for topic, count in _subscribed(registration, existing, exclude_internal).items():
            found.setdefault(topic, []).extend(ConsumerThread(consumer_id, number) for number in range(count))
    return found


def _subscribed(
    registration: ConsumerRegistration, existing: Sequence[str], exclude_internal: bool
) -> Mapping[str, int]:
    if registration.pattern == STATIC:
        return registration.subscription
    kind = Whitelist if registration.pattern == WHITE_LIST else Blacklist
    ((regex, count),) = registration.subscription.items()
    wanted = kind(regex)
    return {topic: count for topic in existing if wanted.allows(topic, exclude_internal=exclude_internal)}


def _children(store: Store, path: str) -> list[str]:
    try:
        return store.children(path)
    except NoNodeError:
        return []
