"""Groups of member programs of every client, what they said, and what must be true of it whatever happened to them."""

import contextlib
import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pkafka.clients.admin.client import Admin
from pkafka.clients.admin.results import GroupState
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError
from tests.interop.kafka import JAVA_SOURCES, java_program
from tests.talk import Talk, good, wait_for

SESSION_MS: Final = 10_000
STABLE_S: Final = 90.0
_TELLING_S: Final = 60.0
"""How long a group may take to settle: a session of a killed member, and programs that start on a busy machine."""
PROGRAM: Final = Path(__file__).with_name("group_member.py")
JAVA_CLIENTS: Final = ("java-3.9", "java-4.1")


class Setting(NamedTuple):
    """What all members of a group share."""

    bootstrap: str
    group: str
    topic: str
    partitions: int
    assignor: str
    java: dict[str, str]
    """A class path with GroupMember for each of the Java clients."""
    session_ms: int = SESSION_MS


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Event(NamedTuple):
    """One line that a member wrote."""

    kind: str
    at_ms: int
    partitions: tuple[int, ...]
    offsets: dict[int, Any]
    text: str


class Ownership(NamedTuple):
    """A time in which a member had a partition, as far as it knew."""

    partition: int
    begin_ms: int
    end_ms: float
    member: str


class Member:
    """One member program."""

    _numbers = itertools.count()

    def __init__(self, client: str, setting: Setting) -> None:
        self.client = client
        self.name = f"{client}#{next(self._numbers)}"
        self.events: list[Event] = []
        self.end_ms: float = float("inf")
        """When it was told to leave, or was killed."""
        self.killed = False
        self._process = subprocess.Popen(
            _command(client, self.name, setting), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        return self.name

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # the last one of a killed program may be a half
                said = json.loads(line)
                offsets = {int(key): value for key, value in said.get("offsets", {}).items()}
                event = Event(
                    said["event"],
                    said["at"],
                    tuple(said.get("partitions", ())),
                    offsets,
                    str(said.get("error")),
                )
                self.events.append(event)

    @property
    def alive(self) -> bool:
        """Whether it runs, and is meant to."""
        return self.end_ms == float("inf") and self._process.poll() is None

    def owned(self) -> set[int]:
        """The partitions that it has, as it says."""
        owned: set[int] = set()
        for event in list(self.events):
            if event.kind == "assigned":
                owned |= set(event.partitions)
            elif event.kind in {"revoked", "lost"}:
                owned -= set(event.partitions)
        return owned

    def ownerships(self) -> Iterator[Ownership]:
        """The times in which it had each partition; until its end, when it did not say."""
        since: dict[int, int] = {}
        for event in self.events:
            for partition in event.partitions:
                if event.kind == "assigned":
                    since.setdefault(partition, event.at_ms)
                elif event.kind in {"revoked", "lost"} and partition in since:
                    yield Ownership(partition, since.pop(partition), event.at_ms, self.name)
        for partition, begin_ms in since.items():
            yield Ownership(partition, begin_ms, self.end_ms, self.name)

    def of_kind(self, kind: str) -> list[Event]:
        return [event for event in list(self.events) if event.kind == kind]

    def ask_to_leave(self) -> None:
        self.end_ms = now_ms()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def leave(self) -> None:
        """A clean end: it closes its consumer."""
        self.ask_to_leave()
        self.wait()
        assert self.of_kind("closed"), f"{self} ended with {self._process.returncode}, not in order"

    def kill(self) -> None:
        """kill -9."""
        self.killed = True
        self.end_ms = min(self.end_ms, now_ms())
        self._process.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = 60.0) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()


def _command(client: str, name: str, setting: Setting) -> list[str]:
    if client in JAVA_CLIENTS:
        log = f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'log4j.properties'}"
        flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", log]
        program = [java_program("java"), *flags, "-cp", setting.java[client], "GroupMember"]
        told = (
            setting.bootstrap,
            setting.group,
            setting.topic,
            name,
            setting.assignor,
            str(setting.session_ms),
        )
        return [*program, *told]
    told_json = {
        "client": client,
        "bootstrap": setting.bootstrap,
        "group": setting.group,
        "topic": setting.topic,
        "assignor": setting.assignor,
        "session_ms": setting.session_ms,
    }
    return [sys.executable, str(PROGRAM), json.dumps(told_json)]


