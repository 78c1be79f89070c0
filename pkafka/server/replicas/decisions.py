"""What the controller decides about the replicas of one worker, and how the worker carries it out.

Decisions are carried out one after the other, in the order in which they arrive, and never one of a deposed controller.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.model import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition, topic_id_text
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from pkafka.server.cluster.metadata import TopicInfo
from pkafka.server.cluster.state_change import StateChangeLog, broker_log, partition_state_text
from pkafka.server.ipc.turns import Turns
from pkafka.server.ipc.words import ProposedIsr
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.leadership import IsrProposal
from pkafka.server.replicas.partition import Partition, PartitionKey
from pkafka.server.replicas.partitions import Partitions
from pkafka.storage.config import LogConfig
from pkafka.storage.log import Log

log = logging.getLogger(__name__)

_NO_PROPOSALS: Final[Mapping[PartitionKey, IsrProposal]] = MappingProxyType({})


def by_topic(
    states: Iterable[tuple[str, TopicId, LeaderAndIsrPartitionState]],
) -> list[LeaderAndIsrTopicState]:
    """States of partitions with the names and ids of their topics, as LeaderAndIsr has them."""
    topics: dict[str, LeaderAndIsrTopicState] = {}
    for topic, topic_id, state in states:
        if topic not in topics:
            topics[topic] = LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id)
        topics[topic].partition_states.append(state)
    return list(topics.values())


def _listed(brokers: list[int]) -> str:
    return f"[{','.join(map(str, brokers))}]"


class Logs(Protocol):
    """What decisions need of the logs (:class:`pkafka.server.replicas.logs.WorkerLogs`)."""

    def create(self, key: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Log:
        """Create the log of a partition."""
        ...

    def config_of(self, topic: str) -> LogConfig:
        """The effective configuration of a topic's logs."""
        ...

    def give_topic_id(self, partition_log: Log, topic_id: TopicId) -> None:
        """Write down the topic id of a log that has none yet."""
        ...

    def set_aside_stray(self, partition_log: Log) -> None:
        """Close a log that belongs to no topic of this cluster, and rename its directory."""
        ...

    def delete(self, partition_log: Log) -> None:
        """Rename a log's directory away, and have its files unlinked later."""
        ...


