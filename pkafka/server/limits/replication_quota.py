"""The replication quotas (KIP-73): which replicas are throttled while they are moved, and to what rate.

A broker has two quotas, one for what it sends to followers and one for what it fetches as a follower. The bytes of all
throttled replicas count, but only replicas out of sync are held back: one in sync that had to wait would leave its ISR.
So a quota is exceeded while replicas in sync need more than it allows.

The rate is measured over all workers, in memory that they share; each worker decides for the partitions that it owns.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from pkafka.clock import Clock
from pkafka.errors import ConfigError
from pkafka.model import BrokerId
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.limits.rates import SharedRate

log = logging.getLogger(__name__)

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
UNLIMITED: Final = 2**63 - 1
_ALL: Final = "*"


def throttled_partitions(text: str, broker_id: BrokerId) -> frozenset[int] | None:
    """Find the partitions of a topic whose replicas on a broker are in a list of throttled replicas.

    Args:
        text: ``*``, or ``partition:broker`` pairs with commas between; empty for none.
        broker_id: the broker.

    Returns:
        Their numbers; None for all.

    Raises:
        ConfigError: it is no such list.
    """
    if text.strip() == _ALL:
        return None
    found = []
    for pair in filter(None, (part.strip() for part in text.split(","))):
        partition, colon, broker = pair.partition(":")
        if not (colon and _is_number(partition) and _is_number(broker)):
            raise ConfigError("throttled.replicas", f"'{pair}' is not of the form partition:broker", text)
        if int(broker) == broker_id:
            found.append(int(partition))
    return frozenset(found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


class ReplicationQuota:
    """Throttles what a broker sends to followers, or what it fetches.

    Args:
        used: measures what all workers send or fetch.
        clock: of these measurements.

    Attributes:
        bytes_per_second: the quota.
    """

    __slots__ = ("_clock", "_throttled", "_used", "bytes_per_second")

    def __init__(self, used: SharedRate, clock: Clock) -> None:
        self._used = used
        self._clock = clock
        self._throttled: dict[str, frozenset[int] | None] = {}
        self.bytes_per_second = UNLIMITED

    def throttle(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Set the throttled partitions of a topic; None for all."""
        if partitions is None or partitions:
            self._throttled[topic] = partitions
        else:
            self._throttled.pop(topic, None)

    def throttles_only(self, topics: Iterable[str]) -> None:
        """Forget the throttled partitions of all other topics."""
        for topic in self._throttled.keys() - set(topics):
            del self._throttled[topic]

    @property
    def throttles_any(self) -> bool:
        """Whether any partition is throttled here; if none is, nothing has to be recorded."""
        return bool(self._throttled)

    def throttles(self, topic: str, partition: int) -> bool:
        """Whether the replica of a partition is throttled."""
        if topic not in self._throttled:
            return False
        partitions = self._throttled[topic]
        return partitions is None or partition in partitions

    def is_exceeded(self) -> bool:
        """Whether throttled replicas that are out of sync have to wait."""
        if not self._throttled or self.bytes_per_second >= UNLIMITED:
            return False
        return self._used.per_second(self._clock.monotonic_ms()) > self.bytes_per_second

    def record(self, size_bytes: int) -> None:
        """Record bytes of throttled replicas that were sent or fetched."""
        if size_bytes:
            self._used.record(self._clock.monotonic_ms(), size_bytes)

    @property
    def byte_rate(self) -> float | None:
        """The bytes a second that all workers send or fetch; None when nothing was ever throttled."""
        return self._used.per_second(self._clock.monotonic_ms()) if self._used.has_begun else None


class SharedReplicationRates:
    """Measures for both quotas what all workers send and fetch. Made before they are forked.

    Args:
        samples, window_ms: as for :class:`pkafka.server.limits.rates.SampledRate`.
    """

    def __init__(self, *, samples: int = 11, window_ms: int = 1000) -> None:
        self.leader = SharedRate("pkafka-leader-replication", samples=samples, window_ms=window_ms)
        self.follower = SharedRate("pkafka-follower-replication", samples=samples, window_ms=window_ms)

    @classmethod
    def of(cls, config: BrokerConfig) -> "SharedReplicationRates":
        """Make one with the windows of a configuration."""
        return cls(
            samples=config.replication_quota_window_num,
            window_ms=config.replication_quota_window_size_seconds * 1000,
        )


class ReplicationQuotas:
    """Holds both quotas for one worker.

    Args:
        rates: shared with the other workers.
        clock: a monotonic one that all workers share.
    """

    def __init__(self, rates: SharedReplicationRates, clock: Clock) -> None:
        self.leader = ReplicationQuota(rates.leader, clock)
        self.follower = ReplicationQuota(rates.follower, clock)

    def byte_rates(self) -> dict[str, float]:
        """The bytes a second that all workers send and fetch, by Kafka's name of the quota."""
        quotas = {"LeaderReplication": self.leader, "FollowerReplication": self.follower}
        rates = {name: quota.byte_rate for name, quota in quotas.items()}
        return {name: rate for name, rate in rates.items() if rate is not None}

    def set_rates(self, settings: Mapping[str, str | None]) -> None:
        """Take over the rates of the broker's dynamic settings; a missing one means unlimited."""
        for quota, key in ((self.leader, LEADER_RATE), (self.follower, FOLLOWER_RATE)):
            text = settings.get(key)
            quota.bytes_per_second = UNLIMITED if text is None else int(text)

    def set_topic_configs(self, changed: Mapping[str, Mapping[str, str]], broker_id: BrokerId) -> None:
        """Take over the lists of throttled replicas from the own settings of these topics."""
        for topic, settings in changed.items():
            for quota, key in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
                try:
                    partitions = throttled_partitions(settings.get(key, ""), broker_id)
                except ConfigError as error:
                    # A tool wrote it to the store past every check.
                    log.error("Ignoring %s of topic %s: %s", key, topic, error)
                    partitions = frozenset()
                quota.throttle(topic, partitions)

    def set_every_topic_config(self, overrides: Mapping[str, Mapping[str, str]], broker_id: BrokerId) -> None:
        """The same for all topics that have settings of their own; others have no throttled replicas."""
        for quota in (self.leader, self.follower):
            quota.throttles_only(overrides)
        self.set_topic_configs(overrides, broker_id)
