"""ElectLeaders (key 43, v0-2): an administrator asks for preferred leaders, from v1 on also unclean ones (KIP-460).

v2 flexible
"""

from typing import Final, Protocol

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from pkafka.security.acl import Operation
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.controller.controller import Controller
from pkafka.server.controller.office import Election
from pkafka.server.ports.controller_context import ControllerContext
from pkafka.server.security.rights import may_in_cluster

_UNCLEAN: Final = 1


class Context(ControllerContext, Protocol):
    """The control process, as ElectLeaders sees it."""

    @property
    def metadata(self) -> MetadataCache:
        """The cache of the control process; read it on the event loop only."""
        ...


async def handle(ctx: Context, request: ElectLeadersRequest, version: int) -> ElectLeadersResponse:
    """Have the controller elect, and answer when this broker's metadata name the new leaders."""
    named = request.topic_partitions
    if named is None:
        # All partitions of this broker's metadata, which lack those that never had a leader.
        partitions = ctx.metadata.partitions()
    else:
        partitions = [TopicPartition(topic.topic, index) for topic in named for index in topic.partitions]
    if not may_in_cluster(ctx.rights, Operation.ALTER):
        return _denied([] if named is None else partitions, version)
    try:
        outcome = await ctx.run(_elect, ctx.controller, partitions, request.election_type == _UNCLEAN)
    except (ApiError, StoreError) as error:
        code = error.code if isinstance(error, ApiError) else ErrorCode.UNKNOWN_SERVER_ERROR
        refused = ApiError(code)
        asked = partitions if named is not None else []
        return _response(dict.fromkeys(asked, refused), ErrorCode.NONE if version == 0 or asked else code)
    if named is None:
        # When all partitions are asked for, the answer names only those that changed or could not change.
        outcome = {
            partition: result
            for partition, result in outcome.items()
            if not (isinstance(result, ApiError) and result.code is ErrorCode.ELECTION_NOT_NEEDED)
        }
    leaders = {partition: result for partition, result in outcome.items() if not isinstance(result, ApiError)}
    known = await ctx.metadata.wait_until(
        lambda: all(ctx.metadata.leader_of(*one) == leader for one, leader in leaders.items()),
        timeout_s=request.timeout_ms / 1000,
    )
    if not known:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        for partition, leader in leaders.items():
            if ctx.metadata.leader_of(*partition) != leader:
                outcome[partition] = late
    return _response(outcome, ErrorCode.NONE)


def _denied(partitions: list[TopicPartition], version: int) -> ElectLeadersResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    response = _response(dict.fromkeys(partitions, ApiError(code)), code)
    for topic in response.replica_election_results:
        for one in topic.partition_result:
            one.error_message = None
    if version == 0:
        response.error_code = ErrorCode.NONE
    return response


def _elect(
    controller: Controller, partitions: list[TopicPartition], unclean: bool
) -> dict[TopicPartition, Election]:
    """Runs on the controller thread.

    Raises:
        ApiError: NOT_CONTROLLER.
        StoreError: the store failed.
    """
    return controller.office().elect_leaders(partitions, unclean=unclean)


def _response(outcome: dict[TopicPartition, Election], code: ErrorCode) -> ElectLeadersResponse:
    by_topic: dict[str, ReplicaElectionResult] = {}
    for partition, result in outcome.items():
        topic = by_topic.setdefault(partition.topic, ReplicaElectionResult(topic=partition.topic))
        answer = PartitionResult(partition_id=partition.partition, error_message=None)
        if isinstance(result, ApiError):
            answer.error_code = result.code
            answer.error_message = result.message
        topic.partition_result.append(answer)
    return ElectLeadersResponse(error_code=code, replica_election_results=list(by_topic.values()))
