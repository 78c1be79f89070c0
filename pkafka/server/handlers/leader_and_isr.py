"""LeaderAndIsr (key 4, v0-7): the controller tells this broker which partitions it leads or follows.

v2 grouped by topic, broker epoch (KIP-380) · v5 topic ids (KIP-516); what the other versions add stands in the message
"""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from pkafka.security.acl import Operation
from pkafka.server.ports.broker_context import BrokerContext
from pkafka.server.security.rights import may_in_cluster

_FIRST_VERSION_WITH_IDS = 5


async def handle(ctx: BrokerContext, request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
    """Have the workers carry it out, after the controller's earlier requests."""
    by_topic: dict[str, LeaderAndIsrTopicState] = {}
    for state in request.ungrouped_partition_states:
        topic = by_topic.setdefault(state.topic_name, LeaderAndIsrTopicState(topic_name=state.topic_name))
        topic.partition_states.append(state)
    request.topic_states += by_topic.values()
    request.ungrouped_partition_states = []
    if not may_in_cluster(ctx.rights, Operation.CLUSTER_ACTION):
        response = _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif ctx.is_stale(request.broker_epoch):
        response = _refused(request, ErrorCode.STALE_BROKER_EPOCH)
    else:
        carried_out = await ctx.carry_out(request)
        assert isinstance(carried_out, LeaderAndIsrResponse)
        refused = ErrorCode(carried_out.error_code)
        response = _refused(request, refused) if refused else carried_out
    if version < _FIRST_VERSION_WITH_IDS:
        response.partition_errors = [error for topic in response.topics for error in topic.partition_errors]
        response.topics = []
    return response


def _refused(request: LeaderAndIsrRequest, code: ErrorCode) -> LeaderAndIsrResponse:
    """Make the answer for an error of the whole request; it repeats the error for each partition."""
    return LeaderAndIsrResponse(
        error_code=code,
        topics=[
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=code
                    )
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )
