"""The znodes of the old consumers, as Kafka 0.8.2.2 wrote them (a group with it is in tests/interop)."""

import pytest

from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes_consumers import (
    STATIC,
    WHITE_LIST,
    ConsumerRegistration,
    ConsumerThread,
    PartitionOwner,
)
from pkafka.model import TopicPartition

REGISTRATION = b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1447000000000"}'


def test_a_registration() -> None:
    registration = ConsumerRegistration({"t": 2}, STATIC, 1_447_000_000_000)
    assert registration.encode() == REGISTRATION
    assert ConsumerRegistration.decode(REGISTRATION) == registration
    assert ConsumerRegistration.path("g", "g_host-1-ab") == "/consumers/g/ids/g_host-1-ab"


def test_a_registration_by_pattern_keeps_its_backslashes() -> None:
    registration = ConsumerRegistration({r"a\.b|c": 1}, WHITE_LIST, 5)
    assert b'{"a\\\\.b|c":1}' in registration.encode()
    assert ConsumerRegistration.decode(registration.encode()) == registration


def test_an_owner_whose_name_has_dashes() -> None:
    owner = PartitionOwner(ConsumerThread("g_a-host-1447000000000-0a1b2c3d", 11))
    assert owner.encode() == b"g_a-host-1447000000000-0a1b2c3d-11"
    assert PartitionOwner.decode(owner.encode()) == owner
    assert PartitionOwner.path("g", TopicPartition("t", 3)) == "/consumers/g/owners/t/3"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version":1,"subscription":{},"pattern":"other"}'])
def test_what_is_no_registration(data: bytes) -> None:
    with pytest.raises(ZnodeFormatError):
        ConsumerRegistration.decode(data)


@pytest.mark.parametrize("data", [b"", b"nodash", b"a-b", b"\xff-1"])
def test_what_is_no_owner(data: bytes) -> None:
    with pytest.raises(ZnodeFormatError):
        PartitionOwner.decode(data)
