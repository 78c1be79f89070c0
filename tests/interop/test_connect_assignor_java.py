"""A leader of a Connect cluster decides what Java's would decide, round after round, to the byte."""

import random
from collections.abc import Iterator

import pytest

from pkafka.connect.distributed.assignor import Assignors, Round
from pkafka.connect.distributed.group_protocol import (
    Compatibility,
    ExtendedAssignment,
    WorkerState,
    decode_assignment,
    decode_state,
    encode_state,
    offered,
)
from pkafka.connect.states import TaskName
from tests.connect_group import Cluster
from tests.interop.line_oracle import LineOracle, line_oracle

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

NAMES = ("a", "b", "source", "sink-1", "sink-2", "größer", "日本", "x" * 40, "Aa", "BB")
"""The last two have the same hash code."""
STEPS = 16


@pytest.fixture(scope="module")
def oracle(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "ConnectAssignorOracle") as started:
        yield started


def answer(oracle: LineOracle, line: str) -> str:
    said = oracle.ask(line)
    assert said.startswith("ok"), said
    return said[3:]


def javas(oracle: LineOracle, given: Round, protocol: str, version: int, now_ms: int) -> dict[str, bytes]:
    configured = ",".join(f"{name}={count}" for name, count in given.configured.tasks.items()) or "-"
    members = " ".join(
        f"{member}={encode_state(state, version).hex()}" for member, state in given.members.items()
    )
    asked = (
        f"assign {now_ms} {given.generation} {given.last_completed_generation} {given.leader} {protocol}"
        f" {given.configured.offset} {configured} {members}"
    )
    pairs = (word.split("=") for word in answer(oracle, asked).split())
    return {member: bytes.fromhex(data) for member, data in pairs}


class History:
    """A cluster to which things happen by chance."""

    def __init__(self, seed: int, version: Compatibility) -> None:
        self.chance = random.Random(seed)
        self.cluster = Cluster(version)
        self.max_delay_ms = self.chance.choice((0, 1, 39, 5_000, 300_000))
        self.size = self.chance.choice((3, 3, 6, 25))
        self.left: dict[str, ExtendedAssignment | None] = {}
        self.cluster.join("leader")
        for _ in range(self.chance.randrange(3)):
            self.change()

    def change(self) -> None:
        """Something happens between two rounds."""
        chance, cluster = self.chance, self.cluster
        happens = chance.randrange(10)
        others = [member for member in cluster.members if member != "leader"]
        if happens < 3 and len(others) < self.size:
            cluster.join(f"connect-{chance.randrange(100)}-{chance.getrandbits(32):08x}")
        elif happens < 5 and others:
            gone = chance.choice(others)
            self.left[gone] = cluster.members[gone]
            cluster.leave(gone)
        elif happens == 5 and self.left:  # one comes back that did not hear that it was given up
            member, had = self.left.popitem()
            cluster.members[member] = had
        elif happens < 9:
            cluster.configure(
                **{name: chance.randrange(9) for name in chance.sample(NAMES, chance.randrange(len(NAMES)))}
            )
        cluster.now_ms += chance.choice((0, 1, 20, 39, 40, 41, 1_600, 5_000, 64_000, 300_000))

    def order(self) -> list[str]:
        others = [member for member in self.cluster.members if member != "leader"]
        return ["leader", *self.chance.sample(others, len(others))]


@pytest.mark.parametrize("version", Compatibility, ids=lambda each: each.protocol)
def test_histories_of_a_cluster_are_javas(oracle: LineOracle, version: Compatibility) -> None:
    for seed in range(150):
        history = History(seed, version)
        cluster, chance = history.cluster, history.chance
        assignors = Assignors(history.max_delay_ms)
        answer(oracle, f"new {history.max_delay_ms}")
        for step in range(STEPS):
            given = cluster.next_round(history.order())
            ours = assignors.assign(version.protocol, given, cluster.now_ms)
            java = javas(oracle, given, version.protocol, version, cluster.now_ms)
            assert {member: decode_assignment(data) for member, data in ours.encoded()} == {
                member: decode_assignment(data) for member, data in java.items()
            }, (seed, step)
            assert dict(ours.encoded()) == java, (seed, step)
            deaf = {member for member in cluster.members if chance.random() < 0.05}
            cluster.take(java, deaf, leader=chance.random() > 0.05)
            while chance.random() < 0.6:
                history.change()


@pytest.mark.parametrize("max_delay_ms", [1, 39, 41, 1_600, 5_000, 300_000, 2**31 - 1])
def test_waits_of_a_cluster_that_workers_keep_joining_are_javas(
    oracle: LineOracle, max_delay_ms: int
) -> None:
    delays: set[int] = set()
    for seed in range(8):
        chance = random.Random(seed)
        cluster = Cluster()
        cluster.configure(a=40, b=2)
        cluster.join("leader")
        assignors = Assignors(max_delay_ms)
        answer(oracle, f"new {max_delay_ms}")
        for step in range(40):
            given = cluster.next_round()
            shared = assignors.assign("sessioned", given, cluster.now_ms)
            java = javas(oracle, given, "sessioned", Compatibility.SESSIONED, cluster.now_ms)
            assert dict(shared.encoded()) == java, (seed, step)
            delays.add(shared.delay_ms)
            cluster.take(java)
            cluster.now_ms += chance.choice((shared.delay_ms, shared.delay_ms, shared.delay_ms // 2))
            # Now and then it is calm for long enough to begin anew.
            if chance.random() < (0.9 if step % 20 < 14 else 0.0):
                cluster.join(f"m{step}")
    assert {0, min(40, max_delay_ms)} <= delays
    assert max_delay_ms < 1_600 or len(delays) > 3


@pytest.mark.parametrize("version", Compatibility, ids=lambda each: each.protocol)
def test_a_leader_that_is_behind_says_so_to_all(oracle: LineOracle, version: Compatibility) -> None:
    cluster = Cluster(version)
    cluster.configure(a=2)
    cluster.join("m1", "m2")
    given = cluster.next_round()
    behind = given._replace(configured=given.configured._replace(offset=given.configured.offset - 1))
    answer(oracle, "new 300000")
    java = javas(oracle, behind, version.protocol, version, 0)
    assert dict(Assignors(300_000).assign(version.protocol, behind, 0).encoded()) == java
    assert all(decode_assignment(data).failed for data in java.values())


@pytest.mark.parametrize("compatibility", Compatibility, ids=lambda each: each.name)
def test_what_a_worker_offers_is_javas(oracle: LineOracle, compatibility: Compatibility) -> None:
    names = [*NAMES, *(f"c{number}" for number in range(14))]
    chance = random.Random(4)
    had: list[ExtendedAssignment | None] = [None]
    for size in (0, 1, 5, 11, 12, 13, 24):
        revoked = chance.sample(names, min(3, size))
        had.append(
            ExtendedAssignment(
                2, 0, "m-1", "http://h:1/", 7, tuple(chance.sample(names, size)),
                tuple(TaskName(chance.choice(names), number) for number in range(size)),
                tuple(revoked), tuple(TaskName(name, 3) for name in revoked), 40,
            )
        )  # fmt: skip
    for each in had:
        state = WorkerState("http://größe:8083/", 2**40, each)
        data = encode_state(state, Compatibility.SESSIONED)
        java = answer(oracle, f"offer {compatibility.name.lower()} {data.hex()}")
        ours = offered(compatibility, state)
        assert [f"{name}={each.hex()}" for name, each in ours] == java.split()
        for _, bytes_ in ours:
            version, read = decode_state(bytes_)
            assert encode_state(read, version) == bytes_
