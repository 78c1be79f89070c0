"""Disks that refuse single reads, writes and flushes, that write a part, and that are slow."""

import os
import resource
import select
import time
from pathlib import Path

import psutil
import pytest

from pkafka.errors import ErrorCode
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.faults.conftest import MakeBroker
from tests.faults.family import connect_to, family
from tests.faults.injection import injected
from tests.faults.wire import Wire, eventually, produce_when_possible, read_all, values_of
from tests.talk import talking

CLEAN_MARK = ".kafka_cleanshutdown"
KIB = 1024
SLOW_S = 8
"""What a slow disk takes for one call."""
HELD_S = 60
"""The same where no test waits for the end: whoever does not need that call goes on meanwhile."""


def owner(broker: Broker, topic: str) -> psutil.Process:
    return family(broker)[f"worker-{owner_of(topic, 0, 2)}"]


def active_log(directory: Path, topic: str) -> Path:
    return max((directory / f"{topic}-0").glob("*.log"))


class TwoDisks:
    """A broker of two log directories, with topics in both of them."""

    def __init__(self, make_broker: MakeBroker, **configs: str) -> None:
        home = make_broker("home").directory
        self.good, self.bad = home / "good", home / "bad"
        self.broker = make_broker("home", **{"log.dirs": f"{self.good},{self.bad}"})
        self.broker.start()
        self.topics = ["a", "b", "c", "d", "e", "f"]
        for topic in self.topics:
            with Wire(self.broker.bootstrap) as wire:
                assert wire.create_topic(topic, 1, configs=configs) == ErrorCode.NONE
            produce_when_possible(self.broker.bootstrap, topic, 0, [b"first"])
        self.lost = [topic for topic in self.topics if (self.bad / f"{topic}-0").exists()]
        self.kept = [topic for topic in self.topics if topic not in self.lost]
        assert len(self.lost) == len(self.kept) == 3

    @property
    def victim(self) -> str:
        return self.lost[0]

    def worker(self) -> psutil.Process:
        return owner(self.broker, self.victim)

    def assert_one_is_lost(self) -> None:
        """The replicas of the bad directory are offline, on all workers; the others go on."""
        with Wire(self.broker.bootstrap) as wire:
            for topic in self.lost:
                eventually(
                    lambda: wire.produce(topic, 0, [b"no"])[0] == ErrorCode.KAFKA_STORAGE_ERROR  # noqa: B023
                )
                assert wire.fetch(topic, 0, 0)[0] == ErrorCode.KAFKA_STORAGE_ERROR
            for topic in self.kept:
                assert wire.produce(topic, 0, [b"on"])[0] == ErrorCode.NONE

    def restart(self) -> None:
        assert self.broker.stop() == 0
        assert not (self.bad / CLEAN_MARK).exists()
        assert (self.good / CLEAN_MARK).exists()
        self.broker.start()


def test_a_write_error_takes_the_directory_offline_and_loses_nothing(make_broker: MakeBroker) -> None:
    disks = TwoDisks(make_broker)
    log = active_log(disks.bad, disks.victim)
    with Wire(disks.broker.bootstrap) as wire:
        with injected(disks.worker(), "pwrite64", "error=EIO", [log]):
            assert wire.produce(disks.victim, 0, [b"refused"])[0] == ErrorCode.KAFKA_STORAGE_ERROR
        # The next write would succeed; nobody tries.
        disks.assert_one_is_lost()
    disks.restart()
    for topic in disks.lost:
        produce_when_possible(disks.broker.bootstrap, topic, 0, [b"second"])
        # The other worker takes records for its replicas until it hears of the failure.
        found = [value for value in values_of(read_all(disks.broker.bootstrap, topic, 0)) if value != b"no"]
        assert found == [b"first", b"second"]


def test_what_a_failed_flush_left_is_never_called_flushed(make_broker: MakeBroker) -> None:
    disks = TwoDisks(make_broker, **{"segment.bytes": "20000"})
    written = [b"first"]
    # One error is all that the system gives: the next fsync of the same file would succeed, its pages lost.
    with Wire(disks.broker.bootstrap) as wire, injected(disks.worker(), "fsync", "error=EIO:when=1"):
        for number in range(30):
            value = b"%d" % number + b"." * 2000
            error, _offset = wire.produce(disks.victim, 0, [value])
            if error:
                assert error == ErrorCode.KAFKA_STORAGE_ERROR
                break
            written.append(value)
        disks.assert_one_is_lost()
    assert len(list((disks.bad / f"{disks.victim}-0").glob("*.log"))) > 1
    assert disks.broker.stop() == 0
    checkpoint = disks.bad / "recovery-point-offset-checkpoint"
    assert not checkpoint.exists() or f"{disks.victim} 0 0" in checkpoint.read_text()
    disks.broker.start()
    produce_when_possible(disks.broker.bootstrap, disks.victim, 0, [b"on"])
    assert values_of(read_all(disks.broker.bootstrap, disks.victim, 0)) == [*written, b"on"]


