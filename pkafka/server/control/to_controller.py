"""The requests of this broker to the cluster's controller, which may be this broker or another one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from pkafka.coordination.store import Stat, StoreError
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.errors import ErrorCode, ProtocolError
from pkafka.model import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from pkafka.net.channel import ChannelError
from pkafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from pkafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from pkafka.protocol.schema import Message
from pkafka.server.cluster.broker_link import BrokerLink
from pkafka.server.cluster.metadata import Endpoint
from pkafka.server.control.apis import ControlRequestContext
from pkafka.server.control.local_channels import LocalChannels
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.controller import nodes
from pkafka.server.handlers import alter_partition, controlled_shutdown
from pkafka.server.ipc.words import IsrAnswer, ProposedIsr

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

_ALTER_PARTITION_VERSION: Final = 3
_BEHIND: Final = ErrorCode.INVALID_UPDATE_VERSION
_CONTROLLED_SHUTDOWN_VERSION: Final = 3


class ToController:
    """Sends this broker's requests to the controller, here or on another broker.

    Args:
        broker: this broker.
        channels: hears which ISRs are proposed, and the answers.
    """

    def __init__(self, broker: ThisBroker, channels: LocalChannels) -> None:
        self._broker = broker
        self._channels = channels
        self._link = BrokerLink(
            self._endpoint,
            str(broker.broker_id),
            lambda: broker.config,
            connect_timeout_ms=broker.config.controller_socket_timeout_ms,
        )

    def _endpoint(self) -> Endpoint | None:
        broker = self._broker
        listener = broker.config.controller_listener_name
        return broker.metadata.endpoint(broker.controller.active_controller_id, listener)

    async def alter_partition(self, proposals: Sequence[ProposedIsr]) -> list[IsrAnswer]:
        """Propose other ISRs.

        Returns:
            The answer to each proposal.
        """
        self._channels.isrs_proposed(proposals)
        answers = await self._as_it_is(proposals, await self._propose(proposals))
        self._channels.isrs_answered(proposals, answers)
        return answers

    async def _as_it_is(
        self, proposals: Sequence[ProposedIsr], answers: Sequence[IsrAnswer]
    ) -> list[IsrAnswer]:
        """Return the answers, with the present state for leaders that know an older state than the store has.

        Only this tells them: the proposal of a worker that died may have been carried out after its death.
        """
        behind = [one for one, answer in zip(proposals, answers, strict=True) if answer.code == _BEHIND]
        if not behind:
            return [*answers]
        broker = self._broker
        paths = [nodes.partition_state(TopicPartition(one.topic, one.partition)) for one in behind]
        try:
            found = iter(await broker.run_on_store(broker.store.get_many, paths))
        except StoreError:
            return [
                IsrAnswer(ErrorCode.NOT_CONTROLLER) if answer.code == _BEHIND else answer
                for answer in answers
            ]
        return [
            _now(broker.broker_id, one, next(found)) if answer.code == _BEHIND else answer
            for one, answer in zip(proposals, answers, strict=True)
        ]

    async def _propose(self, proposals: Sequence[ProposedIsr]) -> list[IsrAnswer]:
        try:
            response = await self._ask(
                _request(self._broker, proposals),
                _ALTER_PARTITION_VERSION,
                AlterPartitionResponse,
                alter_partition.handle,
                timeout_ms=self._broker.config.controller_socket_timeout_ms,
            )
        except (ChannelError, ProtocolError, StoreError):
            return [IsrAnswer(ErrorCode.NOT_CONTROLLER)] * len(proposals)
        if response.error_code:
            return [IsrAnswer(response.error_code)] * len(proposals)
        answers: dict[tuple[TopicId | None, int], AlterPartitionResponsePartitionData] = {
            (topic.topic_id, one.partition_index): one
            for topic in response.topics
            for one in topic.partitions
        }
        found: list[IsrAnswer] = []
        for proposal in proposals:
            one = answers.get((proposal.topic_id, proposal.partition))
            if one is None:
                found.append(IsrAnswer(ErrorCode.UNKNOWN_SERVER_ERROR))
            elif one.error_code:
                found.append(IsrAnswer(one.error_code))
            else:
                found.append(IsrAnswer(ErrorCode.NONE, one.leader_epoch, one.isr, one.partition_epoch))
        return found

    async def shut_down(self) -> None:
        """Have the controller move this broker's leaders to others, with as many attempts as the settings allow.

        ``controlled.shutdown.max.retries`` counts the first attempt, too, as in Kafka: with 0 there is none.
        """
        broker = self._broker
        request = ControlledShutdownRequest(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
        left = broker.config.controlled_shutdown_max_retries
        while left > 0:
            if await self._is_released(request):
                return
            left -= 1
            if left > 0:
                await asyncio.sleep(broker.config.controlled_shutdown_retry_backoff_ms / 1000)
        log.warning("Stopping although other brokers have not taken over all that this broker leads")

    async def _is_released(self, request: ControlledShutdownRequest) -> bool:
        config = self._broker.config
        # A request to this process itself uses no connection, so no time-out of a connection ends it.
        longest_ms = config.controller_socket_timeout_ms + config.request_timeout_ms
        try:
            async with asyncio.timeout(longest_ms / 1000):
                response = await self._ask(
                    request,
                    _CONTROLLED_SHUTDOWN_VERSION,
                    ControlledShutdownResponse,
                    controlled_shutdown.handle,
                    timeout_ms=config.request_timeout_ms,
                )
        except TimeoutError:
            log.warning(
                "The controller did not answer within %g s that this broker may stop", longest_ms / 1000
            )
            return False
        except (ChannelError, ProtocolError, StoreError) as error:
            log.warning("The controller could not be told that this broker stops: %s", error)
            return False
        if response.error_code:
            code = ErrorCode(response.error_code)
            log.warning("The controller answers that this broker stops with %s", code.name)
            return False
        if response.remaining_partitions:
            log.info("%d partitions have no other leader yet", len(response.remaining_partitions))
        return not response.remaining_partitions

    async def _ask(
        self,
        request: Message,
        version: int,
        answer: type[M],
        here: Callable[[ControlRequestContext, Any, int], Awaitable[M]],
        *,
        timeout_ms: int,
    ) -> M:
        """Get the controller's answer; ``here`` gives it when this broker is the controller.

        Args:
            timeout_ms: for the answer of another broker; Kafka measures it by another key for each kind of request.

        Raises:
            ChannelError, ProtocolError: another broker is the controller, and out of reach.
            StoreError: this broker is the controller, and cannot write.
        """
        if self._broker.controller.is_active:
            return await here(ControlRequestContext(self._broker, self._channels), request, version)
        return await self._link.ask(request, version, answer, timeout_s=timeout_ms / 1000)


def _now(broker_id: BrokerId, proposal: ProposedIsr, node: tuple[bytes, Stat] | None) -> IsrAnswer:
    """Read from its node the present state of a partition whose leader is behind."""
    if node is None:
        return IsrAnswer(_BEHIND)
    try:
        now = nodes.decode_leadership(node[0], node[1].version)
    except ZnodeFormatError:
        return IsrAnswer(_BEHIND)  # the present state is unknown
    if (now.leader, now.leader_epoch) != (broker_id, proposal.leader_epoch):
        return IsrAnswer(_BEHIND)  # the LeaderAndIsr that says so is on its way
    if now.partition_epoch <= proposal.partition_epoch:
        return IsrAnswer(ErrorCode.NOT_CONTROLLER)  # it is the controller that is behind
    return IsrAnswer(ErrorCode.NONE, now.leader_epoch, now.isr, now.partition_epoch)


def _request(broker: ThisBroker, proposals: Sequence[ProposedIsr]) -> AlterPartitionRequest:
    topics: dict[bytes, AlterPartitionRequestTopicData] = {}
    for one in proposals:
        key = one.topic_id or NO_TOPIC_ID
        topic = topics.setdefault(key, AlterPartitionRequestTopicData(topic_id=key))
        topic.partitions.append(
            AlterPartitionRequestPartitionData(
                partition_index=one.partition,
                leader_epoch=one.leader_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=member) for member in one.isr],
                partition_epoch=one.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, topics=list(topics.values())
    )
