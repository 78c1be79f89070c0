"""ListPartitionReassignments (key 46, v0): which partitions move to other brokers (KIP-455)."""

from collections.abc import Mapping

from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from pkafka.security.acl import Operation
from pkafka.server.controller.context import Assignment
from pkafka.server.ports.authorized import not_authorized
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster


async def handle(
    ctx: ControllerContext, request: ListPartitionReassignmentsRequest, version: int
) -> ListPartitionReassignmentsResponse:
    """List the partitions that move, of those that the request names or of all."""
    if not may_in_cluster(ctx.rights, Operation.DESCRIBE):
        denial = not_authorized(ApiKey.LIST_PARTITION_REASSIGNMENTS)
        return ListPartitionReassignmentsResponse(error_code=denial.code, error_message=denial.message)
    try:
        ongoing = await ctx.run(lambda: ctx.controller.office().reassignments.ongoing())
    except ApiError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    if request.topics is not None:
        asked = {
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        }
        ongoing = {one: assignment for one, assignment in ongoing.items() if one in asked}
    return ListPartitionReassignmentsResponse(topics=_topics(ongoing))


def _topics(ongoing: Mapping[TopicPartition, Assignment]) -> list[OngoingTopicReassignment]:
    topics: dict[str, OngoingTopicReassignment] = {}
    for partition, assignment in ongoing.items():
        topic = topics.setdefault(partition.topic, OngoingTopicReassignment(name=partition.topic))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=partition.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return list(topics.values())
