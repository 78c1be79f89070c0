"""CreateTopics (key 19, v0-7): writes the topics' nodes, the controller does the rest; served by the control process.

v1 error messages, validate only · v2 throttle time · v4 defaults of the broker for partitions and replicas (KIP-464) ·
v5 flexible; settings, partitions and replicas in the answer (KIP-525) · v7 topic ids
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_TOPIC_ID, BrokerId, TopicId
from pkafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pkafka.security.acl import CLUSTER_NAME, Operation, ResourceType
from pkafka.server.cluster import topics
from pkafka.server.cluster.internal_topics import shape_of
from pkafka.server.cluster.placement import place_replicas
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.description import describe_topic
from pkafka.server.config.dynamic import check_new_topic_configs
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.limits.mutation_quotas import Mutations, text_beside
from pkafka.server.policies import NewTopicFacts, Policies
from pkafka.server.ports.controller_context import TopicsContext

log = logging.getLogger(__name__)

_FIRST_REFUSED_VERSION = 6
"""Since this version a request can be refused because its client has changed too much."""
_CLUSTER_METADATA_TOPIC = "__cluster_metadata"


class Context(TopicsContext, Protocol):
    """The control process, as CreateTopics sees it."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings of this moment, dynamic changes included."""
        ...

    @property
    def configs(self) -> ConfigRepository:
        """The settings of topics and brokers; change and load them on the controller thread only."""
        ...

    @property
    def policies(self) -> Policies:
        """What the operator allows; ask on the controller thread."""
        ...


class _Created(NamedTuple):
    topic_id: TopicId
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


