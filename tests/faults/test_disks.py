"""Disks that are full, read-only or gone, as one of two log directories and as all of them."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.testing import Broker, BrokerStartError
from tests.faults.conftest import MakeBroker
from tests.faults.family import kill, replaced
from tests.faults.wire import Wire, eventually, produce_when_possible, read_all, values_of
from tests.talk import good, talking

MIB = 1 << 20

Mount = Callable[..., Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts small file systems; skips without the right to mount."""
    mounted: list[Path] = []

    def make(name: str, *, size_mib: int, options: str = "") -> Path:
        path = tmp_path / name
        path.mkdir()
        text = f"size={size_mib}m{',' + options if options else ''}"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", text, "pkafka-test", str(path)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"needs root and the right to mount: {done.stderr.strip()}")
        mounted.append(path)
        return path

    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    yield make
    for path in mounted:
        subprocess.run(["umount", "-l", str(path)], check=True)


def lies_in(directory: Path, topics: list[str]) -> list[str]:
    return [topic for topic in topics if (directory / f"{topic}-0").exists()]


def make_topics(broker: Broker, *topics: str) -> list[str]:
    """One after the other, so that they are spread evenly over the directories; with one record each."""
    for topic in topics:
        with Wire(broker.bootstrap) as wire:
            assert wire.create_topic(topic, 1) == ErrorCode.NONE
        produce_when_possible(broker.bootstrap, topic, 0, [b"first"])
    return list(topics)


def fill(address: str, topic: str) -> list[bytes]:
    """Produce until the disk refuses; what was acknowledged."""
    acknowledged = [b"first"]
    with Wire(address) as wire:
        for number in range(1, 1000):
            value = b"%06d" % number + b"x" * 100_000
            error, offset = wire.produce(topic, 0, [value])
            if error:
                assert error == ErrorCode.KAFKA_STORAGE_ERROR
                return acknowledged
            assert offset == number
            acknowledged.append(value)
    raise AssertionError("the disk is not full")


def two_directories(make_broker: MakeBroker, full: Path, **overrides: object) -> Broker:
    home = full.parent / "roomy"
    return make_broker(**{"log.dirs": f"{home},{full}", **overrides})


def test_one_full_disk_of_two(make_broker: MakeBroker, mount: Mount) -> None:
    small = mount("small", size_mib=32)
    broker = two_directories(make_broker, small)
    broker.start()
    topics = make_topics(broker, "a", "b", "c", "d", "e", "f")
    there = lies_in(small, topics)
    assert len(there) == 3
    acknowledged = fill(broker.bootstrap, there[0])
    kept = dict.fromkeys(there, 1)
    with Wire(broker.bootstrap) as wire:
        for topic in there:
            # The other worker hears of it a moment later; until then it finds room for what is small.
            while (error := wire.produce(topic, 0, [b"more"])[0]) == ErrorCode.NONE:
                kept[topic] += 1
            assert error == ErrorCode.KAFKA_STORAGE_ERROR
            assert wire.fetch(topic, 0, 0)[0] == ErrorCode.KAFKA_STORAGE_ERROR
        for topic in set(topics) - set(there):
            assert wire.produce(topic, 0, [b"second"]) == (ErrorCode.NONE, 1)
    # What is made from now on goes to the disk that works.
    assert lies_in(small, make_topics(broker, "g", "h")) == []
    assert broker.stop() == 0
    assert not (small / ".kafka_cleanshutdown").exists()
    assert (small.parent / "roomy" / ".kafka_cleanshutdown").exists()

    subprocess.run(["mount", "-o", "remount,size=128m", str(small)], check=True)
    broker.start()
    for topic in there[1:]:
        assert produce_when_possible(broker.bootstrap, topic, 0, [b"next"]) == kept[topic]
    assert values_of(read_all(broker.bootstrap, there[0], 0))[: len(acknowledged)] == acknowledged
    produce_when_possible(broker.bootstrap, there[0], 0, [b"on we go"])
    assert lies_in(small, topics) == there


