"""The consumer's connection to its group's coordinator: finds the broker, sends to it, notices when it moved."""

from typing import Final, TypeVar

from pkafka.clients.connection import Address
from pkafka.clients.consumer.futures import RequestFuture
from pkafka.clients.consumer.membership import Membership
from pkafka.clients.consumer.membership_steps import Coordinator
from pkafka.clients.consumer.network import ConsumerNetwork
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.schema import Message

R = TypeVar("R", bound=Message)

# Fetches are answered late on purpose: a heartbeat must not wait behind one.
LANE: Final = "group"


class GroupChannel:
    """The way to the coordinator of a group.

    Args:
        membership: knows which broker the coordinator is.
    """

    def __init__(self, net: ConsumerNetwork, membership: Membership) -> None:
        self.net = net
        self.membership = membership
        self._used: Coordinator | None = None

    def send(
        self,
        message: Message,
        response_type: type[R],
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> RequestFuture[R]:
        """Send a request to the coordinator; fails with COORDINATOR_NOT_AVAILABLE while it is not known."""
        found = self.membership.coordinator
        if found is None:
            return RequestFuture.failed_with(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self._used = found
        future = self.net.send(
            Address(found.host, found.port, LANE),
            message,
            response_type,
            timeout_ms=timeout_ms,
            max_version=max_version,
        )

        def lost(error: Exception) -> None:
            if isinstance(error, ClientError) and error.retriable and self.membership.coordinator == found:
                self.membership.forget_coordinator(str(error))

        future.add_listener(lambda _: None, lost)
        return future

    def drop_former(self) -> None:
        """Close the connection to a broker that does not coordinate any more: what it still answers is of no use."""
        used = self._used
        if used is not None and used != self.membership.coordinator:
            self._used = None
            self.net.cluster.network.disconnect(Address(used.host, used.port, LANE))

    def await_coordinator(self, deadline_ms: int) -> bool:
        """Wait until the coordinator is known.

        Returns:
            False when the time ran out.

        Raises:
            ApiError: this client may not use the group.
            WakeupError: another thread called ``wakeup``.
        """
        self.membership.want_coordinator()
        while self.membership.coordinator is None:
            self.membership.raise_failure()
            left_ms = deadline_ms - self.net.now_ms
            self.net.poll(max(0, left_ms))
            if left_ms <= 0:
                break
        self.membership.raise_failure()
        return self.membership.coordinator is not None
