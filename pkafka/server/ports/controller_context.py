"""The ports of handlers that ask the controller of this broker: the control process implements them, tests replace it.

These handlers run on the event loop of the control process. Calls that block (the store) or touch the controller's
state go through :meth:`ControllerContext.run` onto the one controller thread.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from pkafka.coordination.store import Store
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.controller.controller import Controller
from pkafka.server.limits.mutation_quotas import Mutations
from pkafka.server.ports.authorized import WithRights

T = TypeVar("T")


class ControllerContext(WithRights, Protocol):
    """The control process, as handlers see it that need nothing but the controller."""

    @property
    def controller(self) -> Controller:
        """The controller of this broker, active or not."""
        ...

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function`` on the controller thread, in its turn, and give back what it returns or raises."""
        ...


class TopicsContext(ControllerContext, Protocol):
    """The control process, as handlers see it that change topics and wait for the metadata to say so."""

    def mutations(self, *, is_strict: bool) -> Mutations:
        """What the client that asks may create and delete in this request.

        Args:
            is_strict: whether the version of the request knows THROTTLING_QUOTA_EXCEEDED.
        """
        ...

    @property
    def store(self) -> Store:
        """The coordination store of the present session; use it on the controller thread only."""
        ...

    @property
    def metadata(self) -> MetadataCache:
        """The cache of the control process; read it on the event loop only."""
        ...
