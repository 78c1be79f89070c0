"""Cuts a stream of bytes into the frames that Kafka's protocol sends: a 4-byte length, then so many bytes."""

from struct import Struct
from typing import Final

from pkafka.errors import ProtocolError
from pkafka.protocol import Buffer

_LENGTH: Final = Struct(">i")


class FrameBuffer:
    """Collects chunks until frames are whole.

    Args:
        max_bytes: the largest length that is accepted (``socket.request.max.bytes``).
    """

    __slots__ = ("_buffer", "_max_bytes", "_wanted")

    def __init__(self, max_bytes: int) -> None:
        self._buffer = bytearray()
        self._max_bytes = max_bytes
        self._wanted = 4

    @property
    def pending_bytes(self) -> int:
        """How many bytes of a frame that is not whole yet are held."""
        return len(self._buffer)

    def feed(self, chunk: Buffer) -> list[bytes]:
        """Take the next bytes of the stream.

        Returns:
            The frames that became whole, without their length, in order; often none.

        Raises:
            ProtocolError: a length is negative or over the limit. The stream cannot be read on.
        """
        buffer = self._buffer
        buffer += chunk
        frames: list[bytes] = []
        if len(buffer) < self._wanted:
            return frames
        position, have = 0, len(buffer)
        while True:
            if have - position < 4:
                self._wanted = 4
                break
            (length,) = _LENGTH.unpack_from(buffer, position)
            if not 0 <= length <= self._max_bytes:
                raise ProtocolError(f"frame length {length} is outside 0 to {self._max_bytes}")
            end = position + 4 + length
            if end > have:
                self._wanted = 4 + length
                break
            with memoryview(buffer) as view:
                frames.append(bytes(view[position + 4 : end]))
            position = end
        del buffer[:position]
        return frames
