"""CreatePartitions (key 37, v0-3): adds partitions to topics; served by the control process.

v2 flexible · v3 throttling by quota
"""

import logging
from collections import Counter

from pkafka.coordination.store import BadVersionError, StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster import topics
from pkafka.server.limits.mutation_quotas import Mutations, text_beside
from pkafka.server.ports.controller_context import TopicsContext

log = logging.getLogger(__name__)

_FIRST_REFUSED_VERSION = 3
"""Since this version a request can be refused because its client has changed too much."""


async def handle(
    ctx: TopicsContext, request: CreatePartitionsRequest, version: int
) -> CreatePartitionsResponse:
    """Add partitions to each topic on its own, and wait until they have leaders or ``timeout_ms`` is over."""
    mutations = ctx.mutations(is_strict=version >= _FIRST_REFUSED_VERSION)
    times = Counter(one.name for one in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    grown: dict[str, int] = {}
    for topic in request.topics:
        if topic.name in results:
            continue
        result = results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
        try:
            if not ctx.controller.is_active:
                result.error_code = ErrorCode.NOT_CONTROLLER
                continue
            if times[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            if not ctx.rights.may(Operation.ALTER, ResourceType.TOPIC, topic.name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
            grown[topic.name] = await ctx.run(_grow, ctx, topic, mutations, request.validate_only)
        except ApiError as error:
            result.error_code, result.error_message = error.code, text_beside(error)
        except BadVersionError:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "The topic was changed by another request at the same time."
        except StoreError as error:
            log.warning("topic %s could not be grown: %s", topic.name, error)
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    if not request.validate_only:
        await _wait_for_leaders(ctx, grown, request.timeout_ms, results)
    return CreatePartitionsResponse(throttle_time_ms=mutations.throttle_ms, results=list(results.values()))


def _grow(ctx: TopicsContext, topic: CreatePartitionsTopic, mutations: Mutations, validate_only: bool) -> int:
    if topics.is_marked_for_deletion(ctx.store, topic.name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    given = topic.assignments
    assignments = None if given is None else [tuple(one.broker_ids) for one in given]
    accept = None if validate_only else mutations.accept
    return topics.grow_topic(ctx.store, topic.name, topic.count, assignments, accept=accept)


async def _wait_for_leaders(
    ctx: TopicsContext,
    grown: dict[str, int],
    timeout_ms: int,
    results: dict[str, CreatePartitionsTopicResult],
) -> None:
    def is_led(name: str) -> bool:
        return all(ctx.metadata.has_leader(name, number) for number in range(grown[name]))

    if grown and timeout_ms > 0:
        await ctx.metadata.wait_until(lambda: all(map(is_led, grown)), timeout_s=timeout_ms / 1000)
    for name in grown:
        if timeout_ms <= 0 or not is_led(name):
            results[name].error_code = ErrorCode.REQUEST_TIMED_OUT
