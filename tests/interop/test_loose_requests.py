"""Requests with bytes behind their end: Kafka ignores those, and librdkafka sends such."""

import socket
import struct

import pytest
from confluent_kafka.admin import AdminClient

from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.create_topics import CreateTopicsRequest
from pkafka.protocol.messages.fetch import FetchRequest
from pkafka.protocol.messages.list_offsets import ListOffsetsRequest
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.protocol.messages.produce import ProduceRequest
from pkafka.protocol.schema import Message
from tests.interop.conftest import System

REQUESTS = {
    ApiKey.PRODUCE: ProduceRequest(acks=1, timeout_ms=100, topic_data=[]),
    ApiKey.FETCH: FetchRequest(max_wait_ms=1, min_bytes=0, topics=[], session_epoch=-1),
    ApiKey.LIST_OFFSETS: ListOffsetsRequest(replica_id=-1, topics=[]),
    ApiKey.METADATA: MetadataRequest(topics=[]),
    ApiKey.API_VERSIONS: ApiVersionsRequest(client_software_name="test", client_software_version="1"),
    ApiKey.CREATE_TOPICS: CreateTopicsRequest(topics=[], timeout_ms=100),
}


@pytest.mark.parametrize(("key", "request_"), REQUESTS.items(), ids=[key.name for key in REQUESTS])
def test_what_follows_a_request_in_its_frame_is_ignored(
    system: System, key: ApiKey, request_: Message
) -> None:
    host, _, port = system.bootstrap.rpartition(":")
    for version in (registry.versions(key)[0], registry.versions(key)[-1]):
        body = encode_request(key, version, 7, "loose", request_)[4:] + b"tail"
        with (
            socket.create_connection((host, int(port)), timeout=60) as client,
            client.makefile("rb") as answers,
        ):
            client.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", answers.read(4))
            assert decode_response(key, version, answers.read(size))[0] == 7


def test_librdkafka_lists_all_topics(system: System) -> None:
    listed = AdminClient({"bootstrap.servers": system.bootstrap}).list_topics(timeout=60)
    assert list(listed.brokers) == [0]
