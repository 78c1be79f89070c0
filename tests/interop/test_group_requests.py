"""Requests about groups and their offsets, legal and not: Apache Kafka and pkafka answer the same, script by script.

What members of a group do to each other is test_group_protocol.py's subject.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from pkafka.protocol.messages.delete_groups import DeleteGroupsRequest
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pkafka.protocol.messages.list_groups import ListGroupsRequest
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pkafka.protocol.messages.sync_group import SyncGroupRequest
from pkafka.protocol.schema import Message
from tests.differences import differences
from tests.group_client import GroupClient
from tests.group_requests import subscription
from tests.interop.conftest import System
from tests.interop.test_every_api import comparable
from tests.raw_client import ClosedByBroker, RawClient
from tests.talk import talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

TOPIC: Final = "group-requests"
OTHER: Final = "group-requests-2"
GONE: Final = "group-requests-gone"
MISSING: Final = "group-requests-missing"


class Script(GroupClient):
    """One connection to one system, and all that was answered on it."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.answers: list[Any] = []
        self._members: dict[str, str] = {}

    def join(self, group: str, *, version: int = 3, **options: Any) -> Any:
        """Join for longer than any script takes: of who is gone meanwhile, each broker would tell in its own time."""
        return super().join(group, version=version, **{"session_timeout_ms": 120_000, **options})

    def ask(self, message: Message, version: int) -> Any:
        """Ask, and remember what was answered, ids of members by the order in which they came."""
        try:
            answer = self.client.call(message, version)
        except ClosedByBroker:
            self.answers.append("closed")
            self.client.close()
            self.client = RawClient(self.bootstrap)
            return None
        self.answers.append((type(answer).__name__, version, self._masked(comparable(answer))))
        return answer

    def _masked(self, value: Any) -> Any:
        if isinstance(value, dict):
            masked = {key: self._masked(item) for key, item in value.items()}
            for key in masked.keys() & {"member_id", "leader"}:
                masked[key] = self._name_of(masked[key])
            if masked.get("error_message") not in (None, "", "NONE"):
                masked["error_message"] = "a text"
            return masked
        return [self._masked(item) for item in value] if isinstance(value, list) else value

    def _name_of(self, member_id: str) -> str:
        # Ids end in a UUID.
        return self._members.setdefault(
            member_id, member_id[:-36] + f"#{len(self._members)}" if len(member_id) > 36 else member_id
        )

    def list(
        self,
        *,
        states: list[str] | None = None,
        types: list[str] | None = None,
        version: int = 5,
        prefix: str,
    ) -> list[Any]:
        request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
        listed: list[Any] = []

        def are_listed() -> bool:
            answer = self.client.call(request, version)
            listed[:] = answer.groups
            return not answer.error_code  # while some are loaded, an answer may be without them

        wait_for(are_listed, what="all groups")
        found = [
            comparable(group)
            for group in sorted(listed, key=lambda one: one.group_id)
            # Not what merely begins so: other scripts' members live as long as their sessions.
            if group.group_id == prefix or group.group_id.startswith(f"{prefix}-")
        ]
        self.answers.append(found)
        return found


def committing(script: Script, group: str) -> None:
    """Commits without members, of every version, and what is read back."""
    for version in range(1, 10):
        script.commit(
            group,
            {(TOPIC, 0): (version, "m"), (TOPIC, 1): (version, None), (TOPIC, 7): 1, (MISSING, 0): 1},
            version,
        )
        for fetched in (1, 2, 5, 7, 9):
            script.fetch(group, {TOPIC: [0, 1, 2, 7], MISSING: [3]}, fetched)
    for fetched in (2, 5, 7, 9):
        script.fetch(group, None, fetched)
    script.fetch(group, {}, 3)
    script.commit(group, {})
    script.commit(group, {(MISSING, 0): 1})
    script.commit(group, {(TOPIC, 0): -1, (TOPIC, 1): -5, (OTHER, 0): 2**63 - 1})
    script.fetch(group, None)
    script.describe(group)


def large_metadata(script: Script, group: str) -> None:
    """Metadata is measured in characters of Java."""
    script.commit(
        group, {(TOPIC, 0): (1, "x" * 4096), (TOPIC, 1): (1, "x" * 4097), (OTHER, 0): (1, "é" * 4096)}
    )
    script.commit(group, {(TOPIC, 0): (2, "\U0001f600" * 2048), (TOPIC, 1): (2, "\U0001f600" * 2049)})
    script.commit(group, {(TOPIC, 1): (3, "x" * 5000)})
    script.fetch(group, None)


