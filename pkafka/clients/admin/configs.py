"""Configurations of topics, brokers and broker loggers: describe, and alter key by key (KIP-339)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from pkafka.clients.admin.results import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    Outcome,
    ResourceType,
    error_outcome,
    outcome_of,
)
from pkafka.clients.cluster import Cluster, To
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.schema import Message

if TYPE_CHECKING:
    from pkafka.protocol.messages.describe_configs import DescribeConfigsResourceResult

R = TypeVar("R", bound=Message)
V = TypeVar("V")

_TYPES: Final = {each.value: each for each in ConfigType}


class ConfigsAdmin:
    """Reads and changes configurations; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Collection[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, Outcome[list[ConfigEntry]]]:
        """The configurations of resources, every key with its value and where that comes from.

        Args:
            keys: only these; all when left out.
            include_synonyms: also the other places that give the key a value.
            include_documentation: also what the keys are for.
        """
        from pkafka.protocol.messages import describe_configs as wire

        def ask(group: list[ConfigResource]) -> wire.DescribeConfigsRequest:
            request = wire.DescribeConfigsRequest()
            request.include_synonyms = include_synonyms
            request.include_documentation = include_documentation
            wanted = None if keys is None else list(keys)
            request.resources = [
                wire.DescribeConfigsResource(
                    resource_type=each.type, resource_name=each.name, configuration_keys=wanted
                )
                for each in group
            ]
            return request

        def read(response: wire.DescribeConfigsResponse) -> dict[ConfigResource, Outcome[list[ConfigEntry]]]:
            return {
                ConfigResource(ResourceType(each.resource_type), each.resource_name): outcome_of(
                    each.error_code, each.error_message, [_entry(row) for row in each.configs]
                )
                for each in response.results
            }

        return self._at_destinations(resources, wire.DescribeConfigsResponse, ask, read, timeout_ms)

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, Outcome[None]]:
        """Change single keys of configurations; the other keys stay as they are."""
        from pkafka.protocol.messages import incremental_alter_configs as wire

        def ask(group: list[ConfigResource]) -> wire.IncrementalAlterConfigsRequest:
            request = wire.IncrementalAlterConfigsRequest()
            request.validate_only = validate_only
            for resource in group:
                row = wire.AlterConfigsResource(resource_type=resource.type, resource_name=resource.name)
                row.configs = [
                    wire.AlterableConfig(name=each.name, config_operation=each.op, value=each.value)
                    for each in changes[resource]
                ]
                request.resources.append(row)
            return request

        def read(response: wire.IncrementalAlterConfigsResponse) -> dict[ConfigResource, Outcome[None]]:
            return {
                ConfigResource(ResourceType(each.resource_type), each.resource_name): outcome_of(
                    each.error_code, each.error_message, None
                )
                for each in response.responses
            }

        return self._at_destinations(changes, wire.IncrementalAlterConfigsResponse, ask, read, timeout_ms)

    def _at_destinations(
        self,
        resources: Iterable[ConfigResource],
        response_type: type[R],
        ask: Callable[[list[ConfigResource]], Message],
        read: Callable[[R], dict[ConfigResource, Outcome[V]]],
        timeout_ms: int | None,
    ) -> dict[ConfigResource, Outcome[V]]:
        """Ask for each resource where it is known; a broker that is away costs the others nothing."""
        outcomes: dict[ConfigResource, Outcome[V]] = {}
        for to, group in _by_destination(resources).items():
            if to is None:
                outcomes.update({each: _no_broker_id(each) for each in group})
                continue
            try:
                response = self.cluster.request(ask(group), response_type, to=to, timeout_ms=timeout_ms)
            except ApiError as gone:
                outcomes.update(dict.fromkeys(group, gone))
            except ClientError as error:
                if isinstance(to, To):
                    raise
                outcomes.update(dict.fromkeys(group, error_outcome(error)))
            else:
                outcomes.update(read(response))
        return outcomes


def _by_destination(resources: Iterable[ConfigResource]) -> dict[To | int | None, list[ConfigResource]]:
    """What a broker alone knows (its own configuration, its loggers) is asked of that broker; None is no broker."""
    groups: dict[To | int | None, list[ConfigResource]] = {}
    for resource in resources:
        to: To | int | None = To.ANY
        if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name:
            to = int(resource.name) if resource.name.isdecimal() else None
        groups.setdefault(to, []).append(resource)
    return groups


def _no_broker_id(resource: ConfigResource) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{resource.name!r} is not the id of a broker")


def _entry(row: "DescribeConfigsResourceResult") -> ConfigEntry:
    synonyms = tuple(ConfigSynonym(each.name, each.value, ConfigSource(each.source)) for each in row.synonyms)
    source = ConfigSource(row.config_source) if row.config_source >= 0 else ConfigSource.UNKNOWN
    kind = _TYPES.get(row.config_type, ConfigType.UNKNOWN)
    return ConfigEntry(
        row.name,
        row.value,
        source,
        row.is_sensitive,
        row.read_only,
        synonyms,
        kind,
        row.documentation or None,
    )
