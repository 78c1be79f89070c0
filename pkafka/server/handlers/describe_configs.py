"""DescribeConfigs (key 32, v0-4): the settings of topics, brokers and loggers, and where they come from.

v1 source and synonyms (KIP-226) · v3 type and documentation · v4 flexible. The is_default of v0 is always false, as in
Kafka.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from pkafka.coordination.store import StoreError
from pkafka.errors import ApiError, ErrorCode
from pkafka.java.numbers import parse_int
from pkafka.model import topic_name_problem
from pkafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from pkafka.security.acl import Operation
from pkafka.server.cluster.config_context import ConfigContext
from pkafka.server.config.description import (
    Entry,
    describe_all_brokers,
    describe_broker,
    describe_loggers,
    describe_topic,
)
from pkafka.server.config.dynamic import Configs, ResourceType
from pkafka.server.ports.authorized import WithRights
from pkafka.server.ports.config_rights import denial_of

_DESCRIBED: Final = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
)


class Context(ConfigContext, WithRights, Protocol):
    """The control process, as DescribeConfigs sees it."""


async def handle(context: Context, request: DescribeConfigsRequest, version: int) -> DescribeConfigsResponse:
    """Describe each resource; a resource of an unknown type fails the whole request, as in Kafka."""
    if any(resource.resource_type not in _DESCRIBED for resource in request.resources):
        unknown = ApiError(ErrorCode.INVALID_REQUEST)
        return DescribeConfigsResponse(results=[_failed(resource, unknown) for resource in request.resources])
    topics: Mapping[str, Configs] | ApiError = {}
    names = {each.resource_name for each in request.resources if each.resource_type == ResourceType.TOPIC}
    existing = [name for name in names if _exists(context, name)]
    if existing:
        try:
            topics = await context.run(context.configs.load_topics, existing)
        except StoreError as error:
            topics = ApiError(ErrorCode.REQUEST_TIMED_OUT, f"The coordination store did not answer: {error}")
    results, denied = [], []
    for resource in request.resources:
        code = denial_of(
            context.rights, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
        )
        if code is None:
            results.append(_describe(context, resource, topics, request))
        else:
            denied.append(_failed(resource, ApiError(code)))
    return DescribeConfigsResponse(results=results + denied)


def _exists(context: ConfigContext, name: str) -> bool:
    return topic_name_problem(name) is None and context.metadata.topic(name) is not None


def _describe(
    context: ConfigContext,
    resource: DescribeConfigsResource,
    topics: Mapping[str, Configs] | ApiError,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResult:
    only = frozenset(resource.configuration_keys or ())
    documented = request.include_documentation
    layers = context.configs.layers
    try:
        if resource.resource_type == ResourceType.TOPIC:
            configs = _topic_configs(context, resource.resource_name, topics)
            entries = describe_topic(layers, configs, only=only, documented=documented)
        elif resource.resource_type == ResourceType.BROKER:
            _check_broker_name(context, resource.resource_name, empty_allowed=True)
            describe = describe_broker if resource.resource_name else describe_all_brokers
            entries = describe(layers, only=only, documented=documented)
        elif resource.resource_type == ResourceType.BROKER_LOGGER:
            _check_broker_name(context, resource.resource_name, empty_allowed=False)
            entries = describe_loggers(context.loggers.levels(), only=only)
        else:
            raise _client_metrics_problem(resource.resource_name)
    except ApiError as error:
        return _failed(resource, error)
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_result(entry, with_synonyms=request.include_synonyms) for entry in entries],
    )


def _topic_configs(context: ConfigContext, name: str, topics: Mapping[str, Configs] | ApiError) -> Configs:
    problem = topic_name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if isinstance(topics, ApiError):
        raise topics
    if name not in topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topics[name]


def _check_broker_name(context: ConfigContext, name: str, *, empty_allowed: bool) -> None:
    if not name:
        if empty_allowed:
            return
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    try:
        broker_id = parse_int(name)
    except ValueError:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        ) from None
    if broker_id != context.broker_id:
        expected = f"expected {context.broker_id}" + (" or empty string," if empty_allowed else "")
        sentence = f"Unexpected broker id, {expected} but received {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, sentence)


def _client_metrics_problem(name: str) -> ApiError:
    sentence = (
        "Config type client-metrics is only supported on KRaft clusters"
        if name
        else "Client metrics subscription name must not be empty"
    )
    return ApiError(ErrorCode.INVALID_REQUEST, sentence)


def _failed(resource: DescribeConfigsResource, error: ApiError) -> DescribeConfigsResult:
    silent = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeConfigsResult(
        error_code=error.code,
        error_message="" if silent else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _result(entry: Entry, *, with_synonyms: bool) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if with_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms
        ],
        config_type=entry.type_code,
        documentation=entry.documentation,
    )
