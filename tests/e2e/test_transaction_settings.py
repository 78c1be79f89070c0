"""The broker's settings for transactions do what they say."""

from pathlib import Path

from pkafka.clients.admin.results import ResourceType
from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.testing import running_broker
from tests.raw_client import create_topic
from tests.talk import talking, wait_for
from tests.transaction_client import TransactionClient


def test_the_topic_is_made_as_configured(tmp_path: Path) -> None:
    settings = {
        "transaction.state.log.num.partitions": 3,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.segment.bytes": 1_000,
    }
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        TransactionClient(broker.bootstrap) as client,
        talking(broker.bootstrap) as talk,
    ):
        client.coordinate()
        directories = [*broker.log_dir.glob(f"{TRANSACTION_STATE_TOPIC}-*")]
        assert len(directories) == 3
        configs = talk.described(ResourceType.TOPIC, TRANSACTION_STATE_TOPIC)
        assert configs["min.insync.replicas"].value == "1"
        assert configs["cleanup.policy"].value == "compact"
        for _ in range(30):
            client.begin()
        wait_for(lambda: any(len([*one.glob("*.log")]) > 1 for one in directories), what="a second segment")


def test_a_transaction_that_has_had_its_time_is_aborted_at_the_next_look(tmp_path: Path) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        TransactionClient(broker.bootstrap) as client,
    ):
        topic = create_topic(broker.bootstrap)
        client.coordinate()
        client.begin(timeout_ms=300)
        assert client.add((topic, 0)) == {(topic, 0): ErrorCode.NONE}
        assert client.state == "Ongoing"
        wait_for(lambda: client.state == "CompleteAbort", what="the abort")
        assert client.end() is ErrorCode.PRODUCER_FENCED
        assert client.end(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_may_not_ask_for_more_time(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path / "broker", {"transaction.max.timeout.ms": 5_000}) as broker,
        TransactionClient(broker.bootstrap) as client,
    ):
        client.coordinate()
        assert client.init(timeout_ms=5_001)[0] is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert client.init(timeout_ms=5_000)[0] is ErrorCode.NONE


def test_an_id_that_is_not_used_is_forgotten_at_the_next_look(tmp_path: Path) -> None:
    settings = {
        "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
        "transactional.id.expiration.ms": 300,
    }
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        TransactionClient(broker.bootstrap) as client,
    ):
        client.coordinate()
        first = client.begin()
        wait_for(
            lambda: client.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, what="the expiry"
        )
        again = client.begin()
        assert again[0] != first[0]
        assert again[1] == 0
