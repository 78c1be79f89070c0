"""What settings of the broker do: those that every topic inherits, and those that its own work follows."""

import contextlib
import re
import socket
import time
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from pkafka.clients.admin.results import NewTopic
from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.coordination.znodes import PartitionAssignment, PartitionState, TopicAssignment
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages import api_versions, metadata
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.testing import Broker, BrokerStartError, running_broker
from tests.e2e.seen import BLOCK, HOUR_MS, aged, checkpointed, refusal, segments, stored
from tests.raw_client import RawClient, batch, fetch_from, produce_request, records_of
from tests.talk import Talk, talking, wait_for

SETTINGS: dict[str, object] = {
    "pkafka.workers": 2,
    "broker.id": 0,
    "broker.rack": "r1",
    "log.flush.offset.checkpoint.interval.ms": 100,
    "log.flush.start.offset.checkpoint.interval.ms": 100,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 100,
    "num.partitions": 3,
    "pkafka.metrics.host": "127.0.0.2",
    "pkafka.metrics.port": 0,
    "producer.id.expiration.check.interval.ms": 100,
    "replica.high.watermark.checkpoint.interval.ms": 100,
}
WORDS = b" ".join(b"%d potatoes, %d tomatoes" % (n * n, n % 17) for n in range(4_000))
"""Text on which the levels of every codec differ."""


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return SETTINGS


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    return own_broker


# -- what topics inherit --


def test_compression_type(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    inherit(compression_type="zstd")
    talk.create(topic)
    talk.send(topic, BLOCK, codec=Codec.GZIP)
    assert [codec for codec, _ in stored(broker, topic)] == [Codec.ZSTD]


@pytest.mark.parametrize(
    ("codec", "least", "most"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 17), (Codec.ZSTD, -1000, 19)]
)
def test_compression_levels(
    broker: Broker,
    talk: Talk,
    topic: str,
    inherit: Callable[..., None],
    codec: Codec,
    least: int,
    most: int,
) -> None:
    name = codec.name.lower()
    key = f"compression_{name}_level"
    inherit(**{key: least})
    talk.create(topic, compression_type=name)
    talk.send(topic, WORDS)
    talk.set_topic(topic, **{key: most})
    talk.send(topic, WORDS)
    talk.set_topic(topic, **{key: None})
    inherit(**{key: most})
    talk.send(topic, WORDS)
    (_, loose), (_, tight), (_, inherited) = stored(broker, topic)
    assert loose > 1.1 * tight
    assert inherited == tight
    assert [record.value for record in talk.read(topic)] == [WORDS] * 3


