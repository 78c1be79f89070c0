"""What scripts cannot say of a group: the log that fails or is slow, the coordinator that moves, sizes and contents."""

import itertools
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue
from pkafka.server.groups.effects import Answer, JoinedMember, JoinResult, Store, StoreEmpty, SyncResult
from pkafka.server.groups.events import JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.group import NEW_MEMBER_JOIN_TIMEOUT_MS, Group, GroupSettings
from pkafka.server.groups.states import PREDECESSORS, GroupState
from tests.group_script import subscription

WALL_MS = 1_700_000_000_000
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)


class Shell:
    """What drives a group: notes answers by waiter, and keeps what is to be written until told."""

    def __init__(self, settings: GroupSettings = SETTINGS, value: GroupMetadataValue | None = None) -> None:
        self.now_ms = 0
        self.answers: dict[object, Any] = {}
        self.stores: list[Store] = []
        uuids = (f"uuid{number}" for number in itertools.count())
        outside: dict[str, Any] = {
            "wall_clock_ms": lambda: WALL_MS + self.now_ms,
            "new_uuid": uuids.__next__,
        }
        if value is None:
            self.group = Group("g", settings, **outside)
        else:
            self.group = Group.restore("g", value, settings, 0, **outside)
        self.perform()

    def join(self, waiter: str, **facts: Any) -> None:
        facts = {
            "member_id": "",
            "client_id": waiter,
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (("range", subscription(["t"])),),
            "requires_known_member": False,
            "can_skip_assignment": True,
            **facts,
        }
        self.group.join(waiter, JoinRequest(**facts), self.now_ms)
        self.perform()

    def sync(self, waiter: str, member_id: str, **shares: bytes) -> None:
        ids = {each.client_id: each.member_id for each in self.group.describe().members} if shares else {}
        assignments = {ids.get(name, name): share for name, share in shares.items()}
        request = SyncRequest(member_id=member_id, generation=self.group.generation, assignments=assignments)
        self.group.sync(waiter, request, self.now_ms)
        self.perform()

    def written(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.group.stored(self.stores.pop(0), error, self.now_ms)
        self.perform()

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (deadline_ms := self.group.deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(deadline_ms, self.now_ms)
            self.group.expire(self.now_ms)
            self.perform()
        self.now_ms = end_ms

    def perform(self) -> None:
        for effect in self.group.take_effects():
            if isinstance(effect, Answer):
                assert effect.waiter not in self.answers
                self.answers[effect.waiter] = effect.result
            else:
                self.stores.append(effect)

    def id_of(self, name: str) -> str:
        return next(each.member_id for each in self.group.describe().members if each.client_id == name)

    def is_in(self, state: GroupState) -> bool:
        return self.group.state is state

    def error(self, waiter: str) -> ErrorCode:
        error: ErrorCode = self.answers[waiter].error
        return error

    def stable(self, *names: str, **facts: Any) -> None:
        """Let members come, the first one the leader, and hand out their names as assignments."""
        for name in names:
            self.join(name, **facts)
        self.pass_time(0)
        ids = {each.client_id: each.member_id for each in self.group.describe().members}
        for name in names[1:]:
            self.sync(f"{name} syncs", ids[name])
        self.sync(f"{names[0]} syncs", ids[names[0]], **{ids[name]: name.encode() for name in names})
        self.written()
        assert self.is_in(GroupState.STABLE)


@pytest.fixture
def shell() -> Shell:
    return Shell()


# -- the log --


def test_answers_wait_for_the_record(shell: Shell) -> None:
    shell.join("a")
    shell.pass_time(0)
    shell.sync("sync", shell.id_of("a"), a=b"x")
    assert "sync" not in shell.answers
    assert shell.is_in(GroupState.COMPLETING_REBALANCE)
    shell.written()
    assert shell.answers["sync"] == SyncResult(
        protocol_type="consumer", protocol_name="range", assignment=b"x"
    )
    assert shell.is_in(GroupState.STABLE)


@pytest.mark.parametrize(
    ("append", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_an_assignment_that_cannot_be_written_is_refused_to_all(
    shell: Shell, append: ErrorCode, told: ErrorCode
) -> None:
    shell.join("a")
    shell.join("b")
    shell.pass_time(0)
    shell.sync("b syncs", shell.id_of("b"))
    shell.sync("a syncs", shell.id_of("a"), a=b"1", b=b"2")
    shell.written(append)
    assert shell.error("a syncs") == shell.error("b syncs") == told
    assert shell.is_in(GroupState.PREPARING_REBALANCE)


def test_an_assignment_that_is_written_too_late_is_nobodys(shell: Shell) -> None:
    shell.join("a")
    shell.pass_time(0)
    shell.sync("a syncs", shell.id_of("a"), a=b"old")
    shell.join("b")
    assert shell.error("a syncs") == ErrorCode.REBALANCE_IN_PROGRESS
    shell.join("a again", member_id=shell.id_of("a"))
    shell.written()  # in CompletingRebalance again, of another generation
    assert shell.is_in(GroupState.COMPLETING_REBALANCE)
    shell.sync("b syncs", shell.id_of("b"))
    shell.sync("a syncs anew", shell.id_of("a"), a=b"1", b=b"2")
    shell.written()
    assert shell.answers["b syncs"].assignment == b"2"


def test_a_record_restores_the_group(shell: Shell) -> None:
    shell.stable("a", rebalance_timeout_ms=77)
    shell.join("s", instance_id="i")
    shell.join("a again", member_id=shell.id_of("a"), rebalance_timeout_ms=77)
    shell.sync("s syncs", shell.id_of("s"))
    shell.sync("a syncs anew", shell.id_of("a"), a=b"1", s=b"2")
    value = shell.stores[0].value
    shell.written()
    restored = Shell(value=decode(GroupMetadataValue, 3, encode(value, 3)))
    assert restored.group.describe() == shell.group.describe()
    assert restored.group.generation == shell.group.generation == 2
    assert restored.group.leader == shell.group.leader
    assert restored.group.subscribed_topics == frozenset({"t"})
    assert restored.group.state_since_ms == value.current_state_timestamp
    assert {each.rebalance_timeout for each in value.members} == {77, 60_000}
    assert restored.group.heartbeat(restored.id_of("a"), None, 2, 5_000) == ErrorCode.NONE
    restored.pass_time(10_050)
    assert restored.is_in(GroupState.PREPARING_REBALANCE)  # the session of "s" ended
    restored.pass_time(27)
    assert restored.is_in(GroupState.EMPTY)


def test_an_empty_group_is_written_and_restored(shell: Shell) -> None:
    shell.stable("a")
    shell.now_ms = 5
    shell.group.leave([Leaving(member_id=shell.id_of("a"))], 5)
    shell.perform()
    [store] = shell.stores
    assert isinstance(store, StoreEmpty)
    assert store.value == GroupMetadataValue(
        protocol_type="consumer",
        generation=2,
        protocol=None,
        leader=None,
        current_state_timestamp=WALL_MS + 5,
        members=[],
    )
    shell.written(ErrorCode.NOT_ENOUGH_REPLICAS)
    restored = Shell(value=store.value)
    assert restored.is_in(GroupState.EMPTY)
    assert restored.group.deadline_ms is None
    assert restored.group.subscribed_topics == frozenset()


def test_records_of_former_versions_say_less(shell: Shell) -> None:
    shell.stable("a")
    shell.join("a again", member_id=shell.id_of("a"))
    shell.sync("sync", shell.id_of("a"), a=b"1")
    first = decode(GroupMetadataValue, 0, encode(shell.stores[0].value, 0))
    restored = Shell(value=first)
    assert restored.group.state_since_ms is None
    restored.join("b", rebalance_timeout_ms=1)
    restored.group.heartbeat(restored.id_of("a"), None, 2, 5_000)
    restored.pass_time(9_999)
    assert "b" not in restored.answers
    restored.pass_time(1)  # the rebalance timeout of "a" is its session timeout
    assert restored.answers["b"].generation == 3


def test_a_record_with_the_same_member_twice_loads(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    shell.join("s again", instance_id="i")
    value = shell.stores[0].value
    shell.written()
    value.members.append(value.members[0])
    twin = decode(GroupMetadataValue, 3, encode(value, 3)).members[0]
    twin.member_id = "another"
    value.members.append(twin)
    assert Shell(value=value).group.describe() == shell.group.describe()


def test_a_leader_that_is_no_member_is_replaced() -> None:
    shell = Shell()
    shell.stable("a", "b")
    shell.join("a again", member_id=shell.id_of("a"))
    shell.join("b again", member_id=shell.id_of("b"))
    shell.sync("sync", shell.id_of("a"), a=b"1")
    value = shell.stores[0].value
    value.leader = "nobody"
    assert Shell(value=value).group.leader == shell.id_of("a")
    value.leader = shell.id_of("b")
    assert Shell(value=value).group.leader == shell.id_of("b")


def test_a_group_that_is_too_large_rebalances_when_it_is_loaded() -> None:
    shell = Shell()
    for name in "abc":
        shell.join(name)
    shell.pass_time(0)
    ids = [shell.id_of(name) for name in "abc"]
    shell.sync("sync", ids[0])
    restored = Shell(GroupSettings(max_size=2), value=shell.stores[0].value)
    assert restored.is_in(GroupState.PREPARING_REBALANCE)
    for member_id in ids:
        restored.join(member_id, member_id=member_id)
    assert [restored.error(member_id) for member_id in ids] == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert restored.group.size == 2


# -- static members and the log --


def test_a_static_member_has_its_new_id_when_it_is_written(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    shell.join("again", instance_id="i")
    assert "again" not in shell.answers
    new_id = shell.stores[0].value.members[0].member_id
    assert new_id.startswith("i-")
    shell.written()
    assert shell.answers["again"] == JoinResult(
        member_id=new_id,
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=new_id,
        skip_assignment=True,
        members=(JoinedMember(new_id, "i", subscription(["t"])),),
    )


def test_a_static_member_whose_new_id_cannot_be_written_keeps_the_old_one(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    old_id = shell.id_of("s")
    shell.join(
        "again",
        instance_id="i",
        session_timeout_ms=99,
        protocols=(("range", subscription(["u"])), ("sticky", b"")),
    )
    shell.written(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert shell.answers["again"] == JoinResult(
        error=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        member_id="",
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=old_id,
    )
    assert shell.id_of("s") == shell.group.leader == old_id
    assert shell.group.describe().members[0].metadata == subscription(["t"])
    shell.pass_time(9_999)
    assert shell.group.heartbeat(old_id, "i", 1, shell.now_ms) == ErrorCode.NONE


def test_a_rebalance_that_begins_before_the_new_id_is_written_answers_the_member(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    shell.join("again", instance_id="i")
    shell.join("b")
    assert shell.answers["again"].generation == 2
    shell.written(
        ErrorCode.NOT_ENOUGH_REPLICAS
    )  # no longer of interest: the next assignment writes the id too
    assert shell.answers["again"].member_id == shell.id_of("s")


def test_a_rebalance_that_has_begun_before_the_new_id_is_written_will_answer_the_member(shell: Shell) -> None:
    shell.stable("a", "b")
    shell.join("s", instance_id="i")
    for name in "ab":
        shell.join(f"{name} again", member_id=shell.id_of(name))
    shell.sync("sync", shell.id_of("a"))
    shell.written()
    shell.join("s again", instance_id="i")
    shell.join("c")
    shell.written()
    assert "s again" not in shell.answers
    for name in "ab":
        shell.join(f"{name} once more", member_id=shell.id_of(name))
    assert shell.answers["s again"].generation == 3


def test_an_id_that_could_not_be_written_before_a_rebalance_stays(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    shell.join("again", instance_id="i")
    shell.join("b")
    shell.sync("b syncs", shell.id_of("b"))
    shell.sync("s syncs anew", shell.id_of("s"))
    outcome_late = shell.stores.pop(0)
    shell.written()
    new_id = shell.id_of("s")
    shell.group.stored(outcome_late, ErrorCode.NOT_ENOUGH_REPLICAS, 0)
    assert shell.is_in(GroupState.STABLE)
    assert shell.id_of("s") == new_id


def test_a_static_member_that_is_removed_before_its_id_is_written_is_unknown(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    shell.join("again", instance_id="i")
    shell.group.leave([Leaving(member_id="", instance_id="i")], 0)
    shell.perform()
    assert shell.error("again") == ErrorCode.UNKNOWN_MEMBER_ID
    shell.written()


def test_a_static_member_that_is_late_while_its_id_is_written_is_unknown(shell: Shell) -> None:
    shell.join("a", session_timeout_ms=100_000)
    shell.join("s", instance_id="i", session_timeout_ms=100_000)
    shell.pass_time(0)
    shell.sync("a syncs", shell.id_of("a"))
    shell.written()
    shell.pass_time(59_999)
    shell.join("again", instance_id="i")
    shell.pass_time(1)
    assert shell.error("again") == ErrorCode.UNKNOWN_MEMBER_ID
    shell.written()
    assert shell.group.size == 1


def test_of_two_static_members_that_come_back_the_last_one_wins(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    shell.join("first", instance_id="i")
    shell.join("second", instance_id="i")
    assert shell.error("first") == ErrorCode.FENCED_INSTANCE_ID
    shell.written(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert "second" not in shell.answers
    shell.written()
    assert shell.answers["second"].member_id == shell.id_of("s")


def test_a_session_that_ends_while_the_new_id_is_written_begins_anew(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    shell.join("again", instance_id="i")
    shell.pass_time(50_000)
    assert shell.group.size == 1
    shell.written()
    shell.pass_time(9_999)
    assert shell.is_in(GroupState.STABLE)
    shell.pass_time(1)
    assert shell.is_in(GroupState.EMPTY)


def test_a_static_member_is_late_under_its_new_id(shell: Shell) -> None:
    shell.join("a")
    shell.join("s", instance_id="i")
    shell.pass_time(0)
    shell.sync("a syncs", shell.id_of("a"), a=b"1", s=b"2")
    shell.written()
    shell.join("s again", instance_id="i")
    shell.written()
    shell.sync("s syncs", shell.id_of("s"))
    assert shell.answers["s syncs"].assignment == b"2"
    for _ in range(13):
        shell.pass_time(5_000)
        for name in "as":
            shell.group.heartbeat(shell.id_of(name), None, 1, shell.now_ms)
    assert shell.is_in(GroupState.STABLE)


# -- who waits --


def test_who_waits_when_the_same_member_asks_anew_is_answered(shell: Shell) -> None:
    shell.stable("a", "b")
    shell.join("b joins", member_id=shell.id_of("b"), protocols=(("range", b"new"),))
    shell.join("b joins again", member_id=shell.id_of("b"))
    assert shell.error("b joins") == ErrorCode.REBALANCE_IN_PROGRESS
    shell.join("a joins", member_id=shell.id_of("a"))
    assert shell.answers["b joins again"].generation == 2
    shell.sync("b syncs anew", shell.id_of("b"))
    shell.sync("b syncs once more", shell.id_of("b"))
    assert shell.error("b syncs anew") == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_waits_for_an_assignment_and_is_removed_is_answered(shell: Shell) -> None:
    shell.join("a")
    shell.join("b")
    shell.pass_time(0)
    shell.sync("b syncs", shell.id_of("b"))
    shell.group.leave([Leaving(member_id=shell.id_of("b"))], 0)
    shell.perform()
    assert shell.error("b syncs") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_protocol_that_is_named_twice_counts_once(shell: Shell) -> None:
    shell.join("a", protocols=(("range", b"1"), ("range", b"2")))
    shell.pass_time(0)
    assert shell.answers["a"].protocol_name == "range"
    assert shell.answers["a"].members[0].metadata == b"1"
    shell.join("b")
    shell.join("a again", member_id=shell.id_of("a"))
    assert shell.answers["b"].protocol_name == "range"


def test_a_new_member_does_not_wait_for_ever(shell: Shell) -> None:
    shell.stable("a", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    shell.join("b", session_timeout_ms=10)
    shell.pass_time(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert "b" not in shell.answers
    shell.pass_time(1)
    assert shell.answers["b"] == JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
    assert shell.group.size == 1


def test_a_group_of_static_members_waits_without_haste(shell: Shell) -> None:
    shell.stable("s", instance_id="i")
    shell.join("again", instance_id="i", rebalance_timeout_ms=0, session_timeout_ms=1_000)
    shell.written()
    assert shell.group.heartbeat(shell.id_of("s"), "i", 1, 0) == ErrorCode.NONE
    shell.join("b", rebalance_timeout_ms=0)
    shell.group.leave([Leaving(member_id=shell.id_of("b"))], 0)
    shell.perform()
    wakings = 0
    while not shell.is_in(GroupState.EMPTY):
        wakings += 1
        assert shell.group.deadline_ms is not None
        shell.pass_time(shell.group.deadline_ms - shell.now_ms)
    assert wakings <= 1_001  # at most one for each millisecond of its session


def test_a_coordinator_that_moves_answers_all(shell: Shell) -> None:
    shell.stable("a")
    shell.join("b")
    shell.join("pending", requires_known_member=True)
    shell.group.unload()
    shell.perform()
    assert shell.error("b") == ErrorCode.NOT_COORDINATOR
    assert shell.is_in(GroupState.DEAD)
    assert shell.group.deadline_ms is None
    a = shell.id_of("a")
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shell.group.heartbeat(a, None, 1, 0) == unavailable
    assert shell.group.check_commit(a, None, 1, 0) == unavailable
    assert shell.group.check_commit("", None, -1, 0, transactional=True) == unavailable
    assert shell.group.leave([Leaving(member_id=a)], 0) == (unavailable, [])
    shell.join("c")
    shell.join("a again", member_id=a)
    shell.sync("a syncs late", a)
    assert {shell.error(waiter) for waiter in ("c", "a again", "a syncs late")} == {unavailable}


def test_a_coordinator_that_moves_answers_who_waits_for_an_assignment(shell: Shell) -> None:
    shell.join("a")
    shell.pass_time(0)
    shell.sync("sync", shell.id_of("a"))
    shell.group.unload()
    shell.perform()
    assert shell.error("sync") == ErrorCode.NOT_COORDINATOR
    shell.written()
    assert shell.is_in(GroupState.DEAD)


# -- time --


def test_members_that_keep_coming_put_off_the_first_generation_up_to_the_rebalance_timeout() -> None:
    shell = Shell(GroupSettings(initial_rebalance_delay_ms=100))
    for name in "abcd":
        shell.join(name, rebalance_timeout_ms=250)
        shell.pass_time(60)
    assert not shell.answers
    shell.join("e", rebalance_timeout_ms=250)
    shell.pass_time(9)
    assert not shell.answers
    shell.pass_time(1)
    assert {result.generation for result in shell.answers.values()} == {1}
    assert len(shell.answers) == 5


def test_only_new_groups_wait_longer_for_more_members() -> None:
    shell = Shell(GroupSettings(initial_rebalance_delay_ms=100))
    shell.join("a")
    shell.pass_time(100)
    shell.join("b")
    shell.group.leave([Leaving(member_id=shell.id_of("a"))], shell.now_ms)
    shell.perform()
    shell.group.leave([Leaving(member_id=shell.id_of("b"))], shell.now_ms)
    shell.perform()
    assert shell.is_in(GroupState.EMPTY)
    shell.join("c")
    shell.join("d")
    shell.pass_time(100)
    assert shell.answers["c"].leader == shell.answers["d"].leader


def test_a_member_that_joins_again_says_anew_how_long_it_needs(shell: Shell) -> None:
    patient = {"session_timeout_ms": 1_000_000}
    shell.stable("a", "b", **patient)
    shell.join("a again", member_id=shell.id_of("a"), rebalance_timeout_ms=70_000, **patient)
    shell.join("b again", member_id=shell.id_of("b"), **patient)
    shell.join("c")
    shell.pass_time(69_999)
    assert "c" not in shell.answers
    shell.pass_time(1)
    assert shell.answers["c"].generation == 3


def test_a_session_begins_with_the_generation(shell: Shell) -> None:
    shell.join("a")
    shell.pass_time(9_999)
    assert shell.is_in(GroupState.COMPLETING_REBALANCE)
    shell.pass_time(1)
    assert shell.is_in(GroupState.EMPTY)


def test_a_session_begins_with_the_assignment(shell: Shell) -> None:
    shell.join("a")
    shell.join("b")
    shell.pass_time(0)
    shell.sync("b syncs", shell.id_of("b"))
    for _ in range(2):
        shell.pass_time(8_000)
        shell.group.heartbeat(shell.id_of("a"), None, 1, shell.now_ms)
    shell.sync("a syncs", shell.id_of("a"))
    shell.written()
    shell.pass_time(9_999)
    assert shell.is_in(GroupState.STABLE)
    shell.sync("b asks again", shell.id_of("b"))
    shell.pass_time(1)
    assert [each.client_id for each in shell.group.describe().members] == ["b"]
    shell.pass_time(9_999)
    assert shell.group.size == 0


def test_who_is_late_for_one_generation_is_not_missed_in_the_next_rebalance(shell: Shell) -> None:
    patient = {"session_timeout_ms": 1_000_000}
    shell.join("a", **patient)
    shell.join("b", **patient)
    shell.pass_time(0)
    shell.sync("a syncs", shell.id_of("a"))
    shell.written()
    shell.pass_time(50_000)
    shell.join("c", **patient)
    shell.pass_time(20_000)
    assert shell.is_in(GroupState.PREPARING_REBALANCE)
    assert shell.group.size == 3


def test_static_members_that_are_all_late_are_waited_for_again(shell: Shell) -> None:
    facts = {"session_timeout_ms": 200_000}
    shell.join("s", instance_id="i", **facts)
    shell.join("r", instance_id="j", **facts)
    shell.pass_time(0)
    shell.sync("r syncs", shell.id_of("r"))
    shell.sync("s syncs", shell.id_of("s"))
    shell.written()
    shell.join("b")
    shell.group.leave([Leaving(member_id=shell.id_of("b"))], 0)
    shell.pass_time(61_000)
    assert shell.is_in(GroupState.PREPARING_REBALANCE)
    shell.join("r again", member_id=shell.id_of("r"), instance_id="j")
    shell.pass_time(58_999)
    assert "r again" not in shell.answers
    shell.pass_time(1)
    assert [each.instance_id for each in shell.answers["r again"].members] == ["i", "j"]


# -- commits --


def test_transactional_commits_need_not_say_who_commits(shell: Shell) -> None:
    group = shell.group
    assert group.check_commit("", None, -1, 0, transactional=True) == ErrorCode.NONE
    shell.stable("a")
    a = shell.id_of("a")
    assert group.check_commit("", None, -1, 0, transactional=True) == ErrorCode.NONE
    assert group.check_commit("", None, -1, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_commit("", None, 1, 0, transactional=True) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_commit(a, None, 0, 0, transactional=True) == ErrorCode.ILLEGAL_GENERATION
    assert group.check_commit(a, "i", 1, 0, transactional=True) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_commit("", "i", -1, 0, transactional=True) == ErrorCode.UNKNOWN_MEMBER_ID
    shell.join("a again", member_id=a)
    assert group.state is GroupState.COMPLETING_REBALANCE
    assert group.check_commit(a, None, 2, 0, transactional=True) == ErrorCode.NONE
    assert group.check_commit(a, None, 2, 0) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life(shell: Shell) -> None:
    shell.stable("a")
    a = shell.id_of("a")
    assert shell.group.check_commit(a, None, 1, 9_000) == ErrorCode.NONE
    assert shell.group.check_commit(a, None, 1, 18_000, transactional=True) == ErrorCode.NONE
    shell.pass_time(18_999)
    assert shell.group.size == 1
    shell.pass_time(1)
    assert shell.group.size == 0


# -- subscriptions --


@pytest.mark.parametrize(
    ("protocol_type", "metadata", "topics"),
    [
        ("consumer", subscription(["t", "u"]), {"t", "u"}),
        ("consumer", b"\0\3" + subscription(["t"])[2:] + b"what later versions add", {"t"}),
        ("consumer", subscription([]), set()),
        ("consumer", b"", None),
        ("consumer", b"\0\0\0\0", None),
        ("connect", subscription(["t"]), None),
    ],
)
def test_what_a_group_subscribes(
    shell: Shell, protocol_type: str, metadata: bytes, topics: set[str] | None
) -> None:
    assert shell.group.subscribed_topics is None
    assert shell.group.is_subscribed_to("x")
    shell.join("a", protocol_type=protocol_type, protocols=(("range", metadata),))
    shell.pass_time(0)
    assert shell.group.subscribed_topics == topics
    assert shell.group.is_subscribed_to("x") == (topics is None)
    assert shell.group.is_subscribed_to("t") == (topics is None or "t" in topics)


def test_a_group_subscribes_what_any_member_does(shell: Shell) -> None:
    shell.join("a")
    shell.join("b", protocols=(("range", subscription(["u"])),))
    shell.pass_time(0)
    assert shell.group.subscribed_topics == frozenset({"t", "u"})
    shell.group.leave([Leaving(member_id=shell.id_of(name)) for name in "ab"], 0)
    assert shell.group.subscribed_topics == frozenset()


# -- states and sizes --


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("after", GroupState)
def test_there_are_no_ways_but_those_of_the_table(before: GroupState, after: GroupState) -> None:
    group = Shell().group
    group.state = before
    if before in PREDECESSORS[after]:
        group._become(after)
        assert group.state is after
    else:
        with pytest.raises(AssertionError):
            group._become(after)


def test_heartbeats_of_a_large_group_leave_the_heap_alone() -> None:
    shell = Shell()
    names = [f"m{number}" for number in range(2_000)]
    shell.stable(*names)
    entries = len(shell.group._deadlines._heap)
    ids = [each.member_id for each in shell.group.describe().members]
    for second in range(1, 4):
        for member_id in ids:
            assert shell.group.heartbeat(member_id, None, 1, second * 1_000) == ErrorCode.NONE
    assert len(shell.group._deadlines._heap) == entries
    shell.pass_time(12_999)
    assert shell.group.size == 2_000
    shell.pass_time(1)
    assert shell.is_in(GroupState.EMPTY)