def not_a_member(script: Script, group: str) -> None:
    """Commits that claim a membership which does not exist."""
    script.commit(group, {(TOPIC, 0): 1}, generation=3, member="nobody")
    script.commit(group, {(TOPIC, 0): 1}, generation=0)
    script.commit(group, {(TOPIC, 0): 1}, generation=-1, member="nobody")
    script.commit(group, {(TOPIC, 0): 1}, generation=-1, group_instance_id="i")
    script.fetch(group, None)
    script.commit(group, {(TOPIC, 0): 1})
    script.commit(group, {(TOPIC, 0): 1}, generation=3, member="nobody")
    script.commit(group, {(TOPIC, 0): 1}, generation=0)
    script.commit(group, {(TOPIC, 0): 1}, generation=-1, group_instance_id="i")
    script.ask(HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody"), 3)
    script.ask(SyncGroupRequest(group_id=group, generation_id=1, member_id="nobody"), 3)
    script.ask(SyncGroupRequest(group_id=group, generation_id=1, member_id="nobody"), 5)
    script.ask(LeaveGroupRequest(group_id=group, member_id="nobody"), 1)
    script.ask(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="nobody")]), 4)
    script.ask(LeaveGroupRequest(group_id=group, members=[]), 4)


def members_commit(script: Script, group: str) -> None:
    """What a member may commit, and what nobody else may meanwhile."""
    member, generation = script.settle(group, metadata=subscription(TOPIC))
    script.commit(group, {(TOPIC, 0): 5}, generation=generation, member=member)
    script.commit(group, {(TOPIC, 0): 6}, generation=generation + 1, member=member)
    script.commit(group, {(TOPIC, 0): 6}, generation=generation, member="nobody")
    script.commit(group, {(TOPIC, 0): 6})
    script.commit(group, {(TOPIC, 0): 6}, generation=-1, member=member)
    script.fetch(group, None)
    script.describe(group, version=3)
    script.describe(group)
    script.list(prefix=group)
    script.list(prefix=group, version=0)
    script.ask(DeleteGroupsRequest(groups_names=[group]), 1)
    script.ask(LeaveGroupRequest(group_id=group, member_id=member), 1)
    script.describe(group)
    script.commit(group, {(TOPIC, 0): 7}, generation=generation, member=member)
    script.commit(group, {(TOPIC, 0): 7}, generation=-1, member=member)
    script.commit(group, {(TOPIC, 0): 8})
    script.fetch(group, None)


def empty_ids(script: Script, _group: str) -> None:
    """The group without a name: some requests know it."""
    script.coordinate("")
    script.commit("", {(TOPIC, 0): 3}, 2)
    script.fetch("", {TOPIC: [0]}, 3)
    script.describe("")
    script.join("")
    script.ask(HeartbeatRequest(group_id="", generation_id=1, member_id="nobody"), 3)
    script.ask(SyncGroupRequest(group_id="", generation_id=1, member_id="nobody"), 3)
    script.ask(LeaveGroupRequest(group_id="", member_id="nobody"), 1)
    script.ask(LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="nobody")]), 4)
    script.delete_offsets("", (TOPIC, 0))
    script.ask(DeleteGroupsRequest(groups_names=["", ""]), 1)
    script.ask(DeleteGroupsRequest(groups_names=[""]), 1)
    script.fetch("", {TOPIC: [0]}, 3)
    script.ask(FindCoordinatorRequest(key=""), 1)


def deleting(script: Script, group: str) -> None:
    """Offsets and whole groups."""
    script.coordinate(f"{group}-x")
    script.ask(DeleteGroupsRequest(groups_names=[group, f"{group}-x"]), 1)
    script.delete_offsets(group, (TOPIC, 0))
    script.delete_offsets(group, (MISSING, 0))
    script.commit(group, {(TOPIC, 0): 1, (TOPIC, 1): 2, (OTHER, 0): 3})
    script.delete_offsets(group, (TOPIC, 0), (TOPIC, 2), (TOPIC, 7), (MISSING, 0))
    script.fetch(group, None)
    script.delete_offsets(group)
    script.delete_offsets(group, (TOPIC, 1), (OTHER, 0))
    script.describe(group)
    script.list(prefix=group)
    script.commit(group, {(TOPIC, 0): 1})
    script.ask(DeleteGroupsRequest(groups_names=[group, group]), 2)
    script.fetch(group, None)
    script.describe(group)
    script.ask(DeleteGroupsRequest(groups_names=[]), 2)


def deleting_from_members(script: Script, group: str) -> None:
    """A group with members keeps what they consume."""
    member, generation = script.settle(group, metadata=subscription(TOPIC))
    script.commit(group, {(TOPIC, 0): 1, (OTHER, 0): 3}, generation=generation, member=member)
    script.delete_offsets(group, (TOPIC, 0), (OTHER, 0))
    script.fetch(group, None)
    script.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    other = f"{group}-connect"
    script.coordinate(other)
    script.settle(other, protocol_type="connect")
    script.delete_offsets(other, (TOPIC, 0))
    script.describe(other)
    third = f"{group}-opaque"
    script.coordinate(third)
    script.settle(third, metadata=b"\x00")
    script.delete_offsets(third, (TOPIC, 0))
    script.describe(third)


