"""This broker, as the parts of its control process share it."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from pkafka.clock import Clock
from pkafka.coordination.store import Store
from pkafka.model import NO_EPOCH, BrokerEpoch, BrokerId
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.cluster.producer_ids import ProducerIds
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.broker_loggers import ProcessLoggers
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.control.acl_keeper import AclKeeper
from pkafka.server.control.identity import Identity
from pkafka.server.control.token_keeper import TokenKeeper
from pkafka.server.controller.controller import Controller
from pkafka.server.limits.mutation_quotas import MutationQuotas
from pkafka.server.policies import Policies
from pkafka.server.security.authorizer import Authorizer
from pkafka.server.security.encryption import Encryption

T = TypeVar("T")


class ThisBroker:
    """Holds the ids of this broker, the store of its session, its settings and its controller.

    What the constructor does not set the boot of the process sets, in this order: the policies, the authorizer, the
    store, the ids, the controller, the settings, the ACLs and the tokens (then it is identified), the epoch and the
    producer ids (then it is booted).

    Args:
        broker_id: as configured; the store may give another.
        clock: the time.
        loggers: the loggers of this broker's processes.
        encryption: of its listeners.
        mutations: what clients may create and delete, as long as this broker is the controller.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        clock: Clock,
        loggers: ProcessLoggers,
        encryption: Encryption,
        mutations: MutationQuotas,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = ""
        self.broker_epoch: BrokerEpoch = NO_EPOCH
        self.clock = clock
        self.loggers = loggers
        self.encryption = encryption
        self.mutations = mutations
        self.metadata = MetadataCache()
        self.policies = Policies()
        self.authorizer: Authorizer | None = None
        """None where every client may do everything."""
        self.acls: AclKeeper | None = None
        """None where no ACLs are kept."""
        self.tokens: TokenKeeper | None = None
        """None where there are no delegation tokens."""
        self.store: Store
        self.configs: ConfigRepository
        self.controller: Controller
        self.producer_ids: ProducerIds
        self.identified = asyncio.Event()
        """Set once the ids, the settings and the controller are known."""
        self.booted = asyncio.Event()
        """Set once this broker is registered, and knows its cluster."""

    @property
    def config(self) -> BrokerConfig:
        """The settings in force, dynamic changes included."""
        return self.configs.layers.current

    def take_identity(self, identity: Identity) -> None:
        """Take the ids that the store and the log directories agree on."""
        self.broker_id = identity.broker_id
        self.cluster_id = identity.cluster_id
        self.metadata.cluster_id = identity.cluster_id

    def close_store(self) -> None:
        """End the session with the store, when it has begun; blocking.

        Raises:
            StoreError, StorageError: the store does not know that the session is over.
        """
        if hasattr(self, "store"):
            self.store.close()

    async def run_on_store(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function`` on the controller thread, in its turn, and give back what it returns or raises."""
        return await asyncio.wrap_future(self.controller.submit(function, *args))