def test_what_is_to_be_flushed_at_once_is_not_acknowledged_without(make_broker: MakeBroker) -> None:
    disks = TwoDisks(make_broker, **{"flush.messages": "1"})
    log = active_log(disks.bad, disks.victim)
    with Wire(disks.broker.bootstrap) as wire:
        with injected(disks.worker(), "fsync", "error=EIO:when=1", [log]):
            assert wire.produce(disks.victim, 0, [b"refused"])[0] == ErrorCode.KAFKA_STORAGE_ERROR
        disks.assert_one_is_lost()
    disks.restart()
    produce_when_possible(disks.broker.bootstrap, disks.victim, 0, [b"second"])
    assert values_of(read_all(disks.broker.bootstrap, disks.victim, 0))[0] == b"first"


@pytest.mark.parametrize("stop", ["clean", "kill -9"])
def test_a_write_that_the_disk_took_a_part_of(make_broker: MakeBroker, stop: str) -> None:
    disks = TwoDisks(make_broker)
    worker = disks.worker()
    log = active_log(disks.bad, disks.victim)
    large = b"x" * (800 * KIB)
    with Wire(disks.broker.bootstrap) as wire:
        for number in range(1, 4):
            assert wire.produce(disks.victim, 0, [large]) == (ErrorCode.NONE, number)
        size = log.stat().st_size
        before = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
        # As a disk that fills in the middle of a write: a part is written, and the rest is an error.
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (size + 300 * KIB, before[1]))
        assert wire.produce(disks.victim, 0, [large])[0] == ErrorCode.KAFKA_STORAGE_ERROR
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, before)
        assert log.stat().st_size == size + 300 * KIB
        disks.assert_one_is_lost()
    if stop == "clean":
        disks.restart()
    else:
        disks.broker.kill()
        disks.broker.start()
    assert produce_when_possible(disks.broker.bootstrap, disks.victim, 0, [b"on"]) == 4
    assert values_of(read_all(disks.broker.bootstrap, disks.victim, 0)) == [b"first", *[large] * 3, b"on"]


def test_a_segment_that_cannot_be_made_takes_the_directory_offline(make_broker: MakeBroker) -> None:
    disks = TwoDisks(make_broker, **{"segment.bytes": "20000"})
    following = disks.bad / f"{disks.victim}-0" / f"{2:020}.log"
    with Wire(disks.broker.bootstrap) as wire:
        assert wire.produce(disks.victim, 0, [b"x" * 15_000]) == (ErrorCode.NONE, 1)
        with injected(disks.worker(), "openat", "error=EIO", [following]):
            assert wire.produce(disks.victim, 0, [b"x" * 15_000])[0] == ErrorCode.KAFKA_STORAGE_ERROR
        disks.assert_one_is_lost()
    disks.restart()
    assert produce_when_possible(disks.broker.bootstrap, disks.victim, 0, [b"on"]) == 2


def test_a_topic_that_cannot_be_deleted_takes_the_directory_offline(make_broker: MakeBroker) -> None:
    disks = TwoDisks(make_broker)
    with injected(
        disks.worker(), "rename,renameat,renameat2", "error=EIO", [disks.bad / f"{disks.victim}-0"]
    ):
        with Wire(disks.broker.bootstrap) as wire:
            assert wire.delete_topic(disks.victim) == ErrorCode.NONE
        gone = disks.lost.pop(0)
        disks.assert_one_is_lost()
    disks.restart()
    # What could not be deleted is, now that it can be.
    eventually(lambda: not (disks.bad / f"{gone}-0").exists())
    for topic in disks.lost:
        produce_when_possible(disks.broker.bootstrap, topic, 0, [b"second"])


def test_an_error_of_reading_takes_the_directory_offline(make_broker: MakeBroker) -> None:
    disks = TwoDisks(make_broker)
    log = active_log(disks.bad, disks.victim)
    with Wire(disks.broker.bootstrap) as wire:
        assert wire.produce(disks.victim, 0, [b"second", b"third"]) == (ErrorCode.NONE, 1)
        with injected(disks.worker(), "pread64,preadv,preadv2", "error=EIO", [log]):
            # In the middle of a batch: where it begins has to be looked up.
            assert wire.fetch(disks.victim, 0, 2)[0] == ErrorCode.KAFKA_STORAGE_ERROR
        disks.assert_one_is_lost()
    disks.restart()
    produce_when_possible(disks.broker.bootstrap, disks.victim, 0, [b"fourth"])
    found = values_of(read_all(disks.broker.bootstrap, disks.victim, 0))
    assert found == [b"first", b"second", b"third", b"fourth"]


