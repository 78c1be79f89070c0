"""What pk-dump-log --offsets-decoder makes of records; that Kafka's tool prints the same is asked in tests/interop."""

import json
from pathlib import Path

import pytest

from pkafka.cli import dump_log
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.records.consumer_protocol import ConsumerProtocolSubscription
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue, MemberMetadata
from pkafka.records.builder import build_batch
from pkafka.records.reading import Record
from pkafka.server.groups.records import (
    CommittedOffset,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from pkafka.tools.logs.records.offsets_decoder import decode_offsets_record


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(3, 0, key, value, ())


def test_an_offset_and_its_tombstone() -> None:
    key = encode_offset_key("g", "t", 1)
    shown = decode_offsets_record(record(key, encode_offset_value(CommittedOffset(7, 100, 2, "ü"))))
    assert shown.key == '{"type":"1","data":{"group":"g","topic":"t","partition":1}}'
    assert shown.payload is not None
    assert json.loads(shown.payload) == {
        "version": "3",
        "data": {"offset": 7, "leaderEpoch": 2, "metadata": "ü", "commitTimestamp": 100},
    }
    assert decode_offsets_record(record(key, None)).payload == "<DELETE>"


def test_members_are_read_where_they_are_consumers() -> None:
    subscription = b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=["t"]), 0)
    members = [
        MemberMetadata(member_id=name, client_id="", client_host="", subscription=said, assignment=b"")
        for name, said in (("consumer", subscription), ("other", b"opaque"))
    ]
    value = encode_group_value(
        GroupMetadataValue(protocol_type="x", protocol="p", leader="l", members=members)
    )
    shown = decode_offsets_record(record(encode_group_key("g"), value))
    assert shown.payload is not None
    read = [member["subscription"] for member in json.loads(shown.payload)["data"]["members"]]
    assert read == [{"topics": ["t"], "userData": None}, "b3BhcXVl"]


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x01", b"\x00\x02\x00\x09g"])
def test_what_cannot_be_read_is_said_so(key: bytes | None) -> None:
    shown = decode_offsets_record(record(key, b""))
    assert shown.key.startswith("Error at offset 3, skipping. ")
    assert shown.payload is None


def test_other_kinds_are_named() -> None:
    assert (
        decode_offsets_record(record(b"\x00\x05", b"")).key == "Unknown record type 5 at offset 3, skipping."
    )


def test_as_documents_keys_and_values_are_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = tmp_path / f"{0:020d}.log"
    rows = [
        (0, encode_offset_key("g", "t", 1), encode_offset_value(CommittedOffset(7, 100))),
        (0, b"\x00\x63", b""),
    ]
    segment.write_bytes(build_batch([(time, key, value, ()) for time, key, value in rows]))
    assert (
        dump_log.main.run(["--files", str(segment), "--offsets-decoder", "--output", "json"]) == ExitStatus.OK
    )
    found = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["kind"] == "record"]
    assert found[0]["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 1}}
    assert found[0]["value"]["data"]["offset"] == 7
    assert found[1]["key"] == "Unknown record type 99 at offset 1, skipping."
