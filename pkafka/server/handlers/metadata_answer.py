"""Metadata (key 3, v0-12): topics, partitions, leaders, live brokers, the controller; from the cache alone.

v1 a null list means every topic (in v0 an empty one does), rack, controller, internal flag · v2 cluster id ·
v3 throttle time · v4 creation of topics can be declined · v5 offline replicas · v6 LISTENER_NOT_FOUND ·
v7 leader epoch (KIP-320) · v8 authorized operations (KIP-430; the cluster's moved to DescribeCluster in v11) ·
v9 flexible · v10 topic ids in the answer · v12 topic ids in the request

The workers serve it. Only the creation of missing topics waits.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.model import INTERNAL_TOPICS, NO_LEADER, NO_TOPIC_ID, BrokerId, TopicId, topic_name_problem
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pkafka.server.cluster.metadata import BrokerInfo, MetadataCache, PartitionInfo, TopicInfo
from pkafka.server.config.broker_config import BrokerConfig

# Bit n stands for AclOperation n. Without an authorizer all operations of the resource are allowed (KIP-430).
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))

_ENCODED_MAX: Final = 32
"""How many encoded answers are kept for a version of the cache: the clients of an application ask for few lists."""

_Topics = list[MetadataResponseTopic]


class MetadataContext(Protocol):
    """Names what this handler needs of its process and of the connection."""

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def listener_name(self) -> str:
        """The listener of the client's connection; the answer has the brokers' addresses of this listener."""
        ...

    @property
    def dead(self) -> frozenset[BrokerId]:
        """Brokers that are dead, even when the controller does not know yet or has said so only a moment ago.

        The answer gives their partitions no leader, and lists the brokers themselves as if they lived.
        """
        ...

    async def auto_create(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        """Have topics created (by the control process, see ``create_topics.auto_create``).

        Returns:
            The error to answer for each: LEADER_NOT_AVAILABLE when the topic is being made, else the reason why not.
        """
        ...


async def handle(ctx: MetadataContext, request: MetadataRequest, version: int) -> MetadataResponse:
    """Answer a request. Topics in the answer may be shared with other answers: do not change them."""
    if _problem(request, version) is not ErrorCode.NONE:
        return _refused(request, version)
    topics = answer_from_cache(ctx, request, version)
    if topics is None:
        topics = await _with_creation(ctx, request, version)
    return _response(ctx, request, version, topics)


def handle_encoded(ctx: MetadataContext, request: MetadataRequest, version: int) -> bytes | None:
    """Encode the body of the answer, once for each version of the cache and list of topics.

    Returns:
        None when topics have to be created or the request is wrong; :func:`handle` serves these.
    """
    kept = ctx.metadata.derived.setdefault("encoded", {})
    assert isinstance(kept, dict)
    key = (
        ctx.listener_name,
        ctx.dead,
        version,
        None if request.topics is None else tuple([(one.name, one.topic_id) for one in request.topics]),
        request.allow_auto_topic_creation,
        request.include_cluster_authorized_operations,
        request.include_topic_authorized_operations,
    )
    body = kept.get(key)
    if isinstance(body, bytes):
        return body
    topics = None
    if _problem(request, version) is ErrorCode.NONE:
        topics = answer_from_cache(ctx, request, version)
    if topics is None:
        return None
    body = encode(_response(ctx, request, version, topics), version)
    if len(kept) < _ENCODED_MAX:
        kept[key] = body
    return body


def answer_from_cache(ctx: MetadataContext, request: MetadataRequest, version: int) -> _Topics | None:
    """Collect the topics of the answer.

    Returns:
        None when some of them have to be created first.
    """
    if request.topics is None or (version == 0 and not request.topics):
        return [_describe(ctx, topic, request, version) for topic in _sorted(ctx.metadata)]
    wanted_ids = dict.fromkeys(one.topic_id for one in request.topics if one.topic_id != NO_TOPIC_ID)
    if wanted_ids:
        return _by_id(ctx, wanted_ids, request, version)
    names = dict.fromkeys(one.name for one in request.topics if one.name is not None)
    known, unknown = _known(ctx, names, request, version)
    if not unknown:
        return known
    if request.allow_auto_topic_creation and ctx.config.auto_create_topics_enable:
        return None
    return known + [_failed(_why_unknown(name), name) for name in unknown]


def leaders_named(cache: MetadataCache, request: MetadataRequest, version: int) -> Collection[BrokerId]:
    """The brokers that an answer names as leaders."""
    if request.topics is None or (version == 0 and not request.topics):
        everywhere = cache.derived.get("leaders")
        if not isinstance(everywhere, frozenset):
            everywhere = frozenset().union(*(_leaders_of(cache, topic) for topic in cache.topics.values()))
            cache.derived["leaders"] = everywhere
        return everywhere
    named: set[BrokerId] = set()
    for one in request.topics:
        name = one.name if one.topic_id == NO_TOPIC_ID else cache.topic_name(one.topic_id)
        topic = cache.topic(name or "")
        if topic is not None:
            named |= _leaders_of(cache, topic)
    return named


def _leaders_of(cache: MetadataCache, topic: TopicInfo) -> frozenset[BrokerId]:
    key = ("leaders", topic.name)
    found = cache.derived.get(key)
    if not isinstance(found, frozenset):
        found = frozenset(info.leader for info in topic.partitions.values() if info.leader >= 0)
        cache.derived[key] = found
    return found


def _refused(request: MetadataRequest, version: int) -> MetadataResponse:
    code = _problem(request, version)
    return MetadataResponse(
        # A null name cannot be answered before version 12.
        topics=[_failed(code, one.name or "", one.topic_id) for one in request.topics or ()]
    )


async def _with_creation(ctx: MetadataContext, request: MetadataRequest, version: int) -> _Topics:
    names = dict.fromkeys(one.name for one in request.topics or () if one.name is not None)
    _, unknown = _known(ctx, names, request, version)
    creatable = [name for name in unknown if topic_name_problem(name) is None]
    outcome = await ctx.auto_create(creatable) if creatable else {}
    # The cache may have changed while the topics were made; the answer has what is known by now.
    known, unknown = _known(ctx, names, request, version)
    return known + [_failed(outcome.get(name, _why_unknown(name)), name) for name in unknown]


def _known(
    ctx: MetadataContext, names: Iterable[str], request: MetadataRequest, version: int
) -> tuple[_Topics, list[str]]:
    known: _Topics = []
    unknown: list[str] = []
    for name in names:
        topic = ctx.metadata.topic(name)
        if topic is None:
            unknown.append(name)
        else:
            known.append(_describe(ctx, topic, request, version))
    return known, unknown


def _by_id(
    ctx: MetadataContext, topic_ids: Iterable[TopicId], request: MetadataRequest, version: int
) -> _Topics:
    known: _Topics = []
    unknown: _Topics = []
    for topic_id in topic_ids:
        topic = ctx.metadata.topic(ctx.metadata.topic_name(topic_id) or "")
        if topic is None:
            unknown.append(_failed(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        else:
            known.append(_describe(ctx, topic, request, version))
    return unknown + known


def _problem(request: MetadataRequest, version: int) -> ErrorCode:
    # Versions 10 and 11 carry ids and null names, but Kafka's brokers refuse them before version 12.
    for topic in request.topics or ():
        if version < 12 and (topic.name is None or topic.topic_id != NO_TOPIC_ID):
            return ErrorCode.INVALID_REQUEST
        if topic.name is None and topic.topic_id == NO_TOPIC_ID:
            return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _why_unknown(name: str) -> ErrorCode:
    if topic_name_problem(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _failed(code: ErrorCode, name: str | None, topic_id: TopicId = NO_TOPIC_ID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
    )


def _describe(
    ctx: MetadataContext, topic: TopicInfo, request: MetadataRequest, version: int
) -> MetadataResponseTopic:
    operations = request.include_topic_authorized_operations
    # Version 0 leaves dead replicas out; LISTENER_NOT_FOUND exists from version 6 on.
    key = (topic.name, ctx.listener_name, version == 0, version >= 6, operations, ctx.dead)
    derived = ctx.metadata.derived
    found = derived.get(key)
    if isinstance(found, MetadataResponseTopic):
        return found
    made = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _describe_partition(ctx, topic.name, number, info, version)
            for number, info in topic.partitions.items()
        ],
    )
    if operations:
        made.topic_authorized_operations = TOPIC_OPERATIONS
    derived[key] = made
    return made


def _describe_partition(
    ctx: MetadataContext, topic: str, number: int, info: PartitionInfo, version: int
) -> MetadataResponsePartition:
    metadata, listener = ctx.metadata, ctx.listener_name
    replicas, isr = list(info.replicas), list(info.isr)
    if version == 0:
        replicas = [one for one in replicas if metadata.endpoint(one, listener) is not None]
        isr = [one for one in isr if metadata.endpoint(one, listener) is not None]
    leader, error = info.leader, ErrorCode.NONE
    if ctx.dead and _was_led_by_dead(ctx, topic, number, leader):
        leader, error = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    elif metadata.endpoint(leader, listener) is None:
        blame_listener = version >= 6 and leader in metadata.brokers
        error = ErrorCode.LISTENER_NOT_FOUND if blame_listener else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    elif len(replicas) < len(info.replicas) or len(isr) < len(info.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=info.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=list(info.offline_replicas),
    )


def _was_led_by_dead(ctx: MetadataContext, topic: str, number: int, leader: BrokerId) -> bool:
    departed = ctx.metadata.departed
    return leader in ctx.dead or any(
        one in departed and (topic, number) in departed[one].led for one in ctx.dead
    )


def _response(
    ctx: MetadataContext, request: MetadataRequest, version: int, topics: _Topics
) -> MetadataResponse:
    metadata = ctx.metadata
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker in _brokers_told(ctx)
            if (endpoint := broker.endpoints.get(ctx.listener_name)) is not None
        ],
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations and 8 <= version <= 10:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _brokers_told(ctx: MetadataContext) -> Iterable[BrokerInfo]:
    live = ctx.metadata.brokers
    if live.keys() >= ctx.dead:
        return live.values()
    departed = ctx.metadata.departed
    brokers = {one: departed[one].broker for one in ctx.dead if one in departed} | live
    return [broker for _, broker in sorted(brokers.items())]


def _sorted(metadata: MetadataCache) -> list[TopicInfo]:
    return [metadata.topics[name] for name in sorted(metadata.topics)]
