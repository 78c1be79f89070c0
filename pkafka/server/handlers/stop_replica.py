"""StopReplica (key 5, v0-4): the controller tells this broker to stop following partitions, and maybe to delete them.

v1 broker epoch (KIP-380) · v3 per partition, with leader epochs (KIP-570); v2 and v4 stand in the message
"""

from collections.abc import Iterator

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from pkafka.server.ports.broker_context import BrokerContext

_FIRST_VERSION_WITH_STATES = 3


async def handle(ctx: BrokerContext, request: StopReplicaRequest, version: int) -> StopReplicaResponse:
    """Have the workers carry it out, after the controller's earlier requests."""
    if ctx.is_stale(request.broker_epoch):
        return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    if version < _FIRST_VERSION_WITH_STATES:
        by_topic: dict[str, StopReplicaTopicState] = {}
        for topic, partition in _named(request):
            by_topic.setdefault(topic, StopReplicaTopicState(topic_name=topic)).partition_states.append(
                StopReplicaPartitionState(
                    partition_index=partition, delete_partition=request.delete_partitions
                )
            )
        request = StopReplicaRequest(
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=list(by_topic.values()),
        )
    response = await ctx.carry_out(request)
    assert isinstance(response, StopReplicaResponse)
    return response


def _named(request: StopReplicaRequest) -> Iterator[tuple[str, int]]:
    """The partitions of a request below version 3."""
    for partition in request.ungrouped_partitions:
        yield partition.topic_name, partition.partition_index
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield topic.name, index
