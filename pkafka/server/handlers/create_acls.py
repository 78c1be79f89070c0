"""CreateAcls (key 30, v0-3): new rules; served by the control process of any broker.

v1 prefixed patterns (KIP-290) · v2 flexible · v3 user resources (KIP-373)

The answer comes when the rules are stored and in force at this broker; the others hear of them by notes in the store.
"""

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from pkafka.security.acl import (
    CLUSTER_NAME,
    UNKNOWN,
    Acl,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from pkafka.security.principal import Principal
from pkafka.server.ports.acl_context import AclChanges, AclContext, security_disabled
from pkafka.server.ports.authorized import not_authorized
from pkafka.server.security.rights import may_in_cluster


async def handle(ctx: AclContext, request: CreateAclsRequest, _version: int) -> CreateAclsResponse:
    """Add each rule to its resource; the result of one does not depend on the others.

    Raises:
        ApiError: a part of a rule is UNKNOWN; the connection is closed, as in Kafka.
    """
    if any(map(_has_unknown, request.creations)):
        raise ApiError(ErrorCode.INVALID_REQUEST, "an ACL to be created has UNKNOWN elements")
    if not may_in_cluster(ctx.rights, Operation.ALTER):
        return _all(request, not_authorized(ApiKey.CREATE_ACLS))
    if ctx.acls is None:
        return _all(request, ApiError(ErrorCode.SECURITY_DISABLED, security_disabled(ctx)))
    if any(map(_names_many, request.creations)):
        return CreateAclsResponse(results=[_failed() for _ in request.creations])
    wanted = [_acl(one) for one in request.creations]
    by_pattern: dict[Pattern, dict[Entry, None]] = {}
    for one in wanted:
        if isinstance(one, Acl):
            by_pattern.setdefault(one.pattern, {})[one.entry] = None
    outcomes = {
        pattern: await _add(ctx.acls, pattern, list(entries)) for pattern, entries in by_pattern.items()
    }
    return CreateAclsResponse(
        results=[_result(outcomes[one.pattern] if isinstance(one, Acl) else one) for one in wanted]
    )


async def _add(acls: AclChanges, pattern: Pattern, entries: list[Entry]) -> ApiError | None:
    try:
        for entry in entries:
            Principal.parse(entry.principal)
        await acls.change(pattern, lambda stored: (*stored, *entries))
    except ValueError:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    except ApiError as error:
        return error
    return None


def _has_unknown(one: AclCreation) -> bool:
    return UNKNOWN in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)


def _names_many(one: AclCreation) -> bool:
    """Whether a rule has a part that only filters may have; Kafka fails then, and answers so for the whole request."""
    return (
        one.resource_type == ResourceType.ANY
        or one.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or one.operation == Operation.ANY
        or one.permission_type == Permission.ANY
    )


def _acl(one: AclCreation) -> Acl | ApiError:
    """The rule, or why there cannot be such a rule."""
    if one.resource_type == ResourceType.CLUSTER and one.resource_name != CLUSTER_NAME:
        return _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not one.resource_name:
        return _invalid("Invalid empty resource name")
    if "/" in one.resource_name:
        return _invalid("Failed to create ACL")
    try:
        return Acl(
            Pattern(
                ResourceType(one.resource_type), one.resource_name, PatternType(one.resource_pattern_type)
            ),
            Entry(one.principal, one.host, Operation(one.operation), Permission(one.permission_type)),
        )
    except ValueError:  # a number that means nothing yet
        return _invalid("Failed to create ACL")


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def _failed() -> AclCreationResult:
    return AclCreationResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None)


def _all(request: CreateAclsRequest, error: ApiError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(error) for _ in request.creations])


def _result(error: ApiError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult()
    return AclCreationResult(error_code=error.code, error_message=error.message)
