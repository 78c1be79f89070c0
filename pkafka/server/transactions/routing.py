"""The transactional ids of one worker, as requests about them see them."""

from typing import NamedTuple, TypeAlias

from pkafka.clock import Clock
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.coordinator import routing
from pkafka.server.coordinator.keyed_topic import KeyedTopic
from pkafka.server.security.authorizer import Authorizer, rights_of
from pkafka.server.security.rights import Rights
from pkafka.server.serving.context import Caller
from pkafka.server.transactions.coordinator import TransactionCoordinator


class Transactions(NamedTuple):
    """Holds what requests about transactions need."""

    coordinator: TransactionCoordinator
    offsets_topic: KeyedTopic
    """Tells which partition of __consumer_offsets has a group."""
    metadata: MetadataCache
    """Tells which partitions there are."""
    clock: Clock
    authorizer: Authorizer | None = None
    """None where every client may do everything."""

    def rights(self, caller: Caller) -> Rights:
        """What the client may do."""
        return rights_of(self.authorizer, caller.principal, caller.host)


TransactionRouter: TypeAlias = routing.CoordinatorRouter[Transactions]
Serve: TypeAlias = routing.Serve[Transactions]
