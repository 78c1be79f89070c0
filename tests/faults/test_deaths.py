"""The death of each process of a broker, idle and at work: what lives on, and how soon all is well again."""

import contextlib
import os
import signal
import subprocess
import time

import psutil
import pytest

from pkafka.errors import ErrorCode
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.faults.conftest import MakeBroker
from tests.faults.family import begun_to_stop, family, is_alive, kill, replaced
from tests.faults.wire import Wire, eventually, produce_when_possible, read_all, values_of

NAMES = ["cleaner", "control", "worker-0", "worker-1"]
PATIENT = {"pkafka.heartbeat.timeout.ms": 120_000}
"""What is over soon is not over because somebody was silent for so long."""


def make_topic(broker: Broker, topic: str, partitions: int = 4) -> None:
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic(topic, partitions) == ErrorCode.NONE


def test_processes_are_told_apart_by_name(broker: Broker) -> None:
    assert sorted(family(broker)) == NAMES


def test_a_dead_worker_is_back_with_all_its_partitions(make_broker: MakeBroker) -> None:
    broker = make_broker(**PATIENT)
    broker.start()
    make_topic(broker, "t", 8)
    for partition in range(8):
        produce_when_possible(broker.bootstrap, "t", partition, [b"before"])
    began = time.monotonic()
    victim = kill(broker, "worker-0")
    for partition in range(8):
        assert produce_when_possible(broker.bootstrap, "t", partition, [b"after"]) == 1
    assert time.monotonic() - began < broker.soon_s
    replaced(broker, victim, "worker-0")
    for partition in range(8):
        assert values_of(read_all(broker.bootstrap, "t", partition)) == [b"before", b"after"]


def test_clients_of_the_other_worker_notice_nothing(broker: Broker) -> None:
    make_topic(broker, "t", 2)
    kept = next(partition for partition in range(2) if owner_of("t", partition, 2) == 1)
    with Wire(broker.bootstrap) as wire:
        # Two requests for one owner move a connection to it.
        for number in range(10):
            assert wire.produce("t", kept, [b"%d" % number]) == (ErrorCode.NONE, number)
        kill(broker, "worker-0")
        for number in range(10, 200):
            assert wire.produce("t", kept, [b"%d" % number]) == (ErrorCode.NONE, number)


def test_without_control_records_flow_and_admin_requests_wait_for_its_successor(broker: Broker) -> None:
    make_topic(broker, "t", 2)
    with Wire(broker.bootstrap) as wire:
        for partition in range(2):
            assert wire.produce("t", partition, [b"a"])[0] == ErrorCode.NONE
        victim = kill(broker, "control")
        for number in range(1, 100):
            for partition in range(2):
                assert wire.produce("t", partition, [b"b"]) == (ErrorCode.NONE, number)
        assert wire.create_topic("later", 2) == ErrorCode.NONE
        replaced(broker, victim, "control")
        for partition in range(2):
            assert wire.produce("later", partition, [b"x"]) == (ErrorCode.NONE, 0)
            assert wire.produce("t", partition, [b"c"]) == (ErrorCode.NONE, 100)
    assert broker.stop() == 0


def test_a_worker_that_comes_back_after_a_new_control_has_its_partitions(broker: Broker) -> None:
    make_topic(broker, "t", 4)
    for name in ("control", "worker-0", "control", "worker-1"):
        replaced(broker, kill(broker, name), name)
    for partition in range(4):
        produce_when_possible(broker.bootstrap, "t", partition, [b"x"])


def test_all_children_at_once(broker: Broker) -> None:
    make_topic(broker, "t", 4)
    for partition in range(4):
        produce_when_possible(broker.bootstrap, "t", partition, [b"x"])
    for child in family(broker).values():
        child.kill()
    for partition in range(4):
        assert produce_when_possible(broker.bootstrap, "t", partition, [b"y"]) == 1
    assert broker.stop() == 0


