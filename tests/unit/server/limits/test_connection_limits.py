"""Connections are counted over all workers, exactly, also when workers race, move connections, or die."""

import os
import signal
from ipaddress import IPv4Address

import pytest

from pkafka.clock import ManualClock
from pkafka.errors import ConfigError
from pkafka.net.listener import Admission
from pkafka.server.config.broker_config import BrokerConfig, socket_buffer_bytes
from pkafka.server.limits.connection_limits import ConnectionLimits, LimitSettings, SharedCounts

ADMIT, WAIT, REFUSE = Admission.ADMIT, Admission.WAIT, Admission.REFUSE
HERE, THERE = "10.0.0.1", "10.0.0.2"


def workers(settings: LimitSettings, count: int = 2) -> list[ConnectionLimits]:
    # With a fixed key: of a thousand addresses one in 100,000 shares all four counters, which one key in 300 shows.
    counts = SharedCounts(workers=count, listeners=["CLIENT", "BROKER"], key=b"the tests' key")
    return [ConnectionLimits(counts, index, settings) for index in range(count)]


def packed(host: str) -> bytes:
    return IPv4Address(host).packed


def test_without_limits_everybody_is_admitted() -> None:
    one, other = workers(LimitSettings())
    for _ in range(1_000):
        assert one.admit("CLIENT", HERE) is ADMIT
    assert one.total == other.total == 1_000


def test_all_workers_share_the_limit_of_the_broker_and_wait_for_room() -> None:
    one, other = workers(LimitSettings(total=3))
    assert [limits.admit("CLIENT", HERE) for limits in (one, other, one)] == [ADMIT] * 3
    assert one.admit("CLIENT", THERE) is WAIT
    assert other.admit("CLIENT", THERE) is WAIT
    one.release("CLIENT", HERE)
    assert other.admit("CLIENT", THERE) is ADMIT
    assert one.admit("CLIENT", HERE) is WAIT


def test_an_address_over_its_limit_is_refused_and_others_are_not() -> None:
    one, other = workers(LimitSettings(per_address=2, by_address={packed(THERE): 0}))
    assert one.admit("CLIENT", HERE) is ADMIT
    assert other.admit("CLIENT", HERE) is ADMIT
    assert one.admit("CLIENT", HERE) is REFUSE
    assert one.admit("CLIENT", THERE) is REFUSE
    assert one.admit("CLIENT", "::1") is ADMIT
    other.release("CLIENT", HERE)
    assert one.admit("CLIENT", HERE) is ADMIT


def test_an_ipv4_client_of_a_dual_stack_socket_is_the_same_client() -> None:
    [one] = workers(LimitSettings(per_address=1), 1)
    assert one.admit("CLIENT", f"::ffff:{HERE}") is ADMIT
    assert one.admit("CLIENT", HERE) is REFUSE


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    one, other = workers(LimitSettings(by_listener={"CLIENT": 1}))
    assert one.admit("CLIENT", HERE) is ADMIT
    assert other.admit("CLIENT", HERE) is WAIT
    assert other.admit("BROKER", HERE) is ADMIT


def test_brokers_take_the_place_of_clients() -> None:
    one, _other = workers(LimitSettings(total=1, protected_listener="BROKER"))
    assert one.admit("CLIENT", HERE) is ADMIT
    assert not one.is_exceeded_by("CLIENT")
    assert one.admit("BROKER", HERE) is ADMIT
    assert one.is_exceeded_by("BROKER")
    one.release("CLIENT", HERE)
    assert not one.is_exceeded_by("BROKER")


def test_a_connection_that_moves_is_counted_once() -> None:
    one, other = workers(LimitSettings(per_address=1, total=1))
    assert one.admit("CLIENT", HERE) is ADMIT
    one.release("CLIENT", HERE)
    other.count("CLIENT", HERE)
    assert one.admit("CLIENT", HERE) is WAIT
    other.release("CLIENT", HERE)
    assert one.admit("CLIENT", HERE) is ADMIT


def timed(settings: LimitSettings) -> tuple[ManualClock, list[ConnectionLimits]]:
    """Two workers that count new connections over two seconds."""
    clock = ManualClock()
    counts = SharedCounts(workers=2, listeners=["CLIENT", "BROKER"], rate_samples=2)
    return clock, [ConnectionLimits(counts, index, settings, clock=clock) for index in range(2)]


def test_connections_that_come_too_fast_wait_in_all_workers() -> None:
    clock, (one, other) = timed(LimitSettings(rate=2))
    assert [one.admit("CLIENT", HERE), other.admit("CLIENT", HERE)] == [ADMIT, ADMIT]
    # A third within the second: half a second more brings the rate down.
    assert one.admit("CLIENT", HERE) is WAIT
    assert other.admit("CLIENT", HERE) is WAIT
    clock.advance(ms=499)
    assert one.admit("CLIENT", HERE) is WAIT
    clock.advance(ms=1)
    # Only the one that waited comes in; the other begins to wait.
    assert one.admit("CLIENT", HERE) is ADMIT
    assert other.admit("CLIENT", HERE) is WAIT
    clock.advance(ms=1_000)
    assert other.admit("CLIENT", HERE) is ADMIT
    clock.advance(ms=10_000)
    assert [other.admit("CLIENT", HERE), one.admit("CLIENT", HERE)] == [ADMIT, ADMIT]


