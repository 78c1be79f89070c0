"""AlterClientQuotas (key 49, v0-1): set and take away quotas of users, client ids and addresses (KIP-546).

v1 flexible
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from pkafka.coordination.store import StoreError
from pkafka.coordination.znodes import DEFAULT_ENTITY
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from pkafka.security.acl import Operation
from pkafka.server.cluster.client_quotas import CLIENT_ID, IP, USER, Entity, StoredAt, changed, stored_at
from pkafka.server.cluster.config_context import ConfigContext
from pkafka.server.ports.authorized import WithRights
from pkafka.server.security.rights import may_in_cluster

_ORDER: Final = {CLIENT_ID: 0, USER: 1, IP: 2}
"""In which Kafka names the types of an entity in its answer."""


class Context(ConfigContext, WithRights, Protocol):
    """The control process, as this handler sees it."""


async def handle(
    context: Context, request: AlterClientQuotasRequest, version: int
) -> AlterClientQuotasResponse:
    """Change each entity on its own, or with ``validate_only`` say whether it could be changed."""
    return AlterClientQuotasResponse(
        entries=[await _alter(context, one, validate_only=request.validate_only) for one in request.entries]
    )


async def _alter(
    context: Context, asked: AlterClientQuotasRequestEntryData, *, validate_only: bool
) -> AlterClientQuotasResponseEntryData:
    entity = {one.entity_type: one.entity_name for one in asked.entity}
    ops = [(one.key, None if one.remove else one.value) for one in asked.ops]
    code, message = ErrorCode.NONE, None
    try:
        if not may_in_cluster(context.rights, Operation.ALTER_CONFIGS):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        at = stored_at(entity)
        if IP in entity:
            await _check_address(at)

        def change(stored: Mapping[str, str]) -> Mapping[str, str]:
            return changed(entity, stored, ops)

        if validate_only:
            change({})
        else:
            await context.run(context.configs.update, *at, change)
            await context.in_force()
    except ApiError as error:
        code, message = ErrorCode(error.code), error.message
    except StoreError as error:
        code, message = ErrorCode.REQUEST_TIMED_OUT, str(error)
    return AlterClientQuotasResponseEntryData(
        error_code=code, error_message=message, entity=_entity_data(entity)
    )


async def _check_address(at: StoredAt) -> None:
    if at.entity_name == DEFAULT_ENTITY:
        return
    try:
        await asyncio.get_running_loop().getaddrinfo(at.entity_name, None)
    except (OSError, UnicodeError):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{at.entity_name} is not a valid IP or resolvable host."
        ) from None


def _entity_data(entity: Entity) -> list[AlterClientQuotasResponseEntityData]:
    return [
        AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=entity[kind])
        for kind in sorted(entity, key=lambda kind: _ORDER.get(kind, 3))
    ]
