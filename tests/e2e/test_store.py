"""A broker on the embedded store: what it makes of directories of an Apache Kafka, and that it is the same afterwards.

A directory of this broker without its store is, byte for byte, what an Apache Kafka leaves (tests/interop shows that);
so these tests need no Kafka.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.clients.admin.results import ResourceType
from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.coordination.znodes import (
    BrokerRegistration,
    Controller,
    ControllerEpoch,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
)
from pkafka.model import TopicPartition, topic_id_text
from pkafka.testing import Broker
from pkafka.tools.servers.local_broker import BrokerStartError
from tests.differences import first_difference
from tests.faults.family import kill, replaced
from tests.talk import talking, wait_for

MakeBroker = Callable[..., Broker]
RETENTION_CHECK_MS = 100


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Makes brokers, not started, each in a directory of its name; what still runs is killed."""
    made: list[Broker] = []

    def make(name: str = "broker", **overrides: object) -> Broker:
        settings = {key.replace("_", "."): value for key, value in overrides.items()}
        base = {
            "pkafka.workers": 2,
            "log.initial.task.delay.ms": RETENTION_CHECK_MS,
            "log.retention.check.interval.ms": RETENTION_CHECK_MS,
        }
        made.append(Broker(tmp_path / name, {**base, **settings}))
        return made[-1]

    yield make
    for broker in made:
        broker.kill()
        print(broker.log_tail())  # shown when the test fails


