"""What workers ask of the control process: requests of clients that change the cluster, and what their leaders need."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from pkafka.coordination.store import StoreError, StoreFullError
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import LogDirEvent
from pkafka.errors import StorageError
from pkafka.model import ProducerId, TopicPartition
from pkafka.protocol.codec import encode
from pkafka.server.cluster import topics
from pkafka.server.cluster.producer_ids import ProducerIdsExhaustedError
from pkafka.server.control import apis
from pkafka.server.control.apis import ControlRequestContext
from pkafka.server.control.local_channels import LocalChannels
from pkafka.server.control.siblings import Siblings
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.groups import store_offsets
from pkafka.server.handlers import create_topics
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.ipc.words import IsrAnswer, ProposedIsr, StoreCommit, StoreFetch
from pkafka.server.serving.context import NO_CALLER, Caller, Forwarded

log = logging.getLogger(__name__)

_FULL_STORE_PAUSE_S: Final = 1.0


class Requests:
    """Serves what workers ask for, once this broker is far enough.

    Args:
        broker: this broker.
        siblings: its other processes.
        channels: carries out what a controller says.
        alter_partition: sends proposals of ISRs to the controller; called when this broker is identified.
    """

    def __init__(
        self,
        broker: ThisBroker,
        siblings: Siblings,
        channels: LocalChannels,
        alter_partition: Callable[[Sequence[ProposedIsr]], Awaitable[list[IsrAnswer]]],
    ) -> None:
        self._broker = broker
        self._siblings = siblings
        self._channels = channels
        self._propose = alter_partition
        self._failed_directories: set[str] = set()
        self.operations: dict[str, Handler] = {
            words.API: self._api,
            words.AUTO_CREATE: self._auto_create,
            words.PRODUCER_ID: self._producer_id,
            words.EXISTING_PARTITIONS: self._existing_partitions,
            words.COMMIT_TO_STORE: self._commit_to_store,
            words.FETCH_FROM_STORE: self._fetch_from_store,
            words.LOG_DIR_FAILED: self._log_dir_failed,
            words.ALTER_PARTITION: self._alter_partition,
        }

    async def _api(self, _peer: Peer, payload: Payload, blob: memoryview, _fds: list[int]) -> Any:  # noqa: ANN401
        facts = Forwarded.of(payload)
        request = facts.request(blob)
        if facts.api_key not in apis.OF_CONTROLLERS:
            await self._broker.booted.wait()
        context = ControlRequestContext(self._broker, self._channels, facts.caller)
        response = await apis.HANDLERS[facts.api_key](context, request, facts.api_version)
        # For how long the client is slowed down: the worker that has the connection sees to that.
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        return throttle_ms, encode(response, facts.api_version), ()

    async def _auto_create(
        self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> dict[str, int]:
        await self._broker.booted.wait()
        said = words.AutoCreate(*payload)
        caller = NO_CALLER if said.caller is None else Caller.of_row(said.caller)
        context = ControlRequestContext(self._broker, self._channels, caller)
        mutations = None if said.caller is None else context.mutations(is_strict=False)
        outcome = await create_topics.auto_create(context, said.names, mutations)
        return {name: int(code) for name, code in outcome.items()}

    async def _producer_id(
        self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> ProducerId | None:
        await self._broker.booted.wait()
        try:
            return await self._broker.producer_ids.next(ControlRequestContext(self._broker, self._channels))
        except (StoreError, ProducerIdsExhaustedError) as error:
            log.warning("no block of producer ids could be had: %s", error)
            return None

    async def _existing_partitions(
        self, _peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]
    ) -> list[tuple[str, int]] | None:
        """Which of these partitions there are, for a worker whose metadata do not know them (yet, or any more)."""
        await self._broker.booted.wait()
        asked = [(topic, partition) for topic, partition in rows]
        try:
            return await self._broker.run_on_store(topics.existing, self._broker.store, asked)
        except (StoreError, ZnodeFormatError) as error:
            log.warning("The store does not say whether partitions exist: %s", error)
            return None

    async def _commit_to_store(
        self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> list[int]:
        """OffsetCommit v0: an error code for each (topic, partition, offset)."""
        await self._broker.booted.wait()
        said = StoreCommit(*payload)
        offsets = [(TopicPartition(topic, partition), offset) for topic, partition, offset in said.rows]
        return await self._broker.run_on_store(store_offsets.commit, self._broker.store, said.group, offsets)

    async def _fetch_from_store(
        self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> list[tuple[int, int]]:
        """OffsetFetch v0: error code and offset for each (topic, partition)."""
        await self._broker.booted.wait()
        said = StoreFetch(*payload)
        partitions = [TopicPartition(*row) for row in said.rows]
        return await self._broker.run_on_store(
            store_offsets.fetch, self._broker.store, said.group, partitions
        )

    async def _alter_partition(
        self, _peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]
    ) -> list[IsrAnswer]:
        """Send the ISRs that leaders of this broker propose; returns the controller's answers, row by row."""
        await self._broker.identified.wait()
        return await self._propose([ProposedIsr(*row) for row in rows])

    async def _log_dir_failed(self, _peer: Peer, path: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """A disk failed: the other workers stop using it, and the controller asks which replicas are lost."""
        if path in self._failed_directories:
            return
        self._failed_directories.add(path)
        self._siblings.tell_workers(words.LOG_DIR_FAILED, path)
        await self._broker.booted.wait()
        store = self._broker.store
        event = LogDirEvent(self._broker.broker_id)
        told = False
        while not told:
            try:
                await self._broker.run_on_store(
                    lambda: store.create(event.create_path(), event.encode(), sequential=True)
                )
                told = True
            except StoreFullError:
                # The store may lie on the full disk; this tries again until there is room.
                await asyncio.sleep(_FULL_STORE_PAUSE_S)
            except (StoreError, StorageError) as error:
                log.error("Cannot tell the controller that %s failed: %s", path, error)
                return
