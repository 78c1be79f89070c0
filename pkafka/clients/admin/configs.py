"""Configurations of topics, brokers and broker loggers: describe, and alter key by key (KIP-339)."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pkafka.clients.admin.results import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    Outcome,
    ResourceType,
    outcome_of,
)
from pkafka.clients.cluster import Cluster, To

if TYPE_CHECKING:
    from pkafka.protocol.messages.describe_configs import DescribeConfigsResourceResult


class ConfigsAdmin:
    """See the module; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, include_synonyms: bool = False
    ) -> dict[ConfigResource, Outcome[list[ConfigEntry]]]:
        """The configurations of resources, every key with its value and where that comes from.

        Args:
            include_synonyms: also the other places that give the key a value.
        """
        found: dict[ConfigResource, Outcome[list[ConfigEntry]]] = {}
        for to, group in _by_destination(resources).items():
            found.update(self._describe(to, group, include_synonyms=include_synonyms))
        return found

    def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome[None]]:
        """Change single keys of configurations; the other keys stay as they are."""
        from pkafka.protocol.messages import incremental_alter_configs as wire

        outcomes: dict[ConfigResource, Outcome[None]] = {}
        for to, group in _by_destination(changes).items():
            request = wire.IncrementalAlterConfigsRequest()
            request.validate_only = validate_only
            for resource in group:
                row = wire.AlterConfigsResource(resource_type=resource.type, resource_name=resource.name)
                row.configs = [
                    wire.AlterableConfig(name=each.name, config_operation=each.op, value=each.value)
                    for each in changes[resource]
                ]
                request.resources.append(row)
            response = self.cluster.request(request, wire.IncrementalAlterConfigsResponse, to=to)
            for each in response.responses:
                resource = ConfigResource(ResourceType(each.resource_type), each.resource_name)
                outcomes[resource] = outcome_of(each.error_code, each.error_message, None)
        return outcomes

    def _describe(
        self, to: To | int, group: list[ConfigResource], *, include_synonyms: bool
    ) -> dict[ConfigResource, Outcome[list[ConfigEntry]]]:
        from pkafka.protocol.messages import describe_configs as wire

        request = wire.DescribeConfigsRequest()
        request.include_synonyms = include_synonyms
        request.resources = [
            wire.DescribeConfigsResource(
                resource_type=each.type, resource_name=each.name, configuration_keys=None
            )
            for each in group
        ]
        response = self.cluster.request(request, wire.DescribeConfigsResponse, to=to)
        return {
            ConfigResource(ResourceType(each.resource_type), each.resource_name): outcome_of(
                each.error_code, each.error_message, [_entry(row) for row in each.configs]
            )
            for each in response.results
        }


def _by_destination(resources: Iterable[ConfigResource]) -> dict[To | int, list[ConfigResource]]:
    """What a broker alone knows (its own configuration, its loggers) is asked of that broker."""
    groups: dict[To | int, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name
        groups.setdefault(int(resource.name) if own else To.ANY, []).append(resource)
    return groups


def _entry(row: "DescribeConfigsResourceResult") -> ConfigEntry:
    synonyms = tuple(ConfigSynonym(each.name, each.value, ConfigSource(each.source)) for each in row.synonyms)
    source = ConfigSource(row.config_source) if row.config_source >= 0 else ConfigSource.UNKNOWN
    return ConfigEntry(row.name, row.value, source, row.is_sensitive, row.read_only, synonyms)