@pytest.fixture
def foreign(make_broker: MakeBroker) -> Path:
    """A data directory with two topics of broker 7, as an Apache Kafka would leave it."""
    writer = make_broker("writer", broker_id=7)
    writer.start()
    with talking(writer.bootstrap, broker_id=7) as talk:
        talk.create("orders", partitions=3, retention_ms=-1)
        talk.create("empty")
        for partition in range(3):
            talk.send("orders", b"%d" % partition, partition=partition)
        producer_id, epoch = talk.new_producer()
        talk.send("orders", b"idempotent", producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    writer.stop()
    for file in writer.log_dir.glob(f"{STORE_FILE}*"):
        file.unlink()
    return writer.log_dir


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below, but the lock."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def refusal(broker: Broker, *arguments: str) -> str:
    with pytest.raises(BrokerStartError) as refused:
        broker.start(*arguments)
    return refused.value.reason


def test_foreign_data_is_refused_in_one_line_and_left_alone(make_broker: MakeBroker, foreign: Path) -> None:
    before = contents(foreign)
    reason = refusal(make_broker(log_dirs=foreign))
    assert "\n" not in reason
    assert f"{foreign} holds 4 partitions of a Kafka cluster that this broker knows nothing of" in reason
    assert "--adopt" in reason
    assert not first_difference(contents(foreign), before)


def test_adopted_topics_keep_their_ids_their_records_and_everything(
    make_broker: MakeBroker, foreign: Path
) -> None:
    ids = {
        path.name[:-2]: (path / "partition.metadata").read_text().splitlines()[1]
        for path in foreign.glob("*-0")
    }
    meta = (foreign / "meta.properties").read_text()
    broker = make_broker(log_dirs=foreign)
    broker.start("--adopt")
    with talking(broker.bootstrap, broker_id=7) as talk:
        for topic, line in ids.items():
            assert f"topic_id: {topic_id_text(talk.topic_id(topic))}" == line
        values = [[record.value for record in talk.read("orders", partition)] for partition in range(3)]
        assert values == [[b"0", b"idempotent"], [b"1"], [b"2"]]
        assert talk.ends("empty") == (0, 0)
        settings = talk.described(ResourceType.TOPIC, "orders")
        assert (settings["retention.ms"].value, settings["retention.bytes"].value) == ("-1", "-1")
        talk.send("orders", b"new")
    assert (foreign / "meta.properties").read_text() == meta
    broker.restart()
    with talking(broker.bootstrap, broker_id=7) as talk:
        assert [record.value for record in talk.read("orders")] == [b"0", b"idempotent", b"new"]


def test_producer_ids_that_the_logs_know_are_not_given_again(make_broker: MakeBroker, foreign: Path) -> None:
    broker = make_broker(log_dirs=foreign)
    broker.start("--adopt")
    with talking(broker.bootstrap, broker_id=7) as talk:
        producer_id, epoch = talk.new_producer()
        batch = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
        assert talk.send("orders", b"no repetition", **batch) == 2
        assert talk.send("orders", b"no repetition", **batch) == 2
        assert talk.ends("orders") == (0, 3)
    broker.stop()
    with EmbeddedStore(foreign / STORE_FILE, read_only=True) as store:
        assert ProducerIdBlock.decode(store.get(ProducerIdBlock.path())[0]).first == 1000


def test_leader_epochs_go_on(make_broker: MakeBroker, foreign: Path) -> None:
    (foreign / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n41 1\n")
    broker = make_broker(log_dirs=foreign)
    broker.start("--adopt")
    with EmbeddedStore(foreign / STORE_FILE, read_only=True) as store:
        state = PartitionState.decode(store.get(PartitionState.path(TopicPartition("orders", 0)))[0])
    assert state.leader_epoch >= 41
    assert state.isr == (7,)


def test_a_topic_with_a_hole_is_refused(make_broker: MakeBroker, foreign: Path) -> None:
    shutil.rmtree(foreign / "orders-1")
    before = contents(foreign)
    reason = refusal(make_broker(log_dirs=foreign), "--adopt")
    assert "cannot adopt: topic orders is not whole, partition 1 of 3 is missing" in reason
    assert not first_difference(contents(foreign), before)


def test_partitions_over_several_directories_make_one_topic(make_broker: MakeBroker, foreign: Path) -> None:
    second = foreign.with_name("second")
    second.mkdir()
    (foreign / "orders-1").rename(second / "orders-1")
    broker = make_broker(log_dirs=f"{foreign},{second}")
    broker.start("--adopt")
    with talking(broker.bootstrap, broker_id=7) as talk:
        assert [record.value for record in talk.read("orders", 1)] == [b"1"]
    broker.stop()
    shutil.copytree(second / "orders-1", foreign / "orders-1")
    for file in foreign.glob(f"{STORE_FILE}*"):
        file.unlink()
    assert "orders-1 is there twice" in refusal(broker, "--adopt")


def test_directories_that_do_not_belong_together_are_refused(make_broker: MakeBroker, foreign: Path) -> None:
    second = foreign.with_name("second")
    second.mkdir()
    meta = (foreign / "meta.properties").read_text()
    for wrong, reason in (
        (meta.replace("broker.id=7", "broker.id=8"), "different brokers: [7, 8]"),
        (meta.replace("cluster.id=", "cluster.id=x"), "different clusters"),
        ("version=1\nnode.id=7\n", "formatted for KRaft mode"),
    ):
        (second / "meta.properties").write_text(wrong)
        broker = make_broker(log_dirs=f"{foreign},{second}")
        assert reason in refusal(broker, "--adopt")
        assert not (foreign / STORE_FILE).exists()
    other = make_broker(log_dirs=foreign, zookeeper_connect="localhost:1")
    assert "--adopt is for the embedded store" in refusal(other, "--adopt")


def test_another_broker_id_than_the_directories_have_is_refused(
    make_broker: MakeBroker, foreign: Path
) -> None:
    broker = make_broker(log_dirs=foreign, broker_id=3)
    with pytest.raises(
        BrokerStartError, match=r"broker\.id is 3, but the log directories belong to broker 7"
    ):
        broker.start("--adopt")


def test_settings_of_internal_topics_are_those_that_kafka_gives(
    make_broker: MakeBroker, foreign: Path
) -> None:
    (foreign / "empty-0").rename(foreign / "__consumer_offsets-0")
    broker = make_broker(log_dirs=foreign)
    broker.start("--adopt")
    with talking(broker.bootstrap, broker_id=7) as talk:
        settings = talk.described(ResourceType.TOPIC, "__consumer_offsets")
        assert settings["cleanup.policy"].value == "compact"
        assert settings["segment.bytes"].value == "104857600"


def test_what_came_to_the_directory_later_is_told_of_and_adopted_when_asked(
    make_broker: MakeBroker, foreign: Path
) -> None:
    hidden = [foreign.with_name(name) for name in ("orders-2", "empty-0")]
    for path in hidden:
        (foreign / path.name).rename(path)
    broker = make_broker(log_dirs=foreign)
    broker.start("--adopt")
    broker.stop()
    for path in hidden:
        path.rename(foreign / path.name)
    broker.start()
    told = "2 partitions in the log directories belong to no topic of this broker"
    wait_for(lambda: told in broker.log_file.read_text())
    broker.stop()
    broker.start("--adopt")
    with talking(broker.bootstrap, broker_id=7) as talk:
        assert [record.value for record in talk.read("orders", 2)] == [b"2"]
        assert talk.ends("empty") == (0, 0)
    broker.stop()
    # Another topic of the name of a known one.
    text = (foreign / "empty-0" / "partition.metadata").read_text()
    (foreign / "empty-0" / "partition.metadata").write_text(text[:-22] + "AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(BrokerStartError, match="topic empty in the log directories is another than the one"):
        broker.start("--adopt")


def test_a_new_control_process_goes_on_with_the_session_and_the_role(make_broker: MakeBroker) -> None:
    broker = make_broker(broker_id=0)
    broker.start()
    with talking(broker.bootstrap) as talk:
        talk.create("before")
        first = registered(broker)
        replaced(broker, kill(broker, "control"), "control")
        talk.send("before", b"while it is away")
        wait_for(lambda: registered(broker) > first, what="a new controller epoch in the same session")
        second = registered(broker)
        assert second[1:] == first[1:]
        talk.create("after")
        talk.send("after", b"x")
        assert talk.topic_id("before")


def registered(broker: Broker) -> tuple[int, int, int]:
    """The controller epoch, the broker epoch, and the session that owns /controller."""
    with EmbeddedStore(broker.log_dir / STORE_FILE, read_only=True) as store:
        epoch = ControllerEpoch.decode(store.get(ControllerEpoch.path())[0]).epoch
        broker_stat = store.get(BrokerRegistration.path(0))[1]
        data, stat = store.get(Controller.path())
        assert Controller.decode(data).broker_id == 0
        assert stat.ephemeral_owner == broker_stat.ephemeral_owner
        return epoch, broker_stat.czxid, stat.ephemeral_owner


def test_the_store_is_plain_files_beside_the_logs(make_broker: MakeBroker) -> None:
    broker = make_broker(broker_id=0)
    broker.start()
    with talking(broker.bootstrap) as talk:
        talk.create("only")
    broker.stop()
    assert [path.name for path in broker.log_dir.iterdir() if path.is_dir()] == ["only-0"]
    assert [path.name for path in broker.log_dir.glob("pkafka*")] == [STORE_FILE]
    with EmbeddedStore(broker.log_dir / STORE_FILE, read_only=True) as store:
        assert store.children("/brokers/ids") == []
        assert TopicAssignment.decode(store.get(TopicAssignment.path("only"))[0]).topic_id is not None
