"""The control process of a broker, as a worker sees it: it may die at any time, and another takes its place."""

import asyncio
from collections.abc import Sequence

from pkafka.errors import ApiError, ErrorCode
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Payload, Peer, PeerGone
from pkafka.server.serving.context import Caller


class ControlLine:
    """The channel to the control process of the moment."""

    def __init__(self) -> None:
        self.peer: Peer | None = None
        """None while there is none."""
        self._greeted = asyncio.Event()

    def lost(self) -> None:
        """Note that the control process is gone."""
        self.peer = None
        self._greeted.clear()

    def greeted(self) -> None:
        """Note that the control process knows this worker, so that it may be asked."""
        self._greeted.set()

    async def ready(self) -> Peer:
        """The control process, as soon as there is one that knows this worker."""
        while self.peer is None or self.peer.gone:
            self._greeted.clear()
            await self._greeted.wait()
        return self.peer

    async def ask(self, operation: str, payload: Payload) -> Payload:
        """Ask for something that may be done twice; when the control process dies meanwhile, ask its successor."""
        while True:
            try:
                return (await (await self.ready()).call(operation, payload))[0]
            except PeerGone:
                continue

    def tell(self, operation: str, payload: Payload) -> None:
        """Send a note to the control process, when there is one."""
        if self.peer is not None:
            self.peer.note(operation, payload)

    async def existing_partitions(
        self, partitions: Sequence[tuple[str, int]]
    ) -> Sequence[tuple[str, int]] | None:
        """Ask which of these partitions the cluster has; None when the store does not say."""
        try:
            answer = await self.ask(words.EXISTING_PARTITIONS, list(partitions))
        except ApiError:
            return None
        return None if answer is None else [(topic, index) for topic, index in answer]

    async def auto_create(self, names: Sequence[str], caller: Caller | None = None) -> dict[str, ErrorCode]:
        """Have missing topics created by the controller (auto.create.topics.enable).

        Args:
            names: of the topics.
            caller: the client that uses them, whose controller_mutation_rate they count for; None: this broker.

        Returns:
            What became of each.
        """
        answer = await self.ask(words.AUTO_CREATE, words.AutoCreate(list(names), caller))
        return {name: ErrorCode(code) for name, code in answer.items()}
