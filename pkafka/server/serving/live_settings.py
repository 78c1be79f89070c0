"""The settings that a worker takes over while it runs, as the control process tells them."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final

from pkafka.errors import ConfigError
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.ipc.words import ClientQuotaSettings, Identity, Settings, TopicSettings
from pkafka.server.limits.address_rates import AddressRates, resolved
from pkafka.server.limits.client_quotas import ClientQuotas
from pkafka.server.limits.connection_limits import ConnectionLimits, LimitSettings
from pkafka.server.limits.replication_quota import ReplicationQuotas
from pkafka.server.replicas.logs import WorkerLogs
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.replication.fetcher import ReplicaFetchers

log = logging.getLogger(__name__)

_ADDRESSES: Final = "ips"
"""The type of entities whose quotas are of addresses."""


class LiveSettings:
    """Passes settings on to the parts of a worker that act by them. Belongs to one event loop.

    Args:
        static: the settings of the file.
        taken: called first with the settings in force.
        metadata: learns the id of the cluster.
        partitions: learn the id of this broker.
        logs: act by the settings of topics, and by the defaults of these.
        quotas: limit how fast replicas are copied.
        client_quotas: limit what clients may use.
        fetchers: follow leaders, as many at once as the settings say.
        limits: of connections.
        address_rates: how fast addresses may connect.
        threads: look up the names of hosts in these limits.
        tasks: of this worker.
    """

    def __init__(
        self,
        static: BrokerConfig,
        taken: Callable[[BrokerConfig], None],
        *,
        metadata: MetadataCache,
        partitions: Partitions,
        logs: WorkerLogs,
        quotas: ReplicationQuotas,
        client_quotas: ClientQuotas,
        fetchers: ReplicaFetchers,
        limits: ConnectionLimits,
        address_rates: AddressRates,
        threads: Executor,
        tasks: Tasks,
    ) -> None:
        self._static = static
        self._now = static
        self._taken = taken
        self._metadata = metadata
        self._partitions = partitions
        self._logs = logs
        self._quotas = quotas
        self._client_quotas = client_quotas
        self._fetchers = fetchers
        self._limits = limits
        self._address_rates = address_rates
        self._of_addresses: Mapping[str, Mapping[str, str]] = {}
        self._threads = threads
        self._tasks = tasks
        self.operations: dict[str, Handler] = {
            words.IDENTITY: self._identity,
            words.BROKER_CONFIG: self._broker_config,
            words.TOPIC_CONFIGS: self._topic_configs,
            words.EVERY_TOPIC_CONFIG: self._every_topic_config,
            words.CLIENT_QUOTAS: self._quotas_of_clients,
            words.HEARD: self._heard,
        }

    def _identity(self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """Take the identity of this broker; before its first start only the store knows a generated id."""
        said = Identity(*payload)
        self._partitions.broker_id = said.broker_id
        self._metadata.cluster_id = said.cluster_id

    def _heard(self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """Say that all that came before this is taken over: what comes by one channel is served in its order."""

    def _broker_config(self, _peer: Peer, payload: Settings, _blob: memoryview, _fds: list[int]) -> None:
        """Take over dynamic broker settings: all that differ from the file, by key."""
        self._now = self._static.replace(payload)
        self._taken(self._now)
        self._quotas.set_rates(payload)
        self._fetchers.resize(self._now.num_replica_fetchers)
        self._logs.defaults_changed()
        self._tasks.spawn(self._read_limits())

    async def _read_limits(self) -> None:
        try:
            # Not on the loop: names of hosts are looked up.
            settings = await asyncio.get_running_loop().run_in_executor(
                self._threads, LimitSettings.of, self._now
            )
        except ConfigError as error:
            log.error("The limits of connections stay as they were: %s", error)
        else:
            self._limits.settings = settings

    def _topic_configs(self, _peer: Peer, topics: TopicSettings, _blob: memoryview, _fds: list[int]) -> None:
        """The own settings of these topics are these now."""
        self._logs.set_topic_configs(topics)
        self._quotas.set_topic_configs(topics, self._partitions.broker_id)

    def _every_topic_config(
        self, _peer: Peer, topics: TopicSettings, _blob: memoryview, _fds: list[int]
    ) -> None:
        """These topics have settings of their own, and no other has any."""
        self._logs.set_every_topic_config(topics)
        self._quotas.set_every_topic_config(topics, self._partitions.broker_id)

    def _quotas_of_clients(self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """These clients have these quotas."""
        said = ClientQuotaSettings(*payload)
        self._client_quotas.change([row for row in said.rows if row[0] != _ADDRESSES], is_all=said.is_all)
        changed = {name: settings for kind, name, settings in said.rows if kind == _ADDRESSES}
        if changed or said.is_all:
            self._of_addresses = changed if said.is_all else {**self._of_addresses, **changed}
            self._tasks.spawn(self._read_address_rates(self._of_addresses))

    async def _read_address_rates(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        # Not on the loop: names of hosts are looked up.
        rates, problems = await asyncio.get_running_loop().run_in_executor(self._threads, resolved, settings)
        if settings is self._of_addresses:  # else a later change is being looked up
            self._address_rates.rates = rates
        for problem in problems:
            log.error("%s", problem)
