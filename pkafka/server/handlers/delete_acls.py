"""DeleteAcls (key 31, v0-3): a broker without an authorizer refuses each filter.

v1 prefixed patterns (KIP-290) · v2 flexible · v3 user resources (KIP-373)
"""

from pkafka.errors import ErrorCode, ProtocolError
from pkafka.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from pkafka.server.handlers.describe_acls import UNKNOWN
from pkafka.server.serving.context import RequestContext


def handle(_context: RequestContext[object], request: DeleteAclsRequest, _version: int) -> DeleteAclsResponse:
    """Refuse every filter.

    Raises:
        ProtocolError: a part of a filter is UNKNOWN.
    """
    for one in request.filters:
        if UNKNOWN in (
            one.resource_type_filter,
            one.pattern_type_filter,
            one.operation,
            one.permission_type,
        ):
            raise ProtocolError("a filter of ACLs has UNKNOWN elements")
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
            )
            for _ in request.filters
        ]
    )
