"""Groups of all clients at once whose members come, go and are killed; and a broker that is killed under them.

The laws are in members.py. ``PKAFKA_CHAOS_STEPS`` makes the short form longer, ``PKAFKA_CHAOS_SEED`` another one, and
``PKAFKA_CHAOS_WITHOUT`` leaves clients out; the long form runs nightly.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.client import Admin
from pkafka.clients.admin.results import GroupState
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pkafka.protocol.messages.sync_group import SyncGroupRequest
from tests.faults.conftest import (
    EITHER_KIND,
    GROUP_SETTINGS,
    AnyBroker,
    MakeBroker,
    broker_of_kind,
    memory_bytes,
)
from tests.faults.crowd import COMMIT_VERSION, HEARTBEAT_VERSION, JOIN_VERSION, SYNC_VERSION, Crowd
from tests.faults.family import kill, replaced
from tests.faults.members import JAVA_CLIENTS, SESSION_MS, STABLE_S, Chaos, Setting, now_ms
from tests.group_requests import (
    commit_error,
    commit_request,
    heartbeat_request,
    join_request,
    subscription,
    sync_request,
)
from tests.interop import kafka as oracle
from tests.talk import good, talking, wait_for

# In the four steps of either group that this one makes, members leave, are killed and join.
SEED: Final = int(os.environ.get("PKAFKA_CHAOS_SEED", "432"))
STEPS: Final = int(os.environ.get("PKAFKA_CHAOS_STEPS", "4"))
NIGHTLY_STEPS: Final = 40
PARTITIONS: Final = 8
MEMBERS_MAX: Final = 7
PATIENT_MS: Final = 40_000
"""The session of members of whom none is killed: who is held up for longer has lost its partitions unawares."""
_LEFT_OUT: Final = os.environ.get("PKAFKA_CHAOS_WITHOUT", "").split()
EAGER_CLIENTS: Final = tuple(
    each
    for each in (*JAVA_CLIENTS, "confluent", "kafka-python", "aiokafka", "pkafka")
    if each not in _LEFT_OUT
)
COOPERATIVE_CLIENTS: Final = tuple(
    each for each in (*JAVA_CLIENTS, "confluent", "pkafka") if each not in _LEFT_OUT
)

SETTINGS: Final = GROUP_SETTINGS | {
    "group.initial.rebalance.delay.ms": 1000,
    "zookeeper.session.timeout.ms": 6000,
}


@pytest.fixture(scope="session")
def java_members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Class paths with GroupMember for the Java clients of Kafka 3.9 and 4.1."""
    try:
        oracle.java_program("javac")
        return {
            client: oracle.compile_java(oracle.jars(bundle), tmp_path_factory.mktemp(client), "GroupMember")
            for client, bundle in zip(JAVA_CLIENTS, ("kafka", "clients"), strict=True)
        }
    except oracle.OracleUnavailableError as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=EITHER_KIND)
def broker(request: pytest.FixtureRequest, make_broker: MakeBroker, tmp_path: Path) -> Iterator[AnyBroker]:
    """A broker of its own, Apache Kafka and pkafka in turn."""
    with broker_of_kind(request.param, make_broker, tmp_path, SETTINGS) as broker:
        yield broker


@contextmanager
def chaos_of(
    bootstrap: str, assignor: str, java: dict[str, str], *, session_ms: int = SESSION_MS
) -> Iterator[Chaos]:
    setting = Setting(bootstrap, "chaos", "t", PARTITIONS, assignor, java, session_ms)
    with talking(bootstrap) as talk:
        talk.create(setting.topic, partitions=PARTITIONS)
    chaos = Chaos(setting)
    try:
        yield chaos
    except BaseException:
        for member in chaos.members:
            print(member, *member.events[-12:], sep="\n  ")
        raise
    finally:
        chaos.close()


def kill_and_start(broker: AnyBroker) -> None:
    """kill -9, and a start on the same directory."""
    broker.kill()
    broker.start()