def test_index_settings(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    inherit(log_index_interval_bytes=0, log_index_size_max_bytes=36)
    talk.create(topic)
    for hours in range(8, 0, -1):
        talk.produce(topic, aged(hours=hours))
    # Three entries of the time index are 36 bytes, the last of them kept for the roll; the first batch has none.
    assert segments(broker, topic) == [0, 3, 6]
    index = broker.log_dir / f"{topic}-0" / f"{0:020}.index"
    assert index.stat().st_size == 8 * 2
    talk.create(topic + "-own", segment_index_bytes=1024)
    for hours in range(8, 0, -1):
        talk.produce(topic + "-own", aged(hours=hours))
    assert segments(broker, topic + "-own") == [0]


def test_downconversion(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    inherit(log_message_downconversion_enable=False)
    talk.create(topic)
    talk.send(topic, b"x")
    with RawClient(broker.bootstrap) as old:
        assert fetch_from(old, topic, 0, version=3).error_code == ErrorCode.UNSUPPORTED_VERSION
        inherit(log_message_downconversion_enable=True)
        [record] = records_of(fetch_from(old, topic, 0, version=3))
        assert record.value == b"x"


@pytest.mark.parametrize("which", ["before", "difference"])
def test_records_that_are_too_old(talk: Talk, topic: str, inherit: Callable[..., None], which: str) -> None:
    inherit(**{f"log_message_timestamp_{which}_max_ms": 2 * HOUR_MS})
    talk.create(topic)
    assert refusal(lambda: talk.produce(topic, aged(hours=3))) is ErrorCode.INVALID_TIMESTAMP
    talk.produce(topic, aged(hours=1))
    inherit(**{f"log_message_timestamp_{which}_max_ms": 4 * HOUR_MS})
    talk.produce(topic, aged(hours=3))


@pytest.mark.parametrize("which", ["after", "difference"])
def test_records_of_the_future(talk: Talk, topic: str, inherit: Callable[..., None], which: str) -> None:
    inherit(**{f"log_message_timestamp_{which}_max_ms": 60_000})
    talk.create(topic)
    assert refusal(lambda: talk.produce(topic, aged(hours=-0.5))) is ErrorCode.INVALID_TIMESTAMP
    talk.produce(topic, aged(hours=0))


def test_a_topics_own_difference_of_timestamps(talk: Talk, topic: str) -> None:
    talk.create(topic, message_timestamp_difference_max_ms=HOUR_MS)
    for hours in (2, -2):
        assert refusal(lambda: talk.produce(topic, aged(hours=hours))) is ErrorCode.INVALID_TIMESTAMP  # noqa: B023
    talk.produce(topic, aged(hours=0.9))


def test_retention_bytes(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    talk.create(topic, segment_bytes=1100)
    talk.create(topic + "-own", segment_bytes=1100, retention_bytes=-1)
    for name in (topic, topic + "-own"):
        for _ in range(6):
            talk.send(name, BLOCK)
    inherit(log_retention_bytes=2500)
    wait_for(lambda: talk.ends(topic) == (3, 6))
    assert talk.ends(topic + "-own") == (0, 6)


def test_roll_ms(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    talk.create(topic)
    talk.send(topic, b"one")
    talk.send(topic, b"two")
    inherit(log_roll_ms=50)
    time.sleep(0.1)
    talk.send(topic, b"three")
    assert segments(broker, topic) == [0, 2]


def test_roll_jitter(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    inherit(log_roll_ms=10 * HOUR_MS, log_roll_jitter_ms=10 * HOUR_MS)
    for name, own in ((topic, {}), (topic + "-own", {"segment_jitter_ms": 0})):
        talk.create(name, **own)
        for number in range(100):
            talk.produce(name, aged(hours=90 - 0.9 * number))
    # Each segment draws anew how much earlier than after ten hours it rolls.
    assert segments(broker, topic + "-own") == [*range(0, 100, 12)]
    starts = segments(broker, topic)
    spans = {second - first for first, second in pairwise(starts)}
    assert len(spans) > 1
    assert max(spans) <= 12


def test_flush_interval_messages(
    broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]
) -> None:
    def recovery_point() -> int | None:
        return checkpointed(broker, "recovery-point", topic)

    inherit(log_flush_interval_messages=3)
    talk.create(topic)
    talk.send(topic, b"1", b"2")
    wait_for(lambda: recovery_point() is not None)
    time.sleep(
        0.3
    )  # three times as long as until the next checkpoint: that it stays can only be seen by waiting
    assert recovery_point() == 0
    talk.send(topic, b"3")
    wait_for(lambda: recovery_point() == 3)


# -- topics --


def ask_for(broker: Broker, topic: str, *, create: bool = True) -> tuple[int, int]:
    """What Metadata says of a topic: code and number of partitions."""
    request = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create
    )
    with RawClient(broker.bootstrap) as client:
        [found] = client.call(request, 9).topics
        return found.error_code, len(found.partitions)


def test_topics_are_created_on_demand_with_the_partitions_of_the_broker(broker: Broker, topic: str) -> None:
    assert ask_for(broker, topic, create=False) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert ask_for(broker, topic)[0] == ErrorCode.LEADER_NOT_AVAILABLE
    wait_for(lambda: ask_for(broker, topic) == (ErrorCode.NONE, 3))


def test_topics_are_not_created_on_demand_nor_deleted_where_that_is_off(tmp_path: Path, topic: str) -> None:
    settings = {
        "pkafka.workers": 1,
        "auto.create.topics.enable": "false",
        "default.replication.factor": 2,
        "delete.topic.enable": "false",
    }
    with running_broker(tmp_path, settings) as broker, talking(broker.bootstrap) as talk:
        assert ask_for(broker, topic) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        # A second replica is wanted, and there is nowhere to put it.
        refused = talk.admin.create_topics([NewTopic(topic, 1, -1)])[topic]
        assert isinstance(refused, ApiError)
        assert refused.code is ErrorCode.INVALID_REPLICATION_FACTOR
        talk.create(topic)
        assert refusal(lambda: talk.delete(topic)) is ErrorCode.TOPIC_DELETION_DISABLED
        talk.send(topic, b"x")


# -- the broker itself --


def test_clients_are_told_the_rack(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        [found] = client.call(metadata.MetadataRequest(topics=[]), 9).brokers
        assert found.rack == "r1"


def test_the_page_of_metrics_is_where_it_was_asked_for(broker: Broker, talk: Talk, topic: str) -> None:
    found = re.search(r"Metrics on (http://127\.0\.0\.2:\d+/metrics)", broker.log_file.read_text())
    assert found is not None
    talk.create(topic)
    talk.send(topic, b"x", b"y")
    with urllib.request.urlopen(found[1], timeout=60) as answer:
        page = answer.read().decode()
    assert f'messagesin_total{{topic="{topic}"}} 2.0' in page
    for index in range(2):
        (text,) = re.findall(
            rf'^pkafka_process_openfiledescriptorcount{{worker="{index}"}} (\S+)$', page, re.MULTILINE
        )
        assert 10 < float(text) < 1000


def test_checkpoints_are_written_at_their_intervals(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    talk.send(topic, b"x", b"y")
    wait_for(lambda: checkpointed(broker, "replication", topic) == 2)
    key = TopicPartition(topic, 0)
    assert talk.admin.delete_records({key: 1})[key] == 1
    wait_for(lambda: checkpointed(broker, "log-start", topic) == 1)


def test_producers_are_forgotten_after_their_expiration(
    talk: Talk, topic: str, inherit: Callable[..., None]
) -> None:
    producer_id, epoch = talk.new_producer()
    now = time.time_ns() // 1_000_000
    data = bytes(
        build_batch([(now, None, b"x", ())], producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    )
    talk.create(topic)
    assert talk.produce(topic, data) == 0
    time.sleep(0.3)  # three looks for expired producers
    assert talk.produce(topic, data) == 0, "the same batch of the same producer is a repetition"
    inherit(producer_id_expiration_ms=1)
    wait_for(lambda: talk.produce(topic, data) == 1, what="nobody knows the producer any more")


def seconds_for(broker: Broker, connections: int) -> float:
    """How long it takes until so many new connections are served."""
    began = time.monotonic()
    clients = [RawClient(broker.bootstrap) for _ in range(connections)]
    for client in clients:
        client.send(api_versions.ApiVersionsRequest(), 0)
    for client in clients:
        assert client.receive().error_code == 0
        client.close()
    return time.monotonic() - began


def test_connections_are_taken_in_at_their_rate(tmp_path: Path) -> None:
    settings = {
        "pkafka.workers": 2,
        "max.connection.creation.rate": 10,
        "quota.window.num": 2,
        "quota.window.size.seconds": 1,
    }
    with running_broker(tmp_path, settings) as broker:
        # A burst of one window passes, and perhaps what came when the broker started.
        assert seconds_for(broker, 25) > 0.8
        with talking(broker.bootstrap) as talk:
            talk.set_broker("", max_connection_creation_rate=1_000)
            wait_for(lambda: seconds_for(broker, 25) < 0.8)
            talk.set_broker("", **{"listener.name.plaintext.max.connection.creation.rate": 10})
            wait_for(lambda: seconds_for(broker, 25) > 0.8)


def test_policies_of_the_operator(tmp_path: Path, topic: str) -> None:
    (tmp_path / "house_rules.py").write_text(
        "from pkafka.server.policies import AlterConfigPolicy, CreateTopicPolicy, PolicyViolation\n"
        "class Topics(CreateTopicPolicy):\n"
        "    def validate(self, request):\n"
        "        if request.partitions > 2:\n"
        "            raise PolicyViolation('two are enough')\n"
        "class Settings(AlterConfigPolicy):\n"
        "    def validate(self, request):\n"
        "        if request.configs.get('retention.ms') == '-1':\n"
        "            raise PolicyViolation('nothing is for ever')\n"
    )
    settings = {
        "pkafka.workers": 1,
        "create.topic.policy.class.name": "house_rules.Topics",
        "alter.config.policy.class.name": "house_rules.Settings",
    }
    broker = Broker(tmp_path / "broker", settings, environment={"PYTHONPATH": str(tmp_path)})
    broker.start()
    try:
        with talking(broker.bootstrap) as talk:
            assert refusal(lambda: talk.create(topic, partitions=3)) is ErrorCode.POLICY_VIOLATION
            talk.create(topic, partitions=2)
            assert refusal(lambda: talk.set_topic(topic, retention_ms=-1)) is ErrorCode.POLICY_VIOLATION
            talk.set_topic(topic, retention_ms=5)
    finally:
        broker.stop()


def test_a_policy_that_is_not_there_is_no_policy_to_start_without(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"create.topic.policy.class.name": "com.example.Policy"})
    with pytest.raises(BrokerStartError) as refused:
        broker.start()
    assert refused.value.reason.startswith(
        "create.topic.policy.class.name=com.example.Policy: Class com.example.Policy could not be found"
    )


@pytest.mark.parametrize("whose", ["topic", "broker"])
def test_a_replica_that_missed_records_leads_as_soon_as_that_is_allowed(
    tmp_path: Path, topic: str, whose: str
) -> None:
    with running_broker(tmp_path, {"pkafka.workers": 1, "broker.id": 0}) as broker:
        with talking(broker.bootstrap) as talk:
            talk.create(topic)
        broker.stop()
        # As if broker 7 had been the last in sync, and were gone for good.
        with EmbeddedStore(broker.log_dir / STORE_FILE) as store:
            path = TopicAssignment.path(topic)
            known = TopicAssignment.decode(store.get(path)[0])
            store.set(path, known._replace(partitions={0: PartitionAssignment((0, 7))}).encode())
            path = PartitionState.path(TopicPartition(topic, 0))
            state = PartitionState.decode(store.get(path)[0])
            store.set(path, state._replace(leader=7, isr=(7,)).encode())
        broker.start()
        with talking(broker.bootstrap) as talk:
            wait_for(lambda: ask_for(broker, topic, create=False) == (ErrorCode.NONE, 1))
            assert leader_of(broker, topic) == -1
            if whose == "topic":
                talk.set_topic(topic, unclean_leader_election_enable=True)
            else:
                talk.set_broker("", unclean_leader_election_enable=True)
            wait_for(lambda: leader_of(broker, topic) == 0)
            assert talk.send(topic, b"x") == 0


def leader_of(broker: Broker, topic: str) -> int:
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=topic)])
    with RawClient(broker.bootstrap) as client:
        [found] = client.call(request, 9).topics
        return int(found.partitions[0].leader_id)


def test_clients_are_told_of_another_address_at_once_and_after_a_restart(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"pkafka.workers": 2, "broker.id": 0}) as broker:
        assert address_told_by(broker) == broker.bootstrap
        other = broker.bootstrap.replace("127.0.0.1", "localhost")
        with talking(broker.bootstrap) as talk:
            talk.set_broker(advertised_listeners=f"PLAINTEXT://{other}")
            wait_for(lambda: address_told_by(broker) == other)
            assert (
                refusal(lambda: talk.set_broker(advertised_listeners="OTHER://x:1"))
                is ErrorCode.INVALID_REQUEST
            )
        broker.restart()
        assert address_told_by(broker) == other
        with talking(broker.bootstrap) as talk:
            talk.set_broker(advertised_listeners=None)
            wait_for(lambda: address_told_by(broker) == broker.bootstrap)


def address_told_by(broker: Broker) -> str:
    with RawClient(broker.bootstrap) as client:
        [found] = client.call(metadata.MetadataRequest(topics=[]), 9).brokers
        return f"{found.host}:{found.port}"


def test_as_many_connections_wait_as_the_backlog_has_room_for(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, {"pkafka.workers": 1, "socket.listen.backlog.size": 5}) as broker,
        contextlib.ExitStack() as stack,
    ):
        for child in psutil.Process(broker.pid).children():
            child.suspend()
            stack.callback(child.resume)
        host, _, port = broker.bootstrap.rpartition(":")
        waiting = 0
        with contextlib.suppress(TimeoutError):
            for _ in range(50):
                stack.enter_context(socket.create_connection((host, int(port)), timeout=0.5))
                waiting += 1
        # The kernel's own count may differ by one or two.
        assert 5 <= waiting <= 8