def test_a_client_whose_records_cannot_be_sent_loses_its_connection_and_nobody_else_does(
    make_broker: MakeBroker,
) -> None:
    disks = TwoDisks(make_broker)
    log = active_log(disks.bad, disks.victim)
    worker = disks.worker()
    large = b"l" * 100_000  # what is smaller is not sent by the kernel
    with Wire(disks.broker.bootstrap) as other:
        assert other.produce(disks.victim, 0, [large]) == (ErrorCode.NONE, 1)
        with injected(worker, "sendfile", "error=EIO", [log]):
            # The length of the answer is out already when the file refuses to give its bytes.
            with Wire(disks.broker.bootstrap) as wire, pytest.raises(ConnectionError):
                wire.fetch(disks.victim, 0, 0)
            assert other.produce(disks.victim, 0, [b"second"]) == (ErrorCode.NONE, 2)
    assert values_of(read_all(disks.broker.bootstrap, disks.victim, 0)) == [b"first", large, b"second"]
    assert worker.is_running()
    assert disks.broker.stop() == 0


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline(make_broker: MakeBroker) -> None:
    disks = TwoDisks(make_broker)
    cleaner = family(disks.broker)["cleaner"]
    temporary = disks.bad / "replication-offset-checkpoint.tmp"
    with injected(cleaner, "fsync", "error=EIO:when=1", [temporary]):
        disks.assert_one_is_lost()
    disks.restart()
    for topic in disks.lost:
        assert produce_when_possible(disks.broker.bootstrap, topic, 0, [b"second"]) > 0


def test_the_broker_stops_when_its_only_disk_refuses(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.start()
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("t", 1) == ErrorCode.NONE
        produce_when_possible(broker.bootstrap, "t", 0, [b"first"])
        with injected(owner(broker, "t"), "pwrite64", "error=EIO", [active_log(broker.log_dir, "t")]):
            assert wire.produce("t", 0, [b"refused"])[0] == ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.wait() == 1
    assert "Every log directory has failed" in broker.log_file.read_text()
    broker.start()
    assert produce_when_possible(broker.bootstrap, "t", 0, [b"second"]) == 1


# -- slow disks --


class SlowDisk:
    """A broker with topics of small segments, all of one worker."""

    def __init__(self, make_broker: MakeBroker) -> None:
        self.broker = make_broker()
        self.broker.start()
        names = (f"t{number}" for number in range(100))
        self.topics = [name for name in names if owner_of(name, 0, 2) == 0][:6]
        with Wire(self.broker.bootstrap) as wire:
            for topic in self.topics:
                configs = {"segment.bytes": "200000"}
                assert wire.create_topic(topic, 1, configs=configs) == ErrorCode.NONE
                eventually(lambda: wire.offset(topic, 0) == (ErrorCode.NONE, 0))  # noqa: B023
        self.worker = owner(self.broker, self.topics[0])

    def write(self, topic: str, *, batches: int) -> float:
        """How long the slowest of so many produces took; two of them fill a segment."""
        slowest = 0.0
        with Wire(self.broker.bootstrap) as wire:
            for _ in range(batches):
                began = time.monotonic()
                assert wire.produce(topic, 0, [b"x" * 90_000])[0] == ErrorCode.NONE
                slowest = max(slowest, time.monotonic() - began)
        return slowest


def is_answered(wire: Wire) -> bool:
    """Whether an answer has come."""
    return bool(select.select([wire.sock], [], [], 0)[0])


def forget_pages(directory: Path) -> None:
    """Have the disk read again what is there now."""
    for path in directory.glob("*.log"):
        descriptor = os.open(path, os.O_RDWR)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def test_slow_flushes_hold_nobody_up(make_broker: MakeBroker) -> None:
    disk = SlowDisk(make_broker)
    *rolling, quiet, new = disk.topics
    disk.write(quiet, batches=1)
    with injected(disk.worker, "fsync,fdatasync", f"delay_enter={HELD_S * 1_000_000}"):
        for topic in rolling:
            assert disk.write(topic, batches=7) < HELD_S / 2
        # Every segment but the last ones waits for its flush now. Who writes, reads from the disk, or makes a topic,
        # does not.
        assert disk.write(new, batches=1) < HELD_S / 2
        forget_pages(disk.broker.log_dir / f"{quiet}-0")
        began = time.monotonic()
        assert values_of(read_all(disk.broker.bootstrap, quiet, 0)) == [b"x" * 90_000]
        with Wire(disk.broker.bootstrap) as wire:
            assert wire.create_topic("later", 4) == ErrorCode.NONE
        produce_when_possible(disk.broker.bootstrap, "later", 0, [b"x"])
        assert time.monotonic() - began < HELD_S / 2
    for topic in rolling:
        assert len(read_all(disk.broker.bootstrap, topic, 0)) == 7
    assert disk.worker.is_running()
    assert disk.broker.stop() == 0


def test_who_wants_every_record_flushed_waits_alone(make_broker: MakeBroker) -> None:
    disk = SlowDisk(make_broker)
    flushed, other, *_ = disk.topics
    with Wire(disk.broker.bootstrap) as wire:
        assert wire.create_topic("both", 2, configs={"flush.messages": "1"}) == ErrorCode.NONE
    for partition in range(2):
        produce_when_possible(disk.broker.bootstrap, "both", partition, [b"first"])
    with talking(disk.broker.bootstrap) as talk:
        talk.set_topic(flushed, flush_messages=1)
    # Not the indexes too: one delay a flush.
    logs = [disk.broker.log_dir / name / f"{0:020}.log" for name in (f"{flushed}-0", "both-0", "both-1")]
    with (
        connect_to(disk.broker, "worker-0") as one,
        connect_to(disk.broker, "worker-0") as two,
        connect_to(disk.broker, "worker-0") as three,
    ):
        with injected(disk.worker, "fsync,fdatasync", f"delay_enter={HELD_S * 1_000_000}", logs):
            for wire, value in ((one, b"one"), (two, b"two")):
                wire.produce_to_each(flushed, [0], value)
            three.produce_to_each("both", [0, 1], b"second")
            disk.write(other, batches=5)
            with Wire(disk.broker.bootstrap) as reader:
                assert reader.offset(flushed, 0) == (ErrorCode.NONE, 0)
            assert not any(map(is_answered, (one, two, three))), "the disk has none of it yet"
        # The end of the tracer is the end of the delay.
        assert sorted([*one.produced().values(), *two.produced().values()]) == [
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 1),
        ]
        assert three.produced() == {0: (ErrorCode.NONE, 1), 1: (ErrorCode.NONE, 1)}
    assert sorted(values_of(read_all(disk.broker.bootstrap, flushed, 0))) == [b"one", b"two"]
    assert disk.broker.stop() == 0