def play(chaos: Chaos, clients: tuple[str, ...], steps: int) -> None:
    """One of each client; then members at random leave, are killed and come, one or two at a time."""
    choice = random.Random(SEED)
    for client in clients:
        chaos.join(client)
    chaos.wait_until_stable()
    for step in range(steps):
        before, since_ms = chaos.owners(), now_ms()
        for _ in range(choice.choice([1, 1, 2])):
            alive = chaos.alive
            act = choice.choice(
                ["leave", "kill", "join"]
                if 2 < len(alive) < MEMBERS_MAX
                else ["join" if len(alive) < 3 else "leave"]
            )
            if act == "join":
                print(step, "join", chaos.join(choice.choice(clients)))
            else:
                member = choice.choice(alive)
                print(step, act, member)
                (member.leave if act == "leave" else member.kill)()
        chaos.wait_until_stable()
        if chaos.setting.assignor == "cooperative-sticky":
            chaos.check_uninterrupted(before, since_ms)
    chaos.settle()
    chaos.check()


@pytest.mark.nightly  # the others have all it asks, and more
@pytest.mark.timeout(600)
def test_all_clients_in_one_group(broker: AnyBroker, java_members: dict[str, str]) -> None:
    with chaos_of(broker.bootstrap, "range", java_members) as chaos:
        play(chaos, EAGER_CLIENTS, STEPS)


@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_a_cooperative_group(broker: AnyBroker, java_members: dict[str, str]) -> None:
    with chaos_of(broker.bootstrap, "cooperative-sticky", java_members) as chaos:
        play(chaos, COOPERATIVE_CLIENTS, STEPS)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_for_long(broker: AnyBroker, java_members: dict[str, str], assignor: str) -> None:
    with chaos_of(broker.bootstrap, assignor, java_members) as chaos:
        play(chaos, EAGER_CLIENTS if assignor == "range" else COOPERATIVE_CLIENTS, NIGHTLY_STEPS)


@pytest.mark.timeout(600)
@pytest.mark.nightly  # in each change workers are killed, which takes as many clients less time
def test_all_clients_and_a_broker_that_is_killed_while_they_rebalance(
    broker: AnyBroker, java_members: dict[str, str]
) -> None:
    hurt_while_rebalancing(broker, java_members, lambda _: kill_and_start(broker))


@pytest.mark.timeout(600)
def test_all_clients_and_workers_that_are_killed_while_they_rebalance(
    make_broker: MakeBroker, java_members: dict[str, str]
) -> None:
    broker = make_broker(**SETTINGS)
    broker.start()

    def kill_worker(round_: int) -> None:
        name = f"worker-{round_}"
        replaced(broker, kill(broker, name), name)

    hurt_while_rebalancing(broker, java_members, kill_worker)


def hurt_while_rebalancing(
    broker: AnyBroker, java_members: dict[str, str], hurt: Callable[[int], None]
) -> None:
    with chaos_of(broker.bootstrap, "range", java_members, session_ms=PATIENT_MS) as chaos:
        for client in EAGER_CLIENTS:
            chaos.join(client)
        chaos.wait_until_stable()
        for round_, client in enumerate(("confluent", "pkafka")):
            chaos.join(client)
            # In the midst of it mostly; where everybody is quick it may be over.
            count = len(chaos.alive)
            wait_for(
                lambda: chaos.state() != (GroupState.STABLE, count - 1),  # noqa: B023
                timeout_s=STABLE_S,
                what="a rebalance",
            )
            hurt(round_)
            chaos.wait_until_stable()
        chaos.settle()
        chaos.check(broker_killed=True)


# -- members of the bare protocol -------------------------------------------------------------------------

LOADING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
KILLS: Final = 3
PAUSE_S: Final = 0.3


def join_of(group: str, member: str) -> JoinGroupRequest:
    """With timeouts that nobody reaches."""
    return join_request(
        group,
        member=member,
        metadata=subscription("t"),
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
    )


def sync_of(group: str, joined: JoinGroupResponse) -> SyncGroupRequest:
    """The leader gives every member its own id as its assignment."""
    shares = {each.member_id: each.member_id.encode() for each in joined.members}
    return sync_request(group, joined.member_id, joined.generation_id, shares)


