"""AlterConfigs (key 33, v0-2): replace all dynamic settings of a resource; settings that are not named are removed.

Deprecated in favour of IncrementalAlterConfigs (KIP-339). v2 flexible
"""

from pkafka.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from pkafka.server.cluster.config_changes import ResourceChanges, Result, change_all, replacing
from pkafka.server.cluster.config_context import ConfigContext
from pkafka.server.config.dynamic import Change, Operation


async def handle(context: ConfigContext, request: AlterConfigsRequest, version: int) -> AlterConfigsResponse:
    """Replace the settings of each resource, or with ``validate_only`` say whether they could be replaced."""
    resources = [_changes(resource) for resource in request.resources]
    results = await change_all(context, resources, replacing, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=[_response(result) for result in results])


def _changes(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [Change(each.name, Operation.SET, each.value) for each in resource.configs]
    return ResourceChanges(resource.resource_type, resource.resource_name, changes)


def _response(result: Result) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=result.code,
        error_message=result.message,
        resource_type=result.resource.type,
        resource_name=result.resource.name,
    )
