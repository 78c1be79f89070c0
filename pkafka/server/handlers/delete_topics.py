"""DeleteTopics (key 20, v0-6): marks topics, which the controller then deletes; served by the control process.

v1 throttle time · v3 TOPIC_DELETION_DISABLED · v4 flexible · v5 error messages · v6 by topic id
"""

import contextlib
import logging
from typing import Protocol

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_TOPIC_ID
from pkafka.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster import topics
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.ports.controller_context import TopicsContext

log = logging.getLogger(__name__)

_ID_SINCE = 6
_DISABLED_CODE_SINCE = 3
_FIRST_REFUSED_VERSION = 5
"""Since this version a request can be refused because its client has changed too much."""


class Context(TopicsContext, Protocol):
    """The control process, as DeleteTopics sees it."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings of this moment, dynamic changes included."""
        ...

    @property
    def configs(self) -> ConfigRepository:
        """The settings of topics and brokers; change and load them on the controller thread only."""
        ...


async def handle(ctx: Context, request: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse:
    """Delete each topic on its own, and wait until the metadata are without them or ``timeout_ms`` is over."""
    states = request.topics if version >= _ID_SINCE else []
    states = states or [DeleteTopicState(name=name) for name in request.topic_names]
    refusal = _refusal(ctx, version)
    mutations = ctx.mutations(is_strict=version >= _FIRST_REFUSED_VERSION)
    results: list[DeletableTopicResult] = []
    marked: list[DeletableTopicResult] = []
    for state in states:
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        results.append(result)
        try:
            if refusal is not None:
                raise ApiError(refusal)
            _identify(ctx, result)
            assert result.name is not None
            known = ctx.metadata.topic(result.name)
            mutations.accept(0 if known is None else len(known.partitions))
            await ctx.run(topics.mark_for_deletion, ctx.store, result.name)
            marked.append(result)
        except ApiError as error:
            # Kafka sends no text here; tools have their own for the code.
            result.error_code = error.code
        except StoreError as error:
            log.warning("topic %s could not be marked for deletion: %s", result.name, error)
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    await _wait_until_gone(ctx, marked, request.timeout_ms)
    return DeleteTopicsResponse(throttle_time_ms=mutations.throttle_ms, responses=results)


def _refusal(ctx: Context, version: int) -> ErrorCode | None:
    if not ctx.controller.is_active:
        return ErrorCode.NOT_CONTROLLER
    if not ctx.config.delete_topic_enable:
        if version < _DISABLED_CODE_SINCE:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.TOPIC_DELETION_DISABLED
    return None


def _identify(ctx: Context, result: DeletableTopicResult) -> None:
    if result.topic_id != NO_TOPIC_ID:
        if result.name is not None:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
        result.name = ctx.metadata.topic_name(result.topic_id)
        if result.name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not ctx.rights.may(Operation.DESCRIBE, ResourceType.TOPIC, result.name):
            # The id is no secret, but the name is one.
            result.name = None
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif result.name is None:
        # Neither id nor name: Kafka answers as for a topic that the client may not see.
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not ctx.rights.may(Operation.DELETE, ResourceType.TOPIC, result.name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if ctx.metadata.topic(result.name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def _wait_until_gone(ctx: Context, marked: list[DeletableTopicResult], timeout_ms: int) -> None:
    def all_gone() -> bool:
        return all(ctx.metadata.topic(one.name or "") is None for one in marked)

    if marked and timeout_ms > 0:
        await ctx.metadata.wait_until(all_gone, timeout_s=timeout_ms / 1000)
    for result in marked:
        if timeout_ms <= 0 or ctx.metadata.topic(result.name or "") is not None:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    if marked:
        # A topic whose deletion takes longer than this is forgotten with the next deletion.
        with contextlib.suppress(StoreError):
            await ctx.run(ctx.configs.forget_topics, [one.name for one in marked if one.name])
