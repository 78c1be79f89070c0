"""How a worker that has just come is brought up to date, or brings a control process that has just come up to date."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pkafka.server.control.local_channels import LocalChannels
from pkafka.server.control.siblings import Siblings
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.ipc.words import Hello


class Greeting:
    """Answers the first words of workers.

    Args:
        broker: this broker.
        siblings: where a worker takes part once it is up to date.
        channels: knows what the controller has decided.
        tell_all: tell a worker what else it has to know, each of one kind, in this order.
    """

    def __init__(
        self,
        broker: ThisBroker,
        siblings: Siblings,
        channels: LocalChannels,
        tell_all: Sequence[Callable[[Peer], Awaitable[None]]],
    ) -> None:
        self._broker = broker
        self._siblings = siblings
        self._channels = channels
        self._tell_all = tell_all
        self.producer_id_max = -1
        """The highest producer id in the logs of this broker."""
        self.informed: set[int] = set()
        """Workers that have said what this broker has, to this process that has just come."""
        self.operations: dict[str, Handler] = {
            words.SETTINGS: self._settings,
            words.HELLO: self.hello,
        }

    async def hello(self, peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> dict[str, Any]:
        """A worker has opened its logs: bring it up to date and let it take part."""
        said = Hello(*payload)
        self.producer_id_max = max(self.producer_id_max, said.producer_id_max)
        await self._broker.identified.wait()
        self._siblings.follow(peer)
        await self._inform(peer)
        if said.knows:
            await self._channels.learn_from(peer)
            self.informed.add(peer.index)
        else:
            await self._channels.bring_up_to_date(peer)
        await self._siblings.take_part(peer)
        return {}

    async def _settings(
        self, peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> dict[str, Any]:
        """A worker is about to open its logs; it hears of changes when it has opened them."""
        await self._broker.identified.wait()
        await self._inform(peer)
        return {}

    async def _inform(self, peer: Peer) -> None:
        """Tell a worker the settings, the rules and whom it may let in, which it needs before it serves anything."""
        for tell_all in self._tell_all:
            await tell_all(peer)
        if self._broker.acls is not None:
            await self._broker.acls.tell_all(peer)
        if self._broker.tokens is not None:
            await self._broker.tokens.tell_all(peer)
