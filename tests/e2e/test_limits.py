"""What bounds clients: numbers of connections, idleness, memory; and reads that wait for the disk."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.coordination.znodes import BrokerRegistration
from pkafka.errors import ErrorCode
from pkafka.protocol.messages import api_versions, incremental_alter_configs
from pkafka.testing import Broker, running_broker
from tests.faults.family import holder
from tests.raw_client import (
    ClosedByBroker,
    RawClient,
    batch,
    create_topic,
    fetch_from,
    fetch_request,
    fetched,
    produce_to,
    records_of,
)
from tests.talk import wait_for

MIB = 1024 * 1024
IDLE_S = 1.0
PING = api_versions.ApiVersionsRequest()


@contextmanager
def broker_with(tmp_path: Path, **settings: object) -> Iterator[Broker]:
    overrides: dict[str, object] = {"pkafka.workers": 2}
    overrides |= {key.replace("_", "."): value for key, value in settings.items()}
    with running_broker(tmp_path / "broker", overrides) as broker:
        yield broker


def is_served(client: RawClient, *, within_s: float = 60.0) -> bool:
    """Whether a request is answered; False when the connection is closed or nothing comes."""
    client.sock.settimeout(within_s)
    try:
        return bool(client.call(PING, 0).error_code == 0)
    except (ClosedByBroker, ConnectionResetError, BrokenPipeError, TimeoutError):
        return False


def until_served(address: str) -> RawClient:
    """A connection that is served, as soon as the broker lets one in."""
    clients: list[RawClient] = []

    def served() -> bool:
        close_all(clients)
        clients[:] = [RawClient(address)]
        return is_served(clients[0])

    wait_for(served, what="a served connection")
    return clients[0]


def close_all(clients: list[RawClient]) -> None:
    for client in clients:
        client.close()


# -- how many --


def test_an_address_gets_no_more_connections_than_its_limit(tmp_path: Path) -> None:
    with broker_with(tmp_path, max_connections_per_ip=8) as broker:
        clients = [RawClient(broker.bootstrap) for _ in range(12)]
        served = [is_served(client) for client in clients]
        assert served.count(True) == 8
        close_all(clients)
        clients = [until_served(broker.bootstrap) for _ in range(8)]
        extra = RawClient(broker.bootstrap)
        assert not is_served(extra)
        close_all([*clients, extra])


def test_an_address_may_have_a_limit_of_its_own(tmp_path: Path) -> None:
    limits: dict[str, object] = {
        "max_connections_per_ip": 1,
        "max_connections_per_ip_overrides": "127.0.0.1:3,10.0.0.1:0",
    }
    with broker_with(tmp_path, **limits) as broker:
        clients = [RawClient(broker.bootstrap) for _ in range(5)]
        assert sorted(is_served(client) for client in clients) == [False, False, True, True, True]
        close_all(clients)


def test_connections_over_the_limit_of_the_broker_wait_for_their_turn(tmp_path: Path) -> None:
    with broker_with(tmp_path, max_connections=4) as broker:
        clients = [RawClient(broker.bootstrap) for _ in range(4)]
        assert all(is_served(client) for client in clients)
        waiting = RawClient(broker.bootstrap)
        waiting.send(PING, 0)
        waiting.sock.settimeout(0.3)  # that it waits can only be seen by waiting
        with pytest.raises(TimeoutError):
            waiting.receive()
        clients[0].close()
        waiting.sock.settimeout(60)
        assert waiting.sock.recv(4)  # the answer to the request that it sent while it waited
        close_all([*clients, waiting])


def test_the_connections_of_a_dead_worker_do_not_count(tmp_path: Path) -> None:
    with broker_with(tmp_path, max_connections=6) as broker:
        clients = [RawClient(broker.bootstrap) for _ in range(6)]
        assert all(is_served(client) for client in clients)
        workers = [
            child for child in psutil.Process(broker.pid).children() if child.num_fds() and has_clients(child)
        ]
        workers[0].kill()
        workers[0].wait(60)
        # With the process its connections have ended; the others' are looked at for a moment.
        gone = [client for client in clients if client.is_closed(within_s=0.1)]
        assert gone
        again = [until_served(broker.bootstrap) for _ in gone]
        close_all([*clients, *again])


def has_clients(process: psutil.Process) -> bool:
    return any(one.status == psutil.CONN_ESTABLISHED for one in process.net_connections("tcp"))


def test_listeners_have_their_own_limits_and_the_brokers_one_goes_first(tmp_path: Path) -> None:
    overrides = {
        "broker.id": 0,
        "pkafka.workers": 2,
        "listeners": "CLIENT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "max.connections": 5,
        "listener.name.client.max.connections": 3,
    }
    with running_broker(tmp_path / "broker", overrides) as broker:
        with EmbeddedStore(broker.log_dir / STORE_FILE, read_only=True) as store:
            registration = BrokerRegistration.decode(store.get(BrokerRegistration.path(0))[0])
        [internal] = [f"{at.host}:{at.port}" for at in registration.endpoints if at.listener == "INTERNAL"]
        clients = [RawClient(broker.bootstrap) for _ in range(3)]
        assert all(is_served(client) for client in clients)
        late = RawClient(broker.bootstrap)
        assert not is_served(late, within_s=0.3)
        # Beyond the limit of the broker other brokers are let in, each at the cost of a client.
        brokers = [RawClient(internal) for _ in range(5)]
        assert all(is_served(one) for one in brokers)
        close_all([*clients, late, *brokers])


def test_limits_can_be_changed_while_the_broker_runs(tmp_path: Path) -> None:
    with broker_with(tmp_path) as broker:
        clients = [RawClient(broker.bootstrap) for _ in range(4)]
        assert all(is_served(client) for client in clients)
        change = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=4,
                    resource_name="",
                    configs=[
                        incremental_alter_configs.AlterableConfig(
                            name="max.connections.per.ip", config_operation=0, value="4"
                        )
                    ],
                )
            ]
        )
        [answer] = clients[0].call(change, 0).responses
        assert answer.error_code == 0, answer.error_message

        def refused() -> bool:
            with RawClient(broker.bootstrap) as one:
                return not is_served(one)

        wait_for(refused, what="the new limit")
        # Those that exist stay.
        assert all(is_served(client) for client in clients)
        close_all(clients)


# -- idle --


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"pkafka.workers": 2, "connections.max.idle.ms": int(IDLE_S * 1000)}
    with running_broker(tmp_path_factory.mktemp("idle") / "broker", settings) as broker:
        yield broker


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(impatient: Broker) -> None:
    idle = RawClient(impatient.bootstrap)
    assert is_served(idle)

    def keep_busy(busy: RawClient, used: Used) -> bool:
        until = time.monotonic() + 2 * IDLE_S
        while time.monotonic() < until:
            if not is_served(busy):
                return False
            used.now()
            time.sleep(0.05)
        return True

    without_a_pause(impatient, keep_busy)
    assert idle.is_closed()
    idle.close()


class Used:
    """When a client was used, and how long it was not at the most."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()
        self.longest_pause_s = 0.0

    def now(self) -> None:
        before_s, self._last_s = self._last_s, time.monotonic()
        self.longest_pause_s = max(self.longest_pause_s, self._last_s - before_s)


