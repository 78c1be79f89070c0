"""How many bytes a move is, and how many of them are there: what brokers say of their log directories."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from pkafka.clients.admin import Admin
from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition, TopicPartitionReplica


class Lying(NamedTuple):
    """Where a replica lies, and with how many bytes."""

    log_dir: str
    size_bytes: int


class OnDisk(NamedTuple):
    """What lies in the log directories of some brokers.

    Args:
        current: the replicas that are served.
        future: those that are copied to another directory of their broker.
        silent: the brokers that did not say, and why.
    """

    current: Mapping[TopicPartitionReplica, Lying]
    future: Mapping[TopicPartitionReplica, Lying]
    silent: Mapping[int, PkafkaError]

    def size(self, partition: TopicPartition, brokers: Iterable[int], leader: int | None) -> int | None:
        """The bytes of a partition: of its leader's replica, else of the largest there is.

        Args:
            brokers: those that have it.

        Returns:
            None where no broker that has it says.
        """
        found = {
            broker: lying.size_bytes
            for broker in brokers
            if (lying := self.current.get(TopicPartitionReplica(*partition, broker))) is not None
        }
        if leader in found:
            return found[leader]
        return max(found.values(), default=None)

    def there(self, partition: TopicPartition, broker: int) -> int | None:
        """How much a broker has of a partition, or will have when a copy to another of its directories is done."""
        if broker in self.silent:
            return None
        lying = self.current.get(TopicPartitionReplica(*partition, broker))
        return 0 if lying is None else lying.size_bytes


class Copies(NamedTuple):
    """The copies that are made of a partition.

    Args:
        source: the broker that they are read from; None where that is not known.
        size_bytes: of each; None where no broker that has the partition says.
        there: how much of it each broker has that gets one; None where it does not say.
    """

    source: int | None
    size_bytes: int | None
    there: Mapping[int, int | None]

    @property
    def bytes_total(self) -> int | None:
        """What there is to copy in all."""
        if not self.there:
            return 0
        return None if self.size_bytes is None else self.size_bytes * len(self.there)

    @property
    def bytes_done(self) -> int | None:
        """What of that is copied; a copy may be the longer one, where the leader has deleted something since."""
        total, found = self.bytes_total, list(self.there.values())
        if total is None or self.size_bytes is None:
            return total
        size = self.size_bytes
        done = [min(each, size) for each in found if each is not None]
        return sum(done) if len(done) == len(found) else None

    @property
    def bytes_left(self) -> dict[int, int] | None:
        """What each broker has to receive yet, as far as is known."""
        if self.size_bytes is None:
            return None if self.there else {}
        return {broker: max(0, self.size_bytes - (each or 0)) for broker, each in self.there.items()}


class Traffic(NamedTuple):
    """What copies come to, for the brokers that send and receive them.

    Args:
        bytes_in, bytes_out: of each broker.
        unknown: the partitions whose size no broker says.
    """

    bytes_in: Mapping[int, int]
    bytes_out: Mapping[int, int]
    unknown: tuple[TopicPartition, ...]

    @property
    def total(self) -> int:
        """What is copied in all, as far as is known."""
        return sum(self.bytes_in.values())

    def seconds(self, bytes_per_s: int) -> float | None:
        """How long that takes at the least where no broker may send or receive more.

        Returns:
            None where nothing may be copied.
        """
        busiest = max((*self.bytes_in.values(), *self.bytes_out.values()), default=0)
        if not busiest:
            return 0.0
        return busiest / bytes_per_s if bytes_per_s > 0 else None


def look(admin: Admin, brokers: Collection[int], *, timeout_ms: int) -> OnDisk:
    """Ask brokers for all that lies in their log directories.

    Raises:
        ClientError: no broker can be reached at all.
    """
    current: dict[TopicPartitionReplica, Lying] = {}
    future: dict[TopicPartitionReplica, Lying] = {}
    silent: dict[int, PkafkaError] = {}
    if not brokers:
        return OnDisk(current, future, silent)
    admin.cluster.refresh(timeout_ms=timeout_ms)  # of those that went, or came back, since the last look
    described = admin.describe_log_dirs(sorted(brokers), timeout_ms=timeout_ms)
    for broker, directories in described.items():
        if not isinstance(directories, list):
            silent[broker] = directories
            continue
        for directory in directories:
            for row in directory.replicas:
                where = future if row.is_future else current
                where[TopicPartitionReplica(*row.partition, broker)] = Lying(directory.path, row.size_bytes)
    return OnDisk(current, future, silent)


def traffic(copies: Mapping[TopicPartition, Copies]) -> Traffic:
    """What copies come to for their brokers."""
    bytes_in: dict[int, int] = {}
    bytes_out: dict[int, int] = {}
    unknown = []
    for partition, each in sorted(copies.items()):
        left = each.bytes_left
        if left is None:
            unknown.append(partition)
            continue
        for broker, size in left.items():
            bytes_in[broker] = bytes_in.get(broker, 0) + size
            if each.source is not None:
                bytes_out[each.source] = bytes_out.get(each.source, 0) + size
    return Traffic(bytes_in, bytes_out, tuple(unknown))
