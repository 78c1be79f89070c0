"""What a controller orders, as a worker carries it out: which partitions it leads, follows and gives up, and metadata.

The control process passes the orders on, each worker's share to that worker. When it has just come it asks the workers
what its predecessor passed on.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pkafka.model import TopicPartition
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from pkafka.protocol.messages.stop_replica import StopReplicaRequest
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest
from pkafka.protocol.schema import Message
from pkafka.server.cluster.control_requests import VERSIONS
from pkafka.server.cluster.metadata import FULL_UPDATE, MetadataCache
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Handler, Payload, Peer, Reply
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.ipc.words import ProposedIsr
from pkafka.server.replicas.decisions import Decisions
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.isr_changes import IsrChanges
from pkafka.server.replicas.leadership import IsrProposal
from pkafka.server.replicas.partition import PartitionKey
from pkafka.server.replicas.progress import Progress

_DEPARTURE_MS: Final = 100
"""By then most clients of a dead broker have asked for the new leaders."""


class Orders:
    """Carries out the orders of a controller. Belongs to one event loop.

    Args:
        metadata: the cache that updates change.
        decisions: makes partitions leaders and followers, and gives them up.
        progress: hears of brokers that come and go.
        isr_changes: sends proposals of ISRs again that a predecessor of this worker made.
        timer: of this worker.
        tasks: of this worker.
        metadata_changed: called after each update, with the partitions that the controller says to be deleted.
    """

    def __init__(
        self,
        *,
        metadata: MetadataCache,
        decisions: Decisions,
        progress: Progress,
        isr_changes: IsrChanges,
        timer: Timer,
        tasks: Tasks,
        metadata_changed: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        self._metadata = metadata
        self._decisions = decisions
        self._progress = progress
        self._isr_changes = isr_changes
        self._timer = timer
        self._tasks = tasks
        self._metadata_changed = metadata_changed
        self.operations: dict[str, Handler] = {
            words.KNOWN_METADATA: self._known_metadata,
            words.KNOWN_LEADERS: self._known_leaders,
            words.LEADER_AND_ISR: self._leader_and_isr,
            words.UPDATE_METADATA: self._update_metadata,
            words.STOP_REPLICA: self._stop_replica,
        }

    def _known_metadata(self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> Reply:
        """For a control process that has just come: what its predecessor said."""
        return None, encode(self._metadata.snapshot(), VERSIONS[UpdateMetadataRequest]), ()

    def _known_leaders(self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> Reply:
        """As :meth:`_known_metadata`."""
        request, proposals = self._decisions.as_decided()
        return proposals, encode(request, VERSIONS[LeaderAndIsrRequest]), ()

    def _leader_and_isr(
        self, _peer: Peer, proposed: Payload, blob: memoryview, _fds: list[int]
    ) -> Awaitable[Reply]:
        version = VERSIONS[LeaderAndIsrRequest]
        request = decode(LeaderAndIsrRequest, version, bytes(blob))
        proposals = {
            (one.topic, one.partition): IsrProposal(tuple(one.isr), one.leader_epoch, one.partition_epoch)
            for one in (ProposedIsr(*row) for row in proposed or ())
        }
        return _encoded(self._lead_and_follow(request, proposals), version)

    async def _lead_and_follow(
        self, request: LeaderAndIsrRequest, proposals: Mapping[PartitionKey, IsrProposal]
    ) -> LeaderAndIsrResponse:
        response = await self._decisions.leader_and_isr(request, proposals)
        for key, proposal in proposals.items():
            partition = self._decisions.partitions.led.get(key)
            # One that another leader of this process has made since is on its way.
            if partition is not None and partition.leadership and partition.leadership.proposed is proposal:
                self._isr_changes.propose(partition, proposal)
        return response

    def _update_metadata(self, _peer: Peer, _payload: Payload, blob: memoryview, _fds: list[int]) -> None:
        metadata, decisions = self._metadata, self._decisions
        request = decode(UpdateMetadataRequest, VERSIONS[UpdateMetadataRequest], bytes(blob))
        before = metadata.brokers
        change = metadata.apply(request)
        self._progress.brokers_changed(before.keys() ^ metadata.brokers.keys())
        if departed := metadata.departed:
            self._timer.after(_DEPARTURE_MS, lambda: metadata.forget_departures(departed))
        changed = (metadata.topics[name] for name in change.changed if name in metadata.topics)
        if moved := decisions.moved_away(changed):
            self._tasks.spawn(decisions.drop_moved(moved))
        # Only what the controller says to be deleted: a control process that has just come may not know all topics yet.
        self._metadata_changed(() if request.type == FULL_UPDATE else change.deleted)

    def _stop_replica(
        self, _peer: Peer, _payload: Payload, blob: memoryview, _fds: list[int]
    ) -> Awaitable[Reply]:
        version = VERSIONS[StopReplicaRequest]
        request = decode(StopReplicaRequest, version, bytes(blob))
        return _encoded(self._decisions.stop_replica(request), version)


async def _encoded(response: Awaitable[Message], version: int) -> Reply:
    return None, encode(await response, version), ()
