"""One client asks to join more groups than anybody has, or one group more often: it costs little, and not for ever.

Who asks without a member id is given one, and a group is made where there is none (KIP-394). Nobody comes back with
that id, so it is forgotten when its session ends. The group stays, Empty, until the coordinator looks for groups that
have neither members nor offsets, every ``offsets.retention.check.interval.ms``: in Apache Kafka as here.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from pkafka.errors import ErrorCode
from tests.faults.conftest import (
    EITHER_KIND,
    GROUP_SETTINGS,
    AnyBroker,
    MakeBroker,
    MeasuredBroker,
    broker_of_kind,
    memory_bytes,
)
from tests.group_client import GroupClient
from tests.group_requests import join_request
from tests.talk import wait_for

SESSION_MS: Final = 1_000
REBALANCE_S: Final = 10.0
"""The members' rebalance timeout, see GroupClient; only who knew of more members than there are waits so long."""
EACH_CHANGE: Final = 5_000
COUNTS: Final = (EACH_CHANGE, pytest.param(100_000, marks=pytest.mark.nightly))
ROUNDS: Final = 4
TIMEOUT_S: Final = 900
AT_ONCE: Final = 200
BYTES_PER_GROUP: Final = 4_000
BYTES_PER_MEMBER: Final = 1_000
"""That is only known by its id."""
SETTINGS: Final = GROUP_SETTINGS | {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": SESSION_MS,
}
BYSTANDERS: Final = tuple(f"bystander-{number}" for number in range(8))
"""Enough for each worker to have one."""
HEARTBEAT_INTERVAL_S: Final = 3.0
"""Of consumers as they come: an answer that takes longer meets the next heartbeat."""
BUSY_S: Final = 30.0
"""The same in each change, on a machine that does other things."""


class Bystander:
    """The only member of a group that nobody floods; its heartbeats do not stop."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.longest_s = 0.0
        self._group = group
        self._client = GroupClient(bootstrap)
        self._member, self._generation = self._client.settle(group, session_timeout_ms=120_000)
        self._errors: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            began_s = time.monotonic()
            code = self._client.heartbeat(self._group, self._member, self._generation)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            if code:
                self._errors.add(ErrorCode(code).name)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        self._client.close()

    def check(self, answered_s: float) -> None:
        assert not self._errors
        assert self.longest_s < answered_s


@contextmanager
def bystanders(bootstrap: str, answered_s: float = HEARTBEAT_INTERVAL_S) -> Iterator[None]:
    """On leaving, all of them were answered all the time, and within ``answered_s``."""
    present = [Bystander(bootstrap, group) for group in BYSTANDERS]
    try:
        yield
    finally:
        for each in present:
            each.stop()
    for each in present:
        each.check(answered_s)
    print(f"a heartbeat took {max(each.longest_s for each in present):.3f} s at most")


@contextmanager
def ready(
    kind: str, make_broker: MakeBroker, tmp_path: Path, **settings: object
) -> Iterator[tuple[AnyBroker, GroupClient]]:
    """A broker that coordinates all groups, and a client."""
    settings = SETTINGS | {key.replace("_", "."): value for key, value in settings.items()}
    with (
        broker_of_kind(kind, make_broker, tmp_path, settings) as broker,
        GroupClient(broker.bootstrap) as client,
    ):
        client.make_topic_of_groups()
        for group in BYSTANDERS:
            client.coordinate(group)
        yield broker, client


def flood(client: GroupClient, groups: Iterable[str]) -> None:
    """Ask to join each of the groups, without an id."""
    left = iter(groups)
    while some := list(islice(left, AT_ONCE)):
        requests = [join_request(group, session_timeout_ms=SESSION_MS) for group in some]
        client.client.send_bytes(b"".join(client.client.encoded(each, 4) for each in requests))
        for _ in some:
            assert client.client.receive().error_code == ErrorCode.MEMBER_ID_REQUIRED


def check_is_flat(after: Sequence[int], round_bytes: int) -> None:
    """The first round finds out how much an allocator holds in reserve; no later one adds what it needed itself."""
    assert after[-1] - after[1] < round_bytes / 2


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", EITHER_KIND)
@pytest.mark.timeout(TIMEOUT_S)
def test_names_of_groups_cost_little(kind: str, make_broker: MakeBroker, tmp_path: Path, count: int) -> None:
    answered_s = BUSY_S if count == EACH_CHANGE else HEARTBEAT_INTERVAL_S
    with ready(kind, make_broker, tmp_path) as (broker, client), bystanders(broker.bootstrap, answered_s):
        before = memory_bytes(broker)
        flood(client, (f"flood-{number}" for number in range(count)))
        grown = memory_bytes(broker) - before
        found = [each for each in client.list_all() if each.group_id.startswith("flood-")]
        assert len(found) == count
        assert {(each.group_state, each.protocol_type) for each in found} == {("Empty", "")}
        print(f"{grown / count:.0f} bytes a group")
        if isinstance(broker, MeasuredBroker):
            assert grown < count * BYTES_PER_GROUP


@pytest.mark.nightly
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", EITHER_KIND)
@pytest.mark.timeout(TIMEOUT_S)
def test_what_names_of_groups_cost_is_given_back(
    kind: str, make_broker: MakeBroker, tmp_path: Path, count: int
) -> None:
    with (
        ready(kind, make_broker, tmp_path, offsets_retention_check_interval_ms=1_000) as (broker, client),
        bystanders(broker.bootstrap),
    ):
        after = []
        for round_ in range(ROUNDS):
            flood(client, (f"flood-{round_}-{number}" for number in range(count)))
            wait_for(
                lambda: len(client.list_all()) == len(BYSTANDERS), timeout_s=60, what="the end of the groups"
            )
            after.append(memory_bytes(broker))
        print([each // 1_000_000 for each in after], "MB after each round")
        if isinstance(broker, MeasuredBroker):
            check_is_flat(after, count * BYTES_PER_GROUP)


@pytest.mark.nightly
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", EITHER_KIND)
@pytest.mark.timeout(TIMEOUT_S)
def test_ids_of_members_are_forgotten(kind: str, make_broker: MakeBroker, tmp_path: Path, count: int) -> None:
    """Of those who never join: their group lets others in, and a rebalance waits for them no longer than a session."""
    with ready(kind, make_broker, tmp_path) as (broker, client), bystanders(broker.bootstrap):
        after = []
        for _ in range(ROUNDS):
            flood(client, ["flooded"] * count)
            member, generation = client.settle("flooded")
            assert client.heartbeat("flooded", member, generation) == ErrorCode.NONE
            # The group is not Empty now, and another member makes it wait for all whose ids it knows.
            flood(client, ["flooded"] * AT_ONCE)
            with GroupClient(broker.bootstrap) as other:
                began_s = time.monotonic()
                other.send_join("flooded")
                again = client.join("flooded", member=member)
                joined = other.client.receive()
                assert time.monotonic() - began_s < REBALANCE_S
                assert (again.error_code, joined.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
                assert len(client.describe("flooded").groups[0].members) == 2
                assert client.leave("flooded", member) == ErrorCode.NONE
                assert client.leave("flooded", joined.member_id) == ErrorCode.NONE
            wait_for(lambda: client.describe("flooded").groups[0].group_state == "Empty", what="its end")
            after.append(memory_bytes(broker))
        print([each // 1_000_000 for each in after], "MB after each round")
        if isinstance(broker, MeasuredBroker):
            check_is_flat(after, count * BYTES_PER_MEMBER)
