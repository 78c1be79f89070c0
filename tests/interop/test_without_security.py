"""Requests about security, on a broker that has none: refused as Apache Kafka does it, on a connection that stays."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest

from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pkafka.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from pkafka.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pkafka.protocol.messages.describe_acls import DescribeAclsRequest
from pkafka.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.protocol.schema import Message
from tests.differences import differences
from tests.interop.conftest import Everywhere, System
from tests.interop.test_every_api import comparable
from tests.raw_client import ClosedByBroker, RawClient

ACLS: Final = "kafka.admin.AclCommand"
UNKNOWN, ANY, WRITE, TOPIC, LITERAL, ALLOW = 0, 1, 4, 2, 3, 3
NUMBERS: Final = (UNKNOWN, ANY, 2, -1, 99)


def _filter(**numbers: int) -> dict[str, Any]:
    wanted = {"resource_type_filter": TOPIC, "pattern_type_filter": LITERAL, "operation": WRITE}
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return {**wanted, "permission_type": ALLOW, **names, **numbers}


def _acl(**numbers: int) -> dict[str, Any]:
    wanted = {"resource_type": TOPIC, "resource_pattern_type": LITERAL, "operation": WRITE}
    names = {"resource_name": "a", "principal": "User:a", "host": "*"}
    return {**wanted, "permission_type": ALLOW, **names, **numbers}


def _requests() -> Iterator[tuple[str, Message, int]]:
    """Name, request, version: what is right and what is not."""
    for name, number in itertools.product(_filter(), NUMBERS):
        if isinstance(_filter()[name], int):
            wanted = _filter(**{name: number})
            yield f"describe-acls {name}={number}", DescribeAclsRequest(**wanted), 3
            filters = [DeleteAclsFilter(**_filter()), DeleteAclsFilter(**wanted)]
            yield f"delete-acls {name}={number}", DeleteAclsRequest(filters=filters), 3
    for name, number in itertools.product(_acl(), NUMBERS):
        if isinstance(_acl()[name], int):
            acls = [AclCreation(**_acl()), AclCreation(**_acl(**{name: number}))]
            yield f"create-acls {name}={number}", CreateAclsRequest(creations=acls), 2
    yield "create-acls nothing", CreateAclsRequest(), 3
    yield "delete-acls nothing", DeleteAclsRequest(), 3
    for version in (0, 1):
        for mechanism in ("PLAIN", "GSSAPI", ""):
            handshake = SaslHandshakeRequest(mechanism=mechanism)
            yield f"handshake v{version} {mechanism}", handshake, version
    for version in (0, 1, 2):
        for token in (b"", b"\0user\0password"):
            yield f"authenticate v{version} {len(token)}", SaslAuthenticateRequest(auth_bytes=token), version
    renewers = [CreatableRenewers(principal_type="Group", principal_name="")]
    for kind, owner in ((None, None), ("User", "bob"), ("", ""), ("Group", "bob"), ("User", "")):
        create = CreateDelegationTokenRequest(
            owner_principal_type=kind, owner_principal_name=owner, renewers=renewers, max_lifetime_ms=-1
        )
        yield f"create-token {kind}:{owner}", create, 3
    bob = DescribeDelegationTokenOwner(principal_type="User", principal_name="bob")
    for owners in (None, [], [bob]):
        yield f"describe-token {owners}", DescribeDelegationTokenRequest(owners=owners), 3


REQUESTS: Final = {name: (request, version) for name, request, version in _requests()}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_answer_and_what_becomes_of_the_connection(kafka: System, pkafka: System, name: str) -> None:
    request, version = REQUESTS[name]
    outcomes = []
    for system in (kafka, pkafka):
        if system is None:
            continue
        with RawClient(system.bootstrap, timeout_s=60) as client:
            try:
                outcome = comparable(client.call(request, version))
                assert client.call(ApiVersionsRequest(), 0).error_code == 0
            except ClosedByBroker:
                outcome = {"closed": True}
        outcomes.append(outcome)
    for one, other in itertools.pairwise(outcomes):
        assert list(differences(one, other)) == []


def test_kafkas_tools_say_that_there_is_no_authorizer(everywhere: Everywhere) -> None:
    for words in (
        ("--list",),
        ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t"),
        ("--remove", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t", "--force"),
    ):
        said = everywhere.run(ACLS, *words, code=1)
        assert "SecurityDisabledException: No Authorizer is configured" in said
