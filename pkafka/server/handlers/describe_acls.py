"""DescribeAcls (key 29, v0-3): the rules that a filter chooses, as this worker knows them.

v1 prefixed patterns (KIP-290) · v2 flexible · v3 user resources (KIP-373)

A broker without an authorizer answers that security is disabled.
"""

from collections.abc import Iterable

from pkafka.errors import ApiError, ErrorCode, ProtocolError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from pkafka.security.acl import Acl, FilterNumbers, Operation, Pattern
from pkafka.server.ports.authorized import Authorized, not_authorized, rights_in
from pkafka.server.security.authorizer import AclAuthorizer
from pkafka.server.security.rights import may_in_cluster
from pkafka.server.serving.context import RequestContext


def handle(
    context: RequestContext[Authorized], request: DescribeAclsRequest, _version: int
) -> DescribeAclsResponse:
    """Choose among the rules.

    Raises:
        ProtocolError: a part of the filter is UNKNOWN.
    """
    asked = _numbers(request)
    if asked.has_unknown():
        raise ProtocolError("the filter of ACLs has UNKNOWN elements")
    if not may_in_cluster(rights_in(context), Operation.DESCRIBE):
        return _refused(not_authorized(ApiKey.DESCRIBE_ACLS))
    authorizer = context.worker.authorizer
    if not isinstance(authorizer, AclAuthorizer):
        text = (
            "No Authorizer is configured on the broker"
            if authorizer is None
            else "The authorizer has no ACLs"
        )
        return _refused(ApiError(ErrorCode.SECURITY_DISABLED, text))
    return DescribeAclsResponse(resources=_resources(authorizer.acls.chosen(asked.filter())))


def _numbers(request: DescribeAclsRequest) -> FilterNumbers:
    return FilterNumbers(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )


def _refused(error: ApiError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.message)


def _resources(acls: Iterable[Acl]) -> list[DescribeAclsResource]:
    resources: dict[Pattern, DescribeAclsResource] = {}
    for pattern, entry in acls:
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(
                resource_type=pattern.type, resource_name=pattern.name, pattern_type=pattern.kind
            )
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
    return list(resources.values())
