"""The groups of one worker, as requests about them see them."""

from typing import NamedTuple, TypeAlias

from pkafka.clock import Clock
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.coordinator import routing
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.groups.offset_keeper import OffsetKeeper
from pkafka.server.groups.transactional_offsets import TransactionalOffsets
from pkafka.server.security.authorizer import Authorizer, rights_of
from pkafka.server.security.rights import Rights
from pkafka.server.serving.context import Caller


class Groups(NamedTuple):
    """Holds what requests about groups need."""

    coordinator: GroupCoordinator
    offsets: OffsetKeeper
    transactional_offsets: TransactionalOffsets
    metadata: MetadataCache
    """Tells which partitions there are, so that offsets of others are refused."""
    clock: Clock
    authorizer: Authorizer | None = None
    """None where every client may do everything."""

    def rights(self, caller: Caller) -> Rights:
        """What the client may do."""
        return rights_of(self.authorizer, caller.principal, caller.host)


GroupRouter: TypeAlias = routing.CoordinatorRouter[Groups]
Serve: TypeAlias = routing.Serve[Groups]