def test_who_wants_a_record_flushed_does_not_wait_for_those_of_others(make_broker: MakeBroker) -> None:
    disk = SlowDisk(make_broker)
    flushed = disk.topics[0]
    with talking(disk.broker.bootstrap) as talk:
        talk.set_topic(flushed, flush_messages=1)
    logs = [disk.broker.log_dir / f"{flushed}-0" / f"{0:020}.log"]
    with (
        connect_to(disk.broker, "worker-0") as one,
        connect_to(disk.broker, "worker-0") as two,
    ):
        with injected(disk.worker, "fsync,fdatasync", f"delay_enter={SLOW_S * 1_000_000}", logs):
            one.produce_to_each(flushed, [0], b"one")
            eventually(lambda: logs[0].stat().st_size > 0)  # its flush begins in the turn that appends it
            two.produce_to_each(flushed, [0], b"two")
            assert one.produced() == {0: (ErrorCode.NONE, 0)}
            assert not is_answered(two), "both were answered at once"
        assert two.produced() == {0: (ErrorCode.NONE, 1)}
    assert disk.broker.stop() == 0


def test_slow_writes_of_one_worker_hold_no_client_of_another_up(make_broker: MakeBroker) -> None:
    broker = make_broker(**{"pkafka.heartbeat.timeout.ms": 2 * HELD_S * 1000})
    broker.start()
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("t", 2) == ErrorCode.NONE
    for partition in range(2):
        produce_when_possible(broker.bootstrap, "t", partition, [b"first"])
    slow = next(partition for partition in range(2) if owner_of("t", partition, 2) == 0)
    log = broker.log_dir / f"t-{slow}" / f"{0:020}.log"
    with (
        connect_to(broker, "worker-0") as held_up,
        connect_to(broker, "worker-1") as free,
    ):
        with injected(family(broker)["worker-0"], "pwrite64", f"delay_enter={HELD_S * 1_000_000}", [log]):
            held_up.produce_to_each("t", [slow], b"second")
            for number in range(1, 20):
                assert free.produce("t", 1 - slow, [b"x"]) == (ErrorCode.NONE, number)
            assert not is_answered(held_up), "the disk has not taken it yet"
        assert held_up.produced() == {slow: (ErrorCode.NONE, 1)}
    assert broker.stop() == 0
