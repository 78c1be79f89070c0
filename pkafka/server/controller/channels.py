"""The port over which the controller talks to brokers, itself included."""

from collections.abc import Callable, Mapping
from typing import Protocol

from pkafka.model import BrokerId
from pkafka.server.cluster.control_requests import ControlRequest, ControlResponse
from pkafka.server.cluster.metadata import BrokerInfo


class BrokerChannels(Protocol):
    """Sends control requests; one queue per broker."""

    def send(
        self,
        broker_id: BrokerId,
        request: ControlRequest,
        on_response: Callable[[ControlResponse], None] | None = None,
    ) -> None:
        """Queue a request for a broker; thread-safe, never waits, never raises for an unreachable broker.

        Requests to one broker arrive in the order of these calls, each after the one before was answered. The
        channel repeats a request until it is answered or the broker is taken off the list.

        Args:
            broker_id: the receiver, also the local broker, whose processes each get what they own.
            request: a new object that is not changed any more.
            on_response: gets the answer, on any thread; must only enqueue. None when the answer does not matter.
        """
        ...

    def brokers_changed(self, brokers: Mapping[BrokerId, BrokerInfo]) -> None:
        """Take the live brokers, and drop the requests that are queued for others. Thread-safe, never waits."""
        ...
