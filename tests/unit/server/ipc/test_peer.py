"""Frames between processes: any split of the bytes, descriptors, large blobs, errors, the death of the other end."""

import array
import asyncio
import contextlib
import errno
import gc
import os
import resource
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import msgpack
import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.net.together import Together
from pkafka.server.ipc import packed
from pkafka.server.ipc.peer import FDS_PER_FRAME_MAX, DescriptorsLost, LaterReply, Peer, PeerGone, PeerLate
from tests.open_files import count_open_files

CALL, REPLY, ERROR, NOTE = range(4)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def frame(kind: int, call: int, operation: str, payload: object, blob: bytes = b"", fds: int = 0) -> bytes:
    header: bytes = msgpack.packb([kind, call, operation, payload, fds])
    return struct.pack(">II", len(header), len(blob)) + header + blob


def parse(data: bytes) -> list[tuple[list[Any], bytes]]:
    frames = []
    while data:
        header, blob = struct.unpack_from(">II", data)
        frames.append((msgpack.unpackb(data[8 : 8 + header]), data[8 + header : 8 + header + blob]))
        data = data[8 + header + blob :]
    return frames


class Ends:
    """A peer, and the bare socket at its other end or another peer."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.gone: list[str] = []

    def peer(
        self, handlers: dict[str, Any] | None = None, *, other: bool = False, vital: bool = False
    ) -> Peer:
        return Peer(
            "other",
            self.theirs if other else self.ours,
            handlers or {},
            on_gone=lambda peer: self.gone.append(peer.name),
            vital=vital,
        )


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.ours.close()
    ends.theirs.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - the sockets are served by this loop
        await asyncio.sleep(0)


def test_frames_come_whole_however_they_are_split(ends: Ends) -> None:
    data = b"".join(frame(NOTE, 0, "say", [number, "x" * number], bytes(number)) for number in range(20))
    heard: list[tuple[Any, bytes]] = []

    async def test() -> None:
        ends.peer({"say": lambda _peer, payload, blob, _fds: heard.append((payload, bytes(blob)))})
        for at in range(len(data)):
            ends.theirs.send(data[at : at + 1])
            if at % 7 == 0:
                await asyncio.sleep(0)
        await until(lambda: len(heard) == 20)

    run(test())
    assert heard == [((number, "x" * number), bytes(number)) for number in range(20)]


def test_calls_are_answered_by_values_replies_and_awaitables(ends: Ends) -> None:
    async def later(_peer: Peer, payload: Any, _blob: memoryview, _fds: list[int]) -> str:
        await asyncio.sleep(0)
        return f"later {payload}"

    handlers = {
        "plain": lambda _peer, payload, _blob, _fds: {"got": payload},
        "reply": lambda _peer, payload, blob, _fds: ([payload], bytes(blob)[::-1], ()),
        "later": later,
    }

    async def test() -> None:
        asking = ends.peer()
        answering = ends.peer(handlers, other=True)
        slow = asking.call("later", 1)
        assert await asking.call("plain", [1, None, "x"]) == ({"got": (1, None, "x")}, b"", [])
        assert await asking.call("reply", 2, b"abc") == ((2,), b"cba", [])
        assert (await slow)[0] == "later 1"
        asking.close()
        await until(lambda: answering.gone)

    run(test())


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (PeerGone("third"), ErrorCode.BROKER_NOT_AVAILABLE),
        (ValueError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_failing_handler_answers_an_error_and_the_channel_goes_on(
    ends: Ends, failure: Exception, code: ErrorCode, at_once: bool
) -> None:
    def fail(*_arguments: object) -> Awaitable[None]:
        async def fail_later() -> None:
            raise failure

        if at_once:
            raise failure
        return fail_later()

    async def test() -> None:
        asking = ends.peer()
        answering = ends.peer({"fail": fail, "ping": lambda *_: "pong"}, other=True)
        with pytest.raises(ApiError) as caught:
            await asking.call("fail")
        assert caught.value.code == code
        asking.note("fail")
        assert (await asking.call("ping"))[0] == "pong"
        with pytest.raises(ApiError):
            await asking.call("unheard of")
        asking.close()
        answering.close()

    run(test())


def test_large_blobs_pass_both_ways_at_once_and_keep_their_order(ends: Ends) -> None:
    blobs = [os.urandom(size) for size in (0, 1, 255 * 1024, 6 << 20, 300_000, 12 << 20, 7)]

    async def test() -> None:
        one = ends.peer({"echo": lambda _peer, payload, blob, _fds: (payload, bytes(blob), ())})
        other = ends.peer({"echo": lambda _peer, payload, blob, _fds: (payload, bytes(blob), ())}, other=True)
        calls = []
        for number, blob in enumerate(blobs):
            reused = bytearray(blob)
            calls.append(one.call("echo", number, reused))
            calls.append(other.call("echo", number, memoryview(reused)))
            # What was given belongs to the caller again.
            reused[:] = bytes(len(reused))
        for number, (payload, echoed, _fds) in enumerate(await asyncio.gather(*calls)):
            assert payload == number // 2
            assert echoed == blobs[number // 2]
        one.close()
        other.close()

    run(test())


def test_descriptors_arrive_with_their_frame(ends: Ends, pipe: tuple[int, int]) -> None:
    got: list[tuple[int, list[int]]] = []

    async def test() -> None:
        sending = ends.peer()
        receiving = ends.peer(
            {
                "take": lambda _peer, payload, _blob, fds: got.append((payload, fds)),
                "lend": lambda *_: (None, b"", [pipe[0]]),
            },
            other=True,
        )
        counts = [1, 0, 3, FDS_PER_FRAME_MAX, 0, 2]
        for number, count in enumerate(counts):
            sending.note("take", number, b"x" * 700_000, [pipe[1]] * count)
        await until(lambda: len(got) == len(counts))
        assert [(number, len(fds)) for number, fds in got] == list(enumerate(counts))
        for number, fds in got:
            for fd in fds:
                os.write(fd, b"%d" % number)
                os.close(fd)
        assert os.read(pipe[0], 1000) == b"0" + b"222" + b"3" * FDS_PER_FRAME_MAX + b"55"
        _payload, _blob, (lent,) = await sending.call("lend")
        assert os.fstat(lent).st_ino == os.fstat(pipe[0]).st_ino
        os.close(lent)
        sending.close()
        receiving.close()

    run(test())


@contextlib.contextmanager
def room_for_descriptors(count: int) -> Iterator[None]:
    """At most so many can be opened meanwhile; what other tests left to the garbage collector makes no room."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.disable()
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        gc.enable()