class Pair:
    """Two members of a group that rebalance and commit without end, and what they were told for certain."""

    GROUP = "pair"

    def __init__(self) -> None:
        self.ids = ["", ""]
        self.synced = 0
        """The generation of the last SyncGroup that was answered."""
        self.may_be_synced = False
        """Whether a later one was on its way when the broker died."""
        self.acknowledged = [0, 0]
        self.sent = [0, 0]

    def run(self, crowd: Crowd) -> None:
        while True:
            joined = self._join(crowd)
            generation = joined[0].generation_id
            assert generation > self.synced
            self._sync(crowd, joined)
            for number in (0, 1, 0, 1, 0, 1):
                self.sent[number] += 1
                place = {("t", number): self.sent[number]}
                request = commit_request(self.GROUP, place, member=self.ids[number], generation=generation)
                answer = crowd.ask([(number, request)], COMMIT_VERSION)[number].message
                assert commit_error(answer) is ErrorCode.NONE
                self.acknowledged[number] = self.sent[number]

    def heartbeat(self, crowd: Crowd) -> ErrorCode:
        """What the coordinator says to the first member in the last generation that both know."""
        request = heartbeat_request(self.GROUP, self.ids[0], self.synced)
        return ErrorCode(crowd.ask([(0, request)], HEARTBEAT_VERSION)[0].message.error_code)

    def _join(self, crowd: Crowd) -> dict[int, JoinGroupResponse]:
        """Both join, again where one was alone, until they are in the same generation."""
        joined: dict[int, JoinGroupResponse] = {}
        stale = {0, 1}
        while True:
            for number in stale:
                crowd.send(number, join_of(self.GROUP, self.ids[number]), JOIN_VERSION)
            stale = set()
            answers = crowd.receive(PAUSE_S)
            for number, answer in answers:
                code = ErrorCode(answer.message.error_code)
                if code is ErrorCode.NONE:
                    joined[number] = answer.message
                    self.ids[number] = answer.message.member_id
                    continue
                assert code is ErrorCode.UNKNOWN_MEMBER_ID or code in LOADING
                if code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self.ids[number] = ""
                else:
                    time.sleep(0.05)
                stale.add(number)
            generations = {each.generation_id for each in joined.values()}
            if len(joined) == 2 and len(generations) == 1:
                return joined
            if len(generations) == 2 or (joined and not answers):
                # The other one waits for this one to join again.
                number = min(joined, key=lambda each: joined[each].generation_id)
                del joined[number]
                stale.add(number)

    def _sync(self, crowd: Crowd, joined: dict[int, JoinGroupResponse]) -> None:
        self.may_be_synced = True
        for number, each in joined.items():
            crowd.send(number, sync_of(self.GROUP, each), SYNC_VERSION)
        left = 2
        while left:
            for number, answer in crowd.receive(30):
                assert answer.message.error_code == ErrorCode.NONE
                assert answer.message.assignment == self.ids[number].encode()
                self.synced = joined[number].generation_id
                self.may_be_synced = False
                left -= 1


def kill_under(broker: AnyBroker, pair: Pair, delay_s: float) -> None:
    """kill -9 at any moment of the pair's rounds."""
    before = pair.synced
    wait_for(lambda: pair.synced > before, what="a rebalance")
    time.sleep(delay_s)
    broker.kill()


@pytest.mark.timeout(400)
def test_offsets_and_generations_survive_kills_in_the_midst_of_rebalances_and_commits(
    broker: AnyBroker,
) -> None:
    choice = random.Random(SEED)
    pair = Pair()
    with talking(broker.bootstrap) as talk:
        talk.create("t", partitions=2)
        wait_for(lambda: good(talk.admin.list_group_offsets({Pair.GROUP: None})[Pair.GROUP]) == {})
    for _ in range(KILLS):
        killer = threading.Thread(target=kill_under, args=(broker, pair, choice.random()))
        with closing(Crowd(broker.bootstrap, 2)) as crowd:
            killer.start()
            with pytest.raises(ConnectionError):
                pair.run(crowd)
        killer.join()
        kill_and_start(broker)
        with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            keys = [TopicPartition("t", number) for number in range(2)]
            stored = good(admin.list_group_offsets({Pair.GROUP: keys})[Pair.GROUP])
        for number, key in enumerate(keys):
            found = stored[key]
            offset = 0 if found is None else good(found).offset
            assert pair.acknowledged[number] <= offset <= pair.sent[number]
        with closing(Crowd(broker.bootstrap, 1)) as crowd:
            expected = {ErrorCode.NONE} | ({ErrorCode.ILLEGAL_GENERATION} if pair.may_be_synced else set())
            assert pair.heartbeat(crowd) in expected
    print(f"{pair.synced} generations, {sum(pair.acknowledged)} commits")