class Decisions:
    """Carries out LeaderAndIsr and StopReplica.

    Args:
        partitions: the replicas of this worker.
        logs: creates logs, deletes them and knows their configuration.
        disks: takes directories offline.
    """

    def __init__(self, partitions: Partitions, logs: Logs, disks: Disks) -> None:
        self.partitions = partitions
        self._logs = logs
        self._disks = disks
        self._controller_id: BrokerId = -1
        self._controller_epoch = -1
        self._deciding = asyncio.Lock()

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, proposed: Mapping[PartitionKey, IsrProposal] = _NO_PROPOSALS
    ) -> LeaderAndIsrResponse:
        """Take over leadership for the partitions named; answers an error code for each.

        Requests may arrive in another order than they were sent: those of an older controller are refused, and older
        leader epochs are ignored. Thousands of partitions take seconds, so other tasks run in between; a request waits
        until the one before is done.

        Args:
            request: of the controller.
            proposed: the proposals of this process's predecessor that have no answer yet.
        """
        async with self._deciding:
            return await self._leader_and_isr(request, proposed)

    async def _leader_and_isr(
        self, request: LeaderAndIsrRequest, proposed: Mapping[PartitionKey, IsrProposal]
    ) -> LeaderAndIsrResponse:
        changes = broker_log(self.partitions.broker_id)
        if not self._obeys(changes, "LeaderAndIsr", request):
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        turns = Turns()
        topics = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                if changes.is_tracing:
                    changes.trace(
                        "Received LeaderAndIsr request %s for partition %s-%d from controller %d epoch %d",
                        partition_state_text(state),
                        topic.topic_name,
                        state.partition_index,
                        request.controller_id,
                        request.controller_epoch,
                    )
                proposal = proposed.get((topic.topic_name, state.partition_index))
                code = self._become(topic.topic_name, topic.topic_id, state, proposal)
                errors.append(
                    LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=code)
                )
                await turns.step()
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(topics=topics)

    def _become(
        self, topic: str, topic_id: TopicId, state: LeaderAndIsrPartitionState, proposed: IsrProposal | None
    ) -> ErrorCode:
        key = (topic, state.partition_index)
        partition = self.partitions.hosted.get(key)
        if self.partitions.resigned:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if key in self.partitions.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            if partition is None:
                partition_log = self._claim(key, topic_id, is_new=state.is_new)
                partition = Partition(topic, state.partition_index, partition_log, self.partitions)
                partition.update_config(self._logs.config_of(topic))
                self.partitions.hosted[key] = partition
            elif partition.log.topic_id not in (topic_id, NO_TOPIC_ID, None):
                return ErrorCode.INCONSISTENT_TOPIC_ID
            if state.leader_epoch < partition.leader_epoch:
                broker_log(self.partitions.broker_id).warning(
                    "Ignoring LeaderAndIsr request for partition %s-%d since its associated leader epoch %d is"
                    " smaller than the current leader epoch %d",
                    *key,
                    state.leader_epoch,
                    partition.leader_epoch,
                )
                return ErrorCode.STALE_CONTROLLER_EPOCH
            if (
                state.leader_epoch == partition.leader_epoch
                and state.partition_epoch < partition.partition_epoch
            ):
                # The answer to an AlterPartition has overtaken this request. Going back would leave a replica out of
                # the ISR that the controller counts in, and the controller would refuse every further proposal.
                broker_log(self.partitions.broker_id).info(
                    "Skipped the LeaderAndIsr state change for %s-%d to partition epoch %d since partition epoch %d is"
                    " known already",
                    *key,
                    state.partition_epoch,
                    partition.partition_epoch,
                )
                return ErrorCode.NONE
            self._follow_decision(partition, state, proposed)
        except ApiError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                self.partitions.offline.add(key)
            return error.code
        except (StorageError, OSError) as error:
            log.error("Cannot use the log of %s-%d: %s", *key, error)
            self.partitions.offline.add(key)
            if partition is not None:
                self._disks.directory_failed(partition.log.directory.parent)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _follow_decision(
        self, partition: Partition, state: LeaderAndIsrPartitionState, proposed: IsrProposal | None
    ) -> None:
        leads = state.leader == self.partitions.broker_id
        before = (partition.leader, partition.leader_epoch)
        if leads:
            partition.lead(state, proposed)
            self.partitions.led[partition.key] = partition
        else:
            self.partitions.led.pop(partition.key, None)
            partition.follow(state)
        if state.leader_epoch > before[1]:
            self._log_start(partition, before, state)
        self.partitions.changed(partition.key)

    def _log_start(
        self, partition: Partition, before: tuple[int, int], state: LeaderAndIsrPartitionState
    ) -> None:
        """Log that a partition begins a leader epoch here: from which offset, and after which leader."""
        changes = broker_log(self.partitions.broker_id)
        leader, epoch = before
        previous = (f"Some({leader})" if leader >= 0 else None, epoch)
        if partition.leader == self.partitions.broker_id:
            topic_id = partition.log.topic_id
            changes.info(
                "Leader %s-%d with topic id %s starts at leader epoch %d from offset %d with partition epoch %d, high"
                " watermark %d, ISR %s, adding replicas %s and removing replicas %s . Previous leader %s and previous"
                " leader epoch was %d.",
                *partition.key,
                f"Some({topic_id_text(topic_id)})" if topic_id is not None else None,
                partition.leader_epoch,
                partition.log.log_end_offset,
                partition.partition_epoch,
                partition.log.high_watermark,
                _listed(partition.isr),
                _listed(state.adding_replicas),
                _listed(state.removing_replicas),
                *previous,
            )
        else:
            changes.info(
                "Follower %s-%d starts at leader epoch %d from offset %d with partition epoch %d and high watermark %d."
                " Current leader is %d. Previous leader %s and previous leader epoch was %d.",
                *partition.key,
                partition.leader_epoch,
                partition.log.log_end_offset,
                partition.partition_epoch,
                partition.log.high_watermark,
                partition.leader,
                *previous,
            )

    def _obeys(
        self, changes: StateChangeLog, name: str, request: LeaderAndIsrRequest | StopReplicaRequest
    ) -> bool:
        """Take a request's controller for the one to obey.

        Returns:
            False for a controller of an epoch that is over; its request is to be refused.
        """
        if request.controller_epoch >= self._controller_epoch:
            self._controller_id, self._controller_epoch = request.controller_id, request.controller_epoch
            return True
        changes.warning(
            "Ignoring %s request from controller %d since its controller epoch %d is old. Latest known controller"
            " epoch is %d",
            name,
            request.controller_id,
            request.controller_epoch,
            self._controller_epoch,
        )
        return False

    def _claim(self, key: PartitionKey, topic_id: TopicId, *, is_new: bool) -> Log:
        found = self.partitions.unclaimed.get(key)
        if found is None:
            return self._logs.create(TopicPartition(*key), topic_id, is_new=is_new)
        if found.topic_id not in (topic_id, NO_TOPIC_ID, None):
            # A log of a deleted topic of the same name must never be served under the new id.
            log.error("The log of %s-%d belongs to another topic id; it is set aside as stray", *key)
            del self.partitions.unclaimed[key]
            self._logs.set_aside_stray(found)
            return self._logs.create(TopicPartition(*key), topic_id, is_new=True)
        del self.partitions.unclaimed[key]
        if found.topic_id is None:
            self._logs.give_topic_id(found, topic_id)
        return found

    def as_decided(self) -> tuple[LeaderAndIsrRequest, list[ProposedIsr]]:
        """Tell a new control process what its predecessor knew of these replicas.

        Returns:
            The controllers' decisions about these replicas, as one request that repeats them; and the proposals of
            their leaders that have no answer yet.
        """
        request = LeaderAndIsrRequest(
            controller_id=self._controller_id, controller_epoch=self._controller_epoch
        )
        states, proposals = [], []
        for partition in self.partitions:
            state = partition.as_decided()
            if state is None:
                continue
            states.append((partition.topic, partition.log.topic_id or NO_TOPIC_ID, state))
            if partition.leadership is not None and partition.leadership.proposed is not None:
                proposals.append(partition.as_row(partition.leadership.proposed))
        request.topic_states = by_topic(states)
        return request, proposals

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Give partitions up, and delete the logs of those that the request says to delete."""
        async with self._deciding:
            return await self._stop_replica(request)

    async def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        changes = broker_log(self.partitions.broker_id)
        if not self._obeys(changes, "StopReplica", request):
            return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        turns = Turns()
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                if changes.is_tracing:
                    changes.trace(
                        "Received StopReplica request %s from controller %d epoch %d for partition %s-%d",
                        partition_state_text(state),
                        request.controller_id,
                        request.controller_epoch,
                        topic.topic_name,
                        state.partition_index,
                    )
                code = self._stop(
                    (topic.topic_name, state.partition_index),
                    state.leader_epoch,
                    deletes=state.delete_partition,
                )
                errors.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=code
                    )
                )
                await turns.step()
        return StopReplicaResponse(partition_errors=errors)

    def _stop(self, key: PartitionKey, leader_epoch: LeaderEpoch, *, deletes: bool) -> ErrorCode:
        if key in self.partitions.offline and deletes:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self.partitions.hosted.get(key)
        # An epoch below 0 is not compared: an old controller sends none, and that of a deleted topic overrides all.
        if known is not None and 0 <= leader_epoch < known.leader_epoch:
            broker_log(self.partitions.broker_id).warning(
                "Ignoring StopReplica request for partition %s-%d since its associated leader epoch %d is smaller than"
                " the current leader epoch %d",
                *key,
                leader_epoch,
                known.leader_epoch,
            )
            return ErrorCode.FENCED_LEADER_EPOCH
        partition = self.partitions.hosted.pop(key, None)
        self.partitions.led.pop(key, None)
        partition_log = partition.log if partition is not None else self.partitions.unclaimed.get(key)
        if partition_log is None:
            self.partitions.changed(key)
            return ErrorCode.NONE
        try:
            if partition is not None:
                partition.stop()  # first, so that producers that wait for its replicas hear that it is not led here
            if deletes:
                self.partitions.unclaimed.pop(key, None)
                self._logs.delete(partition_log)
            elif partition is not None:
                self.partitions.hosted[key] = partition
        except (StorageError, OSError) as error:
            log.error("Cannot delete the log of %s-%d: %s", *key, error)
            self.partitions.offline.add(key)
            self._disks.directory_failed(partition_log.directory.parent)
            return ErrorCode.KAFKA_STORAGE_ERROR
        finally:
            self.partitions.changed(key)
        return ErrorCode.NONE

    def moved_away(self, topics: Iterable[TopicInfo]) -> list[tuple[TopicPartition, LeaderEpoch]]:
        """The replicas of these topics that a reassignment took from this broker while it could not hear of that.

        A controller says that once, to brokers that are registered then; in Kafka such a replica stays for ever. A
        replica counts as moved only when another broker leads the partition at a later epoch than this replica knows,
        and the topic has the same id: in a ZooKeeper that was restored from a backup the epochs are earlier.

        Args:
            topics: as the metadata have them.

        Returns:
            Each with the epoch at which it is led elsewhere.
        """
        return [
            (TopicPartition(topic.name, index), info.leader_epoch)
            for topic in topics
            for index, info in topic.partitions.items()
            if self.partitions.broker_id not in info.replicas
            and info.leader >= 0
            and self._is_left_behind((topic.name, index), topic.topic_id, info.leader_epoch)
        ]

    def _is_left_behind(self, key: PartitionKey, topic_id: TopicId, leader_epoch: LeaderEpoch) -> bool:
        partition = self.partitions.hosted.get(key)
        if partition is not None:
            partition_log, known = partition.log, partition.leader_epoch
        elif key in self.partitions.unclaimed:
            partition_log = self.partitions.unclaimed[key]
            known = partition_log.leader_epochs.latest
        else:
            return False
        return topic_id != NO_TOPIC_ID and partition_log.topic_id == topic_id and known < leader_epoch

    async def drop_moved(self, moved: Iterable[tuple[TopicPartition, LeaderEpoch]]) -> None:
        """Delete what :meth:`moved_away` found, but of what the controller has said something newer since."""
        async with self._deciding:
            for partition, leader_epoch in moved:
                key = (partition.topic, partition.partition)
                if key not in self.partitions.hosted and key not in self.partitions.unclaimed:
                    continue  # the controller has said it itself
                if self._stop(key, leader_epoch, deletes=True) == ErrorCode.NONE:
                    log.info("%s moved away: its replica here is deleted", partition)
