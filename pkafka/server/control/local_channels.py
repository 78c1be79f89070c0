"""How control requests reach brokers: this broker's own workers, by frames between processes.

Implements the controller's :class:`~pkafka.server.controller.channels.BrokerChannels`. What is sent to this broker is
split by owner; the answers of its workers are put together into the one that the controller expects.
"""

import asyncio
import copy
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter_ns
from typing import TypeAlias

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import BrokerId
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from pkafka.protocol.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from pkafka.server.cluster.control_requests import RESPONSES, VERSIONS, ControlRequest, ControlResponse
from pkafka.server.cluster.metadata import BrokerInfo
from pkafka.server.cluster.state_change import broker_log
from pkafka.server.control.siblings import Siblings
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Peer, PeerGone
from pkafka.server.ipc.words import IsrAnswer, ProposedIsr
from pkafka.server.replicas.decisions import by_topic
from pkafka.server.replicas.leadership import IsrProposal, is_final
from pkafka.server.replicas.partition import PartitionKey
from pkafka.server.replicas.partitions import owner_of

log = logging.getLogger(__name__)

OnResponse: TypeAlias = "Callable[[ControlResponse], None] | None"


class LocalChannels:
    """Delivers control requests to the workers of this broker, one after the other.

    It keeps the controller's last decision about each partition, so that a worker that is started again gets its share.
    The controller's answers to proposed ISRs belong to that: a leader that knew an older ISR would take records for
    committed that members of the present ISR lack.

    Args:
        broker: this broker.
        siblings: the way to its workers.
        workers: how many there are.
    """

    def __init__(self, broker: ThisBroker, siblings: Siblings, workers: int) -> None:
        self._broker = broker
        self._siblings = siblings
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[ControlRequest, OnResponse] | asyncio.Future[None]] = asyncio.Queue()
        self._last: LeaderAndIsrRequest | None = None
        self._metadata_on_their_way: UpdateMetadataRequest | None = None
        self._topics: set[str] = set()
        """Topics whose settings are known."""
        self._assigned: dict[PartitionKey, tuple[bytes, LeaderAndIsrPartitionState]] = {}
        self._proposals: dict[PartitionKey, IsrProposal] = {}
        """Proposals that the controller may still carry out."""

    # -- the controller's side: any thread --

    def send(self, broker_id: BrokerId, request: ControlRequest, on_response: OnResponse = None) -> None:
        """Queue a request; see the port."""
        if broker_id == self._broker.broker_id:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (request, on_response))

    def brokers_changed(self, brokers: Mapping[BrokerId, BrokerInfo]) -> None:
        """Nothing to drop: the only broker that is served here is this one."""

    # -- the event loop's side --

    def isrs_proposed(self, proposals: Iterable[ProposedIsr]) -> None:
        """Note ISRs that leaders of this broker propose."""
        for one in proposals:
            self._proposals[one.topic, one.partition] = IsrProposal(
                tuple(one.isr), one.leader_epoch, one.partition_epoch
            )

    def isrs_answered(self, proposals: Iterable[ProposedIsr], answers: Iterable[IsrAnswer]) -> None:
        """Note the controller's answer to each of these proposals."""
        for one, now in zip(proposals, answers, strict=True):
            key, code = (one.topic, one.partition), ErrorCode(now.code)
            if not is_final(code):
                continue
            if self._proposals.get(key) == (tuple(one.isr), one.leader_epoch, one.partition_epoch):
                del self._proposals[key]
            if code is ErrorCode.NONE and key in self._assigned:
                topic_id, state = self._assigned[key]
                if state.leader_epoch == now.leader_epoch and state.partition_epoch < now.partition_epoch:
                    known = copy.copy(state)
                    known.isr, known.partition_epoch = [*now.isr], now.partition_epoch
                    self._assigned[key] = (topic_id, known)

    async def heard(self) -> None:
        """Wait until the workers have heard all that they were told so far, but for those that are gone or hang."""
        await self._siblings.heard()

    async def settled(self) -> None:
        """Wait until all that is queued now is delivered."""
        mark: asyncio.Future[None] = self._loop.create_future()
        self._queue.put_nowait(mark)
        await mark

    async def carry_out(self, request: ControlRequest) -> ControlResponse:
        """Deliver a request of another broker's controller, in its turn, and return the answer."""
        answer: asyncio.Future[ControlResponse] = self._loop.create_future()

        def answered(response: ControlResponse) -> None:
            if not answer.done():
                answer.set_result(response)

        self._queue.put_nowait((request, answered))
        return await answer

    async def run(self) -> None:
        """Deliver what is queued, in order, for ever."""
        while True:
            item = await self._queue.get()
            if isinstance(item, asyncio.Future):
                if not item.done():
                    item.set_result(None)
                continue
            request, on_response = item
            response = await self._deliver(request)
            if on_response is not None:
                on_response(response)

    async def _deliver(self, request: ControlRequest) -> ControlResponse:
        changes, began_ns = broker_log(self._broker.broker_id), perf_counter_ns()
        try:
            if isinstance(request, UpdateMetadataRequest):
                return await self._update_metadata(request)
            name = type(request).__name__.removesuffix("Request")
            about = (
                f"from controller {request.controller_id} epoch {request.controller_epoch}"
                f" for {_size(request)} partitions"
            )
            changes.info("Handling %s request %s", name, about)
            if isinstance(request, StopReplicaRequest):
                return await self._stop_replica(request)
            response = await self._leader_and_isr(request)
            changes.info(
                "Finished %s request in %dms %s", name, (perf_counter_ns() - began_ns) // 1_000_000, about
            )
            return response
        except ApiError as error:
            if error.code is ErrorCode.STALE_CONTROLLER_EPOCH:
                changes.warning("Ignoring %s request: %s", type(request).__name__, error)
                return RESPONSES[type(request)](error_code=error.code)
            # A bug in a worker, which has logged it. The later requests must not wait for ever.
            log.error("%s could not be carried out: %s", type(request).__name__, error)
            return RESPONSES[type(request)](error_code=error.code)

    async def learn_from(self, peer: Peer) -> None:
        """Take over from a worker what this process's predecessor told it.

        That is the metadata, the decisions about its partitions, and the proposals of its leaders without an answer.
        Controllers say these once in a session, and this process may go on in its predecessor's session.
        """
        _, blob, _ = await peer.call(words.KNOWN_METADATA)
        metadata = decode(UpdateMetadataRequest, VERSIONS[UpdateMetadataRequest], bytes(blob))
        if metadata.controller_epoch > self._broker.metadata.controller_epoch:
            self._broker.metadata.apply(metadata)
        rows, blob, _ = await peer.call(words.KNOWN_LEADERS)
        request = decode(LeaderAndIsrRequest, VERSIONS[LeaderAndIsrRequest], bytes(blob))
        if self._last is None or self._last.controller_epoch < request.controller_epoch:
            self._last = request
        for topic in request.topic_states:
            for state in topic.partition_states:
                self._keep(topic.topic_name, topic.topic_id, state)
        self.isrs_proposed(ProposedIsr(*row) for row in rows)

    async def bring_up_to_date(self, peer: Peer) -> None:
        """Tell a worker that has just come all that it missed: the metadata, and the leaders of its partitions."""
        version = VERSIONS[UpdateMetadataRequest]
        if self._broker.metadata.controller_epoch > 0:
            await peer.call(words.UPDATE_METADATA, None, encode(self._broker.metadata.snapshot(), version))
        if self._metadata_on_their_way is not None:
            # They may have gone to its predecessor; then no other request would bring them.
            await peer.call(words.UPDATE_METADATA, None, encode(self._metadata_on_their_way, version))
        if self._last is not None:
            mine = [
                (key[0], topic_id, state)
                for key, (topic_id, state) in self._assigned.items()
                if owner_of(*key, self._workers) == peer.index
            ]
            if mine:
                part = _leader_and_isr_part(self._last, mine)
                await peer.call(
                    words.LEADER_AND_ISR,
                    self._open_proposals(mine),
                    encode(part, VERSIONS[LeaderAndIsrRequest]),
                )

    def _open_proposals(
        self, share: "Sequence[tuple[str, bytes, LeaderAndIsrPartitionState]]"
    ) -> list[ProposedIsr]:
        """The proposals of these partitions' leaders without a known answer.

        The leader's worker may have died before the answer. The controller may carry the proposal out later, or never,
        so the next worker has to send it again.
        """
        found = []
        for topic, topic_id, state in share:
            proposal = self._proposals.get((topic, state.partition_index))
            if proposal is not None and proposal[1:] == _epochs(state):
                isr, leader_epoch, partition_epoch = proposal
                found.append(
                    ProposedIsr(topic, state.partition_index, topic_id, leader_epoch, isr, partition_epoch)
                )
        return found

    async def _ask(self, worker: int, operation: str, body: bytes) -> bytes:
        """Call a worker; when it dies, its successor."""
        while True:
            peer = await self._siblings.worker(worker)
            try:
                return bytes((await peer.call(operation, None, body))[1])
            except PeerGone:
                continue

    async def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        self._check_epoch(request)
        self._last = request
        await self._load_settings(request)
        version = VERSIONS[LeaderAndIsrRequest]
        shares: defaultdict[int, list[tuple[str, bytes, LeaderAndIsrPartitionState]]] = defaultdict(list)
        for topic in request.topic_states:
            for state in topic.partition_states:
                # A worker that hears of it later finds the log on disk, or finds that its directory is gone.
                self._keep(topic.topic_name, topic.topic_id, state)
                owner = owner_of(topic.topic_name, state.partition_index, self._workers)
                shares[owner].append((topic.topic_name, topic.topic_id, state))
        by_topic: dict[str, LeaderAndIsrTopicError] = {}
        parts = {owner: _leader_and_isr_part(request, share) for owner, share in shares.items()}
        answers = await asyncio.gather(
            *(self._ask(owner, words.LEADER_AND_ISR, encode(part, version)) for owner, part in parts.items())
        )
        for part, answer in zip(parts.values(), answers, strict=True):
            response = decode(LeaderAndIsrResponse, version, answer)
            if response.error_code:
                return response
            for asked, answered in zip(part.topic_states, response.topics, strict=True):
                whole = by_topic.setdefault(asked.topic_name, LeaderAndIsrTopicError(topic_id=asked.topic_id))
                for error in answered.partition_errors:
                    error.topic_name = asked.topic_name  # which an old controller expects in place of the id
                whole.partition_errors.extend(answered.partition_errors)
        return LeaderAndIsrResponse(topics=list(by_topic.values()))

    def _check_epoch(self, request: LeaderAndIsrRequest | StopReplicaRequest) -> None:
        if self._last is not None and request.controller_epoch < self._last.controller_epoch:
            # Workers would refuse it, too; nothing of it may be kept for workers that come later.
            raise ApiError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"controller {request.controller_id} has epoch {request.controller_epoch}, the latest one is"
                f" {self._last.controller_epoch}",
            )

    def _forget(self, key: PartitionKey, leader_epoch: int) -> None:
        _, known = self._assigned.get(key, (None, None))
        if known is None or 0 <= leader_epoch < known.leader_epoch:
            return  # it was overtaken on its way; its worker ignores it too
        del self._assigned[key]
        self._proposals.pop(key, None)

    def _keep(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> None:
        known_id, known = self._assigned.get((topic, state.partition_index), (topic_id, state))
        if known_id == topic_id and _epochs(known) > _epochs(state):
            return  # it was overtaken on its way; its worker ignores it too
        kept = copy.copy(state)
        kept.is_new = False
        self._assigned[topic, state.partition_index] = (topic_id, kept)

    async def _load_settings(self, request: LeaderAndIsrRequest) -> None:
        """Read the settings of topics that another broker may have created, before logs are opened by them."""
        unknown = [
            topic.topic_name
            for topic in request.topic_states
            if topic.topic_name not in self._topics or any(state.is_new for state in topic.partition_states)
        ]
        if unknown:
            try:
                await self._broker.run_on_store(self._broker.configs.load_topics, unknown)
            except StoreError as error:
                log.warning("The settings of %d topics are not known yet: %s", len(unknown), error)
            else:
                self._topics.update(unknown)

    async def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        self._check_epoch(request)
        version = VERSIONS[StopReplicaRequest]
        shares: defaultdict[int, list[StopReplicaTopicState]] = defaultdict(list)
        for topic in request.topic_states:
            by_owner: dict[int, StopReplicaTopicState] = {}
            for state in topic.partition_states:
                self._forget((topic.topic_name, state.partition_index), state.leader_epoch)
                owner = owner_of(topic.topic_name, state.partition_index, self._workers)
                if owner not in by_owner:
                    by_owner[owner] = StopReplicaTopicState(topic_name=topic.topic_name)
                by_owner[owner].partition_states.append(state)
            for owner, part in by_owner.items():
                shares[owner].append(part)
        result = StopReplicaResponse()
        for owner, topics in shares.items():
            part_request = StopReplicaRequest(
                controller_id=request.controller_id,
                controller_epoch=request.controller_epoch,
                broker_epoch=request.broker_epoch,
                topic_states=topics,
            )
            answer = await self._ask(owner, words.STOP_REPLICA, encode(part_request, version))
            response = decode(StopReplicaResponse, version, answer)
            result.error_code = result.error_code or response.error_code
            result.partition_errors.extend(response.partition_errors)
        return result

    async def _update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        body = encode(request, VERSIONS[UpdateMetadataRequest])
        self._metadata_on_their_way = request
        try:
            await asyncio.gather(
                *(self._ask(worker, words.UPDATE_METADATA, body) for worker in range(self._workers))
            )
            # Last: a task that waits for a change of this cache may then rely on the workers.
            change = self._broker.metadata.apply(request)
            broker_log(self._broker.broker_id).info(
                "Add %d partitions and deleted %d partitions from metadata cache in response to UpdateMetadata request"
                " sent by controller %d epoch %d",
                _size(request) - len(change.deleted),
                len(change.deleted),
                request.controller_id,
                request.controller_epoch,
            )
        finally:
            self._metadata_on_their_way = None
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)


def _epochs(state: LeaderAndIsrPartitionState) -> tuple[int, int]:
    """The epochs of a state; of two states of a partition the one with the larger epochs is the later one."""
    return state.leader_epoch, state.partition_epoch


def _size(request: ControlRequest) -> int:
    """How many partitions a request names."""
    return sum(len(topic.partition_states) for topic in request.topic_states)


def _leader_and_isr_part(
    request: LeaderAndIsrRequest, share: "list[tuple[str, bytes, LeaderAndIsrPartitionState]]"
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        type=request.type,
        topic_states=by_topic(share),
        live_leaders=request.live_leaders,
    )