def test_without_room_for_descriptors_only_the_frames_that_carry_them_are_lost(
    ends: Ends, pipe: tuple[int, int]
) -> None:
    took: list[Any] = []

    async def test() -> None:
        handlers = {
            "lend": lambda _peer, count, _blob, _fds: (count, b"", [pipe[0]] * count),
            "take": lambda _peer, payload, _blob, fds: took.append((payload, len(fds))),
        }
        one, other = ends.peer(handlers), ends.peer(handlers, other=True)
        with room_for_descriptors(2):
            for count in (1, 5, 60):
                with pytest.raises(DescriptorsLost):
                    await one.call("lend", count + 2)
            with pytest.raises(ApiError):
                await one.call("take", 1, b"", [pipe[0]] * 9)
            one.note("take", 2, b"", [pipe[0]] * 9)
            one.note("take", 3)
            _payload, _blob, (lent,) = await one.call("lend", 1)
            os.close(lent)
            await until(lambda: took == [(3, 0)])
        assert not one.gone
        one.close()
        other.close()

    run(test())


def test_a_vital_channel_that_loses_descriptors_counts_as_gone(ends: Ends, pipe: tuple[int, int]) -> None:
    async def test() -> None:
        peer = ends.peer({"peer": lambda *_: None}, vital=True)
        data = frame(NOTE, 0, "peer", "worker-1", fds=1)
        ends.theirs.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pipe[0]]))])
        await asyncio.sleep(0.01)
        assert not peer.gone
        with room_for_descriptors(0):
            ends.theirs.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pipe[0]]))])
            await until(lambda: peer.gone)

    run(test())


