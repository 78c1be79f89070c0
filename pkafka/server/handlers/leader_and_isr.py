"""LeaderAndIsr (key 4, v0-7): the controller tells this broker which partitions it leads or follows.

v2 grouped by topic, broker epoch (KIP-380) · v5 topic ids (KIP-516); what the other versions add stands in the message
"""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from pkafka.server.control_context import BrokerContext

_FIRST_VERSION_WITH_IDS = 5


async def handle(ctx: BrokerContext, request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
    """Have the workers carry it out, after what the controller said before."""
    if ctx.is_stale(request.broker_epoch):
        return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    by_topic: dict[str, LeaderAndIsrTopicState] = {}
    for state in request.ungrouped_partition_states:
        topic = by_topic.setdefault(state.topic_name, LeaderAndIsrTopicState(topic_name=state.topic_name))
        topic.partition_states.append(state)
    request.topic_states += by_topic.values()
    request.ungrouped_partition_states = []
    response = await ctx.carry_out(request)
    assert isinstance(response, LeaderAndIsrResponse)
    if version < _FIRST_VERSION_WITH_IDS:
        response.partition_errors = [error for topic in response.topics for error in topic.partition_errors]
        response.topics = []
    return response