def test_replicas_of_a_lost_directory_do_not_come_back_empty_elsewhere(make_broker: MakeBroker) -> None:
    broker = make_broker()
    first, second = broker.directory / "first", broker.directory / "second"
    broker = make_broker(**{"log.dirs": f"{first},{second}"})
    broker.start()
    topics = make_topics(broker, "a", "b")
    (lost,) = lies_in(second, topics)
    (kept,) = lies_in(first, topics)
    for stop in (broker.stop, broker.kill):
        stop()
        second.rename(broker.directory / "away")
        second.write_text("a file in the place of the directory")
        broker.start()
        with Wire(broker.bootstrap) as wire:
            eventually(lambda: wire.produce(kept, 0, [b"x"])[0] == ErrorCode.NONE)
            eventually(lambda: wire.produce(lost, 0, [b"x"])[0] == ErrorCode.KAFKA_STORAGE_ERROR)
        assert lies_in(first, topics) == [kept]
        broker.stop()
        second.unlink()
        (broker.directory / "away").rename(second)
        broker.start()
        assert values_of(read_all(broker.bootstrap, lost, 0)) == [b"first"]


def test_without_the_directory_of_the_store_there_is_no_start(make_broker: MakeBroker) -> None:
    broker = make_broker()
    first, second = broker.directory / "first", broker.directory / "second"
    broker = make_broker(**{"log.dirs": f"{first},{second}"})
    broker.start()
    broker.stop()
    first.rename(broker.directory / "away")
    first.write_text("a file in the place of the directory")
    with pytest.raises(BrokerStartError, match="the first log directory holds the coordination store"):
        broker.start()


def test_the_broker_stops_when_its_only_disk_is_full(make_broker: MakeBroker, mount: Mount) -> None:
    home = mount("small", size_mib=32)
    broker = make_broker(**{"log.dirs": home})
    broker.start()
    make_topics(broker, "t")
    with contextlib.suppress(OSError):
        fill(broker.bootstrap, "t")
    assert broker.wait() == 1
    assert "Every log directory has failed" in broker.log_file.read_text()
    subprocess.run(["mount", "-o", "remount,size=64m", str(home)], check=True)
    broker.start()
    produce_when_possible(broker.bootstrap, "t", 0, [b"x"])


@contextlib.contextmanager
def no_room(disk: Path) -> Iterator[None]:
    """Somebody else's file takes all that is left of a disk."""
    path = disk / "somebody-elses"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    yield
    path.unlink()


@pytest.mark.parametrize("control_dies", [False, True])
def test_the_store_on_a_full_disk_works_again_by_itself(
    make_broker: MakeBroker, mount: Mount, control_dies: bool
) -> None:
    small = mount("small", size_mib=8)
    roomy = small.parent / "roomy"
    broker = make_broker(
        **{"log.dirs": f"{small},{roomy}", "replica.high.watermark.checkpoint.interval.ms": 200}
    )
    broker.start()
    topics = make_topics(broker, "a", "b")
    (lost,) = lies_in(small, topics)
    (kept,) = lies_in(roomy, topics)
    with no_room(small):
        # A checkpoint cannot be written, so the directory goes offline; nothing can be created.
        eventually(lambda: "failed; its replicas are offline" in broker.log_tail())
        victim = kill(broker, "control") if control_dies else None
        if victim is not None:
            replaced(broker, victim, "control")
            eventually(lambda: "The coordination store does not answer" in broker.log_tail())
        else:
            with Wire(broker.bootstrap) as wire:
                assert wire.create_topic("early", 1) == ErrorCode.REQUEST_TIMED_OUT
        with Wire(broker.bootstrap) as wire:
            assert wire.produce(kept, 0, [b"second"]) == (ErrorCode.NONE, 1)
    make_topics(broker, "late")
    assert lies_in(small, ["late"]) == []
    # What could not be written is told the controller now: the lost partition has no leader.
    eventually(lambda: leader_of(broker, lost) is None)
    assert leader_of(broker, kept) == 0
    assert broker.stop() == 0


def leader_of(broker: Broker, topic: str) -> int | None:
    with talking(broker.bootstrap) as talk:
        return good(talk.admin.describe_topics([topic])[topic]).partitions[0].leader


def test_a_read_only_directory_is_one_line(make_broker: MakeBroker, mount: Mount) -> None:
    path = mount("readonly", size_mib=1, options="ro")
    broker = make_broker(**{"log.dirs": path})
    with pytest.raises(BrokerStartError, match="cannot be") as refused:
        broker.start()
    assert "exit code 1" in str(refused.value)
    assert broker.log_file.read_text().count("\n") == 1
    assert list(path.iterdir()) == []
