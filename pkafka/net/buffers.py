"""What connections read into: one buffer for all of them, and buffers of their own for frames that come in pieces.

Not thread-safe; one set belongs to one event loop. Both lie in an :class:`Arena`, memory that other processes can map,
while it has room: what is read there need not be copied to be handed on, or to be kept until its turn comes.
"""

import ctypes
import mmap
import os
from collections.abc import Callable
from typing import Final, TypeAlias

SHARED_BYTES: Final = 1024 * 1024
SLOT_BYTES: Final = 2 * 1024 * 1024
SLOTS: Final = 16
SLOTS_KEPT_FOR_FRAMES: Final = 4
_SMALL_BYTES: Final = 32 * 1024
_POOL_MAX: Final = 4
"""Where there is no arena, so many buffers of the size of a slot stay allocated for the next large frames."""

FrameBytes: TypeAlias = bytearray | mmap.mmap | memoryview


class Arena:
    """Slots of memory with a descriptor by which another process maps the same memory.

    The slot given back last is taken first, so that a quiet process touches few pages. Only Linux has it
    (:meth:`create`).

    Args:
        descriptor: of a file in memory of ``slots * SLOT_BYTES`` bytes; the arena's from now on.
    """

    def __init__(self, descriptor: int, slots: int = SLOTS) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, slots * SLOT_BYTES)
        self._address = _address_of(memoryview(self._map))
        whole = memoryview(self._map)
        self._free = [whole[at * SLOT_BYTES : (at + 1) * SLOT_BYTES] for at in reversed(range(slots))]

    @classmethod
    def create(cls) -> "Arena | None":
        """A new arena; None where the system has no such memory."""
        if not hasattr(os, "memfd_create"):
            return None
        descriptor = os.memfd_create("pkafka-frames")
        os.ftruncate(descriptor, SLOTS * SLOT_BYTES)
        return cls(descriptor)

    def take(self) -> memoryview | None:
        """A slot, its content undefined; None when all are taken."""
        return self._free.pop() if self._free else None

    def give_back(self, slot: memoryview) -> bool:
        """Whether ``slot`` was one of this arena; it may be taken again then."""
        if slot.obj is not self._map:
            return False
        self._free.append(slot)
        return True

    def position_of(self, data: memoryview) -> int:
        """Where in the arena ``data`` begins, which lies in it."""
        return _address_of(data) - self._address

    @property
    def free_slots(self) -> int:
        """How many slots are free."""
        return len(self._free)


def map_arena(descriptor: int) -> memoryview:
    """The memory of another process's arena; the descriptor may be closed afterwards."""
    return memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size))


class Lease:
    """Memory of an arena that was read into, kept until the last of its users lets go of it.

    Args:
        slot: the memory.
        give_back: puts it back.
    """

    __slots__ = ("_give_back", "_holders", "slot")

    def __init__(self, slot: memoryview, give_back: Callable[[memoryview], object]) -> None:
        self.slot = slot
        self._give_back = give_back
        self._holders = 1

    def hold(self) -> None:
        """One more needs it."""
        self._holders += 1

    def release(self) -> None:
        """One of them does not need it any more."""
        self._holders -= 1
        if not self._holders:
            self._give_back(self.slot)


class ReadBuffers:
    """The read buffers of one process.

    Args:
        arena: where large frames are put, and what all connections read into, as long as it has room.
        frames_bytes_max: of all frames that come in pieces (queued.max.request.bytes); None for no limit. As in Kafka
            the last one taken may exceed it.
    """

    def __init__(
        self,
        shared_bytes: int = SHARED_BYTES,
        *,
        arena: Arena | None = None,
        frames_bytes_max: int | None = None,
    ) -> None:
        self.arena = arena
        self._frames_bytes_max = frames_bytes_max
        self._frames: dict[int, int] = {}
        """The sizes of the frames that are out, where they are limited."""
        self._starved: dict[Callable[[], object], None] = {}
        self._shared_bytes = shared_bytes
        slot = arena.take() if arena is not None else None
        self._shared_slot = slot
        self.shared = memoryview(bytearray(shared_bytes)) if slot is None else slot[:shared_bytes]
        """What all connections read into, in turn."""
        self._pool: list[mmap.mmap] = []

    def lend_shared(self) -> Lease | None:
        """Leave the shared buffer, as it is, to the connection that has just read into it; the others get another.

        None when there is no memory for that: what was read has to be copied before the next read.
        """
        if self._shared_slot is None or self.arena is None or self.arena.free_slots <= SLOTS_KEPT_FOR_FRAMES:
            return None
        lease = Lease(self._shared_slot, self.give_back)
        self._shared_slot = slot = self.arena.take()
        assert slot is not None
        self.shared = slot[: self._shared_bytes]
        return lease

    @property
    def has_room(self) -> bool:
        """Whether another frame may be taken."""
        return self._frames_bytes_max is None or sum(self._frames.values()) < self._frames_bytes_max

    def call_when_room(self, call: Callable[[], object]) -> None:
        """Call once, when :attr:`has_room` may have become true; several connections may try then."""
        self._starved[call] = None

    def take(self, size: int) -> FrameBytes:
        """A writable buffer of at least ``size`` bytes, its content undefined.

        A large one is mapped and not zeroed: memory is used as bytes arrive, however many were announced.

        Raises:
            OSError: the system has no address space left.
        """
        buffer = self._take(size)
        if self._frames_bytes_max is not None:
            self._frames[id(buffer)] = size
        return buffer

    def _take(self, size: int) -> FrameBytes:
        if size <= _SMALL_BYTES:
            return bytearray(size)
        if size > SLOT_BYTES:
            return _map(size)
        slot = self.arena.take() if self.arena is not None else None
        if slot is not None:
            return slot
        return self._pool.pop() if self._pool else _map(SLOT_BYTES)

    def give_back(self, buffer: FrameBytes) -> None:
        """The frame was served. A view that was kept of it may only be let go."""
        if isinstance(buffer, memoryview):
            assert self.arena is not None
            self.arena.give_back(buffer)
        elif isinstance(buffer, mmap.mmap) and len(buffer) == SLOT_BYTES and len(self._pool) < _POOL_MAX:
            self._pool.append(buffer)
        if self._frames.pop(id(buffer), None) is not None and self._starved and self.has_room:
            starved, self._starved = self._starved, {}
            for call in starved:
                call()


def _address_of(data: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(data))


def _map(size: int) -> mmap.mmap:
    buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        # The first byte of a frame must not cost a huge page.
        buffer.madvise(mmap.MADV_NOHUGEPAGE)
    return buffer
