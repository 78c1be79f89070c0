"""A group whose members join, leave and are killed all the time: scripted members, what they were told, and the laws.

A member keeps to the protocol of eager consumers: it gives up what it has when it hears of a rebalance, joins again,
and commits what it has under its generation's number. So the number that is committed for a partition tells which
generation's member was the last that the coordinator took for its owner.
"""

import random
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.heartbeat import HeartbeatResponse
from pkafka.protocol.messages.join_group import JoinGroupResponse
from pkafka.protocol.messages.offset_commit import OffsetCommitResponse
from pkafka.protocol.messages.sync_group import SyncGroupResponse
from tests.faults.crowd import COMMIT_VERSION, HEARTBEAT_VERSION, SYNC_VERSION, Crowd
from tests.group_client import GroupClient
from tests.group_requests import (
    commit_error,
    commit_request,
    heartbeat_request,
    join_request,
    leave_request,
    subscription,
    sync_request,
)

TOPIC: Final = "t"
PARTITIONS: Final = 64
SESSION_MS: Final = 2_000
REBALANCE_MS: Final = 4_000
HEARTBEAT_S: Final = 0.4
SPEAKS_S: Final = 0.02
"""Between two questions of the test: members whose heartbeat is due say it."""
BUSY_S: Final = 45.0
"""How much longer than its rules say anything may take on a busy machine."""
SETTLED_S: Final = (SESSION_MS + 2 * REBALANCE_MS) / 1000 + BUSY_S
"""Those who were killed are found out, which may be in the midst of a rebalance, and then there is one more."""

_KNOWN_MEMBER_VERSION: Final = 5  # a new member is given its id first (KIP-394)
_LEAVE_VERSION: Final = 2
_WAIT_S: Final = {
    ApiKey.JOIN_GROUP: REBALANCE_MS / 1000 + BUSY_S,
    ApiKey.SYNC_GROUP: REBALANCE_MS / 1000 + BUSY_S,
}
_JOINS_AGAIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


