"""DeleteAcls (key 31, v0-3): removes the rules that filters choose; served by the control process of any broker.

v1 prefixed patterns (KIP-290) · v2 flexible · v3 user resources (KIP-373)

The answer comes when the rules are gone from the store and from this broker. A rule that two filters choose belongs to
the first of them.
"""

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from pkafka.security.acl import Acl, AclFilter, Entry, FilterNumbers, Operation, Pattern
from pkafka.server.ports.acl_context import AclChanges, AclContext, security_disabled
from pkafka.server.ports.authorized import not_authorized
from pkafka.server.security.rights import may_in_cluster


async def handle(ctx: AclContext, request: DeleteAclsRequest, _version: int) -> DeleteAclsResponse:
    """Remove the rules, a resource at a time.

    Raises:
        ApiError: a part of a filter is UNKNOWN; the connection is closed, as in Kafka.
    """
    asked = [_numbers(one) for one in request.filters]
    if any(one.has_unknown() for one in asked):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a filter of ACLs has UNKNOWN elements")
    if not may_in_cluster(ctx.rights, Operation.ALTER):
        return _all(request, not_authorized(ApiKey.DELETE_ACLS))
    if ctx.acls is None:
        return _all(request, ApiError(ErrorCode.SECURITY_DISABLED, security_disabled(ctx)))
    filters = [one.filter() for one in asked]
    deleted: list[list[DeleteAclsMatchingAcl]] = [[] for _ in filters]
    for pattern in _patterns(ctx.acls, filters):
        chosen, error = await _delete(ctx.acls, pattern, filters)
        for entry, place in chosen.items():
            deleted[place].append(_matching(Acl(pattern, entry), error))
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_message=None, matching_acls=one) for one in deleted]
    )


def _patterns(acls: AclChanges, filters: list[AclFilter]) -> list[Pattern]:
    """The patterns whose rules the filters may choose; those that filters name may be stored and not be known yet."""
    known = acls.acls.patterns()
    named = [pattern for one in filters for pattern in one.pattern.named()]
    return [
        pattern
        for pattern in dict.fromkeys([*known, *named])
        if any(one.pattern.matches(pattern) for one in filters)
    ]


async def _delete(
    acls: AclChanges, pattern: Pattern, filters: list[AclFilter]
) -> tuple[dict[Entry, int], ApiError | None]:
    """Remove the entries of a pattern that filters choose.

    Returns:
        Each of these with the place of its filter, and why they are still there.
    """
    chosen: dict[Entry, int] = {}

    def edit(stored: tuple[Entry, ...]) -> list[Entry]:
        chosen.clear()
        for entry in stored:
            place = next(
                (place for place, one in enumerate(filters) if one.matches(Acl(pattern, entry))), None
            )
            if place is not None:
                chosen[entry] = place
        return [entry for entry in stored if entry not in chosen]

    try:
        await acls.change(pattern, edit)
    except ApiError as error:
        return chosen, error
    return chosen, None


def _numbers(one: DeleteAclsFilter) -> FilterNumbers:
    return FilterNumbers(
        one.resource_type_filter,
        one.resource_name_filter,
        one.pattern_type_filter,
        one.principal_filter,
        one.host_filter,
        one.operation,
        one.permission_type,
    )


def _matching(acl: Acl, error: ApiError | None) -> DeleteAclsMatchingAcl:
    pattern, entry = acl
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.kind,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _all(request: DeleteAclsRequest, error: ApiError) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
            for _ in request.filters
        ]
    )