GROUPS: Final = 200
MEMBERS_PER_GROUP: Final = 10
HEARTBEAT_INTERVAL_S: Final = 3.0


def join_all(crowd: Crowd, groups: Sequence[str]) -> dict[int, JoinGroupResponse]:
    """Have every member join its group, again where its group was not complete, until all are in one generation."""
    ids = [""] * len(groups)
    joined: dict[int, JoinGroupResponse] = {}
    deadline = time.monotonic() + 60
    again = set(range(len(groups)))
    while True:
        for number in again:
            joined.pop(number, None)
            crowd.send(number, join_of(groups[number], ids[number]), JOIN_VERSION)
        answers = crowd.receive(1.0)
        for number, answer in answers:
            assert answer.message.error_code == ErrorCode.NONE
            ids[number] = answer.message.member_id
            joined[number] = answer.message
        generations = Counter((groups[number], each.generation_id) for number, each in joined.items())
        complete = {group for (group, _), members in generations.items() if members == MEMBERS_PER_GROUP}
        if len(complete) == GROUPS:
            return joined
        assert time.monotonic() < deadline, f"{len(complete)} groups are complete"
        # Nothing comes any more: who was not there at first waits for the others to join again.
        again = set() if answers else {number for number in joined if groups[number] not in complete}


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_two_thousand_members(broker: AnyBroker) -> None:
    """In 200 groups, each with a connection: everybody joins, is given an assignment, commits, and keeps its place."""
    count = GROUPS * MEMBERS_PER_GROUP
    with talking(broker.bootstrap) as talk:
        talk.create("t", partitions=MEMBERS_PER_GROUP)
        wait_for(lambda: good(talk.admin.list_group_offsets({"g0": None})["g0"]) == {})
    idle = memory_bytes(broker)
    with closing(Crowd(broker.bootstrap, count)) as crowd:
        groups = [f"g{number % GROUPS}" for number in range(count)]
        joined = join_all(crowd, groups)
        ids = [joined[number].member_id for number in range(count)]
        synced = crowd.ask(
            ((number, sync_of(groups[number], joined[number])) for number in range(count)), SYNC_VERSION
        )
        for number, answer in synced.items():
            assert answer.message.error_code == ErrorCode.NONE
            assert answer.message.assignment == ids[number].encode()
        begin = time.monotonic()
        commits = crowd.ask(
            (
                (
                    number,
                    commit_request(
                        groups[number],
                        {("t", number // GROUPS): 7},
                        member=ids[number],
                        generation=joined[number].generation_id,
                    ),
                )
                for number in range(count)
            ),
            COMMIT_VERSION,
        )
        commit_s = time.monotonic() - begin
        assert {commit_error(answer.message) for answer in commits.values()} == {ErrorCode.NONE}
        beats = crowd.ask_in_turn(
            range(count),
            lambda number: heartbeat_request(groups[number], ids[number], joined[number].generation_id),
            HEARTBEAT_VERSION,
            interval_s=HEARTBEAT_INTERVAL_S,
            seconds=4 * HEARTBEAT_INTERVAL_S,
        )
        busy = memory_bytes(broker)
    assert {answer.message.error_code for answer in beats} == {ErrorCode.NONE}
    times_ms = sorted(1000 * answer.took_s for answer in beats)
    print(
        f"{count} members: {len(beats)} heartbeats, {times_ms[len(times_ms) // 2]:.1f} ms median, "
        f"{times_ms[int(0.99 * len(times_ms))]:.1f} ms for 99 %, {times_ms[-1]:.0f} ms at most; "
        f"{count} commits in {commit_s:.2f} s; {idle / 1e6:.0f} MB idle, {busy / 1e6:.0f} MB with all of them"
    )
    assert times_ms[-1] < 1000 * HEARTBEAT_INTERVAL_S
    assert busy - idle < count * 50_000
