"""IncrementalAlterConfigs (key 44, v0-1): set, delete, append to and subtract from settings, key by key (KIP-339).

v1 flexible
"""

from typing import Protocol

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pkafka.security.acl import Operation
from pkafka.server.cluster.config_changes import ResourceChanges, Result, change_all, incremental
from pkafka.server.cluster.config_context import ConfigContext
from pkafka.server.config.dynamic import Change
from pkafka.server.ports.authorized import WithRights
from pkafka.server.ports.config_rights import denial_of


class Context(ConfigContext, WithRights, Protocol):
    """The control process, as this handler sees it."""


async def handle(
    context: Context, request: IncrementalAlterConfigsRequest, version: int
) -> IncrementalAlterConfigsResponse:
    """Change each resource on its own, or with ``validate_only`` say whether it could be changed."""

    def denial(resource: ResourceChanges) -> ErrorCode | None:
        return denial_of(context.rights, Operation.ALTER_CONFIGS, resource.type, resource.name)

    resources = [_changes(resource) for resource in request.resources]
    results = await change_all(
        context, resources, incremental, denial=denial, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(responses=[_response(result) for result in results])


def _changes(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [Change(each.name, each.config_operation, each.value) for each in resource.configs]
    return ResourceChanges(resource.resource_type, resource.resource_name, changes)


def _response(result: Result) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=result.code,
        error_message=result.message,
        resource_type=result.resource.type,
        resource_name=result.resource.name,
    )