def test_the_death_of_the_other_end_fails_the_calls_in_flight_and_those_to_come(ends: Ends) -> None:
    async def test() -> None:
        peer = ends.peer()
        waiting, forgotten = peer.call("never"), peer.call("never")
        forgotten.cancel()
        ends.theirs.send(frame(REPLY, 1, "", "half")[:-1])
        await asyncio.sleep(0)
        ends.theirs.close()
        with pytest.raises(PeerGone):
            await waiting
        with pytest.raises(PeerGone):
            await peer.call("more")
        peer.note("more")
        peer.close()
        assert peer.gone

    run(test())
    assert ends.gone == ["other"]


def test_a_death_while_much_is_still_to_be_sent(ends: Ends, pipe: tuple[int, int]) -> None:
    before = count_open_files()

    async def test() -> None:
        peer = ends.peer()
        calls = [peer.call("never", None, bytes(5 << 20), [pipe[0], pipe[1]]) for _ in range(5)]
        await asyncio.sleep(0)
        ends.theirs.close()
        for call in calls:
            with pytest.raises(PeerGone):
                await call

    run(test())
    # The peer's own socket and the one that was closed here; no copy of a descriptor that was waiting to be sent.
    assert count_open_files() == before - 2


def test_answers_to_nobody_are_dropped_with_their_descriptors(ends: Ends, pipe: tuple[int, int]) -> None:
    async def test() -> None:
        peer = ends.peer()
        cancelled = peer.call("slow")
        cancelled.cancel()
        before = count_open_files()
        for call in (1, 77):
            ends.theirs.sendmsg(
                [frame(REPLY, call, "", None, fds=1)],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pipe[0]]))],
            )
        ends.theirs.send(frame(ERROR, 78, "", [3, "x"]))
        later = peer.call("fast")
        ends.theirs.send(frame(REPLY, 2, "", "yes"))
        assert (await later)[0] == "yes"
        assert count_open_files() == before
        peer.close()

    run(test())


def test_what_goes_out_is_the_frame_that_is_described(ends: Ends) -> None:
    async def test() -> None:
        peer = ends.peer()
        peer.note("tell", {"a": 1}, b"blob")
        call = peer.call("ask", [2])
        await asyncio.sleep(0)
        assert parse(ends.theirs.recv(65536)) == [
            ([NOTE, 0, "tell", {"a": 1}, 0], b"blob"),
            ([CALL, 1, "ask", [2], 0], b""),
        ]
        peer.close()
        assert isinstance(call.exception(), PeerGone)

    run(test())


class Cramped(socket.socket):
    """A socket for which the system has no memory, for some time."""

    def __init__(self, whole: socket.socket) -> None:
        super().__init__(fileno=whole.detach())
        self.refusals = 0
        self.error = errno.ENOBUFS

    def sendmsg(self, *args: Any) -> int:
        if self.refusals:
            self.refusals -= 1
            raise OSError(self.error, os.strerror(self.error))
        return super().sendmsg(*args)


@pytest.mark.parametrize("error", [errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS])
def test_a_lack_of_memory_delays_frames_and_loses_none(ends: Ends, pipe: tuple[int, int], error: int) -> None:
    heard: list[tuple[Any, int]] = []

    def hear(_peer: Peer, payload: Any, _blob: memoryview, fds: list[int]) -> None:
        heard.append((payload, len(fds)))
        for fd in fds:
            os.close(fd)

    async def test() -> None:
        ends.ours = cramped = Cramped(ends.ours)
        cramped.error = error
        sender, _receiver = ends.peer(), ends.peer({"say": hear}, other=True)
        cramped.refusals = 3
        for number in range(5):
            sender.note("say", number, fds=[pipe[0]])
        await until(lambda: len(heard) == 5)
        assert heard == [(number, 1) for number in range(5)]
        assert ends.gone == []

    run(test())


