"""Cutting a stream into frames: how it arrives makes no difference."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ProtocolError
from pkafka.protocol.framing import FrameBuffer


def framed(*frames: bytes) -> bytes:
    return b"".join([struct.pack(">i", len(frame)) + frame for frame in frames])


@given(st.lists(st.binary(max_size=20), max_size=5), st.lists(st.integers(1, 15)))
def test_any_cut_of_the_stream_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream = framed(*frames)
    whole = FrameBuffer(20)
    assert whole.feed(stream) == frames
    assert whole.pending_bytes == 0

    in_pieces = FrameBuffer(20)
    got: list[bytes] = []
    position = 0
    for cut in cuts:
        got += in_pieces.feed(stream[position : position + cut])
        position += cut
    got += in_pieces.feed(memoryview(stream)[position:])
    assert got == frames


@given(st.lists(st.binary(max_size=9), max_size=4))
def test_one_byte_at_a_time(frames: list[bytes]) -> None:
    buffer = FrameBuffer(9)
    stream = framed(*frames)
    assert [frame for at in range(len(stream)) for frame in buffer.feed(stream[at : at + 1])] == frames


def test_the_rest_of_a_frame_is_kept() -> None:
    buffer = FrameBuffer(100)
    assert buffer.feed(framed(b"one", b"two")[:-1]) == [b"one"]
    assert buffer.pending_bytes == 6
    assert buffer.feed(b"o") == [b"two"]


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_a_length_outside_the_limit_is_refused_before_its_bytes_come(length: int) -> None:
    with pytest.raises(ProtocolError, match=str(length)):
        FrameBuffer(100).feed(struct.pack(">i", length))


def test_the_limit_itself_is_allowed() -> None:
    assert FrameBuffer(5).feed(framed(b"12345")) == [b"12345"]
