"""AlterPartitionReassignments (key 45, v0): move partitions to other brokers, or give a move up (KIP-455)."""

import logging

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from pkafka.security.acl import Operation
from pkafka.server.ports.authorized import not_authorized
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster

log = logging.getLogger(__name__)


async def handle(
    ctx: ControllerContext, request: AlterPartitionReassignmentsRequest, version: int
) -> AlterPartitionReassignmentsResponse:
    """Have the controller begin the moves; ListPartitionReassignments tells how far they are."""
    if not may_in_cluster(ctx.rights, Operation.ALTER):
        denial = not_authorized(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        return AlterPartitionReassignmentsResponse(
            error_code=denial.code,
            error_message=denial.message,
            responses=_denied(request, denial),
        )
    try:
        # A broker that is not the controller says so to an empty request, too.
        await ctx.run(ctx.controller.office)
        responses = [
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[await _begin(ctx, topic.name, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    except ApiError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    return AlterPartitionReassignmentsResponse(responses=responses)


def _denied(request: AlterPartitionReassignmentsRequest, denial: ApiError) -> list[ReassignableTopicResponse]:
    return [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=one.partition_index,
                    error_code=denial.code,
                    error_message=denial.message,
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]


async def _begin(
    ctx: ControllerContext, topic: str, wanted: ReassignablePartition
) -> ReassignablePartitionResponse:
    """Begin each move in a turn of its own: a failure of the store for one partition does not fail the others.

    Raises:
        ApiError: NOT_CONTROLLER.
    """
    partition = TopicPartition(topic, wanted.partition_index)
    try:
        error = await ctx.run(lambda: ctx.controller.office().reassignments.begin(partition, wanted.replicas))
    except StoreError as failure:
        log.warning("%s cannot be moved: %s", partition, failure)
        error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