def without_a_pause(broker: Broker, use: Callable[[RawClient, Used], bool]) -> None:
    """Use a client until it ends well.

    It may end otherwise where the client was not used for as long as makes it idle: the machine stood still.
    """
    while True:
        used = Used()
        with RawClient(broker.bootstrap) as client:
            is_well = use(client, used)
        used.now()
        if is_well:
            return
        assert used.longest_pause_s >= IDLE_S


def test_a_client_that_stops_within_a_request_is_closed(impatient: Broker) -> None:
    clients = [RawClient(impatient.bootstrap) for _ in range(3)]
    for cut, client in zip((1, 4, 9), clients, strict=True):
        client.send_bytes(client.encoded(PING, 0)[:cut])
    assert all(client.is_closed() for client in clients)
    close_all(clients)


def test_a_client_that_sends_a_byte_now_and_then_is_served_in_the_end(impatient: Broker) -> None:
    def drip(slow: RawClient, used: Used) -> bool:
        try:
            for byte in slow.encoded(PING, 0):
                slow.send_bytes(bytes([byte]))
                used.now()
                with RawClient(impatient.bootstrap) as other:
                    assert is_served(other)
                time.sleep(0.1)
            return bool(slow.receive().error_code == 0)
        except (ClosedByBroker, ConnectionResetError, BrokenPipeError):
            return False

    without_a_pause(impatient, drip)


