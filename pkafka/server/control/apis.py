"""The APIs that the control process serves, and what their handlers get to see of it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from pkafka.clock import Clock
from pkafka.coordination.store import Store
from pkafka.model import NO_EPOCH, BrokerEpoch, BrokerId
from pkafka.protocol.api import ApiKey
from pkafka.protocol.schema import Message
from pkafka.server.cluster.control_requests import ControlRequest, ControlResponse
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.cluster.producer_ids import ProducerIds
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.broker_loggers import ProcessLoggers
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.control.acl_keeper import AclKeeper
from pkafka.server.control.local_channels import LocalChannels
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.control.token_keeper import TokenKeeper
from pkafka.server.controller.controller import Controller
from pkafka.server.handlers import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    controlled_shutdown,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_user_scram_credentials,
    elect_leaders,
    expire_delegation_token,
    incremental_alter_configs,
    leader_and_isr,
    list_partition_reassignments,
    renew_delegation_token,
    stop_replica,
    update_features,
    update_metadata,
)
from pkafka.server.limits.mutation_quotas import Mutations
from pkafka.server.policies import Policies
from pkafka.server.security.authorizer import Authorizer, rights_of
from pkafka.server.security.rights import UNLIMITED, Rights
from pkafka.server.security.tickets import check_keytabs
from pkafka.server.serving.context import NO_CALLER, Caller

T = TypeVar("T")

ControlHandler: TypeAlias = "Callable[[ControlRequestContext, Any, int], Awaitable[Message]]"

HANDLERS: Final[Mapping[int, ControlHandler]] = {
    ApiKey.LEADER_AND_ISR: leader_and_isr.handle,
    ApiKey.STOP_REPLICA: stop_replica.handle,
    ApiKey.UPDATE_METADATA: update_metadata.handle,
    ApiKey.ALTER_PARTITION: alter_partition.handle,
    ApiKey.CONTROLLED_SHUTDOWN: controlled_shutdown.handle,
    ApiKey.CREATE_TOPICS: create_topics.handle,
    ApiKey.DELETE_TOPICS: delete_topics.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.ALTER_CONFIGS: alter_configs.handle,
    ApiKey.CREATE_PARTITIONS: create_partitions.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials.handle,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials.handle,
    ApiKey.UPDATE_FEATURES: update_features.handle,
    ApiKey.ELECT_LEADERS: elect_leaders.handle,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas.handle,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas.handle,
    ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids.handle,
    ApiKey.CREATE_ACLS: create_acls.handle,
    ApiKey.DELETE_ACLS: delete_acls.handle,
    ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token.handle,
    ApiKey.RENEW_DELEGATION_TOKEN: renew_delegation_token.handle,
    ApiKey.EXPIRE_DELEGATION_TOKEN: expire_delegation_token.handle,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe_delegation_token.handle,
}


OF_CONTROLLERS: Final = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})
"""What only a controller sends: served before this broker is up, since that is what brings it up."""


class ControlRequestContext:
    """One request, as its handler in the control process sees the world around it.

    Args:
        broker: this broker.
        channels: to the processes of this broker.
        caller: the client that asked.
    """

    __slots__ = ("_broker", "_channels", "caller")

    def __init__(self, broker: ThisBroker, channels: LocalChannels, caller: Caller = NO_CALLER) -> None:
        self._broker = broker
        self._channels = channels
        self.caller = caller

    @property
    def listener_name(self) -> str:
        return self.caller.listener

    @property
    def rights(self) -> Rights:
        if self.caller is NO_CALLER:
            return UNLIMITED
        return rights_of(self._broker.authorizer, self.caller.principal, self.caller.host)

    @property
    def authorizer(self) -> Authorizer | None:
        return self._broker.authorizer

    @property
    def acls(self) -> AclKeeper | None:
        return self._broker.acls

    @property
    def tokens(self) -> TokenKeeper | None:
        return self._broker.tokens

    @property
    def store(self) -> Store:
        return self._broker.store

    @property
    def config(self) -> BrokerConfig:
        return self._broker.config

    @property
    def configs(self) -> ConfigRepository:
        return self._broker.configs

    @property
    def loggers(self) -> ProcessLoggers:
        return self._broker.loggers

    @property
    def policies(self) -> Policies:
        return self._broker.policies

    @property
    def metadata(self) -> MetadataCache:
        return self._broker.metadata

    @property
    def controller(self) -> Controller:
        return self._broker.controller

    @property
    def producer_ids(self) -> ProducerIds:
        return self._broker.producer_ids

    @property
    def broker_id(self) -> BrokerId:
        return self._broker.broker_id

    @property
    def cluster_id(self) -> str:
        return self._broker.cluster_id

    @property
    def clock(self) -> Clock:
        return self._broker.clock

    @property
    def broker_epoch(self) -> BrokerEpoch:
        return self._broker.broker_epoch

    def mutations(self, *, is_strict: bool) -> Mutations:
        caller = self.caller
        return self._broker.mutations.of(caller.principal.name, caller.client_id or "", is_strict=is_strict)

    def is_stale(self, broker_epoch: BrokerEpoch) -> bool:
        return NO_EPOCH < broker_epoch < self._broker.broker_epoch

    async def carry_out(self, request: ControlRequest) -> ControlResponse:
        return await self._channels.carry_out(request)

    def check_stores(self, config: BrokerConfig) -> None:
        self._broker.encryption.check(config)
        check_keytabs(config, self._broker.config)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function`` on the controller thread, in its turn, and give back what it returns or raises."""
        return await self._broker.run_on_store(function, *args)

    async def in_force(self) -> None:
        await asyncio.sleep(0)  # behind what the change told
        await self._channels.heard()
