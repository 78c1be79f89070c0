"""A cluster at a glance: brokers, topics, partitions and groups as they are, and what moved between two looks.

:func:`look` asks the cluster; the rest is arithmetic on what it brought.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pkafka.errors import ApiError, PkafkaError
from pkafka.model import EARLIEST, LATEST, TopicPartition
from pkafka.tools.cluster.broker_traffic import MetricsPages, Traffic
from pkafka.tools.cluster.metadata_view import is_under_replicated, replicas_being_added

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import BrokerInfo, TopicDescription
    from pkafka.clients.offsets import ListedOffset, OffsetAndMetadata
    from pkafka.tools.transactions.holders import HeldPartition


class PartitionLook(NamedTuple):
    """One partition. Offsets are None where no broker leads it; sizes where no broker told."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int | None
    end: int | None
    size_bytes: int | None
    adding: tuple[int, ...] = ()
    """Those of the replicas that a reassignment is still adding."""

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is behind or away that is not just being added."""
        return is_under_replicated(self.replicas, self.isr, self.adding)


class BrokerLook(NamedTuple):
    """One live broker."""

    id: int
    address: str
    rack: str | None
    is_controller: bool
    size_bytes: int | None
    """Of all replicas on it; None where it did not tell."""

    traffic: Traffic | None = None
    """None where it has no page of metrics that answered."""


class GroupLook(NamedTuple):
    """One group of consumers, with what it has committed."""

    state: str
    members: int
    offsets: Mapping[TopicPartition, int]


class Look(NamedTuple):
    """What a cluster was at one moment.

    Args:
        at_s: on a clock that only goes forward.
        groups: an error where its coordinator did not answer.
        sizes_at_s: when the brokers had told sizes, which they do last; None for at the same time.
        held: the partitions whose readers of committed records a transaction holds back.
    """

    at_s: float
    cluster_id: str | None
    brokers: tuple[BrokerLook, ...]
    partitions: Mapping[TopicPartition, PartitionLook]
    groups: Mapping[str, GroupLook | ApiError]
    sizes_at_s: float | None = None
    held: "tuple[HeldPartition, ...]" = ()


class BrokerRow(NamedTuple):
    """A broker as shown."""

    broker: int
    address: str
    rack: str | None
    controller: bool
    leaders: int
    replicas: int
    size_bytes: int | None
    records_per_s: float | None
    """Appended to the partitions that it leads."""

    bytes_in_per_s: float | None
    """From producers; what it copies from other leaders is not in it."""

    bytes_out_per_s: float | None
    """To consumers; what followers copy is not in it."""

    bytes_from: str | None
    """"metrics": the broker counted them. "sizes": bytes in are what the partitions that it leads grew by."""


class TopicRow(NamedTuple):
    """A topic as shown, or one of its partitions: then ``partition`` and ``leader`` are known."""

    topic: str
    partition: int | None
    leader: int | None
    partitions: int
    offline: int
    under_replicated: int
    records: int
    size_bytes: int | None
    records_per_s: float | None
    bytes_per_s: float | None


class GroupRow(NamedTuple):
    """A group as shown."""

    group: str
    state: str
    members: int
    topics: int
    lag: int
    records_per_s: float | None
    """Committed."""


class Overview(NamedTuple):
    """Everything to show."""

    cluster_id: str | None
    brokers: tuple[BrokerRow, ...]
    topics: tuple[TopicRow, ...]
    groups: tuple[GroupRow, ...]
    held: "tuple[HeldPartition, ...]" = ()
    """Partitions of the topics shown that the same transaction held back at both looks, the longest first."""

    @property
    def summary(self) -> dict[str, object]:
        """The cluster in a few numbers."""
        return {
            "cluster_id": self.cluster_id,
            "brokers": len(self.brokers),
            "topics": len({row.topic for row in self.topics}),
            "offline": sum(row.offline for row in self.topics),
            "under_replicated": sum(row.under_replicated for row in self.topics),
            "records_per_s": _sum(row.records_per_s for row in self.topics),
            "lag": sum(row.lag for row in self.groups),
        }


def overview(
    now: Look, before: Look | None = None, *, topic: str | None = None, internal: bool = False
) -> Overview:
    """What to show of a look.

    Args:
        before: an earlier one, for what moves in a second.
        topic: show its partitions in place of all topics.
        internal: also topics whose name begins with ``__``.
    """
    rates = _Rates(now, before)
    shown = [
        each
        for each in now.partitions
        if (each.topic == topic if topic is not None else internal or not each.topic.startswith("__"))
    ]
    by_row: dict[tuple[str, int | None], list[TopicPartition]] = {}
    for each in shown:
        by_row.setdefault((each.topic, None if topic is None else each.partition), []).append(each)
    return Overview(
        now.cluster_id,
        tuple(_broker_row(each, now, rates) for each in now.brokers),
        tuple(_topic_row(members, now, rates, alone=one is not None) for (_, one), members in by_row.items()),
        tuple(
            _group_row(name, each, now, rates)
            for name, each in sorted(now.groups.items())
            if not isinstance(each, ApiError)
        ),
        _held_by_both({*shown}, now, before),
    )


def look(admin: "Admin", *, timeout_ms: int, pages: MetricsPages | None = None) -> Look:
    """Ask the cluster for everything; what a single broker or group refuses is left out.

    Args:
        pages: where brokers tell what they have received and sent.

    Raises:
        PkafkaError: the cluster cannot be asked at all.
    """
    cluster = admin.describe_cluster()
    descriptions = admin.describe_topics([each.name for each in admin.list_topics()])
    found = [each for each in descriptions.values() if not isinstance(each, ApiError)]
    at_s = time.monotonic()
    stable, ends, starts = _offsets(admin, found, timeout_ms)
    held = _held(admin, stable, ends)
    groups = _groups(admin, timeout_ms)
    sizes = _sizes(admin, cluster.brokers, timeout_ms)
    sizes_at_s = time.monotonic()
    traffic = {} if pages is None else pages.traffic(admin, cluster.brokers)
    total: Counter[TopicPartition] = Counter()
    for replicas in sizes.values():
        for partition, size in replicas.items():
            total[partition] = max(total[partition], size)
    lacks = any(
        is_under_replicated(each.replicas, each.isr, ()) for topic in found for each in topic.partitions
    )
    adding = replicas_being_added(admin, timeout_ms=timeout_ms) if lacks else {}
    partitions = {
        name: PartitionLook(
            each.leader,
            each.replicas,
            each.isr,
            starts.get(name),
            ends.get(name),
            total.get(name),
            adding.get(name, ()),
        )
        for topic in found
        for each in topic.partitions
        for name in [TopicPartition(topic.name, each.partition)]
    }
    brokers = tuple(
        BrokerLook(
            each.id,
            f"{each.host}:{each.port}",
            each.rack,
            each.id == cluster.controller_id,
            sum(sizes[each.id].values()) if each.id in sizes else None,
            traffic.get(each.id),
        )
        for each in sorted(cluster.brokers)
    )
    return Look(at_s, cluster.cluster_id, brokers, partitions, groups, sizes_at_s, held)


# -- asking ------------------------------------------------------------------------------------------------


def _offsets(
    admin: "Admin", topics: "Iterable[TopicDescription]", timeout_ms: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Last stable offsets, ends and beginnings of all partitions that have a leader."""
    led = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    ]
    if not led:
        return {}, {}, {}
    stable, ends, starts = (
        _good_offsets(
            admin.list_offsets(dict.fromkeys(led, at), read_committed=committed, timeout_ms=timeout_ms)
        )
        for at, committed in ((LATEST, True), (LATEST, False), (EARLIEST, False))
    )
    return stable, ends, starts


