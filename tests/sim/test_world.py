"""The simulated time, network, store and disk do what they stand for."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.coordination.store import ConnectionLossError, NodeExistsError, SessionExpiredError, SessionState
from pkafka.net.channel import Channel, ChannelError, open_channel
from tests.sim.disk import Disk
from tests.sim.network import HOST_OF_STORE, Network
from tests.sim.store import Coordination, SimStore
from tests.sim.world import Loop, World


@pytest.fixture
def world() -> Iterator[World]:
    world = World(1)
    Network(world)
    yield world
    for connection in list(world.network.connections):
        connection.close()
    world.close()


class Echo:
    """Answers every frame with itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._socks: list[socket.socket] = []
        world.network.listeners["server", 1] = self

    def accept(self, sock: socket.socket, host: str) -> bool:
        self._socks.append(sock)
        self._world.god.add_reader(sock.fileno(), lambda: sock.send(sock.recv(1 << 16)))
        return True

    def die(self) -> None:
        for sock in self._socks:
            self._world.god.remove_reader(sock.fileno())
            sock.close()


@pytest.fixture
def echo(world: World) -> Iterator[Echo]:
    echo = Echo(world)
    yield echo
    echo.die()


def client(world: World, host: str = "client") -> Loop:
    loop = Loop(world, host)
    world.network.place(loop, host)
    return loop


def test_time_passes_only_when_nobody_has_anything_to_do(world: World) -> None:
    loop, seen = client(world), list[object]()

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((seconds, round(world.elapsed_s, 1)))

    for seconds in (3600.0, 5.0):
        loop.call_soon(lambda seconds=seconds: loop.create_task(sleep(seconds)))
    assert world.run(lambda: len(seen) == 2, at_most_s=10_000)
    assert seen == [(5.0, 5.0), (3600.0, 3600.0)]


def test_a_fiber_waits_in_simulated_time_and_ends_with_its_process(world: World) -> None:
    loop, seen = client(world), list[object]()

    def work() -> str:
        fiber = world.fiber
        assert fiber is not None
        fiber.sleep(7.0)
        seen.append("rested")
        fiber.sleep(7.0)
        seen.append("never")
        return "done"

    async def run() -> None:
        await asyncio.to_thread(work)

    loop.call_soon(lambda: loop.create_task(run()))
    assert world.run(lambda: bool(seen), at_most_s=100)
    assert 7.0 <= world.elapsed_s < 7.1
    loop.kill()
    world.run(lambda: False, at_most_s=100)
    assert seen == ["rested"]


async def ask(seen: list[object], frame: bytes, timeout_s: float) -> None:
    channel: Channel | None = None
    try:
        channel = await open_channel("server", 1, timeout_s=timeout_s, frame_bytes_max=1000)
        seen.append(bytes(await channel.ask(frame, timeout_s=timeout_s)))
    except ChannelError as error:
        seen.append(error)
    finally:
        if channel is not None:
            channel.close()


@pytest.mark.usefixtures("echo")
def test_what_is_cut_arrives_when_it_is_healed(world: World) -> None:
    loop, seen = client(world), list[object]()
    world.network.cut("server", "client")
    world.after(5.0, world.network.heal, "server", "client")
    loop.call_soon(lambda: loop.create_task(ask(seen, b"\0\0\0\3abc", 60.0)))
    assert world.run(lambda: bool(seen), at_most_s=100)
    assert seen == [b"abc"]
    assert 5.0 <= world.elapsed_s < 5.5


