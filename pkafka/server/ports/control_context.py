"""The port of handlers in the control process: the process implements it, tests replace it.

These handlers run on the event loop of the control process. Calls that block (the store) or touch the controller's
state go through :meth:`ControlContext.run` onto the one controller thread.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from pkafka.clock import Clock
from pkafka.coordination.store import Store
from pkafka.model import BrokerEpoch, BrokerId
from pkafka.server.cluster.control_requests import ControlRequest, ControlResponse
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.cluster.producer_ids import ProducerIds
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.controller.controller import Controller
from pkafka.server.policies import Policies

T = TypeVar("T")


class ControlContext(Protocol):
    """The control process, as its request handlers see it."""

    @property
    def store(self) -> Store:
        """The coordination store of the present session; use it on the controller thread only."""
        ...

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings of this moment, dynamic changes included."""
        ...

    @property
    def configs(self) -> ConfigRepository:
        """The settings of topics and brokers; change and load them on the controller thread only."""
        ...

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def metadata(self) -> MetadataCache:
        """The cache of the control process; read it on the event loop only."""
        ...

    @property
    def controller(self) -> Controller:
        """The controller of this broker, active or not."""
        ...

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def policies(self) -> Policies:
        """What the operator allows; ask on the controller thread."""
        ...

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The epoch of this broker's registration; -1 before there is one."""
        ...

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function`` on the controller thread, in its turn, and give back what it returns or raises."""
        ...


class BrokerContext(Protocol):
    """This broker, as the requests of a controller see it."""

    def is_stale(self, broker_epoch: BrokerEpoch) -> bool:
        """Whether a request was meant for an earlier registration of this broker (KIP-380).

        A request for a later one is not stale: the controller may know of it before this broker does. -1 means any.
        """
        ...

    async def carry_out(self, request: ControlRequest) -> ControlResponse:
        """Have the processes of this broker carry out a controller's request, after the earlier ones."""
        ...
