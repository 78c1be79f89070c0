"""IncrementalAlterConfigs (key 44, v0-1): set, delete, append to and subtract from settings, key by key (KIP-339).

v1 flexible
"""

from pkafka.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pkafka.server.cluster.config_changes import ResourceChanges, Result, change_all, incremental
from pkafka.server.cluster.config_context import ConfigContext
from pkafka.server.config.dynamic import Change


async def handle(
    context: ConfigContext, request: IncrementalAlterConfigsRequest, version: int
) -> IncrementalAlterConfigsResponse:
    """Change each resource on its own, or with ``validate_only`` say whether it could be changed."""
    resources = [_changes(resource) for resource in request.resources]
    results = await change_all(context, resources, incremental, validate_only=request.validate_only)
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