class Feeder:
    """Writes small batches to all partitions in turn, and remembers where each record is."""

    def __init__(self, setting: Setting, *, pace_s: float = 0.02) -> None:
        self.ends = [0] * setting.partitions
        self._setting = setting
        self._pace_s = pace_s
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        topic, talk = self._setting.topic, Talk(self._setting.bootstrap)
        try:
            for number in itertools.count():
                partition = number % len(self.ends)
                try:
                    self.ends[partition] = (
                        talk.send(topic, b"%d" % number, b"second", partition=partition) + 2
                    )
                except (ClientError, ApiError):  # the broker was killed: it may have them, or not
                    self.ends[partition] = talk.ends(topic, partition)[1]
                if self._stop.wait(self._pace_s):
                    return
        except Exception as error:  # noqa: BLE001 - the test raises it
            self._failure = error
        finally:
            talk.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        if self._failure is not None:
            raise self._failure


class Look(NamedTuple):
    """What the coordinator answered to one OffsetFetch."""

    asked_ms: int
    answered_ms: int
    offsets: dict[int, int]


class Watcher:
    """Asks the coordinator for the group's offsets all the time."""

    def __init__(self, setting: Setting, *, pace_s: float = 0.2) -> None:
        self.looks: list[Look] = []
        self._setting = setting
        self._stop = threading.Event()
        self._pace_s = pace_s
        self._admin = Admin({"bootstrap.servers": setting.bootstrap, "client.id": "watcher"})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pace_s):
            asked_ms = now_ms()
            try:
                found = good(self._admin.list_group_offsets({self._setting.group: None})[self._setting.group])
            except (ClientError, ApiError):
                continue
            offsets = {
                key.partition: stored.offset
                for key, stored in found.items()
                if stored is not None and not isinstance(stored, ApiError)
            }
            self.looks.append(Look(asked_ms, now_ms(), offsets))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        self._admin.close()


