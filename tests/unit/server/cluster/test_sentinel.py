"""A sentinel takes only refusals, and those of every listener, for a death."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from pkafka.server.cluster.metadata import Endpoint
from pkafka.server.cluster.sentinel import Sentinel


class Listener:
    """One listener of a broker, which says nothing."""

    def __init__(self) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.endpoint = Endpoint("L", "127.0.0.1", self.sock.getsockname()[1])
        self.taken: list[socket.socket] = []

    async def take(self) -> None:
        self.taken.append((await asyncio.get_running_loop().sock_accept(self.sock))[0])

    def drop_connections(self) -> None:
        while self.taken:
            self.taken.pop().close()

    def die(self) -> None:
        self.sock.close()
        self.drop_connections()


async def taken_by(one: Listener, other: Listener) -> Listener:
    """The listener that takes the next connection: to the second if the first is too slow to answer."""
    takes = {asyncio.ensure_future(each.take()): each for each in (one, other)}
    done, waiting = await asyncio.wait(takes, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return takes[done.pop()]


def watched(scene: Callable[[Listener, Listener, asyncio.Event], Awaitable[None]]) -> None:
    async def run() -> None:
        one, other = Listener(), Listener()
        died = asyncio.Event()
        sentinel = Sentinel([one.endpoint, other.endpoint], died.set)
        try:
            await asyncio.wait_for(scene(one, other, died), 60)
        finally:
            sentinel.close()
            one.die()
            other.die()
            await asyncio.sleep(0)

    asyncio.run(run())


def test_a_broker_whose_listeners_all_refuse_is_dead() -> None:
    async def scene(one: Listener, other: Listener, died: asyncio.Event) -> None:
        await one.take()
        one.die()
        other.die()
        await died.wait()

    watched(scene)


def test_the_end_of_a_connection_alone_is_no_death() -> None:
    async def scene(one: Listener, other: Listener, died: asyncio.Event) -> None:
        for _ in range(2):
            (await taken_by(one, other)).drop_connections()
        await taken_by(one, other)  # it is watched on
        assert not died.is_set()

    watched(scene)


def test_a_broker_of_which_one_listener_answers_lives() -> None:
    async def scene(one: Listener, other: Listener, died: asyncio.Event) -> None:
        await one.take()
        one.die()
        await other.take()  # the knock, or the next watch
        assert not died.is_set()
        other.die()
        await died.wait()

    watched(scene)


def test_a_listener_that_neither_answers_nor_refuses_proves_nothing() -> None:
    async def scene(one: Listener, other: Listener, died: asyncio.Event) -> None:
        await one.take()
        # A full queue is silent, as a machine is that cannot be reached.
        other.sock.listen(0)
        filled = [socket.socket() for _ in range(3)]
        for sock in filled:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", other.endpoint.port))
        one.die()
        await asyncio.sleep(1.5)  # a knock takes a second to give up; nothing is to come of it
        assert not died.is_set()
        for sock in filled:
            sock.close()

    watched(scene)


def test_a_name_that_nobody_could_have_proves_nothing() -> None:
    async def scene(one: Listener, _other: Listener, _died: asyncio.Event) -> None:
        wronged = Sentinel([Endpoint("L", "a..b", 9092), one.endpoint], lambda: None)
        for _ in range(2):  # of that one, too
            await one.take()
        wronged.close()

    watched(scene)
