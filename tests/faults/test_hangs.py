"""Workers that hang, and channels between living processes that break: who is held up, for how long, and by what."""

import ctypes
import os
import re
import select
import socket
import struct
import urllib.request

import psutil
import pytest

from pkafka.errors import ErrorCode
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.faults.conftest import MakeBroker
from tests.faults.family import connect_to, family, replaced
from tests.faults.injection import injected
from tests.faults.wire import Wire, eventually, produce_when_possible, read_all, values_of

KILLED_AFTER_MS = 30_000
"""Of silence. A third of that, and the others wait no longer."""
LARGE = 300_000
"""Such requests are handed to other workers in shared memory."""


@pytest.fixture
def killed_after_ms() -> int:
    return KILLED_AFTER_MS


@pytest.fixture
def broker(make_broker: MakeBroker, killed_after_ms: int) -> Broker:
    """With topic t, of which each worker owns a partition."""
    broker = make_broker(**{"pkafka.heartbeat.timeout.ms": killed_after_ms})
    broker.start()
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("t", 2) == ErrorCode.NONE
    for partition in range(2):
        produce_when_possible(broker.bootstrap, "t", partition, [b"before"])
    return broker


MINE = next(partition for partition in range(2) if owner_of("t", partition, 2) == 0)
THEIRS = 1 - MINE


def large(letter: bytes) -> bytes:
    return letter * LARGE


