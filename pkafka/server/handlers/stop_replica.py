"""StopReplica (key 5, v0-4): the controller tells this broker to stop following partitions, and maybe to delete them.

v1 broker epoch (KIP-380) · v3 per partition, with leader epochs (KIP-570); v2 and v4 stand in the message
"""

from collections.abc import Iterator

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from pkafka.security.acl import Operation
from pkafka.server.ports.broker_context import BrokerContext
from pkafka.server.security.rights import may_in_cluster

_FIRST_VERSION_WITH_STATES = 3


async def handle(ctx: BrokerContext, request: StopReplicaRequest, version: int) -> StopReplicaResponse:
    """Have the workers carry it out, after the controller's earlier requests."""
    if not may_in_cluster(ctx.rights, Operation.CLUSTER_ACTION):
        return _refused(request, version)
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


def _refused(request: StopReplicaRequest, version: int) -> StopReplicaResponse:
    """Make the answer to a client that is no broker; it repeats the error for each partition."""
    named = list(_named(request))
    if version >= _FIRST_VERSION_WITH_STATES:
        named = [
            (topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return StopReplicaResponse(
        error_code=code,
        partition_errors=[
            StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=code)
            for topic, index in named
        ],
    )


def _named(request: StopReplicaRequest) -> Iterator[tuple[str, int]]:
    """The partitions of a request below version 3."""
    for partition in request.ungrouped_partitions:
        yield partition.topic_name, partition.partition_index
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield topic.name, index
