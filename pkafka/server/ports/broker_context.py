"""The port of the requests that a controller sends to this broker: the control process implements it."""

from typing import Protocol

from pkafka.model import BrokerEpoch
from pkafka.server.cluster.control_requests import ControlRequest, ControlResponse
from pkafka.server.ports.authorized import WithRights


class BrokerContext(WithRights, Protocol):
    """This broker, as the requests of a controller see it."""

    def is_stale(self, broker_epoch: BrokerEpoch) -> bool:
        """Whether a request was meant for an earlier registration of this broker (KIP-380).

        A request for a later one is not stale: the controller may know of it before this broker does. -1 means any.
        """
        ...

    async def carry_out(self, request: ControlRequest) -> ControlResponse:
        """Have the processes of this broker carry out a controller's request, after the earlier ones."""
        ...
