"""AlterPartition (key 56, v0-3): the leader of partitions asks the controller for other ISRs (KIP-497).

v1 leader recovery (KIP-704) · v2 topic ids · v3 broker epochs of the ISR (KIP-903), which count with KRaft only
"""

from collections.abc import Mapping
from typing import Final

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from pkafka.security.acl import Operation
from pkafka.server.controller.context import Leadership
from pkafka.server.controller.controller import Controller
from pkafka.server.controller.isr_requests import WantedIsr
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster

_FIRST_VERSION_WITH_IDS: Final = 2
_FIRST_VERSION_WITH_EPOCHS: Final = 3
_RECOVERING: Final = 1


async def handle(
    ctx: ControllerContext, request: AlterPartitionRequest, version: int
) -> AlterPartitionResponse:
    """Have the controller decide, in its turn."""
    if not may_in_cluster(ctx.rights, Operation.CLUSTER_ACTION):
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        topics = await ctx.run(_decide, ctx.controller, request, version)
    except ApiError as error:
        return AlterPartitionResponse(error_code=error.code)
    except StoreError:
        # The store may or may not have written it. The leader asks again and hears what the store has then.
        return AlterPartitionResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return AlterPartitionResponse(topics=topics)


def _decide(
    controller: Controller, request: AlterPartitionRequest, version: int
) -> list[AlterPartitionResponseTopicData]:
    """Runs on the controller thread.

    Raises:
        ApiError: NOT_CONTROLLER, STALE_BROKER_EPOCH.
    """
    by_id = version >= _FIRST_VERSION_WITH_IDS
    names = [
        controller.context.topic_names.get(topic.topic_id) if by_id else topic.topic_name
        for topic in request.topics
    ]
    wanted = {
        partition: one
        for name, topic in zip(names, request.topics, strict=True)
        if name is not None
        for partition, one in _wanted(name, topic, version)
    }
    decided = controller.office().alter_isrs(request.broker_id, request.broker_epoch, wanted, version=version)
    return [_answer(name, topic, decided, version) for name, topic in zip(names, request.topics, strict=True)]


def _wanted(
    name: str, topic: AlterPartitionRequestTopicData, version: int
) -> list[tuple[TopicPartition, WantedIsr]]:
    found = []
    for one in topic.partitions:
        isr = (
            [member.broker_id for member in one.new_isr_with_epochs]
            if version >= _FIRST_VERSION_WITH_EPOCHS
            else one.new_isr
        )
        recovering = one.leader_recovery_state == _RECOVERING
        wanted = WantedIsr(tuple(isr), one.leader_epoch, one.partition_epoch, recovering)
        found.append((TopicPartition(name, one.partition_index), wanted))
    return found


def _answer(
    name: str | None,
    topic: AlterPartitionRequestTopicData,
    decided: Mapping[TopicPartition, Leadership | ErrorCode],
    version: int,
) -> AlterPartitionResponseTopicData:
    partitions = []
    for one in topic.partitions:
        now = (
            ErrorCode.UNKNOWN_TOPIC_ID if name is None else decided[TopicPartition(name, one.partition_index)]
        )
        answer = AlterPartitionResponsePartitionData(partition_index=one.partition_index)
        if isinstance(now, ErrorCode):
            answer.error_code = now
        else:
            answer.leader_id, answer.leader_epoch = now.leader, now.leader_epoch
            answer.isr, answer.partition_epoch = list(now.isr), now.partition_epoch
            answer.leader_recovery_state = int(now.recovering)
        partitions.append(answer)
    if version >= _FIRST_VERSION_WITH_IDS:
        return AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=partitions)
    return AlterPartitionResponseTopicData(topic_name=topic.topic_name, partitions=partitions)
