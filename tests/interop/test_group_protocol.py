"""The classic group protocol over the wire: the scripts of tests/scenarios/groups, and random ones, on both systems.

The outcomes in the scripts are the machine's; that Apache Kafka plays them alike is what makes them right.
"""

import contextlib
import dataclasses
import functools
import os
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages import (
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
)
from pkafka.protocol.schema import Message
from pkafka.testing import running_broker
from tests.group_script import (
    BROKER_SETTINGS,
    GROUP_TOPIC,
    SCRIPTS,
    Cast,
    Command,
    Step,
    played,
    steps_of,
    text_of,
)
from tests.interop.conftest import EITHER, System
from tests.interop.kafka import running_kafka
from tests.names import new_name
from tests.raw_client import RawClient, at_once
from tests.sockets import unread_bytes
from tests.talk import talking, wait_for
from tests.unit.server.groups.machine import MACHINE_SETTINGS
from tests.unit.server.groups.random_scripts import random_script, random_script_with_restart

SETTINGS = {
    **BROKER_SETTINGS,
    "broker.id": 0,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
}
STEP_TIMEOUT_S = 60.0
QUIET_S = 0.05
"""How long a broker gets to act on a request that it has read and leaves unanswered, and to say what nobody expects."""
WITHOUT_TIME = ("connect", "fenced_waiter", "static_vote", "two_members")
"""Scripts that come out the same however late each step comes."""
NO_DELAY_MS = 0
"""Of a group's first generation in random scripts: what comes within a delay depends on the machine."""


class RestartableSystem(System, Protocol):
    """A broker that can be stopped and started again at the same address."""

    def restart(self) -> None: ...


class Wire:
    """Plays a script on a broker; every request has a connection of its own while it waits."""

    def __init__(self, bootstrap: str) -> None:
        self.cast = Cast(new_name("g-"))
        self._bootstrap = bootstrap
        self._port = int(bootstrap.rpartition(":")[2])
        self._free: list[RawClient] = []
        self._waiting: list[tuple[RawClient, str, Message]] = []
        self._answers: list[tuple[str, Message]] = []
        self._patience_s = STEP_TIMEOUT_S
        self._asking = RawClient(bootstrap)
        wait_for(self._is_coordinated, what="the coordinator")
        self._description = self._describe()
        self._script_time = time.monotonic()

    def play(self, command: Command) -> None:
        """Do what a line says."""
        if command.verb == "wait":
            # What requests took since the last wait is part of this one.
            self._script_time += int(command.options["ms"]) / 1_000
            time.sleep(max(0.0, self._script_time - time.monotonic()))
            self._script_time = time.monotonic()
        elif command.verb == "restart":
            self._reconnect()
        elif command.verb == "hangup":
            for client, _, _ in self._drop(command.names):
                client.close()
        else:
            client = self._send(command)
            if command.verb not in ("join", "sync"):
                self._receive(STEP_TIMEOUT_S, until=client)
            # The next request comes by another connection, and would overtake one that is not read yet.
            wait_for(lambda: not unread_bytes(self._port, sender=client.port), timeout_s=STEP_TIMEOUT_S)
        self._receive(QUIET_S)

    def _reconnect(self) -> None:
        self.close()
        self._free.clear()
        self._waiting.clear()
        self._asking = RawClient(self._bootstrap)
        wait_for(self._is_coordinated, what="the coordinator")
        self._script_time = time.monotonic()

    def outcome(self, expected: Sequence[str]) -> list[str]:
        """What was answered since, and the group; brokers get some time to come to what is expected."""
        deadline = time.monotonic() + self._patience_s
        while (lines := self._outcome()) != list(expected) and time.monotonic() < deadline:
            self._receive(QUIET_S)
        if lines != list(expected):
            self._patience_s = QUIET_S  # the test fails, and what follows need not be waited for
        if not expected:
            self._receive(QUIET_S)
            lines = self._outcome()
        self._answers.clear()
        if lines and lines[-1].startswith("  group:"):
            self._description = lines[-1]
        return lines

    def close(self) -> None:
        """Close every connection."""
        for client in [self._asking, *self._free, *(client for client, _, _ in self._waiting)]:
            client.close()

    def _outcome(self) -> list[str]:
        description = self._describe()
        lines = sorted(line for name, answer in self._answers for line in self.cast.told(name, answer))
        return [*lines, *([description] if description != self._description else [])]

    def _send(self, command: Command) -> RawClient:
        request, version = self.cast.request(command)
        client = self._free.pop() if self._free else RawClient(self._bootstrap)
        name = command.names[0] if command.names else ""
        client.send(request, version, client_id=name)
        self._waiting.append((client, name, request))
        is_first_join = isinstance(request, join_group.JoinGroupRequest) and not request.member_id
        if is_first_join and version >= 4 and not self.cast[name].instance_id and "once" not in command.names:
            self._receive(STEP_TIMEOUT_S, until=client)
            self._repeat_join(name, version)
        return client

    def _repeat_join(self, name: str, version: int) -> None:
        """Join with the id that a first attempt brought, if it did."""
        if (name, ErrorCode.MEMBER_ID_REQUIRED) in [
            (who, getattr(answer, "error_code", None)) for who, answer in self._answers
        ]:
            self._answers = [(who, answer) for who, answer in self._answers if who != name]
            self.play(Command("join", (name, "once"), {"version": str(version)}))

    def _receive(self, quiet_s: float, *, until: RawClient | None = None) -> None:
        """Take answers until none came for ``quiet_s``, or one on ``until``."""
        while self._waiting and until not in self._free:
            ready, _, _ = select.select([client.sock for client, _, _ in self._waiting], [], [], quiet_s)
            if not ready:
                return
            for entry in [entry for entry in self._waiting if entry[0].sock in ready]:
                client, name, request = entry
                self._waiting.remove(entry)
                answer = client.receive()
                self.cast.hear(name, request, answer)
                self._answers.append((name, answer))
                self._free.append(client)

    def _drop(self, names: Sequence[str]) -> list[tuple[RawClient, str, Message]]:
        dropped = [entry for entry in self._waiting if entry[1] in names]
        self._waiting = [entry for entry in self._waiting if entry not in dropped]
        return dropped

    def _is_coordinated(self) -> bool:
        self._asking.call(find_coordinator.FindCoordinatorRequest(key=self.cast.group_id), 2)
        probe = heartbeat.HeartbeatRequest(group_id=self.cast.group_id, generation_id=1, member_id="nobody")
        return bool(self._asking.call(probe, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID)

    def _describe(self) -> str:
        request = describe_groups.DescribeGroupsRequest(groups=[self.cast.group_id])
        [found] = self._asking.call(request, 5).groups
        return self.cast.described(found.group_state, found.protocol_type, found.protocol_data, found.members)


@pytest.fixture(scope="module", params=EITHER)
def group_system(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestartableSystem]:
    """Each system in turn, with the settings that the scripts are about."""
    with _running(request, tmp_path_factory, SETTINGS) as system:
        yield system


@pytest.fixture(scope="module", params=EITHER)
def prompt_system(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestartableSystem]:
    """Each system in turn, where nothing happens by the clock: sessions and rebalances take as long as they need."""
    settings = {**SETTINGS, "group.initial.rebalance.delay.ms": NO_DELAY_MS}
    with _running(request, tmp_path_factory, settings) as system:
        yield system


@contextlib.contextmanager
def _running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, settings: Mapping[str, object]
) -> Iterator[RestartableSystem]:
    directory = tmp_path_factory.mktemp(f"groups-{request.param}")
    with contextlib.ExitStack() as stack:
        system: RestartableSystem
        if request.param == "kafka":
            request.getfixturevalue("kafka_classpath")  # skips where there is no Java
            system = stack.enter_context(running_kafka(directory, overrides=settings))
        else:
            system = stack.enter_context(running_broker(directory, settings))
        with talking(system.bootstrap) as talk:
            talk.create(GROUP_TOPIC)
        yield system