def test_the_rate_of_a_listener_holds_up_that_listener_alone() -> None:
    _clock, (one, other) = timed(LimitSettings(rate_by_listener={"CLIENT": 1}))
    assert one.admit("CLIENT", HERE) is ADMIT
    assert other.admit("CLIENT", HERE) is WAIT
    assert [other.admit("BROKER", HERE) for _ in range(9)] == [ADMIT] * 9


def test_brokers_are_not_held_up_by_the_rate_of_clients() -> None:
    _clock, (one, other) = timed(LimitSettings(rate=1, protected_listener="BROKER"))
    assert [one.admit("BROKER", HERE) for _ in range(9)] == [ADMIT] * 9
    assert one.admit("CLIENT", HERE) is ADMIT
    assert other.admit("CLIENT", HERE) is WAIT


def test_who_waits_for_a_place_is_counted_once() -> None:
    clock, (one, _other) = timed(LimitSettings(rate=2, total=1))
    assert one.admit("CLIENT", HERE) is ADMIT
    assert [one.admit("CLIENT", THERE) for _ in range(50)] == [WAIT] * 50
    one.release("CLIENT", HERE)
    assert one.admit("CLIENT", THERE) is ADMIT
    one.release("CLIENT", THERE)
    assert one.admit("CLIENT", THERE) is WAIT
    clock.advance(ms=500)
    assert one.admit("CLIENT", THERE) is ADMIT


def test_the_successor_of_a_dead_worker_forgets_its_connections() -> None:
    settings = LimitSettings(total=4, per_address=3)
    counts = SharedCounts(workers=2, listeners=["CLIENT"])
    one, other = (ConnectionLimits(counts, index, settings) for index in range(2))
    assert [limits.admit("CLIENT", HERE) for limits in (one, one, other)] == [ADMIT] * 3
    successor = ConnectionLimits(counts, 0, settings, first=False)
    assert successor.total == 1
    assert successor.admit("CLIENT", HERE) is ADMIT


def test_thousands_of_addresses_do_not_disturb_each_other() -> None:
    one, other = workers(LimitSettings(per_address=1))
    hosts = [f"10.1.{high}.{low}" for high in range(8) for low in range(128)]
    assert [(one, other)[n % 2].admit("CLIENT", host) for n, host in enumerate(hosts)] == [ADMIT] * len(hosts)
    assert [(other, one)[n % 2].admit("CLIENT", host) for n, host in enumerate(hosts)] == [REFUSE] * len(
        hosts
    )


def test_workers_that_race_never_exceed_the_limit() -> None:
    settings = LimitSettings(total=500)
    counts = SharedCounts(workers=3, listeners=["CLIENT"])
    children = []
    for index in range(2):
        pid = os.fork()
        if pid == 0:
            mine = ConnectionLimits(counts, index, settings)
            for _ in range(2_000):
                mine.admit("CLIENT", HERE)
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    assert ConnectionLimits(counts, 2, settings).total == 500


def test_a_worker_that_dies_holding_the_lock_blocks_nobody() -> None:
    counts = SharedCounts(workers=2, listeners=["CLIENT"])
    pid = os.fork()
    if pid == 0:
        with counts.lock:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert ConnectionLimits(counts, 0, LimitSettings()).admit("CLIENT", HERE) is ADMIT


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.load(
        None,
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:1",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            **settings,
        },
    )


def test_limits_are_read_from_the_configuration() -> None:
    settings = LimitSettings.of(
        config(
            **{
                "inter.broker.listener.name": "INTERNAL",
                "max.connections": "100",
                "max.connections.per.ip": "10",
                "max.connections.per.ip.overrides": f"{HERE}:5,localhost:7",
                "listener.name.internal.max.connections": "50",
                "max.connection.creation.rate": "7",
                "listener.name.plaintext.max.connection.creation.rate": "9",
            }
        )
    )
    assert settings.total == 100
    # A listener without a limit of its own has the broker's.
    assert settings.by_listener == {"PLAINTEXT": 100, "INTERNAL": 50}
    assert settings.per_address == 10
    assert settings.by_address[packed(HERE)] == 5
    assert settings.by_address[packed("127.0.0.1")] == 7
    assert settings.protected_listener == "INTERNAL"
    assert (settings.rate, settings.rate_by_listener) == (7, {"PLAINTEXT": 9, "INTERNAL": 7})


def test_the_only_listener_is_not_protected() -> None:
    assert LimitSettings.of(config(listeners="PLAINTEXT://127.0.0.1:0")).protected_listener is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max.connections.per.ip.overrides", "no-such-host.invalid:5"),
        ("listener.name.internal.max.connections", "many"),
        ("listener.name.internal.max.connections", "-1"),
        ("listener.name.internal.max.connection.creation.rate", "-1"),
    ],
)
def test_a_wrong_limit_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        LimitSettings.of(config(**{key: value}))


@pytest.mark.parametrize("key", ["socket.send.buffer.bytes", "socket.receive.buffer.bytes"])
def test_socket_buffers_are_the_kernels_unless_somebody_set_them(key: str) -> None:
    assert socket_buffer_bytes(config(), key) is None
    assert socket_buffer_bytes(config(**{key: "-1"}), key) is None
    assert socket_buffer_bytes(config(**{key: "102400"}), key) == 102_400


def test_the_file_overrides_the_send_buffer_within_the_machine() -> None:
    key = "socket.send.buffer.bytes"
    found = [
        socket_buffer_bytes(config(**given), key, unset=200_000)
        for given in ({}, {key: "-1"}, {key: "50000"})
    ]
    assert found == [200_000, None, 50_000]