def test_nobody_waits_for_an_end_that_hangs(ends: Ends) -> None:
    async def test() -> None:
        peer = ends.peer()
        said: list[Any] = []
        waiting = peer.call("ask")
        peer.call_back("ask", None, b"", lambda reply, error: said.append(reply or type(error)))
        peer.set_late(True)
        with pytest.raises(PeerLate):
            await waiting
        assert said == [PeerLate]
        with pytest.raises(PeerGone):
            await peer.call("ask")
        peer.call_back("ask", None, b"", lambda reply, error: said.append(reply or type(error)))
        assert said == [PeerLate, PeerGone]
        # It moves again: the first answer is for nobody, the second is the callback's last word.
        ends.theirs.send(frame(REPLY, 1, "", "one") + frame(REPLY, 2, "", "two"))
        await until(lambda: len(said) == 3)
        assert said[2][0] == "two"
        peer.set_late(False)
        again = peer.call("ask")
        ends.theirs.send(frame(REPLY, 3, "", "three"))
        assert (await again)[0] == "three"

    run(test())


def test_what_one_read_causes_leaves_together_and_in_order() -> None:
    # Packets, so that what was one call to the kernel can be told.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    large = bytes(100_000)

    def serve(peer: Peer, payload: Any, _blob: memoryview, _fds: list[int]) -> Any:
        peer.note("saw", payload)
        return (payload, large, ()) if payload == 3 else payload

    async def test() -> None:
        peer = Peer("other", ours, {"serve": serve}, together=Together())
        theirs.send(b"".join(frame(CALL, number, "serve", number) for number in range(1, 6)))
        loop = asyncio.get_running_loop()
        theirs.setblocking(False)
        packets = [parse(await loop.sock_recv(theirs, 1 << 20)) for _ in range(3)]
        peer.note("alone")
        packets.append(parse(await loop.sock_recv(theirs, 1 << 20)))
        said = [[(header[0], header[3]) for header, _blob in packet] for packet in packets]
        assert said == [
            [(NOTE, 1), (REPLY, 1), (NOTE, 2), (REPLY, 2), (NOTE, 3)],
            [(REPLY, 3)],
            [(NOTE, 4), (REPLY, 4), (NOTE, 5), (REPLY, 5)],
            [(NOTE, None)],
        ]
        peer.close()

    run(test())
    theirs.close()


def test_answers_that_come_later_leave_together() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    waiting: list[LaterReply] = []

    def serve(_peer: Peer, payload: Any, _blob: memoryview, _fds: list[int]) -> LaterReply:
        later = LaterReply()
        if payload == "at once":
            later.give(payload)
        else:
            waiting.append(later)
        return later

    async def test() -> None:
        together = Together()
        peer = Peer("other", ours, {"serve": serve}, together=together)
        loop = asyncio.get_running_loop()
        theirs.setblocking(False)
        theirs.send(
            frame(CALL, 1, "serve", "x") + frame(CALL, 2, "serve", "y") + frame(NOTE, 0, "serve", "z")
        )
        theirs.send(frame(CALL, 3, "serve", "at once"))
        assert parse(await loop.sock_recv(theirs, 1 << 20)) == [([REPLY, 3, "", "at once", 0], b"")]
        # Something is read that lets all of them be answered.
        together.begin()
        for number, later in enumerate(waiting):
            later.give(number)
        together.end()
        said = [header for header, _blob in parse(await loop.sock_recv(theirs, 1 << 20))]
        assert said == [[REPLY, 1, "", 0, 0], [REPLY, 2, "", 1, 0]]  # to a note nobody waits for an answer
        peer.close()

    run(test())
    theirs.close()


def packed_frame(operation: int, call: int, header: bytes, blob: bytes = b"") -> bytes:
    return struct.pack(">IIBQ", 1 << 31 | 9 + len(header), len(blob), operation, call) + header + blob


