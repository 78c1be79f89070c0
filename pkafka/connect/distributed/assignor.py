"""How the leader of a Connect cluster shares connectors and tasks out among its workers. Pure: the time is given.

:class:`IncrementalAssignor` decides as Java's ``IncrementalCooperativeAssignor`` of Kafka 3.9 does (KIP-415), in every
order that shows: it may take over from a leader in Java, and the other way round. It knows what was assigned in the
round before. So it sees what a worker that left had, and waits with that for ``scheduled.rebalance.max.delay.ms``: a
worker that comes back meanwhile gets its own again. :class:`EagerAssignor` gives everything anew each time.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Final, NamedTuple, Protocol, TypeVar

from pkafka.connect.distributed.group_protocol import (
    CONFIG_MISMATCH,
    NO_ERROR,
    Compatibility,
    ExtendedAssignment,
    WorkerState,
    encode_assignment,
)
from pkafka.connect.distributed.work import Work, configured_work, java_order
from pkafka.java.hashing import hash_order

_BACKOFF_FACTOR: Final = 40
"""By which the wait grows between two rounds that take work away for balance (KAFKA-12495); it begins with 40 ms."""

T = TypeVar("T")


class Configured(NamedTuple):
    """The configuration that the leader has read.

    Args:
        offset: of the end of what it has read.
        tasks: every connector, with the number of its tasks.
    """

    offset: int
    tasks: Mapping[str, int]


class Round(NamedTuple):
    """One rebalance, as its leader sees it.

    Args:
        members: what each worker said, by member id, in the order of the coordinator's answer.
        leader: the leader's member id.
        configured: what the leader has read, again if it was behind.
        generation: the one that begins.
        last_completed_generation: the last of which the leader got its own assignment; -1: none.
    """

    members: Mapping[str, WorkerState]
    leader: str
    configured: Configured
    generation: int
    last_completed_generation: int


class Shared(NamedTuple):
    """What a leader has decided.

    Args:
        assignments: what to tell each member.
        owned: what each has then, without what is taken from it; empty where the leader could not decide.
        delay_ms: after which the group has to come together again; 0: there is no need.
    """

    assignments: Mapping[str, ExtendedAssignment]
    owned: Mapping[str, Work]
    delay_ms: int

    def encoded(self) -> list[tuple[str, bytes]]:
        """The assignments as the coordinator takes them."""
        return [(member, encode_assignment(each, each.version)) for member, each in self.assignments.items()]


class Assignor(Protocol):
    """Shares work out."""

    def assign(self, given: Round, now_ms: int) -> Shared: ...


class Assignors:
    """The assignors of one worker, which it keeps for as long as it lives.

    Args:
        max_delay_ms: ``scheduled.rebalance.max.delay.ms``.
    """

    def __init__(self, max_delay_ms: int) -> None:
        self._eager = EagerAssignor()
        self._incremental = IncrementalAssignor(max_delay_ms)

    def assign(self, protocol: str, given: Round, now_ms: int) -> Shared:
        """Share work out in the way of the protocol that the group uses.

        Raises:
            ProtocolError: there is no such protocol.
        """
        version = Compatibility.of_protocol(protocol)
        if version is Compatibility.EAGER:
            return self._eager.assign(given, now_ms)
        return self._incremental.assign(given, now_ms, version)


def furthest_offset(members: Iterable[WorkerState]) -> int:
    """Up to where the worker that knows most has read the configuration."""
    return max(each.config_offset for each in members)


def leader_knows(configured: Configured, members: Iterable[WorkerState]) -> bool:
    """Whether the leader may decide: it has read all that any member has. It should read on, before it gives up."""
    return configured.offset >= furthest_offset(members)


class EagerAssignor:
    """Deals connectors and then tasks out, one to each member in turn."""

    def assign(self, given: Round, now_ms: int) -> Shared:
        """The assignments of a round; version 0."""
        if not leader_knows(given.configured, given.members.values()):
            return _mismatch(given, Compatibility.EAGER)
        dealt = {member: Work() for member in sorted(given.members, key=java_order)}
        turns = cycle(dealt.values())
        work = configured_work(given.configured.tasks).sorted()
        for connector in work.connectors:
            next(turns).connectors[connector] = None
        for task in work.tasks:
            next(turns).tasks[task] = None
        return Shared(_assignments(given, Compatibility.EAGER, dealt, {}, 0), dealt, 0)


class IncrementalAssignor:
    """Leaves work where it is, and moves as little as makes the load even.

    Args:
        max_delay_ms: how long the work of a worker that left waits for it.
    """

    def __init__(self, max_delay_ms: int) -> None:
        self._max_delay_ms = max_delay_ms
        self._assigned = Work()
        """What the members had after the last round, and what waits for a worker that left."""
        self._revoked = Work()
        """What was taken from members in the last round."""
        self._has_revoked_for_balance = False
        self._revocations_in_a_row = 0
        self._candidates: dict[str, None] = {}
        """Members that had nothing while work was waiting; one of them is probably the worker that left."""
        self._scheduled_ms = 0
        self._delay_ms = 0
        self._generation = -1
        self._members: frozenset[str] = frozenset()

    def assign(self, given: Round, now_ms: int, version: Compatibility = Compatibility.SESSIONED) -> Shared:
        """The assignments of a round.

        Args:
            now_ms: the time, by a clock that never goes back.
            version: of the protocol that the group uses; 1 or 2.
        """
        if not leader_knows(given.configured, given.members.values()):
            return _mismatch(given, version)
        if self._generation != given.last_completed_generation:
            # The last assignment of this leader may have reached nobody, or there were other leaders since.
            self._assigned = Work()
        had = {
            member: Work.of(given.members[member].connectors, given.members[member].tasks)
            for member in hash_order(given.members)
        }
        added, revoked, owned = self._share(configured_work(given.configured.tasks), had, now_ms)
        self._generation = given.generation
        self._members = frozenset(given.members)
        assignments = _assignments(given, version, added, revoked, self._delay_ms)
        return Shared(assignments, owned, self._delay_ms)

    def _share(
        self, configured: Work, had: Mapping[str, Work], now_ms: int
    ) -> tuple[dict[str, Work], dict[str, Work], dict[str, Work]]:
        """Decide.

        Args:
            had: by the members; walked as Java walks them.

        Returns:
            What each member gets, what it must give up, and what it has then.
        """
        active = _all_of(had.values())
        if self._revoked.meets(active):
            # Someone never heard that it had to give work up.
            self._assigned = active
        self._revoked = Work()
        deleted = self._assigned.minus(configured)
        lost = self._assigned.minus(active, deleted).sorted()
        new = configured.minus(self._assigned, active).sorted()
        revoked = {member: each.shared_with(deleted) for member, each in had.items()}
        twice = _twice(had.values())
        for member, each in had.items():
            revoked[member].add(each.shared_with(twice))
        after = {member: each.minus(revoked[member]) for member, each in had.items()}
        new.add(self._mind_lost(lost, after, now_ms))
        for member, each in self._balance(configured, after, now_ms).items():
            revoked[member].add(each)
            after[member] = after[member].minus(each)
        _deal({member: each.connectors for member, each in after.items()}, new.connectors)
        _deal({member: each.tasks for member, each in after.items()}, new.tasks)
        self._revoked = _all_of(revoked.values())
        self._assigned = _all_of(after.values()).minus(self._revoked)
        self._assigned.add(lost)
        added = {member: each.minus(had[member].minus(deleted)) for member, each in after.items()}
        return added, revoked, {member: each.minus(revoked[member]) for member, each in after.items()}

    # -- work of workers that left --

    def _mind_lost(self, lost: Work, after: Mapping[str, Work], now_ms: int) -> Work:
        """Decide what becomes of work that no member has any more.

        Args:
            after: what the members have; candidates get lost work here.

        Returns:
            What is to be dealt out like new work.
        """
        if not lost and not self._has_revoked_for_balance:
            self._end_delay()
            return Work()
        if self._scheduled_ms <= 0 and self._members <= after.keys():
            return lost  # nobody has left: an assignment did not arrive
        if self._max_delay_ms == 0:
            return lost
        if 0 < self._scheduled_ms <= now_ms:
            return self._give_up_waiting(lost, after)
        self._candidates |= dict.fromkeys(hash_order([name for name, each in after.items() if not each]))
        wait_ms = self._scheduled_ms - now_ms
        self._delay_ms = min(wait_ms, self._max_delay_ms) if wait_ms > 0 else self._max_delay_ms
        self._scheduled_ms = now_ms + self._delay_ms
        return Work()

    def _give_up_waiting(self, lost: Work, after: Mapping[str, Work]) -> Work:
        candidates = [after[member] for member in self._candidates if member in after]
        self._end_delay()
        self._has_revoked_for_balance = False
        if not candidates:
            return lost
        for connector, candidate in zip(lost.connectors, cycle(candidates), strict=False):
            candidate.connectors[connector] = None
        for task, candidate in zip(lost.tasks, cycle(candidates), strict=False):
            candidate.tasks[task] = None
        return Work()

    def _end_delay(self) -> None:
        self._candidates.clear()
        self._scheduled_ms = self._delay_ms = 0

    # -- an even load --

    def _balance(self, configured: Work, after: Mapping[str, Work], now_ms: int) -> dict[str, Work]:
        """What to take from members now so that others can have it in the next round."""
        if self._delay_ms != 0:
            self._has_revoked_for_balance = False
            return {}
        wanted = _too_much(configured, after)
        if not wanted:
            if self._has_revoked_for_balance:
                self._has_revoked_for_balance = False
                self._revocations_in_a_row = 0
            return {}
        if not self._has_revoked_for_balance:
            self._has_revoked_for_balance = True
            return wanted
        # Members that come and go would have the group rebalance for ever: wait longer each time.
        self._revocations_in_a_row += 1
        self._delay_ms = self._backoff_ms()
        if self._delay_ms == 0:
            return wanted
        self._scheduled_ms = now_ms + self._delay_ms
        return {}

    def _backoff_ms(self) -> int:
        most = self._max_delay_ms
        if most <= 1:
            return most
        power = min(self._revocations_in_a_row, math.log(most) / math.log(_BACKOFF_FACTOR))
        return min(most, int(math.pow(_BACKOFF_FACTOR, power)))


def _too_much(configured: Work, after: Mapping[str, Work]) -> dict[str, Work]:
    """What members have beyond an even share."""
    if not configured or not any(after.values()):
        return {}
    connectors = _beyond_share(
        len(configured.connectors), {member: list(each.connectors) for member, each in after.items()}
    )
    tasks = _beyond_share(len(configured.tasks), {member: list(each.tasks) for member, each in after.items()})
    found = {member: Work() for member in after if member in connectors or member in tasks}
    for member, each in found.items():
        each.add(Work.of(connectors.get(member, ()), tasks.get(member, ())))
    return found


def _beyond_share(total: int, held: Mapping[str, Sequence[T]]) -> dict[str, list[T]]:
    """What each holds beyond its share of a total; where it does not divide, the first may hold one more."""
    least, extras = divmod(total, len(held))
    sizes = [len(each) for each in held.values()]
    with_extra = sizes.count(least + 1)
    if with_extra == extras and sizes.count(least) + with_extra == len(sizes):
        return {}
    found: dict[str, list[T]] = {}
    for member, each in held.items():
        if len(each) <= least:
            continue
        allowed = least
        if extras > 0:
            extras -= 1
            allowed += 1
            if len(each) == allowed:
                continue
        found[member] = list(each[: len(each) - allowed])
    return found


def _deal(held: Mapping[str, dict[T, None]], items: Iterable[T]) -> None:
    """Give items to those who hold least, one each in turn, until the load is even."""
    order = [held[member] for member in sorted(held, key=lambda each: (len(held[each]), java_order(each)))]
    left = list(items)
    while left:
        most = len(order[0])
        lightest = next((at for at, each in enumerate(order) if len(each) > most), len(order))
        for each, item in zip(order[:lightest], left, strict=False):
            each[item] = None
        del left[:lightest]


def _all_of(works: Iterable[Work]) -> Work:
    found = Work()
    for each in works:
        found.add(each)
    return found


def _twice(works: Iterable[Work]) -> Work:
    """What more than one member has."""
    seen, found = Work(), Work()
    for each in works:
        found.add(
            Work.of(
                [name for name in each.connectors if name in seen.connectors],
                [task for task in each.tasks if task in seen.tasks],
            )
        )
        seen.add(each)
    return found


def _mismatch(given: Round, version: Compatibility) -> Shared:
    """Nobody gets anything: all read the configuration on and join again."""
    assignments = _assignments(given, version, {}, {}, 0, error=CONFIG_MISMATCH)
    return Shared(assignments, {}, 0)


def _assignments(
    given: Round,
    version: Compatibility,
    added: Mapping[str, Work],
    revoked: Mapping[str, Work],
    delay_ms: int,
    *,
    error: int = NO_ERROR,
) -> dict[str, ExtendedAssignment]:
    nothing = Work()
    offset = max(given.configured.offset, furthest_offset(given.members.values()))
    return {
        member: ExtendedAssignment(
            int(version),
            error,
            given.leader,
            given.members[given.leader].url,
            offset,
            tuple(added.get(member, nothing).connectors),
            tuple(added.get(member, nothing).tasks),
            tuple(revoked.get(member, nothing).connectors),
            tuple(revoked.get(member, nothing).tasks),
            delay_ms,
        )
        for member in given.members
    }
