import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ErrorCode
from pkafka.records import control
from pkafka.records.batch import read_header
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import ControlType
from pkafka.records.errors import RecordError
from pkafka.records.reading import read_batches
from tests.unit.records.golden import COMMIT_MARKER

pytestmark = pytest.mark.usefixtures("variant")


def test_a_marker_is_java_s_byte_for_byte_and_read_back() -> None:
    data = control.build_end_marker(
        committed=True,
        producer_id=77,
        producer_epoch=4,
        coordinator_epoch=12,
        timestamp_ms=1_700_000_000_000,
        base_offset=55,
        leader_epoch=6,
    )
    assert data.hex() == COMMIT_MARKER
    [(header, [record])] = read_batches(data)
    assert header.is_control
    assert header.is_transactional
    assert control.decode_end_marker(record.key, record.value) == (ControlType.COMMIT, 12)


EPOCHS = st.integers(-(2**15), 2**15 - 1)


@given(
    committed=st.booleans(),
    producer_id=st.integers(-(2**63), 2**63 - 1),
    producer_epoch=EPOCHS,
    coordinator_epoch=st.integers(-(2**31), 2**31 - 1),
    timestamp_ms=st.integers(0, 2**62),
    base_offset=st.integers(0, 2**62),
    leader_epoch=st.integers(-1, 2**31 - 1),
)
def test_a_marker_is_a_control_batch_like_any_other(
    committed: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
    **header: int,
) -> None:
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    data = control.build_end_marker(
        committed=committed, coordinator_epoch=coordinator_epoch, timestamp_ms=timestamp_ms, **header
    )
    value = struct.pack(">hi", 0, coordinator_epoch)
    batch = control.build_control_batch(kind, value, timestamp_ms=timestamp_ms, transactional=True, **header)
    assert data == batch
    assert control.end_marker_in(data) == (kind, coordinator_epoch)


@pytest.mark.parametrize(
    "other",
    [
        control.build_control_batch(ControlType.LEADER_CHANGE, bytes(6), timestamp_ms=1),
        control.build_control_batch(ControlType.COMMIT, b"\0\1\0\0\0\7", timestamp_ms=1),
        control.build_control_batch(ControlType.COMMIT, b"\0\0\0\0\0\7more", timestamp_ms=1),
        build_batch([(1, bytes(4), bytes(6), ())] * 2, control=True),
        build_batch([(1, bytes(4), bytes(6), ())], control=True, codec=Codec.GZIP),
        bytearray(78),
        bytearray(),
    ],
)
def test_batches_of_another_form_are_left_to_the_decoder(other: bytearray) -> None:
    assert control.end_marker_in(other) is None


@pytest.mark.parametrize("kind", [each for each in ControlType if each is not ControlType.UNKNOWN])
def test_keys_come_back(kind: ControlType) -> None:
    assert control.decode_key(control.encode_key(kind)) is kind


def test_types_of_the_future_are_unknown_and_no_error() -> None:
    assert control.decode_key(b"\x00\x00\x00\x63") is ControlType.UNKNOWN
    assert control.decode_key(b"\x00\x01\x00\x01\xff") is ControlType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_damaged_keys_are_refused(key: bytes | None) -> None:
    with pytest.raises(RecordError) as caught:
        control.decode_key(key)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00"),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x01"),
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x01"),
    ],
)
def test_damaged_markers_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(RecordError) as caught:
        control.decode_end_marker(key, value)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_other_control_records_keep_their_value_as_bytes() -> None:
    data = control.build_control_batch(ControlType.LEADER_CHANGE, b"\x00\x00rest", timestamp_ms=5)
    [(header, [record])] = read_batches(data)
    assert read_header(data).is_control
    assert not header.is_transactional
    assert control.decode_key(record.key) is ControlType.LEADER_CHANGE
    assert control.decode_value_version(record.value) == 0