class Chaos:
    """A group under test: its members of all times, and the laws."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.members: list[Member] = []
        self.feeder = Feeder(setting)
        self.watcher = Watcher(setting)
        self._admin = Admin({"bootstrap.servers": setting.bootstrap, "client.id": "chaos"})

    def join(self, client: str) -> Member:
        self.members.append(Member(client, self.setting))
        return self.members[-1]

    @property
    def alive(self) -> list[Member]:
        return [each for each in self.members if each.alive]

    def close(self) -> None:
        for member in self.members:
            member.kill()
        self.watcher.stop()
        self.feeder.stop()
        self._admin.close()

    def wait_until_stable(self) -> None:
        """Until every partition has one owner, in the members' eyes and in the coordinator's."""
        deadline = time.monotonic() + STABLE_S
        while why := self._unsettled():
            assert time.monotonic() < deadline, f"not stable within {STABLE_S} s: {why}"
            time.sleep(0.1)

    def _unsettled(self) -> str:
        alive = self.alive
        dead = [each for each in self.members if each.end_ms == float("inf") and not each.alive]
        assert not dead, f"{dead} ended by themselves"
        owned = {each: each.owned() for each in alive}
        everything = sorted(itertools.chain.from_iterable(owned.values()))
        if everything != list(range(self.setting.partitions)):
            return f"members say they own {owned}"
        try:
            found = good(self._admin.describe_groups([self.setting.group])[self.setting.group])
        except (ClientError, ApiError) as error:
            return str(error)
        if found.state is not GroupState.STABLE or len(found.members) != len(alive):
            return f"the group is {found.state.value} with {[each.client_id for each in found.members]}"
        by_coordinator = sorted(sorted(key.partition for key in each.assignment) for each in found.members)
        if by_coordinator != sorted(map(sorted, owned.values())):
            return f"the coordinator says {by_coordinator}, the members {owned}"
        return ""

    def settle(self) -> None:
        """Everybody has read and committed everything; the members are still there."""
        self.feeder.stop()
        self.wait_until_stable()
        ends = {number: end for number, end in enumerate(self.feeder.ends) if end}

        def committed() -> dict[int, int]:
            found = good(self._admin.list_group_offsets({self.setting.group: None})[self.setting.group])
            return {
                key.partition: each.offset
                for key, each in found.items()
                if each is not None and not isinstance(each, ApiError)
            }

        wait_for(lambda: committed() == ends, timeout_s=STABLE_S, what="the commit of everything")
        # A member tells by a pipe what it consumed: the broker may know of the commit before the test does.
        with contextlib.suppress(AssertionError):  # the check names what is missing
            wait_for(lambda: not self._undelivered(), timeout_s=_TELLING_S)
        self.watcher.stop()

    # -- the laws -----------------------------------------------------------------------------------------

    def check(self, *, broker_killed: bool = False) -> None:
        """All of them; where the broker was killed, a record may come again whose commit was lost with it."""
        self.check_owners()
        self.check_deliveries(broker_killed=broker_killed)
        self.check_commits()

    def state(self) -> tuple[GroupState, int]:
        """The coordinator's word: the state, and how many members there are."""
        found = good(self._admin.describe_groups([self.setting.group])[self.setting.group])
        return found.state, len(found.members)

    def owners(self) -> dict[int, Member]:
        """Who has each partition now."""
        return {partition: member for member in self.alive for partition in member.owned()}

    def check_uninterrupted(self, before: dict[int, Member], since_ms: int) -> None:
        """A partition that stayed with its owner was not taken away in between (KIP-429)."""
        for partition, owner in self.owners().items():
            if before.get(partition) is owner:
                taken = [
                    event
                    for kind in ("revoked", "lost")
                    for event in owner.of_kind(kind)
                    if partition in event.partitions and event.at_ms >= since_ms
                ]
                assert not taken, f"{owner} had to give partition {partition} away, and has it again: {taken}"

    def check_owners(self) -> None:
        """No two members ever had a partition at the same time."""
        times: dict[int, list[Ownership]] = defaultdict(list)
        for member in self.members:
            for each in member.ownerships():
                times[each.partition].append(each)
        for row in times.values():
            row.sort(key=lambda each: each.begin_ms)
            for one, other in itertools.pairwise(row):
                assert one.end_ms <= other.begin_ms, f"{one} overlaps {other}"

    def check_deliveries(self, *, broker_killed: bool = False) -> None:
        """Every record came at least once; twice only when who had it first was killed, or the broker was."""
        deliveries: dict[tuple[int, int], list[tuple[int, Member]]] = defaultdict(list)
        for member in self.members:
            positions: dict[int, int] = {}
            for event in member.of_kind("consumed"):
                for partition, (first, last) in event.offsets.items():
                    for offset in range(first, last + 1):
                        deliveries[partition, offset].append((event.at_ms, member))
                    assert first >= positions.get(partition, 0) or not self._kept(
                        member, partition, event.at_ms
                    )
                    positions[partition] = last + 1
        missing = self._undelivered()
        assert not missing, f"{len(missing)} records were never delivered: {missing[:10]}"
        for place, row in deliveries.items():
            row.sort(key=lambda each: each[0])
            for _, member in row[:-1]:
                assert member.killed or broker_killed, f"{place} was delivered again: {row}"

    def _undelivered(self) -> list[tuple[int, int]]:
        """Partitions and offsets that no member has told of."""
        delivered = {
            (partition, offset)
            for member in self.members
            for event in member.of_kind("consumed")
            for partition, (first, last) in event.offsets.items()
            for offset in range(first, last + 1)
        }
        return [
            (partition, offset)
            for partition, end in enumerate(self.feeder.ends)
            for offset in range(end)
            if (partition, offset) not in delivered
        ]

    def _kept(self, member: Member, partition: int, at_ms: int) -> bool:
        """Whether the member had the partition without a break before that time, so that its position may only grow."""
        return (
            sum(each.partition == partition and each.begin_ms <= at_ms for each in member.ownerships()) == 1
        )

    def check_commits(self) -> None:
        """What was acknowledged stays: no look finds less than what was committed, or seen, before it began."""
        commits = [
            (event.at_ms, partition, offset)
            for member in self.members
            for event in member.of_kind("committed")
            for partition, offset in event.offsets.items()
        ]
        facts = sorted(
            commits
            + [
                (look.answered_ms, number, offset)
                for look in self.watcher.looks
                for number, offset in look.offsets.items()
            ]
        )
        known: dict[int, int] = {}
        position = 0
        for look in self.watcher.looks:
            while position < len(facts) and facts[position][0] < look.asked_ms:
                _, partition, offset = facts[position]
                known[partition] = max(known.get(partition, 0), offset)
                position += 1
            for partition, offset in known.items():
                found = look.offsets.get(partition, -1)
                assert found >= offset, f"partition {partition} went back from {offset} to {found}"
        assert self.watcher.looks
        assert commits

    def failures(self) -> list[tuple[Member, str]]:
        """The commits that were refused."""
        return [(member, event.text) for member in self.members for event in member.of_kind("failed")]
