"""DescribeClientQuotas (key 48, v0-1): the quotas of users, client ids and addresses that match a filter (KIP-546).

v1 flexible
"""

from typing import Protocol

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from pkafka.security.acl import Operation
from pkafka.server.cluster.client_quotas import (
    Component,
    Entity,
    StoredAt,
    check_filter,
    entity_of,
    is_found,
    quotas_of,
)
from pkafka.server.cluster.config_context import ConfigContext
from pkafka.server.config.repository import CLIENTS, IPS, USERS
from pkafka.server.ports.authorized import WithRights
from pkafka.server.security.rights import may_in_cluster


class Context(ConfigContext, WithRights, Protocol):
    """The control process, as this handler sees it."""


async def handle(
    context: Context, request: DescribeClientQuotasRequest, version: int
) -> DescribeClientQuotasResponse:
    """Read the quotas from the store, and answer with those that match."""
    if not may_in_cluster(context.rights, Operation.DESCRIBE_CONFIGS):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(error_code=denied, error_message=None, entries=None)
    components = [Component(one.entity_type, one.match_type, one.match) for one in request.components]
    try:
        check_filter(components)
        entries = []
        for entity_type in (USERS, CLIENTS, IPS):
            found = await context.run(context.configs.load_entities, entity_type)
            for name, settings in found.items():
                entity = entity_of(StoredAt(entity_type, name))
                if is_found(entity, components, strict=request.strict) and (quotas := quotas_of(settings)):
                    entries.append(_entry(entity, quotas))
    except ApiError as error:
        message = None if error.code is ErrorCode.UNKNOWN_SERVER_ERROR else error.message
        return DescribeClientQuotasResponse(error_code=error.code, error_message=message, entries=None)
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def _entry(entity: Entity, quotas: dict[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        values=[ValueData(key=key, value=value) for key, value in quotas.items()],
    )
