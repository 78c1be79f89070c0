"""Which rights the requests about settings need."""

from pkafka.errors import ErrorCode
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.config.dynamic import ResourceType as ConfigResource
from pkafka.server.security.rights import Rights, may_in_cluster


def denial_of(rights: Rights, operation: Operation, kind: int, name: str) -> ErrorCode | None:
    """The code where a client may not describe, or alter, the settings of a resource; None where it may."""
    if kind == ConfigResource.TOPIC:
        may = rights.may(operation, ResourceType.TOPIC, name)
        return None if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None if may_in_cluster(rights, operation) else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
