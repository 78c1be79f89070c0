"""AlterPartitionReassignments (key 45, v0): move partitions to other brokers, or give a move up (KIP-455)."""

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from pkafka.server.control_context import ControlContext
from pkafka.server.controller.controller import Controller


async def handle(
    ctx: ControlContext, request: AlterPartitionReassignmentsRequest, version: int
) -> AlterPartitionReassignmentsResponse:
    """Have the controller begin; how far it has come, ListPartitionReassignments says."""
    try:
        return await ctx.run(_begin, ctx.controller, request)
    except ApiError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    except StoreError:
        failed = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return AlterPartitionReassignmentsResponse(error_code=failed.code, error_message=failed.message)


def _begin(
    controller: Controller, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Runs on the controller thread.

    Raises:
        ApiError: NOT_CONTROLLER.
        StoreError: the store failed.
    """
    office = controller.office()
    responses = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            error = office.reassignments.begin(
                TopicPartition(topic.name, wanted.partition_index), wanted.replicas
            )
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=ErrorCode.NONE if error is None else error.code,
                    error_message=None if error is None else error.message,
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    return AlterPartitionReassignmentsResponse(responses=responses)
