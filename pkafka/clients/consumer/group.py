"""What a consumer with ``group.id`` has beside one without, wired together."""

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pkafka.clients.config import ConsumerConfig
from pkafka.clients.consumer.assignors.configured import load_assignors
from pkafka.clients.consumer.commits import Commits
from pkafka.clients.consumer.coordinator import ConsumerCoordinator
from pkafka.clients.consumer.group_channel import GroupChannel
from pkafka.clients.consumer.interceptors import Interceptors
from pkafka.clients.consumer.membership import Membership, MembershipSettings
from pkafka.clients.consumer.metrics import ConsumerMetrics
from pkafka.clients.consumer.network import ConsumerNetwork
from pkafka.clients.consumer.subscription import Subscription
from pkafka.model import TopicPartition


class Group(NamedTuple):
    """The parts of a consumer that know its group."""

    id: str
    membership: Membership
    commits: Commits
    coordinator: ConsumerCoordinator

    def is_coordinator_known(self) -> bool:
        """Whether requests can be sent to the coordinator; it is looked up otherwise.

        Raises:
            ApiError: this client may not use the group.
        """
        self.membership.want_coordinator()
        self.membership.raise_failure()
        return self.membership.coordinator is not None


def make_group(
    group_id: str,
    net: ConsumerNetwork,
    config: ConsumerConfig,
    subscription: Subscription,
    interceptors: Interceptors,
    metrics: ConsumerMetrics,
    forget: Callable[[Iterable[TopicPartition]], None],
) -> Group:
    """Make the parts.

    Args:
        forget: drops what was fetched of partitions that are given up.

    Raises:
        ConfigError: an assignor is not one.
    """
    assignors, protocol = load_assignors(config.partition_assignment_strategy, config.originals)
    settings = MembershipSettings(
        group_id=group_id,
        group_instance_id=config.group_instance_id,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
    )
    membership = Membership(settings, jitter=lambda: random.uniform(0.8, 1.2))  # noqa: S311 - spreads retries
    channel = GroupChannel(net, membership)
    commits = Commits(channel, subscription, config, interceptors, metrics)
    coordinator = ConsumerCoordinator(
        channel, config, subscription, commits, assignors, protocol, metrics, forget
    )
    return Group(group_id, membership, commits, coordinator)
