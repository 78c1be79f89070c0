"""CreateAcls (key 30, v0-3): a broker without an authorizer refuses each ACL.

v1 prefixed patterns (KIP-290) · v2 flexible · v3 user resources (KIP-373)
"""

from pkafka.errors import ErrorCode, ProtocolError
from pkafka.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from pkafka.server.handlers.describe_acls import UNKNOWN
from pkafka.server.serving.context import RequestContext


def handle(_context: RequestContext[object], request: CreateAclsRequest, _version: int) -> CreateAclsResponse:
    """Refuse every ACL.

    Raises:
        ProtocolError: a part of an ACL is UNKNOWN.
    """
    for one in request.creations:
        if UNKNOWN in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type):
            raise ProtocolError("an ACL to be created has UNKNOWN elements")
    return CreateAclsResponse(
        results=[
            AclCreationResult(
                error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
            )
            for _ in request.creations
        ]
    )