def test_large_requests_wait_for_memory_and_small_ones_do_not(tmp_path: Path, topic: str) -> None:
    settings = {
        "pkafka.workers": 1,
        "socket.request.max.bytes": 200_000,
        "queued.max.request.bytes": 200_000,
    }
    with running_broker(tmp_path, settings) as broker, talking(broker.bootstrap) as talk:
        talk.create(topic)
        request = produce_request({(topic, 0): batch(b"x" * 150_000)})
        slow, slower, late = (RawClient(broker.bootstrap) for _ in range(3))
        parts = {}
        for client in (slow, slower):
            data = client.encoded(request, 9)
            client.send_bytes(data[:100_000])
            parts[client] = data[100_000:]
            talk.ends(topic)  # served in the meantime
        data = late.encoded(request, 9)
        late.send_bytes(data[:1_000])
        late.sock.settimeout(0.3)
        late.send_bytes(data[1_000:])
        with pytest.raises(TimeoutError):
            late.receive()
        assert talk.ends(topic) == (0, 0)
        late.sock.settimeout(60)
        slow.send_bytes(parts[slow])
        assert late.read_frame()
        slower.send_bytes(parts[slower])
        for client in (slow, slower):
            assert client.receive().responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert talk.ends(topic) == (0, 3)
        for client in (slow, slower, late):
            client.close()