async def handle(ctx: Context, request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
    """Create each topic on its own, and wait until they have leaders or ``timeout_ms`` is over."""
    if not ctx.controller.is_active:
        return CreateTopicsResponse(
            topics=[_failed(one.name, ApiError(ErrorCode.NOT_CONTROLLER), None) for one in request.topics]
        )
    mutations = ctx.mutations(is_strict=version >= _FIRST_REFUSED_VERSION)
    times = Counter(one.name for one in request.topics)
    may_create_all = ctx.rights.sees(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    outcomes: dict[str, _Created | CreatableTopicResult] = {}
    for topic in request.topics:
        if topic.name in outcomes:
            continue
        refusal = _refusal(ctx, topic.name, times[topic.name], may_create_all=may_create_all)
        if refusal is not None:
            outcomes[topic.name] = _not_tried(ctx, topic.name, refusal)
            continue
        try:
            outcomes[topic.name] = await _create(ctx, topic, mutations, validate_only=request.validate_only)
        except ApiError as error:
            outcomes[topic.name] = _failed(topic.name, error, text_beside(error))
        except StoreError as error:
            log.warning("topic %s could not be created: %s", topic.name, error)
            outcomes[topic.name] = _failed(topic.name, ApiError(ErrorCode.REQUEST_TIMED_OUT), str(error))
    created = {name: one for name, one in outcomes.items() if isinstance(one, _Created)}
    if not request.validate_only:
        await _wait_for_leaders(ctx, created, request.timeout_ms)
    results = {
        name: one if isinstance(one, CreatableTopicResult) else _result(ctx, name, one, request)
        for name, one in outcomes.items()
    }
    return CreateTopicsResponse(
        throttle_time_ms=mutations.throttle_ms, topics=[results[one.name] for one in request.topics]
    )


def _refusal(ctx: Context, name: str, times: int, *, may_create_all: bool) -> ApiError | None:
    """Why a topic is not even tried, whatever the cluster has."""
    if times > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
    if name == _CLUSTER_METADATA_TOPIC:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if not may_create_all and not ctx.rights.may(Operation.CREATE, ResourceType.TOPIC, name):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    return None


def _not_tried(ctx: Context, name: str, refusal: ApiError) -> CreatableTopicResult:
    result = _failed(name, refusal, refusal.message)
    if not ctx.rights.sees(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return result


async def auto_create(
    ctx: Context, names: Sequence[str], mutations: Mutations | None = None
) -> dict[str, ErrorCode]:
    """Create topics for which a client asked (auto.create.topics.enable), without waiting for their leaders.

    Any broker writes the topic's node, as in Kafka's ZooKeeper mode; the controller finds it in the store. The client
    is never refused nor slowed down for its quota here, but what it owes counts at its next CreateTopics, as in Kafka.

    Args:
        ctx: the control process.
        names: of the topics.
        mutations: of the client; None where this broker needs the topics.

    Returns:
        For each name LEADER_NOT_AVAILABLE when the topic exists or will in a moment, else the reason why not.
    """
    outcome: dict[str, ErrorCode] = {}
    for name in dict.fromkeys(names):
        try:
            await _create(ctx, _internal_or_default(ctx, name), mutations, validate_only=False)
        except ApiError as error:
            exists = error.code is ErrorCode.TOPIC_ALREADY_EXISTS
            outcome[name] = ErrorCode.LEADER_NOT_AVAILABLE if exists else error.code
            if not exists:
                log.warning("topic %s was not created automatically: %s", name, error)
        except StoreError as error:
            log.warning("topic %s was not created automatically: %s", name, error)
            outcome[name] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            outcome[name] = ErrorCode.LEADER_NOT_AVAILABLE
    return outcome


def _internal_or_default(ctx: Context, name: str) -> CreatableTopic:
    shape = shape_of(name, ctx.config)
    if shape is None:
        return CreatableTopic(name=name, num_partitions=topics.UNSET, replication_factor=topics.UNSET)
    return CreatableTopic(
        name=name,
        num_partitions=shape.partitions,
        replication_factor=shape.replication_factor,
        configs=[CreatableTopicConfig(name=key, value=text) for key, text in shape.settings.items()],
    )


async def _create(
    ctx: Context, topic: CreatableTopic, mutations: Mutations | None, *, validate_only: bool
) -> _Created:
    if ctx.metadata.topic(topic.name) is not None:
        raise topics.already_exists(topic.name)
    nulls = [one.name for one in topic.configs if one.value is None]
    if nulls:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    configs = {one.name: one.value or "" for one in topic.configs}
    assignments = _assignments(ctx, topic)

    def write() -> TopicId:
        topics.check_new_topic(ctx.store, topic.name, assignments)
        check_new_topic_configs(ctx.config, configs)
        ctx.policies.check_new_topic(_facts(topic, assignments, configs))
        if validate_only:
            return NO_TOPIC_ID
        if mutations is not None:
            mutations.accept(len(assignments))
        topic_id = topics.create_topic(ctx.store, topic.name, assignments, configs)
        # Loaded before the controller's turn, in which it has workers open logs by these settings.
        ctx.configs.load_topics([topic.name])
        return topic_id

    topic_id = await ctx.run(write)
    return _Created(topic_id, len(assignments), len(next(iter(assignments.values()))), configs)


def _facts(
    topic: CreatableTopic, assignments: topics.Assignments, configs: Mapping[str, str]
) -> NewTopicFacts:
    if topic.assignments:
        return NewTopicFacts(topic.name, None, None, assignments, configs)
    replicas = len(next(iter(assignments.values())))
    return NewTopicFacts(topic.name, len(assignments), replicas, None, configs)


def _assignments(ctx: Context, topic: CreatableTopic) -> dict[int, tuple[BrokerId, ...]]:
    shape = (topic.num_partitions, topic.replication_factor)
    if topic.assignments:
        if shape != (topics.UNSET, topics.UNSET):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used"
                " at the same time.",
            )
        return {one.partition_index: tuple(one.broker_ids) for one in topic.assignments}
    partitions = ctx.config.num_partitions if shape[0] == topics.UNSET else shape[0]
    topics.check_count(partitions)
    return place_replicas(
        {broker.id: broker.rack for broker in ctx.metadata.brokers.values()},
        partitions=partitions,
        replication_factor=ctx.config.default_replication_factor if shape[1] == topics.UNSET else shape[1],
    )


async def _wait_for_leaders(ctx: Context, created: Mapping[str, _Created], timeout_ms: int) -> None:
    def all_led() -> bool:
        return all(_is_led(ctx, name, one) for name, one in created.items())

    if created and timeout_ms > 0:
        await ctx.metadata.wait_until(all_led, timeout_s=timeout_ms / 1000)


def _is_led(ctx: Context, name: str, created: _Created) -> bool:
    return all(ctx.metadata.has_leader(name, number) for number in range(created.partitions))


def _result(ctx: Context, name: str, created: _Created, request: CreateTopicsRequest) -> CreatableTopicResult:
    if not request.validate_only and (request.timeout_ms <= 0 or not _is_led(ctx, name, created)):
        result = _failed(name, ApiError(ErrorCode.REQUEST_TIMED_OUT), None)
        result.topic_id = created.topic_id
        return result
    if not ctx.rights.sees(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
        return CreatableTopicResult(
            name=name,
            topic_id=created.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=[],
        )
    return CreatableTopicResult(
        name=name,
        topic_id=created.topic_id,
        error_message=None,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(ctx.configs.layers, created.configs)
        ],
    )


def _failed(name: str, error: ApiError, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=message, configs=[])