def test_a_client_that_does_not_read_its_answers_is_closed(impatient: Broker) -> None:
    topic = create_topic(impatient.bootstrap)
    with RawClient(impatient.bootstrap) as writer:
        for _ in range(8):
            assert produce_to(writer, topic, batch(b"x" * 1_000_000))[0] == ErrorCode.NONE
    client = RawClient(impatient.bootstrap, receive_buffer_bytes=4096)
    one = client.encoded(fetch_request({(topic, 0): 0}, partition_max_bytes=50 * MIB), 12)
    client.send_bytes(one * 3)
    # Whoever reads too soon gets more and is no longer idle.
    wait_for(lambda: holder(impatient, client.port) is None, what="closing")
    total = 0
    try:
        while chunk := client.sock.recv(65536):
            total += len(chunk)
    except ConnectionResetError:
        pass
    assert total < 3 * 8_000_000  # closed before all was sent
    client.close()


def test_a_long_poll_is_not_idle(impatient: Broker) -> None:
    topic = create_topic(impatient.bootstrap)
    with RawClient(impatient.bootstrap) as client:
        assert not records_of(fetch_from(client, topic, 0, max_wait_ms=int(2 * IDLE_S * 1000)))


# -- memory --


def proportional_bytes(broker: Broker) -> int:
    """Anonymous memory of all processes, shared pages counted once; others share files' pages, and come and go."""
    total = 0
    for process in [psutil.Process(broker.pid), *psutil.Process(broker.pid).children(recursive=True)]:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) * 1024
    return total


def work_of_an_answer_ns(broker: Broker) -> float:
    """What the broker's processes work for one: unlike how long it takes, that is no matter of what else runs."""
    with RawClient(broker.bootstrap) as client:
        before = worked_ns(broker)
        for _ in range(500):
            assert is_served(client)
        return (worked_ns(broker) - before) / 500


def worked_ns(broker: Broker) -> int:
    """For how long the processes of a broker have had a processor."""
    return sum(
        int(path.read_text().split()[0])
        for process in psutil.Process(broker.pid).children(recursive=True)
        for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    )


def test_a_thousand_idle_connections_cost_little_and_slow_nobody(tmp_path: Path) -> None:
    with broker_with(tmp_path) as broker:
        warm = [RawClient(broker.bootstrap) for _ in range(20)]
        assert all(is_served(client) for client in warm)
        before, answer_ns = proportional_bytes(broker), work_of_an_answer_ns(broker)
        clients = []
        for _ in range(25):
            # No more at once than wait in a listener's queue (socket.listen.backlog.size).
            new = [RawClient(broker.bootstrap) for _ in range(40)]
            assert all(is_served(client) for client in new)
            clients += new
        assert len(clients) == 1_000
        assert proportional_bytes(broker) - before < 4 * MIB
        assert work_of_an_answer_ns(broker) < 5 * answer_ns
        close_all([*warm, *clients])


# -- a cold disk --


def test_records_that_are_not_in_memory_are_read_ahead_and_served(tmp_path: Path) -> None:
    with broker_with(tmp_path) as broker:
        topic = create_topic(broker.bootstrap)
        with RawClient(broker.bootstrap) as client:
            for number in range(12):
                data = batch(os.urandom(1_000_000), b"%d" % number)
                assert produce_to(client, topic, data)[0] == ErrorCode.NONE
            [segment] = (broker.log_dir / f"{topic}-0").glob("*.log")
            with segment.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            # One that reads it all, slowly; meanwhile the others are served.
            client.send(fetch_request({(topic, 0): 0}, partition_max_bytes=50 * MIB), 12)
            with RawClient(broker.bootstrap) as other:
                assert is_served(other)
            [part] = fetched(client.receive()).values()
            records = records_of(part)
            assert [record.value for record in records[1::2]] == [b"%d" % number for number in range(12)]


# -- fetches --


def test_the_broker_bounds_a_fetch_and_the_number_of_sessions(tmp_path: Path) -> None:
    settings = {"fetch_max_bytes": 20_000, "max_incremental_fetch_session_cache_slots": 2}
    with broker_with(tmp_path, pkafka_workers=1, **settings) as broker:
        topic = create_topic(broker.bootstrap)
        with RawClient(broker.bootstrap) as client:
            for _ in range(10):
                assert produce_to(client, topic, batch(b"x" * 9_000))[0] == ErrorCode.NONE
            assert len(records_of(fetch_from(client, topic, 0))) == 2
            request = fetch_request({(topic, 0): 10}, session=(0, 0), max_wait_ms=0)
            sessions = [client.call(request, 12).session_id for _ in range(4)]
            # Those in use are not driven out; who gets none goes on with full fetches.
            assert [bool(session) for session in sessions] == [True, True, False, False]