# What others do half a second later is another script: the machine plays those in each change, by a clock of its own
# (tests/unit/server/groups/test_scenarios.py).
@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=[] if file.stem in WITHOUT_TIME else [pytest.mark.nightly], id=file.stem)
        for file in SCRIPTS
    ],
)
def test_a_broker_plays_the_scripts_like_the_machine(group_system: System, file: Path) -> None:
    _play(group_system, file.read_text())


PROMPT = dataclasses.replace(MACHINE_SETTINGS, initial_rebalance_delay_ms=NO_DELAY_MS)
RANDOM_SCRIPTS = int(os.environ.get("PKAFKA_TEST_GROUP_SCRIPTS", "16"))
AT_ONCE = 4


@pytest.mark.parametrize("first", range(AT_ONCE))
def test_a_broker_plays_random_scripts_like_the_machine(prompt_system: System, first: int) -> None:
    seeds = range(first, RANDOM_SCRIPTS, AT_ONCE)
    scripts = [text_of(random_script(seed, PROMPT, steps=40)) for seed in seeds]
    at_once([functools.partial(_play, prompt_system, script) for script in scripts])


def test_a_broker_goes_on_after_a_restart_like_the_machine(prompt_system: RestartableSystem) -> None:
    scripts = [random_script_with_restart(seed, PROMPT, steps=40) for seed in range(1_000, 1_012)]
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(contextlib.closing(Wire(prompt_system.bootstrap))) for _ in scripts]

        def play(half: int) -> None:
            def one(script: tuple[list[Step], list[Step]], wire: Wire) -> None:
                text = text_of(script[half])
                assert text_of(played(steps_of(text), wire)) == text

            at_once(
                [functools.partial(one, script, wire) for script, wire in zip(scripts, wires, strict=True)]
            )

        play(0)
        prompt_system.restart()
        play(1)


def _play(system: System, text: str) -> None:
    with contextlib.closing(Wire(system.bootstrap)) as wire:
        assert text_of(played(steps_of(text), wire)) == text
