"""The admin client: what an operator does to a cluster over the protocol. Thread-safe, synchronous.

Calls answer per item, with the error of an item in its place (``results.Outcome``); what hits the whole call
(no broker, time-out) is raised as a ``ClientError``.
"""

from collections.abc import Mapping
from typing import Self

from pkafka.clients.admin.cluster_info import ClusterInfoAdmin
from pkafka.clients.admin.configs import ConfigsAdmin
from pkafka.clients.admin.groups import GroupsAdmin
from pkafka.clients.admin.partitions import PartitionsAdmin
from pkafka.clients.admin.topics import TopicsAdmin
from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ClientConfig
from pkafka.clock import Clock


class Admin(TopicsAdmin, ConfigsAdmin, PartitionsAdmin, GroupsAdmin, ClusterInfoAdmin):
    """See the module.

    Args:
        config: Kafka's admin keys, at least ``bootstrap.servers``; a mapping of dotted keys or the typed form.
        clock: for time-outs.
        fail_fast: raise at once when no bootstrap server can be reached.

    Raises:
        ConfigError: a key has a bad value.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ClientConfig,
        *,
        clock: Clock | None = None,
        fail_fast: bool = False,
    ) -> None:
        typed = config if isinstance(config, ClientConfig) else ClientConfig.from_properties(config)
        self.cluster = Cluster(typed, clock=clock, fail_fast=fail_fast)

    def close(self) -> None:
        """Close every connection."""
        self.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