def listing(script: Script, group: str) -> None:
    """Filters by state and type."""
    script.commit(group, {(TOPIC, 0): 1})
    member = f"{group}-members"
    script.coordinate(member)
    script.settle(member)
    for states in (["Empty"], ["sTABLE", "empty"], ["nonsense"], ["Dead"], ["PreparingRebalance"]):
        script.list(states=states, prefix=group)
        script.list(states=states, prefix=group, version=4)
    for types in (["classic"], ["CLASSIC", "consumer"], ["consumer"], ["nonsense"]):
        script.list(types=types, prefix=group)
        script.list(types=types, states=["Stable"], prefix=group)
    for version in range(6):
        script.list(prefix=group, version=version)


def finding(script: Script, group: str) -> None:
    """Coordinators by type and version."""
    for version in range(7):
        if version >= 4:
            script.ask(FindCoordinatorRequest(coordinator_keys=[group, group, "x", ""]), version)
            script.ask(FindCoordinatorRequest(coordinator_keys=[]), version)
        else:
            script.ask(FindCoordinatorRequest(key=group), version)
        for key_type in (2, 3, -1) if version >= 1 else ():
            if version >= 4:
                script.ask(FindCoordinatorRequest(coordinator_keys=[group], key_type=key_type), version)
            else:
                script.ask(FindCoordinatorRequest(key=group, key_type=key_type), version)


def strange_ids(script: Script, group: str) -> None:
    """Ids are any text."""
    for number, name in enumerate(("a/b", "new\nline", "\u00fc\U0001f600", "%n", " ", "x" * 10_000)):
        name = f"{group}{name}"
        script.coordinate(name)
        script.commit(name, {(TOPIC, 0): number})
        script.fetch(name, None)
        script.describe(name)
        script.ask(DeleteGroupsRequest(groups_names=[name]), 1)


def many_at_once(script: Script, group: str) -> None:
    """Several groups in one request come back in its order."""
    names = [f"{group}-{number}" for number in range(8)]
    script.coordinate("no-such-group")
    for number, name in enumerate(names):
        script.coordinate(name)
        script.commit(name, {(TOPIC, 0): number})
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1])]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in [*names, names[0]]]
    script.ask(OffsetFetchRequest(groups=groups), 8)
    script.describe(*names, names[3])
    script.describe()
    script.ask(DeleteGroupsRequest(groups_names=[*names, names[0], "no-such-group"]), 2)
    script.describe(*names)


def topic_goes(script: Script, group: str) -> None:
    """The offsets of a deleted topic go with it, and the group when it has no others."""
    both = f"{group}-both"
    script.coordinate(both)
    with talking(script.bootstrap) as talk:
        talk.create(GONE)
        script.commit(group, {(GONE, 0): 1})
        script.commit(both, {(GONE, 0): 1, (TOPIC, 0): 2})
        talk.delete(GONE)

        def are_gone() -> bool:
            # Each group in its turn, and with its last offset the group itself.
            left = (
                OffsetFetchRequest(group_id=both, topics=None),
                OffsetFetchRequest(group_id=group, topics=None),
            )
            counts = [len(script.client.call(each, 5).topics) for each in left]
            [described] = script.client.call(DescribeGroupsRequest(groups=[group]), 5).groups
            return counts == [1, 0] and described.group_state == "Dead"

        wait_for(are_gone, what="the end of the offsets")
    script.fetch(group, None)
    script.fetch(both, None)
    script.describe(group, both)


SCRIPTS: Final[list[Callable[[Script, str], None]]] = [
    committing,
    large_metadata,
    not_a_member,
    members_commit,
    empty_ids,
    deleting,
    deleting_from_members,
    listing,
    finding,
    strange_ids,
    many_at_once,
    topic_goes,
]


@pytest.fixture(scope="module")
def systems(kafka: System | None, pkafka: System | None) -> list[System]:
    """Both, with the topics that the scripts name, and a topic of groups."""
    found = [system for system in (kafka, pkafka) if system is not None]
    for system in found:
        with talking(system.bootstrap) as talk, RawClient(system.bootstrap) as client:
            talk.create(TOPIC, 3)
            talk.create(OTHER)
            request = FindCoordinatorRequest(key="g")
            wait_for(lambda: not client.call(request, 1).error_code, what="a coordinator")  # noqa: B023
    return found


@pytest.mark.parametrize("play", SCRIPTS, ids=[script.__name__ for script in SCRIPTS])
def test_kafka_and_pkafka_answer_the_same(systems: list[System], play: Callable[[Script, str], None]) -> None:
    outcomes = []
    for system in systems:
        script = Script(system.bootstrap)
        script.coordinate(play.__name__)
        play(script, play.__name__)
        script.client.close()
        outcomes.append(script.answers)
    for other in outcomes[1:]:
        found = list(differences(outcomes[0], other))
        assert not found, "\n".join(found)
