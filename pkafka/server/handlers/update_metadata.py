"""UpdateMetadata (key 6, v0-8): the controller tells this broker what to answer to Metadata.

v5 grouped by topic, broker epoch (KIP-380) · v7 topic ids (KIP-516); what the other versions add stands in the message
"""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from pkafka.security.acl import Operation
from pkafka.server.ports.broker_context import BrokerContext
from pkafka.server.security.rights import may_in_cluster


async def handle(ctx: BrokerContext, request: UpdateMetadataRequest, version: int) -> UpdateMetadataResponse:
    """Have all processes take it over, after the controller's earlier requests."""
    if not may_in_cluster(ctx.rights, Operation.CLUSTER_ACTION):
        return UpdateMetadataResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if ctx.is_stale(request.broker_epoch):
        return UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    by_topic: dict[str, UpdateMetadataTopicState] = {}
    for state in request.ungrouped_partition_states:
        topic = by_topic.setdefault(state.topic_name, UpdateMetadataTopicState(topic_name=state.topic_name))
        topic.partition_states.append(state)
    request.topic_states += by_topic.values()
    request.ungrouped_partition_states = []
    response = await ctx.carry_out(request)
    assert isinstance(response, UpdateMetadataResponse)
    return response
