"""What the tests of the consumer share: a group of the test's own, and its members."""

from collections.abc import Iterator

import pytest

from tests.interop.conftest import System
from tests.interop.consumer_members import Join, Member
from tests.talk import Talk


@pytest.fixture
def talk_to_kafka(kafka: System | None) -> Iterator[Talk]:
    if kafka is None:
        pytest.skip("Apache Kafka is left out")
    made = Talk(kafka.bootstrap)
    yield made
    made.close()


@pytest.fixture
def group(topic: str) -> str:
    return f"g{topic}"


@pytest.fixture
def join(system: System, group: str, topic: str) -> Iterator[Join]:
    """``join(**keys)``: another member of the group, on the test's topic."""
    members: list[Member] = []

    def make(*topics: str, **keys: object) -> Member:
        member = Member(system, group, topics or (topic,), **keys)
        members.append(member)
        return member

    yield make
    for member in members:
        member.close()
