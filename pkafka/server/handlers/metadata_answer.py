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
from pkafka.security.acl import CLUSTER_NAME, Operation, ResourceType
from pkafka.server.cluster.metadata import BrokerInfo, MetadataCache, PartitionInfo, TopicInfo
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.security.rights import UNLIMITED, Rights, cluster_operations_of, operations_of

_ENCODED_MAX: Final = 32
"""How many encoded answers are kept for a version of the cache: the clients of an application ask for few lists."""

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_FIRST_VERSION_WITH_OPERATIONS: Final = 8

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
    def rights(self) -> Rights:
        """What the client may do; the same object until that changes."""
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
    rights = ctx.rights
    key = (
        ctx.listener_name,
        ctx.dead,
        rights,
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
    if any(one.error_code == _DENIED for one in topics):
        return encode(_response(ctx, request, version, topics), version)  # each denial is to be logged
    body = encode(_response(ctx, request, version, topics), version)
    if len(kept) >= _ENCODED_MAX and rights is not UNLIMITED:
        kept.clear()  # some are of rights that nobody has any more
    if len(kept) < _ENCODED_MAX:
        kept[key] = body
    return body


def answer_from_cache(ctx: MetadataContext, request: MetadataRequest, version: int) -> _Topics | None:
    """Collect the topics of the answer.

    Returns:
        None when some of them have to be created first.
    """
    if request.topics is None or (version == 0 and not request.topics):
        rights = ctx.rights
        return [
            _describe(ctx, topic, request, version)
            for topic in _sorted(ctx.metadata)
            if rights.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        ]
    wanted_ids = dict.fromkeys(one.topic_id for one in request.topics if one.topic_id != NO_TOPIC_ID)
    if wanted_ids:
        return _by_id(ctx, wanted_ids, request, version)
    visible, hidden = _by_visibility(ctx, request)
    known, unknown = _known(ctx, visible, request, version)
    if unknown and request.allow_auto_topic_creation and ctx.config.auto_create_topics_enable:
        creatable, denied = _by_creatability(ctx.rights, unknown)
        if creatable:
            return None
        return known + _denied(ctx, Operation.CREATE, denied) + _denied(ctx, Operation.DESCRIBE, hidden)
    unknown_topics = [_unknown(ctx, _why_unknown(name), name, request, version) for name in unknown]
    return known + unknown_topics + _denied(ctx, Operation.DESCRIBE, hidden)


def _by_visibility(ctx: MetadataContext, request: MetadataRequest) -> tuple[list[str], list[str]]:
    """Part the names of a request: those that the client may describe, whether there are such topics, and others."""
    rights = ctx.rights
    parted: tuple[list[str], list[str]] = ([], [])
    for name in dict.fromkeys(one.name for one in request.topics or () if one.name is not None):
        parted[not rights.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)].append(name)
    return parted


def _by_creatability(rights: Rights, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Part names without a topic: those that the client may create, and others."""
    if rights.sees(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        return list(names), []
    parted: tuple[list[str], list[str]] = ([], [])
    for name in names:
        parted[not rights.sees(Operation.CREATE, ResourceType.TOPIC, name)].append(name)
    return parted


def _denied(ctx: MetadataContext, operation: Operation, names: Iterable[str]) -> _Topics:
    """Refuse topics; the answer does not say of those that the client may not describe whether they are internal."""
    topics = []
    for name in names:
        ctx.rights.denied(operation, ResourceType.TOPIC, name)
        topic = _failed(_DENIED, name)
        topic.is_internal = topic.is_internal and operation is not Operation.DESCRIBE
        topics.append(topic)
    return topics


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
    """Create what is missing. The answer has what was known before: a created topic is there for the next request."""
    visible, hidden = _by_visibility(ctx, request)
    known, unknown = _known(ctx, visible, request, version)
    allowed, denied = _by_creatability(ctx.rights, unknown)
    creatable = [name for name in allowed if topic_name_problem(name) is None]
    outcome = await ctx.auto_create(creatable) if creatable else {}
    unknown_topics = [
        _unknown(ctx, outcome.get(name, _why_unknown(name)), name, request, version) for name in allowed
    ]
    return (
        known
        + unknown_topics
        + _denied(ctx, Operation.CREATE, denied)
        + _denied(ctx, Operation.DESCRIBE, hidden)
    )


def _unknown(
    ctx: MetadataContext, code: ErrorCode, name: str, request: MetadataRequest, version: int
) -> MetadataResponseTopic:
    topic = _failed(code, name)
    if version >= _FIRST_VERSION_WITH_OPERATIONS and request.include_topic_authorized_operations:
        topic.topic_authorized_operations = operations_of(ctx.rights, ResourceType.TOPIC, name)
    return topic


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
    hidden: _Topics = []
    rights = ctx.rights
    for topic_id in topic_ids:
        topic = ctx.metadata.topic(ctx.metadata.topic_name(topic_id) or "")
        if topic is None:
            unknown.append(_failed(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif not rights.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            hidden.append(_failed(_DENIED, None, topic_id))  # an id is no secret
        else:
            known.append(_describe(ctx, topic, request, version))
    return unknown + known + hidden


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
    rights = ctx.rights if operations else None
    key = (topic.name, ctx.listener_name, version == 0, version >= 6, rights, ctx.dead)
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
    if rights is not None:
        made.topic_authorized_operations = operations_of(rights, ResourceType.TOPIC, topic.name)
    if rights is None or rights is UNLIMITED:
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
        response.cluster_authorized_operations = cluster_operations_of(ctx.rights)
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
