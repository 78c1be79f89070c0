"""Groups: how long a group is without an assignment, and what a commit costs."""

import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from benchmarks import wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pkafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pkafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_MEMBERS: Final = 10
_SHARE: Final = bytes(64)
_SESSION_MS: Final = 45_000
_REBALANCE_MS: Final = 300_000
_COORDINATOR_S: Final = 30.0
_HEARTBEAT_S: Final = 0.005
"""Far more often than clients, whose interval would otherwise be all that is measured."""


class _Member:
    """One member: a connection, and what the coordinator calls it."""

    def __init__(self, address: tuple[str, int], group: str) -> None:
        self.link = wire.Link(address)
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.assigned_at = 0.0

    def join_and_sync(self, subscription: bytes) -> None:
        """Join until this member has its share of some generation.

        Args:
            subscription: another one than the last time, or the coordinator sees no reason to rebalance.
        """
        while not self._sync(self._join(subscription)):
            pass
        self.assigned_at = time.perf_counter()

    def _join(self, subscription: bytes) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        while True:
            request.member_id = self.member_id
            joined: JoinGroupResponse = self.link.call(ApiKey.JOIN_GROUP, 7, request)
            self.member_id = joined.member_id
            if joined.error_code not in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
                _check(joined.error_code)
                return joined

    def _sync(self, joined: JoinGroupResponse) -> bool:
        """Take the share; False when the group has begun another rebalance meanwhile."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=_SHARE)
                for member in joined.members
            ],
        )
        answer = self.link.call(ApiKey.SYNC_GROUP, 3, request)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        _check(answer.error_code)
        if bytes(answer.assignment) != _SHARE:
            raise RuntimeError(f"member {self.member_id} was assigned {bytes(answer.assignment)!r}")
        self.generation = joined.generation_id
        return True

    def is_current(self) -> bool:
        """Whether the group is still in the generation of this member's share (a heartbeat)."""
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        error = self.link.call(ApiKey.HEARTBEAT, 3, request).error_code
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        _check(error)
        return True

    def leave(self) -> None:
        """Leave the group and close the connection."""
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])
        with self.link:
            _check(self.link.call(ApiKey.LEAVE_GROUP, 3, request).error_code)


def _check(error: int) -> None:
    if error:
        raise RuntimeError(f"the coordinator answered {ErrorCode(error).name}")


def _wait_for_coordinator(address: tuple[str, int], group: str) -> None:
    """The topic of all groups is created when the first one is asked for."""
    deadline = time.monotonic() + _COORDINATOR_S
    with wire.Link(address) as link:
        while link.call(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key=group)).error_code:
            if time.monotonic() > deadline:
                raise TimeoutError(f"group {group} has no coordinator")
            time.sleep(0.1)


def _rebalance(members: list[_Member], subscription: bytes) -> float:
    """Seconds from the first JoinGroup until every member has its share of one and the same generation."""
    failures: list[Exception] = []
    stop = threading.Event()

    def take_part(member: _Member) -> None:
        try:
            member.join_and_sync(subscription)
            while not stop.is_set() and len({each.generation for each in members}) > 1:
                if not member.is_current():
                    member.join_and_sync(subscription)
                stop.wait(_HEARTBEAT_S)
        except Exception as error:  # noqa: BLE001 - raised below, by the thread that measures
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=take_part, args=(member,)) for member in members]
    for member in members:
        member.generation = -1
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return max(member.assigned_at for member in members) - began


def _prepare(target: Target, _settings: Settings) -> None:
    _wait_for_coordinator(target.address, "any")


def _measure_join(target: Target, settings: Settings) -> dict[str, float]:
    group = f"group-{time.time_ns():x}"
    # The group may belong to a partition that is being loaded still.
    _wait_for_coordinator(target.address, group)
    members = [_Member(target.address, group) for _ in range(_MEMBERS)]
    first_s = _rebalance(members, b"0")
    took_s: list[float] = []
    stop_at = time.perf_counter() + settings.seconds
    while time.perf_counter() < stop_at:
        took_s.append(_rebalance(members, str(len(took_s) + 1).encode()))
    for member in members:
        member.leave()
    return {"first assignment": first_s * 1000, "rebalance": median(took_s) * 1000}


def _measure_commits(target: Target, settings: Settings) -> dict[str, float]:
    group = f"group-{time.time_ns():x}"
    _wait_for_coordinator(target.address, group)
    topic = f"committed-{time.time_ns():x}"
    wire.create_topic(target.address, topic, 1)
    partition = OffsetCommitRequestPartition(partition_index=0)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    count = 0
    cpu = target.cpu_s()
    with wire.Link(target.address) as link:
        began = time.perf_counter()
        stop_at = began + settings.seconds
        while time.perf_counter() < stop_at:
            partition.committed_offset = count
            _check(link.call(ApiKey.OFFSET_COMMIT, 7, request).topics[0].partitions[0].error_code)
            count += 1
        took_s = time.perf_counter() - began
    wire.delete_topic(target.address, topic)
    return {"rate": count / took_s, "server CPU": (target.cpu_s() - cpu) / count * 1e6}


def _scenario(
    name: str,
    about: str,
    figures: tuple[Figure, ...],
    measure: Callable[[Target, Settings], dict[str, float]],
) -> Scenario:
    return Scenario(name=name, about=about, figures=figures, measure=measure, prepare=_prepare)


SCENARIOS = (
    _scenario(
        "group_join",
        f"a classic group of {_MEMBERS} members over raw sockets: from the first JoinGroup until all have their shares;"
        " first of a new group, without an initial delay, then again and again with new subscriptions",
        (
            Figure("first assignment", "ms", more_is_better=False, bar=1.0),
            Figure("rebalance", "ms", more_is_better=False, bar=1.0),
        ),
        _measure_join,
    ),
    _scenario(
        "offset_commit",
        "OffsetCommit of one partition, one request at a time on one connection, outside of a generation",
        (
            Figure("rate", "requests/s", more_is_better=True),
            Figure("server CPU", "us/request", more_is_better=False),
        ),
        _measure_commits,
    ),
)