def _held(
    admin: "Admin", stable: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> "tuple[HeldPartition, ...]":
    """The partitions whose last stable offset is behind, with what holds it; none where a broker does not say."""
    from pkafka.tools.transactions.holders import held_at

    behind = {each: (at, ends[each]) for each, at in stable.items() if at < ends.get(each, at)}
    try:
        return tuple(held_at(admin, behind, now_ms=int(time.time() * 1_000)))
    except PkafkaError:
        return ()


def _good_offsets(
    found: "Mapping[TopicPartition, ListedOffset | ApiError]",
) -> dict[TopicPartition, int]:
    return {name: each.offset for name, each in found.items() if not isinstance(each, ApiError)}


def _sizes(
    admin: "Admin", brokers: "Iterable[BrokerInfo]", timeout_ms: int
) -> dict[int, dict[TopicPartition, int]]:
    """Bytes of every replica by broker; a broker that does not tell is left out."""
    found: dict[int, dict[TopicPartition, int]] = {}
    for node, directories in admin.describe_log_dirs(
        [each.id for each in brokers], timeout_ms=timeout_ms
    ).items():
        if not isinstance(directories, PkafkaError):
            found[node] = {
                replica.partition: replica.size_bytes
                for directory in directories
                for replica in directory.replicas
                if not replica.is_future
            }
    return found


def _groups(admin: "Admin", timeout_ms: int) -> dict[str, GroupLook | ApiError]:
    names = [
        each.group_id for each in admin.list_groups(timeout_ms=timeout_ms).groups if each.is_consumer_group
    ]
    if not names:
        return {}
    descriptions = admin.describe_groups(names, timeout_ms=timeout_ms)
    stored = admin.list_group_offsets(dict.fromkeys(names), timeout_ms=timeout_ms)
    found: dict[str, GroupLook | ApiError] = {}
    for name in names:
        description, offsets = descriptions[name], stored[name]
        if isinstance(description, ApiError):
            found[name] = description
        elif isinstance(offsets, ApiError):
            found[name] = offsets
        else:
            found[name] = GroupLook(
                description.state.value, len(description.members), dict(_committed(offsets))
            )
    return found


def _committed(
    offsets: "Mapping[TopicPartition, OffsetAndMetadata | ApiError | None]",
) -> Iterator[tuple[TopicPartition, int]]:
    for partition, each in offsets.items():
        if each is not None and not isinstance(each, ApiError):
            yield partition, each.offset


# -- arithmetic --------------------------------------------------------------------------------------------


class _Rates:
    """What moved between two looks."""

    def __init__(self, now: Look, before: Look | None) -> None:
        self._now = now
        self._before = before
        self._seconds = 0.0 if before is None else now.at_s - before.at_s
        self._sizes_seconds = 0.0 if before is None else _sizes_at_s(now) - _sizes_at_s(before)

    def records(self, partition: TopicPartition) -> float | None:
        """Records appended per second; None where the partition was not there before, or was made anew."""
        if self._before is None:
            return None
        old, new = self._before.partitions.get(partition), self._now.partitions[partition]
        return self._rate(None if old is None else old.end, new.end, self._seconds)

    def bytes(self, partition: TopicPartition) -> float | None:
        """Growth in bytes per second; a deletion in between makes it less."""
        if self._before is None:
            return None
        old, new = self._before.partitions.get(partition), self._now.partitions[partition]
        return self._rate(None if old is None else old.size_bytes, new.size_bytes, self._sizes_seconds)

    def traffic(self, broker: BrokerLook) -> tuple[float, float] | None:
        """Bytes in and out per second; None where the broker did not tell both times, or started anew in between."""
        earlier = () if self._before is None else self._before.brokers
        old = next((each.traffic for each in earlier if each.id == broker.id), None)
        new = broker.traffic
        if old is None or new is None or new.received < old.received or new.sent < old.sent:
            return None
        seconds = new.at_s - old.at_s
        return (new.received - old.received) / seconds, (new.sent - old.sent) / seconds

    def committed(self, group: str) -> float | None:
        """Records per second that a group has committed."""
        old = None if self._before is None else self._before.groups.get(group)
        new = self._now.groups[group]
        if not isinstance(old, GroupLook) or not isinstance(new, GroupLook):
            return None
        both = old.offsets.keys() & new.offsets.keys()
        earlier, later = (sum(each.offsets[one] for one in both) for each in (old, new))
        return self._rate(earlier, later, self._seconds)

    @staticmethod
    def _rate(old: int | None, new: int | None, seconds: float) -> float | None:
        if old is None or new is None or seconds <= 0:
            return None
        return max(0, new - old) / seconds


def _sizes_at_s(look: Look) -> float:
    return look.at_s if look.sizes_at_s is None else look.sizes_at_s


def _broker_row(broker: BrokerLook, now: Look, rates: _Rates) -> BrokerRow:
    led = [name for name, each in now.partitions.items() if each.leader == broker.id]
    bytes_in, bytes_out = counted = rates.traffic(broker) or (None, None)
    if counted == (None, None):
        bytes_in = _sum(rates.bytes(each) for each in led)
    return BrokerRow(
        broker.id,
        broker.address,
        broker.rack,
        broker.is_controller,
        len(led),
        sum(broker.id in each.replicas for each in now.partitions.values()),
        broker.size_bytes,
        _sum(rates.records(each) for each in led),
        bytes_in,
        bytes_out,
        _source(bytes_in, bytes_out),
    )


def _source(bytes_in: float | None, bytes_out: float | None) -> str | None:
    if bytes_out is not None:
        return "metrics"
    return None if bytes_in is None else "sizes"


def _topic_row(members: list[TopicPartition], now: Look, rates: _Rates, *, alone: bool) -> TopicRow:
    looks = [now.partitions[each] for each in members]
    return TopicRow(
        members[0].topic,
        members[0].partition if alone else None,
        looks[0].leader if alone else None,
        len(members),
        sum(each.leader is None for each in looks),
        sum(each.is_under_replicated for each in looks),
        sum(each.end - each.start for each in looks if each.end is not None and each.start is not None),
        _whole_sum(each.size_bytes for each in looks),
        _sum(rates.records(each) for each in members),
        _sum(rates.bytes(each) for each in members),
    )


def _group_row(name: str, group: GroupLook, now: Look, rates: _Rates) -> GroupRow:
    ends = {each: now.partitions[each].end for each in group.offsets if each in now.partitions}
    lag = sum(max(0, end - group.offsets[each]) for each, end in ends.items() if end is not None)
    topics = len({each.topic for each in group.offsets})
    return GroupRow(name, group.state, group.members, topics, lag, rates.committed(name))


def _held_by_both(shown: set[TopicPartition], now: Look, before: Look | None) -> "tuple[HeldPartition, ...]":
    """What is held where it was at the earlier look: others are transactions that come and go."""
    earlier = None if before is None else {(each.partition, each.last_stable_offset) for each in before.held}
    found = [
        each
        for each in now.held
        if each.partition in shown
        and (earlier is None or (each.partition, each.last_stable_offset) in earlier)
    ]
    return tuple(sorted(found, key=lambda each: (-(each.age_ms or 0), each.partition)))


def _sum(parts: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [each for each in parts if each is not None]
    return sum(known) if known else None


def _whole_sum(parts: Iterable[int | None]) -> int | None:
    known = [each for each in parts if each is not None]
    return sum(known) if known else None