@pytest.mark.usefixtures("echo")
def test_connections_that_are_made_after_a_cut_overtake_some_of_those_before(world: World) -> None:
    loop, seen = client(world), list[object]()

    channels = list[Channel]()

    async def ask_later(frame: bytes, seconds: float) -> None:
        channel = await open_channel("server", 1, timeout_s=60.0, frame_bytes_max=1000)
        channels.append(channel)
        await asyncio.sleep(seconds)
        seen.append(bytes(await channel.ask(frame, timeout_s=60.0)))

    for _ in range(20):
        loop.call_soon(lambda: loop.create_task(ask_later(b"\0\0\0\3old", 1.0)))
    world.after(0.5, world.network.cut, "client", "server")
    world.after(5.0, world.network.heal, "client", "server")
    world.after(5.0, loop.call_soon, lambda: loop.create_task(ask_later(b"\0\0\0\3new", 0.0)))
    assert world.run(lambda: len(seen) == 21, at_most_s=100)
    assert 0 < seen.index(b"new") < 20
    assert world.elapsed_s < 10.0


@pytest.mark.usefixtures("echo")
def test_who_does_not_wait_so_long_hears_of_no_answer(world: World) -> None:
    loop, seen = client(world), list[object]()
    world.network.cut("client", "server")
    loop.call_soon(lambda: loop.create_task(ask(seen, b"\0\0\0\3abc", 2.0)))
    assert world.run(lambda: bool(seen), at_most_s=100)
    assert "did not take the connection within 2 s" in str(seen[0])


def test_nobody_who_listens_is_a_refusal(world: World) -> None:
    loop, seen = client(world), list[object]()
    loop.call_soon(lambda: loop.create_task(ask(seen, b"\0\0\0\3abc", 2.0)))
    assert world.run(lambda: bool(seen), at_most_s=100)
    assert "refuses" in str(seen[0])


def in_fiber(world: World, loop: Loop, work: object) -> list[object]:
    """What a call returns or raises in a fiber."""
    seen: list[object] = []
    assert callable(work)
    world.start_fiber(loop, work, lambda result, error: seen.append(error or result))
    assert world.run(lambda: bool(seen), at_most_s=1000)
    return seen


def test_a_session_that_is_not_heard_of_ends_and_takes_its_nodes_along(world: World) -> None:
    server = Coordination(world)
    loop, other = client(world, "a"), client(world, "b")
    stores: list[SimStore] = []
    for each in (loop, other):
        in_fiber(
            world, each, lambda each=each: stores.append(SimStore(server, each, each.name, timeout_s=6.0))
        )
    first, second = stores
    states: list[SessionState] = []
    events: list[object] = []
    first.on_session(states.append)
    in_fiber(world, loop, lambda: first.create("/own", b"x", ephemeral=True))
    in_fiber(world, other, lambda: second.watch_data("/own", events.append))
    assert isinstance(in_fiber(world, other, lambda: second.create("/own", b""))[0], NodeExistsError)
    for pair in (("a", HOST_OF_STORE), (HOST_OF_STORE, "a")):
        world.network.cut(*pair)
    assert isinstance(in_fiber(world, loop, lambda: first.set("/own", b"y"))[0], ConnectionLossError)
    assert world.run(lambda: server.peek("/own") is None, at_most_s=7.0)
    assert world.run(lambda: bool(events), at_most_s=1.0)
    assert states == [SessionState.CONNECTED, SessionState.SUSPENDED]
    for pair in (("a", HOST_OF_STORE), (HOST_OF_STORE, "a")):
        world.network.heal(*pair)
    assert world.run(lambda: states[-1] is SessionState.EXPIRED, at_most_s=1.0)
    assert isinstance(in_fiber(world, loop, lambda: first.exists("/own"))[0], SessionExpiredError)


def test_a_power_cut_takes_what_nobody_waited_for_and_no_more(world: World, tmp_path: Path) -> None:
    disk = Disk(world, tmp_path)
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / "0.log"
    descriptor = disk.open(path, os.O_RDWR | os.O_CREAT)
    disk.pwrite(descriptor, b"durable", 0)
    disk.fsync(descriptor)
    disk.pwrite(descriptor, b"perhaps", 7)
    disk.close(descriptor)
    assert disk.lose_power()
    assert path.read_bytes()[:7] == b"durable"
    assert path.read_bytes() != b"durableperhaps"
