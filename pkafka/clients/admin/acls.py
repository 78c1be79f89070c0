"""ACLs: which rules there are, new ones, and their removal (KIP-140, KIP-290)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pkafka.clients.admin.outcomes import Outcome, outcome_of
from pkafka.clients.cluster import Cluster, To
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.acl import (
    ANY_ACL,
    Acl,
    AclFilter,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

if TYPE_CHECKING:
    from pkafka.protocol.messages.delete_acls import DeleteAclsMatchingAcl
    from pkafka.protocol.messages.describe_acls import AclDescription, DescribeAclsResource


class AclsAdmin:
    """Reads and changes ACLs; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def describe_acls(
        self, wanted: AclFilter = ANY_ACL, *, broker: int | None = None, timeout_ms: int | None = None
    ) -> list[Acl]:
        """The rules that a filter chooses, as one broker knows them.

        Args:
            wanted: all rules when left out.
            broker: the id of the broker to ask; any broker when left out.

        Raises:
            ApiError: the broker refuses; SECURITY_DISABLED when it has no authorizer.
            UnsupportedApiError: the broker does not serve it, or is too old for such a pattern.
        """
        from pkafka.protocol.messages import describe_acls as wire

        pattern, entry = wanted
        request = wire.DescribeAclsRequest(
            resource_type_filter=pattern.type,
            resource_name_filter=pattern.name,
            pattern_type_filter=pattern.kind,
            principal_filter=entry.principal,
            host_filter=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        response = self.cluster.request(
            request,
            wire.DescribeAclsResponse,
            to=To.ANY if broker is None else broker,
            timeout_ms=timeout_ms,
        )
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), response.error_message)
        return [
            Acl(_pattern(resource), _entry(one)) for resource in response.resources for one in resource.acls
        ]

    def create_acls(self, acls: Sequence[Acl], *, timeout_ms: int | None = None) -> dict[Acl, Outcome[None]]:
        """Add rules; one that is there already stays.

        Returns:
            By rule None, or why it was not added.

        Raises:
            UnsupportedApiError: the broker does not serve it, or is too old for such a pattern.
        """
        from pkafka.protocol.messages import create_acls as wire

        wanted = list(dict.fromkeys(acls))
        request = wire.CreateAclsRequest(
            creations=[
                wire.AclCreation(
                    resource_type=pattern.type,
                    resource_name=pattern.name,
                    resource_pattern_type=pattern.kind,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for pattern, entry in wanted
            ]
        )
        response = self.cluster.request(request, wire.CreateAclsResponse, timeout_ms=timeout_ms)
        return {
            acl: outcome_of(one.error_code, one.error_message, None)
            for acl, one in zip(wanted, response.results, strict=True)
        }

    def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout_ms: int | None = None
    ) -> dict[AclFilter, Outcome[dict[Acl, Outcome[None]]]]:
        """Remove the rules that filters choose.

        Returns:
            By filter the rules that it chose, each with None or with why it is still there; or why the filter
            was refused. A rule that two filters choose belongs to the first.

        Raises:
            UnsupportedApiError: the broker does not serve it, or is too old for such a pattern.
        """
        from pkafka.protocol.messages import delete_acls as wire

        wanted = list(dict.fromkeys(filters))
        request = wire.DeleteAclsRequest(
            filters=[
                wire.DeleteAclsFilter(
                    resource_type_filter=pattern.type,
                    resource_name_filter=pattern.name,
                    pattern_type_filter=pattern.kind,
                    principal_filter=entry.principal,
                    host_filter=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for pattern, entry in wanted
            ]
        )
        response = self.cluster.request(request, wire.DeleteAclsResponse, timeout_ms=timeout_ms)
        return {
            one: outcome_of(result.error_code, result.error_message, _deleted(result.matching_acls))
            for one, result in zip(wanted, response.filter_results, strict=True)
        }


def _deleted(matching: "Iterable[DeleteAclsMatchingAcl]") -> dict[Acl, Outcome[None]]:
    return {
        Acl(_pattern(one), _entry(one)): outcome_of(one.error_code, one.error_message, None)
        for one in matching
    }


def _pattern(one: "DescribeAclsResource | DeleteAclsMatchingAcl") -> Pattern:
    return Pattern(ResourceType(one.resource_type), one.resource_name, PatternType(one.pattern_type))


def _entry(one: "AclDescription | DeleteAclsMatchingAcl") -> Entry:
    return Entry(one.principal, one.host, Operation(one.operation), Permission(one.permission_type))
