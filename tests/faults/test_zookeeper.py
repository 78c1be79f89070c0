"""What a broker on a real ZooKeeper does when its processes, its session or the ZooKeeper itself go away."""

import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import psutil
import pytest

from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ErrorCode
from pkafka.server.processes.supervisor import RESTARTS_MAX
from pkafka.testing import Broker, BrokerStartError
from tests.faults.conftest import MakeBroker
from tests.faults.family import family, kill, replaced
from tests.faults.wire import Wire, eventually, produce_when_possible
from tests.faults.zookeeper_faults import expire_session
from tests.zookeeper import ZooKeeper, running_zookeeper

SESSION_MS = 2000

Observer = Callable[[], tuple[int, int]]
"""The session that owns the broker's node, and the broker epoch."""


@pytest.fixture
def chroot(zookeeper: ZooKeeper) -> str:
    return f"{zookeeper.connect}/{uuid.uuid4().hex}"


@pytest.fixture
def session_ms() -> int:
    return SESSION_MS


@pytest.fixture
def on_zookeeper(make_broker: MakeBroker, chroot: str, session_ms: int) -> Broker:
    broker = make_broker(**{"zookeeper.connect": chroot, "zookeeper.session.timeout.ms": session_ms})
    broker.start()
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("t", 2) == ErrorCode.NONE
    return broker


@pytest.fixture
def registered(on_zookeeper: Broker, chroot: str) -> Iterator[Observer]:
    store = ZooKeeperStore(chroot, 10_000)
    (broker_id,) = store.children("/brokers/ids")

    def observe() -> tuple[int, int]:
        stat = store.exists(f"/brokers/ids/{broker_id}")
        return (stat.ephemeral_owner, stat.czxid) if stat is not None else (0, 0)

    yield observe
    store.close()


@pytest.mark.parametrize("session_ms", [10_000], ids=["long session"])
def test_control_resumes_the_session_of_its_predecessor(on_zookeeper: Broker, registered: Observer) -> None:
    before = registered()
    for number in range(3):
        victim = kill(on_zookeeper, "control")
        with Wire(on_zookeeper.bootstrap) as wire:
            for partition in range(2):
                assert wire.produce("t", partition, [b"x"]) == (ErrorCode.NONE, number)
            assert wire.create_topic(f"later-{number}", 2) == ErrorCode.NONE
        replaced(on_zookeeper, victim, "control")
        assert registered() == before
    assert on_zookeeper.stop() == 0
    assert registered() == (0, 0)


def test_a_lost_session_means_a_new_epoch_and_no_interruption(
    on_zookeeper: Broker, registered: Observer
) -> None:
    before = registered()
    victim = family(on_zookeeper)["control"]
    victim.suspend()
    try:
        eventually(lambda: registered() == (0, 0))
        with Wire(on_zookeeper.bootstrap) as wire:
            for partition in range(2):
                assert wire.produce("t", partition, [b"x"]) == (ErrorCode.NONE, 0)
    finally:
        victim.resume()
    eventually(lambda: registered() > (0, 0))
    session, epoch = registered()
    assert session != before[0]
    assert epoch > before[1]
    with Wire(on_zookeeper.bootstrap) as wire:
        assert wire.create_topic("later", 2) == ErrorCode.NONE
        for partition in range(2):
            assert wire.produce("t", partition, [b"x"]) == (ErrorCode.NONE, 1)


def test_sessions_that_end_are_no_deaths(
    on_zookeeper: Broker, registered: Observer, zookeeper: ZooKeeper
) -> None:
    """A broker stops when its processes keep dying; however often its session ends, it begins another."""
    for _ in range(RESTARTS_MAX + 2):
        before = registered()
        expire_session(("127.0.0.1", zookeeper.port), before[0])
        eventually(lambda: registered()[1] > before[1])  # noqa: B023 - called at once
    with Wire(on_zookeeper.bootstrap) as wire:
        assert wire.create_topic("later", 1) == ErrorCode.NONE
    assert " died" not in on_zookeeper.log_tail()