def test_nobody_waits_for_a_worker_that_hangs(broker: Broker) -> None:
    victim = family(broker)["worker-1"]
    with (
        connect_to(broker, "worker-0") as mine,
        connect_to(broker, "worker-0") as both,
        connect_to(broker, "worker-0") as reader,
    ):
        victim.suspend()
        both.produce_to_each("t", [MINE, THEIRS], large(b"a"))
        reader.poll("t", [MINE, THEIRS], 1, max_wait_ms=500)
        count = 1
        answered_meanwhile = 0
        while not select.select([both.sock], [], [], 0)[0]:
            error, offset = mine.produce("t", MINE, [b"mine"])
            assert error == ErrorCode.NONE
            count = offset + 1
            answered_meanwhile += 1
        assert answered_meanwhile > 3, "who needs the other worker waits alone"

        # What was on its way to it; nobody can tell whether it happens.
        assert both.produced()[THEIRS][0] == ErrorCode.REQUEST_TIMED_OUT
        answered = reader.polled()
        assert answered[MINE][0] == ErrorCode.NONE
        assert answered[THEIRS][0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # What comes now is not even sent, as the code says, and the memory that it still reads from is not used again.
        for letter in (b"b", b"c"):
            both.produce_to_each("t", [MINE, THEIRS], large(letter))
            answer = both.produced()
            assert answer[MINE] == (ErrorCode.NONE, count)
            assert answer[THEIRS] == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            assert mine.offset("t", THEIRS)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert mine.produce("t", THEIRS, [b"no"])[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
            count += 1
        # The kernel goes on giving it a share of the new clients. It would serve them when it goes on, which is later.
        for _ in range(10):
            with Wire(broker.bootstrap) as new:
                assert new.produce("t", MINE, [b"new"]) == (ErrorCode.NONE, count)
            count += 1

        victim.resume()
        eventually(lambda: mine.produce("t", THEIRS, [b"after"])[0] == ErrorCode.NONE)
        assert values_of(read_all(broker.bootstrap, "t", THEIRS)) == [b"before", large(b"a"), b"after"]
        for _ in range(2):
            reader.poll("t", [MINE, THEIRS], 1, max_wait_ms=500)
            eventually(lambda: values_of(reader.polled()[THEIRS][1])[:1] == [large(b"a")])
        connect_to(broker, "worker-1").close()
    assert family(broker)["worker-1"].pid == victim.pid
    assert broker.stop() == 0


def test_the_metrics_page_shows_the_others(make_broker: MakeBroker) -> None:
    broker = make_broker(**{"pkafka.heartbeat.timeout.ms": KILLED_AFTER_MS, "pkafka.metrics.port": 0})
    broker.start()
    found = eventually(lambda: re.search(r"http://\S+/metrics", broker.log_file.read_text()))
    victim = family(broker)["worker-1"]
    victim.suspend()
    with urllib.request.urlopen(found[0], timeout=60) as page:
        text = page.read().decode()
    assert "kafka_" in text
    victim.resume()
    assert broker.stop() == 0


@pytest.mark.parametrize("killed_after_ms", [6_000])
def test_records_in_the_hands_of_a_hung_worker_that_is_killed_can_be_sent_again(broker: Broker) -> None:
    victim = family(broker)["worker-1"]
    with connect_to(broker, "worker-0") as both:
        producer = both.init_producer()
        victim.suspend()
        both.produce_to_each("t", [MINE, THEIRS], large(b"a"))
        assert both.produced()[THEIRS][0] == ErrorCode.REQUEST_TIMED_OUT
        replaced(broker, victim, "worker-1")
        eventually(
            lambda: both.produce("t", THEIRS, [b"again"], producer=(*producer, 0)) == (ErrorCode.NONE, 1)
        )
    assert values_of(read_all(broker.bootstrap, "t", THEIRS)) == [b"before", b"again"]


# -- channels --


@pytest.mark.parametrize("error", ["ENOBUFS", "ETOOMANYREFS"])
def test_a_channel_survives_a_lack_of_memory(broker: Broker, error: str) -> None:
    processes = family(broker)
    with (
        connect_to(broker, "worker-0") as both,
        injected(processes["worker-0"], "sendmsg", f"error={error}:when=2+3"),
    ):
        for number in range(1, 40):
            both.produce_to_each("t", [0, 1], b"x")
            assert both.produced() == {0: (ErrorCode.NONE, number), 1: (ErrorCode.NONE, number)}
    assert {name: one.pid for name, one in family(broker).items()} == {
        name: one.pid for name, one in processes.items()
    }
    assert broker.stop() == 0


SYS_PIDFD_GETFD = 438
SOCK_DIAG_BY_FAMILY = 20
NLM_F_DUMP_REQUEST = 0x301
NLMSG_DONE = 3
UDIAG_SHOW_PEER = 4
UNIX_DIAG_PEER = 2


def unix_pairs() -> dict[int, int]:
    """The inodes of connected Unix sockets of this machine, each with that of its other end (sock_diag(7))."""
    pairs: dict[int, int] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as diag:
        request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, UDIAG_SHOW_PEER, 0, 0)
        diag.send(
            struct.pack("=IHHII", 16 + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_DUMP_REQUEST, 1, 0) + request
        )
        while True:
            data = diag.recv(1 << 16)
            while data:
                size, kind = struct.unpack_from("=IH", data)
                if kind == NLMSG_DONE:
                    return pairs
                assert kind == SOCK_DIAG_BY_FAMILY
                inode = struct.unpack_from("=I", data, 20)[0]
                attribute = 32
                while attribute < size:
                    length, what, value = struct.unpack_from("=HHI", data, attribute)
                    if what == UNIX_DIAG_PEER:
                        pairs[inode] = value
                    attribute += (length + 3) & ~3
                data = data[(size + 3) & ~3 :]


def sockets_of(process: psutil.Process) -> dict[int, int]:
    """inode -> descriptor of the sockets of a process."""
    found = {}
    for entry in os.scandir(f"/proc/{process.pid}/fd"):
        target = os.readlink(entry.path)
        if target.startswith("socket:["):
            found[int(target[8:-1])] = int(entry.name)
    return found


def break_channel(one: psutil.Process, other: psutil.Process) -> None:
    """Shut the channel between two living processes down, as an error of sending would."""
    ends, others = sockets_of(one), sockets_of(other)
    pairs = unix_pairs()
    (descriptor,) = [fd for inode, fd in ends.items() if pairs.get(inode) in others]
    pidfd = os.pidfd_open(one.pid)
    taken = ctypes.CDLL(None, use_errno=True).syscall(SYS_PIDFD_GETFD, pidfd, descriptor, 0)
    os.close(pidfd)
    if taken < 0:
        pytest.skip(f"needs the right to trace other processes: {os.strerror(ctypes.get_errno())}")
    with socket.socket(fileno=taken) as sock:
        sock.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("one", "other"),
    [("worker-0", "worker-1"), ("worker-1", "control"), ("control", "worker-0"), ("worker-0", "cleaner")],
)
def test_a_broken_channel_is_made_again(broker: Broker, one: str, other: str) -> None:
    processes = family(broker)
    break_channel(processes[one], processes[other])
    worker = one if one.startswith("worker") else other
    if {one, other} == {"worker-0", "worker-1"}:
        worker = "worker-1"
    replaced(broker, processes[worker], worker)
    with connect_to(broker, "worker-0") as both:

        def produces() -> bool:
            both.produce_to_each("t", [0, 1], b"x")
            return all(error == ErrorCode.NONE for error, _offset in both.produced().values())

        eventually(produces)
        assert both.create_topic("new", 2) == ErrorCode.NONE
    for partition in range(2):
        produce_when_possible(broker.bootstrap, "new", partition, [b"x"])
    assert {name: process.pid for name, process in family(broker).items() if name != worker} == {
        name: process.pid for name, process in processes.items() if name != worker
    }
    assert broker.stop() == 0
