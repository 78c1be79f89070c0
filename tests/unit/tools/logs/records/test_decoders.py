"""Records made readable; that the texts are Kafka's own, tests/interop/test_dump_log.py asks Kafka."""

import json
from collections.abc import Sequence

import pytest

from pkafka.errors import ConfigError
from pkafka.records.reading import Record
from pkafka.tools.logs.records.decoders import (
    CLUSTER_METADATA,
    PLAIN,
    REMOTE_LOG_METADATA,
    TRANSACTIONS,
    Content,
    DecoderError,
    decoded_by,
    decoder,
    deprecation,
    in_order_of_scala,
)
from tests.log_files import metadata_records, remote_log_records, transaction_records


def shown(
    content: Content, records: Sequence[tuple[bytes | None, bytes | None]]
) -> list[tuple[object, object]]:
    found = []
    for offset, (key, value) in enumerate(records):
        record = Record(offset, 0, key, value, ())
        texts = content.texts(record)
        assert all(text is None or isinstance(text, str) for text in texts)
        found.append(content.documents(record))
    json.dumps(found)
    return found


def test_transactions_as_documents() -> None:
    found = shown(TRANSACTIONS, transaction_records())
    key, value = found[1]
    assert key == {"version": 0, "data": {"transactionalId": "t1"}}
    assert isinstance(value, dict)
    assert value["data"]["transactionPartitions"] == [{"topic": "foo", "partitionIds": [0]}]
    assert ({"version": 0, "data": {"transactionalId": "gone"}}, None) in found
    damaged = [
        (None, b"x"),
        (b"\0", b"x"),
        (transaction_records()[0][0], b"\0\0x"),
        (transaction_records()[0][0], b"\0\7"),
    ]
    assert all("skipping" in str(document[0]) for document in shown(TRANSACTIONS, damaged))


def test_metadata_as_documents() -> None:
    found = [value for _, value in shown(CLUSTER_METADATA, metadata_records())]
    assert found[0] == {
        "type": "REGISTER_BROKER_RECORD",
        "version": 0,
        "data": {
            "brokerId": 0,
            "incarnationId": "AAAAAAAAAAAAAAAAAAAAAA",
            "brokerEpoch": 0,
            "endPoints": [],
            "features": [],
            "rack": "",
            "fenced": True,
        },
    }
    quotas = [
        value["data"]["value"] for value in found if isinstance(value, dict) and "QUOTA" in value["type"]
    ]
    assert quotas == [0.0, 1234567.5, 1e21, 1e8, 0.0001, -2.5e-9, 0.001]
    assert sum("skipping" in str(value) for value in found) == 7


def test_remote_segments_as_documents() -> None:
    found = [value for _, value in shown(REMOTE_LOG_METADATA, remote_log_records())]
    assert isinstance(found[0], dict)
    assert found[0]["type"] == "RemoteLogSegmentMetadataRecord"
    assert found[0]["data"]["segmentLeaderEpochs"][0] == {"leaderEpoch": 2, "offset": 5}
    assert sum("skipping" in str(value) for value in found) == 3


@pytest.mark.parametrize("package", ["", "kafka.serializer.", "org.apache.kafka.tools.api."])
def test_kafkas_decoders_by_any_of_their_names(package: str) -> None:
    key, value = (decoder("--x", f"{package}{name}Decoder") for name in ("Long", "Default"))
    record = Record(3, 0, (-2).to_bytes(8, "big", signed=True), b"\1\xff", ())
    content = decoded_by(key, value)
    assert content.texts(record) == ("-2", "01ff")
    assert content.documents(record) == (-2, "01ff")
    with pytest.raises(DecoderError, match="LongDecoder at offset 3: 2 bytes are too few"):
        content.texts(record._replace(key=b"ab"))
    strings = decoder("--x", f"{package}StringDecoder")
    assert decoded_by(strings, strings) is PLAIN


def test_names_that_are_older_or_wrong() -> None:
    assert deprecation("org.apache.kafka.tools.api.LongDecoder") is None
    assert deprecation("kafka.serializer.OtherDecoder") is None
    assert str(deprecation("kafka.serializer.LongDecoder")).endswith(
        "org.apache.kafka.tools.api.LongDecoder instead"
    )
    for name in ("no.such.Decoder", "builtins.dict", "Decoder"):
        with pytest.raises(ConfigError):
            decoder("--value-decoder-class", name)


def test_partitions_in_the_order_of_scala() -> None:
    assert [number for _, number in in_order_of_scala([("foo", number) for number in range(5)])] == [
        4,
        2,
        3,
        0,
        1,
    ]