def test_a_start_right_after_kill_9_waits_for_the_end_of_the_old_session(
    on_zookeeper: Broker, registered: Observer
) -> None:
    before = registered()
    on_zookeeper.kill()
    on_zookeeper.start()
    assert registered()[0] not in (0, before[0])
    for partition in range(2):
        produce_when_possible(on_zookeeper.bootstrap, "t", partition, [b"x"])


@pytest.mark.parametrize("session_ms", [10_000], ids=["long session"])
def test_a_second_broker_with_the_id_of_a_live_one_is_refused(
    on_zookeeper: Broker, make_broker: MakeBroker, chroot: str, registered: Observer
) -> None:
    before = registered()
    broker_id = (on_zookeeper.log_dir / "meta.properties").read_text().partition("broker.id=")[2].split()[0]
    second = make_broker(
        "second",
        **{
            "zookeeper.connect": chroot,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "broker.id": broker_id,
            "reserved.broker.max.id": 100_000,
        },
    )
    with pytest.raises(BrokerStartError, match=f"Broker id {broker_id} is taken by another live broker"):
        second.start()
    assert registered() == before


def test_without_zookeeper_records_flow_and_with_it_all_is_well_again(make_broker: MakeBroker) -> None:
    with running_zookeeper() as own:
        broker = make_broker(**{"zookeeper.connect": own.connect, "zookeeper.session.timeout.ms": SESSION_MS})
        broker.start()
        with Wire(broker.bootstrap) as wire:
            assert wire.create_topic("t", 2) == ErrorCode.NONE
            server = psutil.Process(own.pid)
            server.suspend()
            try:
                until = time.monotonic() + 1.5 * SESSION_MS / 1000
                number = 0
                while time.monotonic() < until:
                    for partition in range(2):
                        assert wire.produce("t", partition, [b"x"]) == (ErrorCode.NONE, number)
                    number += 1
                    time.sleep(0.01)
            finally:
                server.resume()
        with Wire(broker.bootstrap) as wire:
            # The request that is in hand when the session ends may be told to try again.
            made = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            eventually(lambda: wire.create_topic("later", 2) in made)
        for partition in range(2):
            assert produce_when_possible(broker.bootstrap, "t", partition, [b"x"]) == number
        assert broker.stop() == 0


def test_a_stop_does_not_wait_for_a_zookeeper_that_is_away(make_broker: MakeBroker) -> None:
    with running_zookeeper() as own:
        broker = make_broker(**{"zookeeper.connect": own.connect, "zookeeper.session.timeout.ms": SESSION_MS})
        broker.start()
        server = psutil.Process(own.pid)
        server.suspend()
        try:
            assert broker.stop() == 0  # for which it has half a minute
            assert (broker.log_dir / ".kafka_cleanshutdown").exists()
        finally:
            server.resume()


def test_a_stop_while_it_waits_for_zookeeper_at_start(make_broker: MakeBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {
            "zookeeper.connect": f"127.0.0.1:{silent.getsockname()[1]}",
            "zookeeper.connection.timeout.ms": 120_000,
        }
        broker = make_broker(**settings)

        def start() -> None:
            with pytest.raises(BrokerStartError, match="ended with exit code 0"):
                broker.start()

        starting = threading.Thread(target=start)
        starting.start()
        client, _address = silent.accept()
        with client:
            os.kill(broker.pid, signal.SIGTERM)
            starting.join(100)
        assert not starting.is_alive()


def test_a_zookeeper_that_is_not_there_is_one_line(make_broker: MakeBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    broker = make_broker(
        **{"zookeeper.connect": f"127.0.0.1:{port}", "zookeeper.connection.timeout.ms": 1500}
    )
    with pytest.raises(BrokerStartError, match="exit code 1"):
        broker.start()
    said = broker.log_file.read_text()
    (line,) = [line for line in said.splitlines() if "CRITICAL" in line]
    assert f"127.0.0.1:{port}" in line
    assert "Traceback" not in said
