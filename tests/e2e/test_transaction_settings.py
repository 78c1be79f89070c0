"""The broker's settings for transactions do what they say."""

import time
from pathlib import Path

from pkafka.clients.admin.results import ResourceType
from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.testing import running_broker
from tests.raw_client import create_topic
from tests.talk import talking, wait_for
from tests.transaction_client import TransactionClient

PARTITIONS = 3
FEW = {"transaction.state.log.num.partitions": PARTITIONS}


def test_the_topic_is_made_as_configured(tmp_path: Path) -> None:
    settings = {
        **FEW,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.segment.bytes": 1_000,
    }
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        TransactionClient(broker.bootstrap) as client,
        talking(broker.bootstrap) as talk,
    ):
        client.coordinate(PARTITIONS)
        directories = [*broker.log_dir.glob(f"{TRANSACTION_STATE_TOPIC}-*")]
        assert len(directories) == PARTITIONS
        configs = talk.described(ResourceType.TOPIC, TRANSACTION_STATE_TOPIC)
        assert configs["min.insync.replicas"].value == "1"
        assert configs["cleanup.policy"].value == "compact"
        for _ in range(30):
            client.init("x")
        wait_for(lambda: any(len([*one.glob("*.log")]) > 1 for one in directories), what="a second segment")


def test_a_transaction_that_has_had_its_time_is_aborted_at_the_next_look(tmp_path: Path) -> None:
    settings = {**FEW, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        TransactionClient(broker.bootstrap) as client,
    ):
        topic = create_topic(broker.bootstrap)
        client.coordinate(PARTITIONS)
        producer = client.init("x", timeout_ms=300)
        begun_s = time.monotonic()
        [added] = client.add("x", producer, [(topic, [0])]).results_by_topic_v3_and_below
        assert [one.partition_error_code for one in added.results_by_partition] == [0]
        client.wait_for_state("x", "CompleteAbort")
        assert time.monotonic() - begun_s >= 0.3
        assert client.end("x", producer).error_code == ErrorCode.PRODUCER_FENCED
        assert client.end("x", producer, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_may_not_ask_for_more_time(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path / "broker", {**FEW, "transaction.max.timeout.ms": 5_000}) as broker,
        TransactionClient(broker.bootstrap) as client,
    ):
        client.coordinate(PARTITIONS)
        for timeout_ms, code in (
            (5_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
            (5_000, ErrorCode.NONE),
        ):
            request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=timeout_ms)
            assert client.ask(request, 4).error_code == code


def test_an_id_that_is_not_used_is_forgotten_at_the_next_look(tmp_path: Path) -> None:
    settings = {
        **FEW,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
        "transactional.id.expiration.ms": 300,
    }
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        TransactionClient(broker.bootstrap) as client,
    ):
        client.coordinate(PARTITIONS)
        first = client.init("x")
        client.wait_for_state("x", "")
        again = client.init("x")
        assert again.producer_id != first.producer_id
        assert again.epoch == 0
