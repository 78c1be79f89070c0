"""A consumer's membership as traces: tests/scenarios/consumer/*.txt, each a list of steps with what follows from them.

A step stands above ``----``, what it leads to below, a blank line ends it. PKAFKA_REWRITE=1 writes the files anew; the
difference is to be reviewed like code. No socket, no clock and no thread is involved.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.consumer.assignors.api import RebalanceProtocol
from pkafka.clients.consumer.membership import Membership, MembershipSettings
from pkafka.clients.consumer.membership_steps import Complete, Join, Lead, MemberState, Prepare, Request
from pkafka.clients.consumer.rebalance import after_join, before_join
from pkafka.clients.errors import DisconnectedError
from pkafka.errors import ErrorCode, PkafkaError
from pkafka.model import TopicPartition
from pkafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pkafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pkafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from pkafka.protocol.messages.leave_group import LeaveGroupRequest
from pkafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_FOLDER = Path(__file__).parents[2] / "scenarios" / "consumer"
_FILES = sorted(_FOLDER.glob("*.txt"))


@pytest.mark.parametrize("file", _FILES, ids=[file.stem for file in _FILES])
def test_trace(file: Path) -> None:
    text = file.read_text()
    actual = "\n".join(_play(text, Member()))
    if os.environ.get("PKAFKA_REWRITE"):
        file.write_text(actual)
        return
    assert actual == text


def test_there_are_traces() -> None:
    assert len(_FILES) >= 10


_JOIN_CODES = [
    "NONE",
    "MEMBER_ID_REQUIRED",
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "REBALANCE_IN_PROGRESS",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "GROUP_MAX_SIZE_REACHED",
    "FENCED_INSTANCE_ID",
]
_EVENTS = st.one_of(
    st.tuples(st.sampled_from(["poll", "disconnected", "leave", "rejoin"])),
    st.tuples(st.just("wait"), st.sampled_from([1, 100, 1_000, 3_000, 50_000, 300_000])),
    st.tuples(st.just("answer"), st.sampled_from(_JOIN_CODES)),
    st.tuples(st.just("commit"), st.sampled_from(_JOIN_CODES)),
)


@given(events=st.lists(_EVENTS, max_size=60), protocol=st.sampled_from(["EAGER", "COOPERATIVE"]))
def test_whatever_happens_the_member_is_in_its_group_again_when_all_goes_well(
    events: list[tuple[Any, ...]], protocol: str
) -> None:
    member = Member()
    member.member({"protocol": protocol})
    for name, *values in events:
        if name == "wait":
            member.wait({"ms": str(values[0])})
        elif name == "answer":
            member.answer_next(values[0])
        elif name == "commit":
            member.commit({"error": values[0]} if values[0] != "NONE" else {})
        elif name != "disconnected" or member.sent:
            getattr(member, name)({})
    for _ in range(60):
        member.poll({})
        member.answer_next("NONE")
        member.wait({"ms": "100"})
    assert member.machine.state is MemberState.STABLE
    assert member.owned == [TopicPartition("t", 0)]
    assert not member.machine.is_lost
    assert not member.machine.is_join_needed


class Member:
    """A member with its partitions, and what it has sent that is not answered."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.protocol = RebalanceProtocol.EAGER
        self.topics = {"t"}
        self.owned: list[TopicPartition] = []
        self.sent: list[Request] = []
        self.lines: list[str] = []
        self.machine = Membership(MembershipSettings(group_id="g"))
        self.identity: tuple[int, str, str | None] = (-1, "", None)
        self.generation = 0

    # -- steps --

    def member(self, options: dict[str, str]) -> None:
        """Of another kind: ``protocol``, ``instance``, ``topics``."""
        self.protocol = RebalanceProtocol[options.get("protocol", "EAGER")]
        self.topics = set(options.get("topics", "t").split(","))
        settings = MembershipSettings(group_id="g", group_instance_id=options.get("instance"))
        self.machine = Membership(settings)

    def subscribe(self, options: dict[str, str]) -> None:
        self.topics = set(options["topics"].split(","))
        self.machine.request_rejoin("subscription has changed")

    def poll(self, _: dict[str, str]) -> None:
        machine = self.machine
        machine.heartbeat.polled(self.now_ms)
        machine.want_coordinator()
        try:
            while (step := machine.next_step(self.now_ms)) is not None:
                self._perform(step)
        except PkafkaError as error:
            self.lines.append(_raised(error))
        self.send_due()

    def wait(self, options: dict[str, str]) -> None:
        """The application does not poll for so long; the heartbeat thread looks at the end of it."""
        self.now_ms += int(options["ms"])
        self.send_due()

    def live(self, options: dict[str, str]) -> None:
        """The same, with a heartbeat every three seconds that is answered; they are not shown."""
        end_ms = self.now_ms + int(options["ms"])
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + 3_000)
            self.sent += self.machine.due(self.now_ms)
            if self.sent:
                self.beat({})

    def coordinator(self, options: dict[str, str]) -> None:
        code = ErrorCode[options.get("error", "NONE")]
        row = Coordinator(key="g", node_id=int(options.get("node", "1")), host="h", port=9, error_code=code)
        self.sent.sort(key=lambda each: not isinstance(each, FindCoordinatorRequest))
        self.answer(FindCoordinatorResponse(coordinators=[row]))

    def joined(self, options: dict[str, str]) -> None:
        member = options.get("member", "m")
        leader = options.get("leader", member)
        self.answer(
            JoinGroupResponse(
                error_code=ErrorCode[options.get("error", "NONE")],
                generation_id=int(options.get("generation", "1")),
                protocol_type="consumer",
                protocol_name="a",
                leader=leader,
                member_id=member,
                members=[JoinGroupResponseMember(member_id=each, metadata=b"") for each in [member]],
                skip_assignment=options.get("skip") == "yes",
            )
        )

    def synced(self, options: dict[str, str]) -> None:
        code = ErrorCode[options.get("error", "NONE")]
        given = options.get("partitions", "").encode()
        self.answer(
            SyncGroupResponse(error_code=code, protocol_type="consumer", protocol_name="a", assignment=given)
        )

    def beat(self, options: dict[str, str]) -> None:
        self.answer(HeartbeatResponse(error_code=ErrorCode[options.get("error", "NONE")]))

    def disconnected(self, _: dict[str, str]) -> None:
        """The oldest request gets no answer."""
        self.machine.unanswered(self.sent.pop(0), DisconnectedError("the connection was lost"), self.now_ms)
        self.send_due()

    def commit(self, options: dict[str, str]) -> None:
        try:
            self.identity = self.machine.commit_identity(automatic=True)
        except PkafkaError as error:
            self.lines.append(_raised(error))
            return
        self.lines.append(f"commits as member={self.identity[1]!r} generation={self.identity[0]}")
        if "error" in options:
            self.refused(options)

    def refused(self, options: dict[str, str]) -> None:
        """The commit sent last is refused now."""
        error = self.machine.commit_refused(ErrorCode[options["error"]], self.identity)
        self.lines.append(_raised(error))
        self.send_due()

    def leave(self, options: dict[str, str]) -> None:
        gone = self.machine.is_lost or self.machine.is_rebalancing
        if self.owned:
            self.lines.append(("lost " if gone else "revoked ") + _text(self.owned))
            self.owned = []
        request = self.machine.leave(options.get("reason", "closed"))
        if request is not None:
            self.lines.append(_shown(request))

    def rejoin(self, options: dict[str, str]) -> None:
        self.machine.request_rejoin(options.get("reason", "enforced"))

    def next_generation(self) -> int:
        self.generation += 1
        return self.generation

    def answer_next(self, error: str) -> None:
        """Answer the oldest request, with whatever its API knows of the error."""
        if not self.sent:
            return
        request, options = self.sent[0], {"error": error}
        if isinstance(request, FindCoordinatorRequest):
            known = error in ("NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")
            self.coordinator(options if known else {})
        elif isinstance(request, JoinGroupRequest):
            self.joined({**options, "generation": str(self.next_generation()), "leader": "other"})
        elif isinstance(request, SyncGroupRequest):
            self.synced({**options, "partitions": "0"})
        else:
            self.beat(options)

    # -- what a driver does --

    def answer(self, response: Any) -> None:
        self.machine.answered(self.sent.pop(0), response, self.now_ms)
        self.send_due()

    def send_due(self) -> None:
        for request in self.machine.due(self.now_ms):
            self.lines.append(_shown(request))
            if not isinstance(request, LeaveGroupRequest):
                self.sent.append(request)

    def _perform(self, step: Prepare | Join | Lead | Complete) -> None:
        machine = self.machine
        if isinstance(step, Prepare):
            given = before_join(self.protocol, lost=step.lost, owned=self.owned, topics=self.topics)
            if given.lost:
                self.lines.append(f"lost {_text(given.lost)}")
            elif given.revoked is not None:
                self.lines.append(f"revoked {_text(given.revoked)}")
            self.owned = given.kept
            machine.prepared()
        elif isinstance(step, Join):
            request = machine.join([("a", b"")], self.now_ms)
            self.lines.append(_shown(request))
            self.sent.append(request)
        elif isinstance(step, Lead):
            self.lines.append("skips the assignment" if step.skip else f"assigns to {len(step.members)}")
            machine.assign([] if step.skip else [(each.member_id, b"x") for each in step.members])
        else:
            assigned = [
                TopicPartition("t", int(number)) for number in step.assignment.decode().split(",") if number
            ]
            taken = after_join(self.protocol, owned=self.owned, assigned=assigned)
            if taken.revoked:
                self.lines.append(f"revoked {_text(taken.revoked)}")
                machine.request_rejoin("need to revoke partitions")
            self.owned = assigned
            self.lines.append(f"assigned {_text(taken.added)}")
            machine.completed()

    def state(self) -> str:
        machine = self.machine
        found = "none" if machine.coordinator is None else str(machine.coordinator.node)
        return (
            f"{machine.state.name} member={machine.generation.member_id!r} generation={machine.generation.id} "
            f"coordinator={found}"
        )