class Member:
    """One member, as far as it knows."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ""
        self.generation = 0
        self.owned: frozenset[int] | None = None
        """None until it has synced, and from when it hears of a rebalance."""
        self.leaves = False
        self.due_s = 0.0
        """When it is going to say the next thing that it says by itself."""
        self._commits = 0

    def __repr__(self) -> str:
        return f"member {self.number} ({self.id}) in generation {self.generation} with {self.owned}"

    def next_partition(self) -> int | None:
        """Which of its partitions it commits now; None: it sends a heartbeat."""
        self._commits += 1
        if not self.owned or self._commits % 2:
            return None
        return sorted(self.owned)[self._commits // 2 % len(self.owned)]


class Churn:
    """The group ``group`` of a broker, with all of its members."""

    def __init__(self, bootstrap: str, group: str, *, seed: int) -> None:
        self.group = group
        self.crowd = Crowd(bootstrap)
        self.members: dict[int, Member] = {}
        self.heard: Counter[tuple[str, str]] = Counter()
        """How often each error was answered, by request."""
        self.shares: dict[int, dict[str, frozenset[int]]] = defaultdict(dict)
        """By generation and member, what members were assigned."""
        self.leaders: dict[int, set[str]] = defaultdict(set)
        self.committed: dict[int, int] = {}
        """By partition, the latest generation whose commit was acknowledged."""
        self.killed: list[Member] = []
        self._committing: dict[int, int] = {}
        self._choice = random.Random(seed)
        self._asker = GroupClient(bootstrap)

    def close(self) -> None:
        self._asker.close()
        self.crowd.close()

    # -- who comes and goes --

    def join(self) -> None:
        member = Member(self.crowd.connect())
        self.members[member.number] = member
        self._join(member)

    def kill(self, member: Member) -> None:
        """Its connection ends, and the coordinator hears nothing more of it."""
        self.killed.append(member)
        self._drop(member)

    def _drop(self, member: Member) -> None:
        self.crowd.drop(member.number)
        del self.members[member.number]

    def act(self, most: int) -> None:
        """Somebody joins, leaves or is killed; whoever waits just then, as well as anybody."""
        staying = [member for member in self.members.values() if not member.leaves]
        acts = ["join"] if len(staying) <= most // 2 else ["leave", "kill"]
        if most // 2 < len(staying) < most:
            acts = ["join", "join", "leave", "kill"]
        act = self._choice.choice(acts)
        if act == "join":
            self.join()
        elif act == "kill":
            self.kill(self._choice.choice(staying))
        else:
            self._choice.choice(staying).leaves = True

    # -- what they say --

    def run(self, seconds: float) -> None:
        """Let them talk for so long."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self._speak()
            for number, answer in self.crowd.receive(min(left_s, 0.02)):
                self._hear(self.members[number], answer.message)
            for number, key, waits_s in self.crowd.waiting():
                assert waits_s < _WAIT_S.get(key, BUSY_S), f"{self.members[number]} hangs in {key.name}"

    def _speak(self) -> None:
        now_s = time.monotonic()
        for member in list(self.members.values()):
            if self.crowd.waits(member.number):
                continue
            if member.leaves:
                self.crowd.send(member.number, leave_request(self.group, member.id), _LEAVE_VERSION)
            elif now_s >= member.due_s:
                member.due_s = now_s + HEARTBEAT_S
                self._say(member)

    def _say(self, member: Member) -> None:
        partition = member.next_partition()
        if partition is None:
            beat = heartbeat_request(self.group, member.id, member.generation)
            self.crowd.send(member.number, beat, HEARTBEAT_VERSION)
            return
        self._committing[member.number] = partition
        place = {(TOPIC, partition): member.generation}
        commit = commit_request(self.group, place, member=member.id, generation=member.generation)
        self.crowd.send(member.number, commit, COMMIT_VERSION)

    def _join(self, member: Member) -> None:
        member.owned = None
        request = join_request(
            self.group,
            member=member.id,
            metadata=subscription(TOPIC),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        self.crowd.send(member.number, request, _KNOWN_MEMBER_VERSION)

    # -- what they hear --

    def _hear(self, member: Member, answer: Any) -> None:
        is_commit = isinstance(answer, OffsetCommitResponse)
        error = commit_error(answer) if is_commit else ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            self.heard[type(answer).__name__.removesuffix("Response"), error.name] += 1
        if isinstance(answer, JoinGroupResponse):
            self._joined(member, answer, error)
        elif isinstance(answer, SyncGroupResponse) and error is ErrorCode.NONE:
            self._synced(member, answer)
        elif isinstance(answer, SyncGroupResponse | HeartbeatResponse | OffsetCommitResponse):
            if is_commit and error is ErrorCode.NONE:
                partition = self._committing[member.number]
                self.committed[partition] = max(self.committed.get(partition, 0), member.generation)
            self._told(member, error)
        else:
            assert member.leaves
            assert error in {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID}
            self._drop(member)

    def _joined(self, member: Member, answer: JoinGroupResponse, error: ErrorCode) -> None:
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            assert not member.id
            member.id = answer.member_id
            self._join(member)
            return
        if error is not ErrorCode.NONE:
            self._told(member, error)
            return
        assert answer.member_id == member.id
        assert answer.generation_id > member.generation, f"{answer.generation_id} for {member}"
        member.generation = answer.generation_id
        shares: dict[str, bytes] = {}
        if answer.members:
            self.leaders[member.generation].add(member.id)
            shares = _shares([each.member_id for each in answer.members])
        sync = sync_request(self.group, member.id, member.generation, shares)
        self.crowd.send(member.number, sync, SYNC_VERSION)

    def _synced(self, member: Member, answer: SyncGroupResponse) -> None:
        member.owned = frozenset(each for (each,) in struct.iter_unpack(">h", answer.assignment))
        member.due_s = time.monotonic() + self._choice.random() * HEARTBEAT_S
        self.shares[member.generation][member.id] = member.owned

    def _told(self, member: Member, error: ErrorCode) -> None:
        if error is ErrorCode.NONE or member.leaves:
            return
        assert error in _JOINS_AGAIN or error is ErrorCode.UNKNOWN_MEMBER_ID, f"{error.name} for {member}"
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            member.id = ""
        self._join(member)

    # -- the laws --

    def settle(self) -> None:
        """Nobody comes or goes any more: soon there is one generation of all, and every partition has one owner."""
        self._run_until_nothing(self._unsettled)

    def empty(self) -> None:
        """Everybody is killed at once: soon the coordinator knows it."""
        for member in list(self.members.values()):
            self.kill(member)
        self._run_until_nothing(self._unsettled)

    def _run_until_nothing(self, unsettled: Any) -> None:
        deadline_s = time.monotonic() + SETTLED_S
        while why := unsettled():
            assert time.monotonic() < deadline_s, f"not within {SETTLED_S} s: {why}"
            self.run(0.2)

    def _unsettled(self) -> str:
        members = self.members.values()
        if [member for member in members if member.owned is None]:
            return f"{[member for member in members if member.owned is None]} wait"
        if len({member.generation for member in members}) > 1:
            return f"{members} are not in one generation"
        owned = sorted(partition for member in members for partition in member.owned or ())
        if owned != (list(range(PARTITIONS)) if members else []):
            return f"{owned} are owned"
        [found] = self._asker.describe(self.group).groups
        if found.group_state != ("Stable" if members else "Empty"):
            return f"the group is {found.group_state}"
        if {each.member_id for each in found.members} != {member.id for member in members}:
            return f"the coordinator has {len(found.members)} members, not {len(members)}"
        return ""

    def check(self) -> None:
        """What was said all the time goes together."""
        for generation, ids in self.leaders.items():
            assert len(ids) == 1, f"{ids} led generation {generation}"
        for generation, shares in self.shares.items():
            given = Counter(partition for share in shares.values() for partition in share)
            assert all(count == 1 for count in given.values()), f"generation {generation}: {shares}"
        stored = {
            partition: offset for (_, partition), (offset, _) in self._asker.offsets(self.group).items()
        }
        for partition, generation in self.committed.items():
            assert stored[partition] >= generation, f"partition {partition} went back to {stored[partition]}"
        for ghost in self.killed:
            if ghost.id:
                error = self._asker.heartbeat(self.group, ghost.id, ghost.generation)
                assert error == ErrorCode.UNKNOWN_MEMBER_ID, f"{ErrorCode(error).name} for the killed {ghost}"

    def check_fence(self) -> None:
        """Who has missed the last rebalance changes nothing any more."""
        # Who is asked about while the others are silent keeps those waiting: on a busy machine a session may end.
        self.settle()
        for member in list(self.members.values()):
            self.run(SPEAKS_S)
            while (error := self._late_commit(member)) is not ErrorCode.ILLEGAL_GENERATION:
                assert error is ErrorCode.UNKNOWN_MEMBER_ID, error.name
                self.settle()

    def _late_commit(self, member: Member) -> ErrorCode:
        """What a commit under the number of the generation before is answered."""
        late = self._asker.commit(
            self.group, {(TOPIC, 0): 0}, generation=member.generation - 1, member=member.id
        )
        return commit_error(late)


def _shares(members: Sequence[str]) -> dict[str, bytes]:
    """Partitions in turn, as two bytes each."""
    return {
        member: b"".join(struct.pack(">h", each) for each in range(number, PARTITIONS, len(members)))
        for number, member in enumerate(sorted(members))
    }
