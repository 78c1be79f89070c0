"""AlterConfigs (key 33, v0-2): replace all dynamic settings of a resource; settings that are not named are removed.

Deprecated in favour of IncrementalAlterConfigs (KIP-339). v2 flexible
"""

from typing import Protocol

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from pkafka.security.acl import Operation
from pkafka.server.cluster.config_changes import ResourceChanges, Result, change_all, replacing
from pkafka.server.cluster.config_context import ConfigContext
from pkafka.server.config import dynamic
from pkafka.server.config.dynamic import Change
from pkafka.server.ports.authorized import WithRights
from pkafka.server.ports.config_rights import denial_of


class Context(ConfigContext, WithRights, Protocol):
    """The control process, as this handler sees it."""


async def handle(context: Context, request: AlterConfigsRequest, version: int) -> AlterConfigsResponse:
    """Replace the settings of each resource, or with ``validate_only`` say whether they could be replaced."""

    def denial(resource: ResourceChanges) -> ErrorCode | None:
        return denial_of(context.rights, Operation.ALTER_CONFIGS, resource.type, resource.name)

    resources = [_changes(resource) for resource in request.resources]
    results = await change_all(
        context, resources, replacing, denial=denial, validate_only=request.validate_only
    )
    return AlterConfigsResponse(responses=[_response(result) for result in results])


def _changes(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [Change(each.name, dynamic.Operation.SET, each.value) for each in resource.configs]
    return ResourceChanges(resource.resource_type, resource.resource_name, changes)


def _response(result: Result) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=result.code,
        error_message=result.message,
        resource_type=result.resource.type,
        resource_name=result.resource.name,
    )
