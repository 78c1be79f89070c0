"""Quotas of clients on both systems: who may have which, and how clients are slowed down that use more."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import encode_request
from pkafka.protocol.messages import (
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    fetch,
    metadata,
    produce,
)
from pkafka.records.builder import build_batch
from tests.differences import first_difference_of_all
from tests.interop.conftest import System
from tests.interop.quota_questions import CHANGES, FILTERS, change_request, filter_request
from tests.raw_client import RawClient
from tests.talk import Talk, talking

SERVED = 0, 1
"""Versions of both requests."""


@pytest.fixture
def systems(kafka: System | None, pkafka: System | None, pkafka_on_zookeeper: System | None) -> list[System]:
    return [system for system in (kafka, pkafka, pkafka_on_zookeeper) if system is not None]


@pytest.fixture(autouse=True)
def no_quotas_stay(request: pytest.FixtureRequest) -> Iterator[None]:
    """Brokers serve other tests, too: a default that stays slows them down, and what they leave is listed here."""
    is_one = "system" in request.fixturenames
    used = [request.getfixturevalue("system")] if is_one else request.getfixturevalue("systems")
    _remove_quotas(used)
    yield
    _remove_quotas(used)


def _remove_quotas(systems: list[System]) -> None:
    for system in systems:
        with talking(system.bootstrap) as talk:
            present = talk.admin.describe_client_quotas()
            gone = {entity: dict.fromkeys(values) for entity, values in present.items()}
            outcomes = talk.admin.alter_client_quotas(gone)
            assert not any(isinstance(outcome, ApiError) for outcome in outcomes.values())


def _shown(entries: Any) -> Any:
    return entries and sorted(
        (
            str([(one.entity_type, one.entity_name) for one in entry.entity]),
            sorted((each.key, each.value) for each in entry.values),
        )
        for entry in entries
    )


def _transcript(system: System, version: int) -> list[str]:
    lines = []
    with RawClient(system.bootstrap) as client:
        for what, (entity, ops) in CHANGES.items():
            for only in (True, False):
                asked = change_request(entity, ops, validate_only=only)
                (answer,) = client.call(asked, version).entries
                names = [(one.entity_type, one.entity_name) for one in answer.entity]
                lines.append(f"{what}: {answer.error_code} {answer.error_message} {names}")
        for what, (components, strict) in FILTERS.items():
            answer = client.call(filter_request(components, strict=strict), version)
            shown = _shown(answer.entries)
            lines.append(f"{what}: {answer.error_code} {answer.error_message!r} {shown}")
    return lines


@pytest.mark.parametrize("version", SERVED)
def test_changes_and_filters_are_answered_alike(systems: list[System], version: int) -> None:
    transcripts = ["\n".join(_transcript(system, version)) for system in systems]
    assert not first_difference_of_all(transcripts)


class _Client(RawClient):
    """A connection with a client id."""

    def __init__(self, system: System, client_id: str) -> None:
        super().__init__(system.bootstrap)
        self._client_id = client_id

    def ask(self, message: Any, version: int) -> Any:
        self.send(message, version, client_id=self._client_id)
        return self.receive()


def _set_quota(system: System, talk: Talk, client_id: str, **values: float) -> None:
    """Give a client id a quota, and wait until the broker acts by it: it hears of quotas by notes, in their order."""
    probe = f"{client_id}-probe"
    for name, quotas in ((client_id, values), (probe, {"request_percentage": 0.0001})):
        entity = frozenset({("client-id", name)})
        (outcome,) = talk.admin.alter_client_quotas({entity: quotas}).values()
        assert outcome is None
    with _Client(system, probe) as client:
        while not client.ask(metadata.MetadataRequest(topics=[]), 9).throttle_time_ms:
            pass
    # The worker that had this client knows it now. The control process tells all of them at once, and answers then.
    assert talk.admin.describe_client_quotas()


def _records(topic: str, size: int) -> produce.ProduceRequest:
    batch = bytes(build_batch([(int(time.time() * 1000), None, bytes(size), ())]))
    data = [produce.PartitionProduceData(index=0, records=batch)]
    return produce.ProduceRequest(
        acks=1, timeout_ms=10_000, topic_data=[produce.TopicProduceData(name=topic, partition_data=data)]
    )


def test_a_producer_is_answered_at_once_and_then_waits(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic)
    _set_quota(system, talk, topic, producer_byte_rate=20_000.0)
    with _Client(system, topic) as client:
        throttled_ms = []
        for _ in range(4):  # ten windows, so 200,000 bytes, are free
            began_s = time.monotonic()
            answer = client.ask(_records(topic, 60_000), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            throttled_ms.append(answer.throttle_time_ms)
        assert throttled_ms[:3] == [0, 0, 0]
        assert 1_000 < throttled_ms[3] < 3_000
        client.ask(metadata.MetadataRequest(topics=[]), 9)
        # From before the broker began to wait: this client may be slow to ask again.
        assert time.monotonic() - began_s > throttled_ms[3] / 1000 * 0.8


def test_a_consumer_gets_nothing_for_as_long_as_it_has_to_wait(
    system: System, talk: Talk, topic: str
) -> None:
    talk.create(topic)
    for _ in range(6):
        talk.send(topic, bytes(50_000))
    _set_quota(system, talk, topic, consumer_byte_rate=10_000.0)

    def asked(bytes_max: int) -> fetch.FetchRequest:
        wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=bytes_max)
        return fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[fetch.FetchTopic(topic=topic, partitions=[wanted])],
            session_id=0,
            session_epoch=-1,
        )

    with _Client(system, topic) as client:
        sizes = []
        while True:
            answer = client.ask(asked(60_000), 11)
            if answer.throttle_time_ms:
                break
            sizes.append(len(answer.responses[0].partitions[0].records or b""))
        # Ten windows are free.
        assert sizes == [60_000]
        assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
        assert 1_000 < answer.throttle_time_ms < 3_000


def test_the_time_of_requests_is_held_against_clients(system: System, talk: Talk, topic: str) -> None:
    _set_quota(system, talk, topic, request_percentage=0.0001)
    with _Client(system, topic) as client:
        while True:
            began_s = time.monotonic()
            answer = client.ask(metadata.MetadataRequest(topics=[]), 9)
            if answer.throttle_time_ms:
                break
        assert answer.throttle_time_ms <= 1000, "one window at most"
        assert [one.node_id for one in answer.brokers] == [0]
        client.ask(metadata.MetadataRequest(topics=[]), 9)
        assert time.monotonic() - began_s > answer.throttle_time_ms / 1000 * 0.8


@pytest.mark.parametrize("version", [5, 7])
def test_a_client_creates_no_more_partitions_than_it_may(
    system: System, talk: Talk, topic: str, version: int
) -> None:
    _set_quota(system, talk, topic, controller_mutation_rate=0.01)

    def asked(message: Any, version: int) -> Any:
        with _Client(system, topic) as client:  # one of its own each time: the last one is not read from
            return client.ask(message, version)

    def created(name: str) -> tuple[int, str | None, int]:
        wanted = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        answer = asked(create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), version)
        (one,) = answer.topics
        return one.error_code, one.error_message, answer.throttle_time_ms

    # Eleven seconds' worth is free, and whoever owes nothing may come to owe.
    code, message, throttle_ms = created(topic)
    assert (code, message) == (0, None)
    if version < 6:
        assert 60_000 < throttle_ms <= 89_000
        return
    assert throttle_ms == 0
    code, message, throttle_ms = created(f"{topic}-2")
    assert (code, message) == (89, None)
    assert 30_000 < throttle_ms <= 89_000
    grow = create_partitions.CreatePartitionsTopic(name=topic, count=2, assignments=None)
    answer = asked(create_partitions.CreatePartitionsRequest(topics=[grow], timeout_ms=10_000), 3)
    assert (answer.results[0].error_code, answer.results[0].error_message) == (89, None)
    assert 30_000 < answer.throttle_time_ms <= 89_000
    answer = asked(delete_topics.DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    assert (answer.responses[0].error_code, answer.responses[0].error_message) == (89, None)
    assert 30_000 < answer.throttle_time_ms <= 89_000
    assert len(talk.admin.describe_topics([topic])) == 1


@pytest.mark.parametrize("version", [5, 9])
def test_topics_that_are_created_by_using_them_count(
    system: System, talk: Talk, topic: str, version: int
) -> None:
    _set_quota(system, talk, topic, controller_mutation_rate=0.01)

    def used(name: str) -> tuple[int, int]:
        wanted = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
        with _Client(system, topic) as client:
            answer = client.ask(wanted, version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    told = [used(f"{topic}-{number}") for number in range(3)]
    wanted = create_topics.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    with _Client(system, topic) as client:
        answer = client.ask(create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7)
    # They are created whatever the quota says, and their client is not slowed down; but it owes for all of them.
    assert told == [(ErrorCode.LEADER_NOT_AVAILABLE, 0)] * 3
    assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 200_000 < answer.throttle_time_ms <= 289_000


def test_an_address_that_connects_too_fast_is_not_served(system: System, talk: Talk) -> None:
    address = "127.0.0.77"
    entity = frozenset({("ip", address)})
    (outcome,) = talk.admin.alter_client_quotas({entity: {"connection_creation_rate": 1.0}}).values()
    assert outcome is None

    def is_served(source: str) -> bool:
        host, _, port = system.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), 60, source_address=(source, 0)) as connection:
            asked = encode_request(ApiKey.API_VERSIONS, 0, 1, "early", api_versions.ApiVersionsRequest())
            try:
                connection.sendall(asked)
                return bool(connection.recv(1))
            except ConnectionError:
                return False

    while is_served(address):
        pass
    assert is_served("127.0.0.78")