def _play(text: str, member: Member) -> Iterator[str]:
    outcome = False
    for line in text.splitlines():
        if outcome:
            outcome = bool(line)
            if not line:
                yield ""
        elif not line or line.startswith("#"):
            yield line
        elif line == "----":
            yield line
            yield from member.lines
            yield from (f"warns: {each.partition(':')[0]}" for each in member.machine.warnings)
            member.machine.warnings.clear()
            yield f"= {member.state()}"
            member.lines = []
            outcome = True
        else:
            yield line
            command, *words = line.split("#")[0].split()
            step: Callable[[dict[str, str]], None] = getattr(member, command)
            step(dict(word.split("=", 1) for word in words))
    yield ""


def _raised(error: Exception) -> str:
    code = getattr(error, "code", None)
    return f"raises {type(error).__name__}" + (f" {code.name}" if code else "")


def _text(partitions: list[TopicPartition]) -> str:
    return " ".join(map(str, partitions)) or "nothing"


def _shown(request: Request) -> str:
    name = type(request).__name__.removesuffix("Request")
    if isinstance(request, JoinGroupRequest):
        return f"-> {name} member={request.member_id!r} reason={request.reason!r}"
    if isinstance(request, (HeartbeatRequest, SyncGroupRequest)):
        return f"-> {name} member={request.member_id!r} generation={request.generation_id}"
    if isinstance(request, LeaveGroupRequest):
        return f"-> {name} member={request.members[0].member_id!r} reason={request.members[0].reason!r}"
    return f"-> {name}"
