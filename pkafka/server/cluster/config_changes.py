"""What AlterConfigs and IncrementalAlterConfigs share: they check, write and answer each resource on its own."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pkafka.coordination.store import ConnectionLossError, SessionExpiredError, StoreError, StoreFullError
from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.java.numbers import parse_int
from pkafka.server.cluster.config_context import ConfigContext
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.broker_loggers import check_logger_changes
from pkafka.server.config.dynamic import (
    Change,
    Configs,
    Operation,
    ResourceType,
    apply_changes,
    check_broker_change,
    check_changes,
    check_topic_change,
    for_store,
    refused_store,
    unreadable_passwords,
    usable_broker_configs,
)
from pkafka.server.config.keys import ConfigKey, broker_keys, topic_keys
from pkafka.server.config.repository import ALL_BROKERS, BROKERS, TOPICS
from pkafka.server.policies import ConfigChangeFacts


class ResourceChanges(NamedTuple):
    """One resource of a request with what is to change. ``type`` is as it came."""

    type: int
    name: str
    changes: list[Change]


class Result(NamedTuple):
    """The answer for one resource."""

    resource: ResourceChanges
    code: ErrorCode
    message: str | None


class Mode(NamedTuple):
    """Describes one of the two ways in which settings change.

    ``apply(stored, changes, keys, kind)`` gives the new settings. ``keeps_the_rest``: settings that are not named stay;
    only then loggers can be changed in this way.
    """

    apply: Callable[[Configs, Sequence[Change], Mapping[str, ConfigKey], str], Configs]
    keeps_the_rest: bool


def _apply_incremental(
    stored: Configs, changes: Sequence[Change], keys: Mapping[str, ConfigKey], kind: str
) -> Configs:
    return apply_changes(stored, changes, keys, kind=kind)


def _replace(_: Configs, changes: Sequence[Change], keys: Mapping[str, ConfigKey], kind: str) -> Configs:
    return apply_changes({}, changes, keys, kind=kind)


incremental: Final = Mode(_apply_incremental, keeps_the_rest=True)
replacing: Final = Mode(_replace, keeps_the_rest=False)


async def change_all(
    context: ConfigContext,
    resources: Sequence[ResourceChanges],
    mode: Mode,
    *,
    denial: Callable[[ResourceChanges], ErrorCode | None],
    validate_only: bool,
) -> list[Result]:
    """Change every resource in turn; the result of one does not depend on the others.

    A resource that comes twice is refused both times.

    Args:
        denial: gives the code where the client may not change a resource.
    """
    seen = Counter((resource.type, resource.name) for resource in resources)
    results = []
    for resource in resources:
        try:
            if seen[resource.type, resource.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            check_changes(resource.changes)
            _check_broker_name(context, resource)
            code = denial(resource)
            if code is not None:
                results.append(Result(resource, code, None))
                continue
            await _change(context, resource, mode, validate_only=validate_only)
            results.append(Result(resource, ErrorCode.NONE, None))
        except ApiError as error:
            results.append(Result(resource, error.code, error.message))
        except StoreError as error:
            results.append(Result(resource, _code_of(error), f"The coordination store failed: {error}"))
    return results


def _check_broker_name(context: ConfigContext, resource: ResourceChanges) -> None:
    """Refuse another broker's name, which Kafka looks at before it looks at rights."""
    if resource.type == ResourceType.BROKER and resource.name:
        _check_node_id(context, resource.name, "Unexpected broker id, expected {}, but received {}")


def _code_of(error: StoreError) -> ErrorCode:
    transient = isinstance(error, ConnectionLossError | SessionExpiredError | StoreFullError)
    return ErrorCode.REQUEST_TIMED_OUT if transient else ErrorCode.UNKNOWN_SERVER_ERROR


async def _change(
    context: ConfigContext, resource: ResourceChanges, mode: Mode, *, validate_only: bool
) -> None:
    kind = resource.type
    if kind == ResourceType.TOPIC:
        await _change_topic(context, resource, mode, validate_only=validate_only)
    elif kind == ResourceType.BROKER:
        await _change_broker(context, resource, mode, validate_only=validate_only)
    elif kind == ResourceType.BROKER_LOGGER and mode.keeps_the_rest:
        _change_loggers(context, resource, validate_only=validate_only)
    elif kind == ResourceType.CLIENT_METRICS:
        sentence = (
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, sentence)
    else:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


async def _change_topic(
    context: ConfigContext, resource: ResourceChanges, mode: Mode, *, validate_only: bool
) -> None:
    name = resource.name
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if context.metadata.topic(name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    broker = context.configs.layers.current

    def change(stored: dict[str, str]) -> Configs:
        configs = mode.apply(stored, resource.changes, topic_keys(), "topic")
        check_topic_change(name, broker, configs)
        context.policies.check_config_change(_facts(resource))
        return configs

    await _write(context, TOPICS, name, change, validate_only=validate_only)


async def _change_broker(
    context: ConfigContext, resource: ResourceChanges, mode: Mode, *, validate_only: bool
) -> None:
    per_broker = bool(resource.name)
    layers = context.configs.layers

    encoder = context.configs.encoder

    def change(stored: dict[str, str]) -> Configs:
        usable, _ = usable_broker_configs(stored, per_broker=per_broker, encoder=encoder)
        configs = mode.apply(usable, resource.changes, broker_keys(), "broker")
        changed = check_broker_change(
            layers, configs, per_broker=per_broker, stores_passwords=encoder is not None
        )
        _check_stores(context, changed.current)
        context.policies.check_config_change(_facts(resource))
        wanted = for_store(configs, stored, encoder)
        if not mode.keeps_the_rest:
            return wanted
        named = {change.name for change in resource.changes}
        unreadable = unreadable_passwords(stored, usable)
        kept = {name: text for name, text in unreadable.items() if name not in named}
        return {**kept, **wanted}

    name = str(context.broker_id) if per_broker else ALL_BROKERS
    await _write(context, BROKERS, name, change, validate_only=validate_only)


def _check_stores(context: ConfigContext, config: BrokerConfig) -> None:
    try:
        context.check_stores(config)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, refused_store(error)) from error


def _facts(resource: ResourceChanges) -> ConfigChangeFacts:
    # As in Kafka this compares the request, not its effect.
    configs = {change.name: change.value for change in resource.changes}
    return ConfigChangeFacts(ResourceType(resource.type), resource.name, configs)


def _change_loggers(context: ConfigContext, resource: ResourceChanges, *, validate_only: bool) -> None:
    _check_node_id(context, resource.name, "Unexpected node id. Expected {}, but received {}")
    check_logger_changes(resource.changes, context.loggers.levels())
    if validate_only:
        return
    for name, operation, level in resource.changes:
        context.loggers.set_level(name, level if operation == Operation.SET else None)


def _check_node_id(context: ConfigContext, name: str, unexpected: str) -> None:
    try:
        node_id = parse_int(name)
    except ValueError:
        sentence = f"Node id must be an integer, but it is: {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, sentence) from None
    if node_id != context.broker_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, unexpected.format(context.broker_id, name))


async def _write(
    context: ConfigContext,
    entity_type: str,
    entity_name: str,
    change: Callable[[dict[str, str]], Configs],
    *,
    validate_only: bool,
) -> None:
    if validate_only:
        change(await context.run(context.configs.peek, entity_type, entity_name))
        return
    await context.run(context.configs.update, entity_type, entity_name, change)
    await context.in_force()
