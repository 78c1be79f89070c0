"""DescribeAcls (key 29, v0-3): a broker without an authorizer answers that security is disabled.

v1 prefixed patterns (KIP-290) · v2 flexible · v3 user resources (KIP-373)
"""

from typing import Final

from pkafka.errors import ErrorCode, ProtocolError
from pkafka.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from pkafka.server.serving.context import RequestContext

UNKNOWN: Final = 0
"""The number UNKNOWN of types, patterns, operations and permissions: Kafka closes the connection that sends it."""


def handle(
    _context: RequestContext[object], request: DescribeAclsRequest, _version: int
) -> DescribeAclsResponse:
    """Say that security is disabled.

    Raises:
        ProtocolError: a part of the filter is UNKNOWN.
    """
    if UNKNOWN in (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    ):
        raise ProtocolError("the filter of ACLs has UNKNOWN elements")
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