@pytest.mark.parametrize("step", [1, 7, 1_000_000])
def test_packed_calls_are_answered_by_packed_frames_however_they_are_split(ends: Ends, step: int) -> None:
    waiting: list[LaterReply] = []
    seen: list[tuple[bytes, bytes]] = []

    def serve(_peer: Peer, header: memoryview, blob: memoryview, _fds: list[int]) -> Any:
        seen.append((bytes(header), bytes(blob)))
        if bytes(header) == b"refused":
            raise ApiError(ErrorCode.INVALID_REQUEST, "no")
        if bytes(header) == b"later":
            waiting.append(LaterReply())
            return waiting[-1]
        return bytes(header) + bytes(blob)

    async def test() -> None:
        ends.peer({"produce_whole": serve})
        number = packed.NUMBER_OF["produce_whole"]
        sent = b"".join(
            (
                packed_frame(number, 7, b"now", b"x" * 3000),
                packed_frame(number, 8, b"later"),
                packed_frame(number, 9, b"refused"),
                frame(CALL, 10, "produce_whole", b"ordinary", b"blob"),
            )
        )
        loop = asyncio.get_running_loop()
        ends.theirs.setblocking(False)
        for at in range(0, len(sent), step):
            await loop.sock_sendall(ends.theirs, sent[at : at + step])
        await until(lambda: len(seen) == 4)
        waiting[0].give(b"at last")
        answers = (
            packed_frame(packed.ANSWER, 7, b"now" + b"x" * 3000),
            frame(ERROR, 9, "", [int(ErrorCode.INVALID_REQUEST), "no"]),
            frame(REPLY, 10, "", b"ordinaryblob"),
            packed_frame(packed.ANSWER, 8, b"at last"),
        )
        got = b""
        while len(got) < sum(map(len, answers)):
            got += await loop.sock_recv(ends.theirs, 1 << 20)
        assert got == b"".join(answers)
        assert seen[0] == (b"now", b"x" * 3000)

    run(test())


def test_packed_calls_of_one_peer_reach_the_other_and_fail_as_others_do(ends: Ends) -> None:
    outcomes: list[Any] = []

    def answered(reply: Any, error: Any) -> None:
        payload = None if reply is None else reply[0]
        outcomes.append(
            type(error) if reply is None else bytes(payload) if isinstance(payload, memoryview) else payload
        )

    def serve(_peer: Peer, header: memoryview, blob: memoryview, _fds: list[int]) -> Any:
        if bytes(header) == b"refused":
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if bytes(header) == b"rows":
            return ["row"]
        return bytes(header)[::-1] + bytes(blob[:3])

    async def test() -> None:
        one, other = ends.peer(), ends.peer({"produce_whole": serve}, other=True)
        one.call_packed("produce_whole", b"abc", b"large" * 1000, answered)
        one.call_packed("produce_whole", b"refused", b"", answered)
        one.call_packed("produce_whole", b"rows", b"", answered)
        await until(lambda: len(outcomes) == 3)
        one.set_late(True)
        one.call_packed("produce_whole", b"abc", b"", answered)
        one.set_late(False)
        one.call_packed("produce_whole", b"abc", b"", answered)
        other.close()
        await until(lambda: len(outcomes) == 5)
        assert outcomes == [b"cbalar", ApiError, ("row",), PeerGone, PeerGone]
        one.close()

    run(test())


def test_a_later_answer_for_a_process_that_is_gone_is_dropped(ends: Ends) -> None:
    waiting: list[LaterReply] = []

    def serve(_peer: Peer, _payload: Any, _blob: memoryview, _fds: list[int]) -> LaterReply:
        waiting.append(LaterReply())
        return waiting[-1]

    async def test() -> None:
        asking = ends.peer()
        answering = ends.peer({"serve": serve}, other=True)
        answer = asking.call("serve")
        await until(lambda: waiting)
        asking.close()
        with pytest.raises(PeerGone):
            await answer
        await until(lambda: answering.gone)
        waiting[0].give("nobody hears it")

    run(test())


def test_what_was_gathered_for_a_process_that_is_gone_is_dropped(ends: Ends) -> None:
    async def test() -> None:
        together = Together()
        peer = Peer("other", ends.ours, {}, together=together)
        together.begin()
        call = peer.call("ask")
        peer.close()
        together.end()
        with pytest.raises(PeerGone):
            await call

    run(test())
