"""Whatever members ask, in whatever order, with the log slow or failing: what holds of a group at all times."""

import itertools
from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pkafka.errors import ErrorCode
from pkafka.server.groups.deadlines import DeadlineKind
from pkafka.server.groups.effects import Answer, JoinResult, Store, StoreAssignment
from pkafka.server.groups.events import JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.group import Group, GroupSettings
from pkafka.server.groups.members import Member
from pkafka.server.groups.states import GroupState

SETTINGS = GroupSettings(initial_rebalance_delay_ms=300, min_session_timeout_ms=1, max_size=4)
PROTOCOLS = ((("range", b"r"),), (("range", b"r"), ("sticky", b"s")), (("sticky", b"s"), ("range", b"R")))
INSTANCES = ("i", "j")
DAY_MS = 24 * 3_600_000
choices = st.integers(0, 1_000)


class GroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.waiters = itertools.count(1)
        self.waiting: set[object] = set()
        self.stores: list[Store] = []
        self.generation = 0
        self.state = GroupState.EMPTY

    @initialize()
    def create(self) -> None:
        uuids = (f"u{number}" for number in itertools.count())
        self.group = Group("g", SETTINGS, wall_clock_ms=lambda: self.now_ms, new_uuid=uuids.__next__)
        self.known_ids = ["", "nobody"]

    # -- what members do --

    @rule(
        who=choices,
        instance=st.sampled_from((None, None, *INSTANCES)),
        protocols=st.sampled_from(PROTOCOLS),
        session=st.sampled_from((500, 5_000)),
        rebalance=st.sampled_from((0, 400, 4_000)),
        modern=st.booleans(),
    )
    def join(
        self,
        who: int,
        instance: str | None,
        protocols: tuple[tuple[str, bytes], ...],
        session: int,
        rebalance: int,
        modern: bool,
    ) -> None:
        request = JoinRequest(
            member_id=self.some_id(who),
            instance_id=instance,
            client_id="c",
            client_host="/h",
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            protocol_type="consumer",
            protocols=protocols,
            requires_known_member=modern,
            can_skip_assignment=modern,
        )
        self.group.join(self.new_waiter(), request, self.now_ms)
        self.perform()

    @rule(who=choices)
    def join_in_order(self, who: int) -> None:
        late = [member for member in self.members() if member.join_waiter is None]
        if late and self.group.state is GroupState.PREPARING_REBALANCE:
            member = late[who % len(late)]
            self.known_ids.append(member.member_id)
            self.join(len(self.known_ids) - 1, member.instance_id, member.protocols, 5_000, 4_000, True)

    @rule(who=choices, generation=st.sampled_from((0, 0, 0, 0, -1)))
    def sync(self, who: int, generation: int) -> None:
        self.send_sync(self.some_id(who), generation)

    @rule(who=choices)
    def sync_in_order(self, who: int) -> None:
        late = sorted(self.group._members.pending_sync)
        if late:
            self.send_sync(late[who % len(late)], 0)

    @rule()
    def sync_of_all(self) -> None:
        for member in self.members():
            self.send_sync(member.member_id, 0)

    def send_sync(self, member_id: str, generation_change: int) -> None:
        generation = self.group.generation + generation_change
        shares = {member.member_id: b"%d" % generation for member in self.members()}
        request = SyncRequest(member_id=member_id, generation=generation, assignments=shares)
        self.group.sync(self.new_waiter(), request, self.now_ms)
        self.perform()

    @rule(who=choices, generation=st.sampled_from((0, 0, -1)))
    def heartbeat(self, who: int, generation: int) -> None:
        self.group.heartbeat(self.some_id(who), None, self.group.generation + generation, self.now_ms)
        self.perform()

    @rule(who=choices, transactional=st.booleans())
    def commit(self, who: int, transactional: bool) -> None:
        generation = self.group.generation
        self.group.check_commit(self.some_id(who), None, generation, self.now_ms, transactional=transactional)
        self.perform()

    @rule(who=st.lists(choices, max_size=2), instance=st.sampled_from((None, *INSTANCES)))
    def leave(self, who: list[int], instance: str | None) -> None:
        leaving = [Leaving(member_id=self.some_id(each)) for each in who]
        if instance is not None:
            leaving.append(Leaving(member_id="", instance_id=instance))
        self.group.leave(leaving, self.now_ms)
        self.perform()

    # -- what else happens --

    @rule(ms=st.sampled_from((1, 100, 500, 1_000, 5_000)))
    def time_passes(self, ms: int) -> None:
        self.pass_time(ms)

    @precondition(lambda self: self.stores)
    @rule(
        which=choices, error=st.sampled_from((ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS))
    )
    def something_is_written(self, which: int, error: ErrorCode) -> None:
        store = self.stores.pop(which % len(self.stores))
        self.group.stored(store, error, self.now_ms)
        self.perform()

    @precondition(lambda self: not self.stores and self.group.state is not GroupState.DEAD)
    @rule()
    def nobody_asks_anything_for_a_day(self) -> None:
        self.pass_time(DAY_MS)
        assert self.group.state is GroupState.EMPTY
        assert not self.waiting

    @rule(dies=st.sampled_from((False,) * 20 + (True,)))
    def unload(self, dies: bool) -> None:
        if dies:
            self.group.unload()
            self.perform()
            assert not self.waiting
            assert self.group.deadline_ms is None

    def teardown(self) -> None:
        self.unload(True)

    # -- what holds --

    @invariant()
    def who_waits_is_known_and_will_be_answered(self) -> None:
        parked = [waiter for member in self.members() for waiter in (member.join_waiter, member.sync_waiter)]
        assert {waiter for waiter in parked if waiter is not None} == self.waiting
        if self.waiting and not self.stores:
            assert self.group.deadline_ms is not None

    @invariant()
    def a_group_with_members_has_a_leader_among_them(self) -> None:
        ids = [member.member_id for member in self.members()]
        assert (self.group.leader in ids) if ids else (self.group.leader is None)
        if self.group.state is GroupState.EMPTY:
            assert not ids

    @invariant()
    def the_generation_never_decreases(self) -> None:
        assert self.group.generation >= self.generation
        self.generation = self.group.generation

    @invariant()
    def members_of_a_stable_group_have_assignments_of_this_generation(self) -> None:
        if self.group.state is GroupState.STABLE:
            assert {member.assignment for member in self.members()} == {b"%d" % self.group.generation}

    @invariant()
    def nobody_stays_without_a_sign_of_life(self) -> None:
        deadlines = self.group._deadlines
        if self.group.state is GroupState.DEAD:
            return
        for member in self.members():
            waits = member.join_waiter is not None or member.sync_waiter is not None
            assert waits or (DeadlineKind.SESSION, member.member_id) in deadlines
        for member_id in self.group._members.pending:
            assert (DeadlineKind.PENDING, member_id) in deadlines
        assert ((DeadlineKind.JOIN, "") in deadlines) == (self.group.state is GroupState.PREPARING_REBALANCE)
        assert ((DeadlineKind.SYNC, "") in deadlines) <= bool(self.group._members.pending_sync)

    @invariant()
    def what_is_kept_is_what_could_be_counted(self) -> None:
        members = self.group._members
        assert members.awaiting_join == sum(member.join_waiter is not None for member in members)
        assert members._static == {
            member.instance_id: member.member_id for member in members if member.instance_id is not None
        }
        assert not members.pending.keys() & {member.member_id for member in members}
        for name in ("range", "sticky"):
            supporters = sum(name in dict(member.protocols) for member in members)
            assert members._supporters[name] == supporters
        assert all(members._supporters.values())

    # -- the shell --

    def members(self) -> Iterable[Member]:
        return list(self.group._members)

    def some_id(self, choice: int) -> str:
        recent = self.known_ids[-6:]
        return recent[choice % len(recent)] if choice % 4 else ""

    def new_waiter(self) -> object:
        waiter = next(self.waiters)
        self.waiting.add(waiter)
        return waiter

    def perform(self) -> None:
        for effect in self.group.take_effects():
            if isinstance(effect, Answer):
                self.waiting.remove(effect.waiter)  # KeyError: answered twice
                if isinstance(effect.result, JoinResult) and effect.result.member_id:
                    self.known_ids.append(effect.result.member_id)
            else:
                if isinstance(effect, StoreAssignment):
                    assert effect.assignments.keys() == {each.member_id for each in effect.value.members}
                self.stores.append(effect)

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (deadline_ms := self.group.deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.group.expire(self.now_ms)
            self.perform()
        self.now_ms = end_ms


# Cheap examples, and rare meetings: a slow record, a session's end and a second request at once.
GroupModel.TestCase.settings = settings(max_examples=2 * settings().max_examples, stateful_step_count=60)
TestGroupModel = GroupModel.TestCase