def test_the_cleaner_is_replaced_and_does_what_was_left(make_broker: MakeBroker) -> None:
    broker = make_broker(
        **{
            "log.flush.offset.checkpoint.interval.ms": 200,
            "replica.high.watermark.checkpoint.interval.ms": 200,
            "log.flush.start.offset.checkpoint.interval.ms": 200,
        }
    )
    broker.start()
    make_topic(broker, "t", 2)
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("gone", 1, configs={"file.delete.delay.ms": "6000"}) == ErrorCode.NONE
    victim = family(broker)["cleaner"]
    checkpoint = broker.log_dir / "replication-offset-checkpoint"
    eventually(lambda: "t 1 0" in checkpoint.read_text())
    with Wire(broker.bootstrap) as wire:
        assert wire.delete_topic("gone") == ErrorCode.NONE
    eventually(lambda: list(broker.log_dir.glob("gone-0.*-delete")))
    victim.kill()
    replaced(broker, victim, "cleaner")
    produce_when_possible(broker.bootstrap, "t", 1, [b"x"])
    eventually(lambda: "t 1 1" in checkpoint.read_text())
    eventually(lambda: not list(broker.log_dir.glob("gone-0.*-delete")))
    assert broker.stop() == 0


def test_children_end_with_the_supervisor_and_the_next_start_works_at_once(make_broker: MakeBroker) -> None:
    broker = make_broker(**PATIENT)
    broker.start()
    make_topic(broker, "t", 4)
    for partition in range(4):
        produce_when_possible(broker.bootstrap, "t", partition, [b"x"])
    children = list(family(broker).values())
    os.kill(broker.pid, signal.SIGKILL)
    began = time.monotonic()
    eventually(lambda: not any(is_alive(child) for child in children))
    assert time.monotonic() - began < broker.soon_s
    broker.kill()
    broker.start()
    for partition in range(4):
        assert produce_when_possible(broker.bootstrap, "t", partition, [b"y"]) == 1


def test_a_stopped_worker_is_killed_and_replaced(make_broker: MakeBroker) -> None:
    broker = make_broker(**{"pkafka.heartbeat.timeout.ms": 2000})
    broker.start()
    make_topic(broker, "t", 2)
    for partition in range(2):
        produce_when_possible(broker.bootstrap, "t", partition, [b"x"])
    victim = family(broker)["worker-0"]
    victim.suspend()
    began = time.monotonic()
    replaced(broker, victim, "worker-0")
    assert time.monotonic() - began > 0.5
    for partition in range(2):
        assert produce_when_possible(broker.bootstrap, "t", partition, [b"y"]) == 1
    assert "has been silent for 2 s; killing it" in broker.log_tail()


def test_the_supervisor_may_be_suspended_for_longer_than_its_children_may_be_silent(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**{"pkafka.heartbeat.timeout.ms": 6000})
    broker.start()
    before = {name: child.pid for name, child in family(broker).items()}
    everybody = [psutil.Process(broker.pid), *family(broker).values()]
    for process in everybody:
        process.suspend()
    time.sleep(7)
    for process in everybody:
        process.resume()
    time.sleep(1)  # two turns of the supervisor: a mistake would show in the first
    assert {name: child.pid for name, child in family(broker).items()} == before


def test_too_many_deaths_stop_the_broker(broker: Broker) -> None:
    code = None
    deadline = time.monotonic() + 100
    while code is None and time.monotonic() < deadline:
        with contextlib.suppress(
            psutil.NoSuchProcess, KeyError
        ):  # it has just ended, or is not yet there again
            family(broker)["cleaner"].kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = broker.wait(0.05)
    assert code == 1
    assert broker.log_tail().count("processes died within") == 1


@pytest.mark.parametrize("name", ["control", "worker-0"])
def test_a_death_during_the_stop_does_not_delay_it(make_broker: MakeBroker, name: str) -> None:
    broker = make_broker(**PATIENT)
    broker.start()
    make_topic(broker, "t", 2)
    victim = family(broker)[name]
    victim.suspend()
    os.kill(broker.pid, signal.SIGTERM)
    begun_to_stop(broker)
    if name != "control":
        # While leaders are given away it would be replaced: only after that do workers end.
        eventually(lambda: "worker-1" not in family(broker))
    began = time.monotonic()
    victim.kill()
    assert broker.wait() == 1
    assert time.monotonic() - began < broker.soon_s
    assert "Second signal" not in broker.log_tail()
    broker.start()
    produce_when_possible(broker.bootstrap, "t", 0, [b"x"])
