"""Where groups are kept: Apache Kafka and pkafka make the same topic and nodes, and read each other's records."""

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pkafka.coordination.store import NoNodeError
from pkafka.coordination.znodes import BrokerRegistration
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ErrorCode
from pkafka.protocol.messages.delete_groups import DeleteGroupsRequest
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pkafka.protocol.messages.list_groups import ListGroupsRequest
from pkafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pkafka.protocol.messages.sync_group import SyncGroupRequest
from pkafka.records.builder import build_batch
from pkafka.server.groups.records import encode_group_key
from pkafka.testing import Broker
from tests.differences import differences, first_difference
from tests.group_client import GroupClient
from tests.group_requests import subscription
from tests.interop.conftest import JavaTool
from tests.interop.kafka import KafkaBroker
from tests.interop.side_by_side import pk
from tests.interop.test_group_requests import Script
from tests.raw_client import RawClient, produce_request
from tests.talk import talking, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

SETTINGS: Final[dict[str, object]] = {
    "broker.id": 0,
    "offsets.topic.num.partitions": 7,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.segment.bytes": 50_000,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.enable": "false",
    "zookeeper.session.timeout.ms": 6000,
}
TOPIC: Final = "stored"
DUMP: Final = "kafka.tools.DumpLogSegments"
Either = KafkaBroker | Broker


class Fresh(NamedTuple):
    """A broker that had no group yet, and what it answered then."""

    broker: Either
    store: ZooKeeperStore
    first_answers: list[Any]


@pytest.fixture(scope="module")
def both(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Fresh]]:
    """Both kinds of broker, each with a ZooKeeper tree of its own."""
    root = f"{zookeeper.connect}/groups-{uuid.uuid4().hex[:8]}"
    directory = tmp_path_factory.mktemp("groups")
    kafka = KafkaBroker(kafka_classpath, f"{root}-k", directory / "kafka", overrides=SETTINGS)
    pkafka = Broker(directory / "pkafka", {**SETTINGS, "zookeeper.connect": f"{root}-p", "pkafka.workers": 2})
    started: list[Fresh] = []
    brokers: list[Either] = [kafka, pkafka]
    try:
        for broker, connect in zip(brokers, (f"{root}-k", f"{root}-p"), strict=True):
            broker.start()
            store = ZooKeeperStore(connect, 10_000)
            with talking(broker.bootstrap) as talk:
                talk.create(TOPIC, 2)
            started.append(Fresh(broker, store, _first_answers(broker, store)))
        yield started
    finally:
        for one in started:
            one.store.close()
        for broker in brokers:
            broker.kill()


def _first_answers(broker: Either, store: ZooKeeperStore) -> list[Any]:
    """Nobody coordinates anything yet; looking for a coordinator has the topic made."""
    script = Script(broker.bootstrap)
    for version in (1, 3, 9):
        script.commit("g", {(TOPIC, 0): 1, ("missing", 0): 1}, version)
    # Not version 1: Kafka 3.9 answers it without any partition, which a client takes for "nothing committed".
    for version in (2, 5, 8):
        script.fetch("g", {TOPIC: [0, 1], "missing": [0]}, version)
    script.fetch("g", None, 2)
    script.join("g")
    script.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 1)
    script.ask(SyncGroupRequest(group_id="g", generation_id=1, member_id="m"), 1)
    script.ask(LeaveGroupRequest(group_id="g", member_id="m"), 1)
    script.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 4)
    script.describe("g", "")
    script.ask(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 4)
    script.ask(ListGroupsRequest(), 4)
    script.ask(DeleteGroupsRequest(groups_names=["g"]), 1)
    script.delete_offsets("g", (TOPIC, 0))
    script.delete_offsets("g", ("missing", 0))
    script.ask(FindCoordinatorRequest(key="g"), 0)
    wait_for(lambda: store.exists("/brokers/topics/__consumer_offsets"), what="the topic")
    script.make_topic_of_groups()
    script.ask(FindCoordinatorRequest(key="g"), 1)
    script.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    script.client.close()
    return script.answers


def same(outcomes: list[Any]) -> Any:
    """The outcome, when it is the same of both."""
    found = list(differences(*outcomes))
    assert not found, "\n".join(found)
    return outcomes[0]


def test_before_there_is_a_topic_for_groups(both: list[Fresh]) -> None:
    same([one.first_answers for one in both])
    settings = [json.loads(one.store.get("/config/topics/__consumer_offsets")[0]) for one in both]
    assert same(settings)["config"] == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "50000",
    }
    topics = [json.loads(one.store.get("/brokers/topics/__consumer_offsets")[0]) for one in both]
    assert len(same([topic["partitions"] for topic in topics])) == 7


def test_version_0_keeps_offsets_in_zookeeper(both: list[Fresh]) -> None:
    outcomes, nodes = [], []
    for broker, store, _first in both:
        script = Script(broker.bootstrap)
        script.commit("old", {(TOPIC, 0): 5, (TOPIC, 9): 5, ("missing", 0): 5}, 0)
        script.commit("old", {(TOPIC, 0): (6, None), (TOPIC, 1): (7, "x" * 5_000)}, 0)
        script.commit("old", {("missing", 0): 5}, 0)
        script.commit("", {(TOPIC, 0): 5}, 0)
        script.commit("a/b", {(TOPIC, 0): 5}, 0)
        script.fetch("old", {TOPIC: [0, 1, 9], "missing": [0]}, 0)
        script.fetch("", {TOPIC: [0, 1]}, 0)
        script.fetch("a/b", {TOPIC: [0, 1]}, 0)
        script.fetch("nobody", {TOPIC: [0, 1]}, 0)
        script.fetch("nobody", {}, 0)
        # The other versions know nothing of it.
        script.coordinate("old")
        script.fetch("old", {TOPIC: [0]}, 1)
        outcomes.append(script.answers)
        nodes.append(_tree(store, "/consumers"))
        script.client.close()
    same(outcomes)
    assert same(nodes)[f"/consumers/old/offsets/{TOPIC}/0"] == "6"


def _tree(store: ZooKeeperStore, path: str) -> dict[str, str]:
    try:
        found = {path: store.get(path)[0].decode()}
        for child in store.children(path):
            found.update(_tree(store, f"{path}/{child}"))
    except NoNodeError:
        return {}
    return found


def test_the_records_are_kafkas(both: list[Fresh], java_tool: JavaTool) -> None:
    """The same requests leave the same records, batch by batch."""
    dumps = []
    for broker, _store, _first in both:
        script = Script(broker.bootstrap)
        script.coordinate("g")
        script.coordinate("members")
        for version in range(1, 10):
            retention: dict[str, Any] = {"retention_time_ms": 3_600_000} if 2 <= version <= 4 else {}
            # Not both at once: Kafka's order of records is that of a hash table.
            script.commit("g", {(TOPIC, 0): (version, "m\u00e9tadonn\u00e9es")}, version, **retention)
            script.commit("g", {(TOPIC, 1): (2**40, None)}, version, **retention)
        script.delete_offsets("g", (TOPIC, 0))
        script.ask(DeleteGroupsRequest(groups_names=["g"]), 1)
        member, generation = script.settle("members", metadata=subscription(TOPIC, "other"))
        script.commit("members", {(TOPIC, 1): 4}, generation=generation, member=member)
        script.ask(LeaveGroupRequest(group_id="members", member_id=member), 1)
        script.settle("members", version=5, group_instance_id="static")
        with ExitStack() as stack:
            consumer = Consumer(
                {"bootstrap.servers": broker.bootstrap, "group.id": "members", "client.id": "raw"}
            )
            stack.callback(consumer.close)
            script.leave("members", script.describe("members").groups[0].members[0].member_id)
            consumer.subscribe([TOPIC])
            wait_for(lambda: consumer.poll(0.1) is None and consumer.assignment(), what="the assignment")  # noqa: B023
        script.client.close()
        for key in (b"\x00\x63later", encode_group_key("x")):
            batch = bytes(build_batch([(0, key, b"\x00\x63later", ())]))
            with RawClient(broker.bootstrap) as client:
                client.send(
                    produce_request({("__consumer_offsets", 0): batch}), 9, client_id="__admin_client"
                )
                assert client.receive().responses[0].partition_responses[0].error_code == 0
        files = ",".join(map(str, sorted(broker.log_dir.glob("__consumer_offsets-*/*.log"))))
        done = java_tool(DUMP, "--offsets-decoder", "--files", files)
        assert done.returncode == 0, done
        ours = pk("dump_log", "--offsets-decoder", "--files", files)
        assert not first_difference(*(_without_reasons(text) for text in (done.stdout, ours)))
        dumps.append(_unnamed(_without_reasons(done.stdout)))
    assert not first_difference(*dumps)
    assert '"expireTimestamp":T' in dumps[0]
    assert '"generation":1' in dumps[0]


def _without_reasons(dump: str) -> str:
    """Why a record cannot be read is said in everybody's own words."""
    return re.sub(r"(?<=skipping\. ).*", "", dump)


def _unnamed(dump: str) -> str:
    """A dump without what differs from run to run: times, the random part of ids, checksums, paths."""
    dump = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", dump)
    dump = re.sub(r"\b1[6-9]\d{11}\b", "T", dump)
    dump = re.sub(r"crc: \d+", "crc: C", dump)
    # Kafka gives commits the sequence 0, which without a producer means nothing.
    dump = re.sub(r"equence: (-1|0)\b", "equence: S", dump)
    return re.sub(r"(Dumping )?/\S+/(?=__consumer_offsets)", "", dump)


@pytest.mark.nightly  # half a minute each; in each change a directory is adopted
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_groups_move_between_kafka_and_pkafka(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path, how: str
) -> None:
    """A member goes on in its generation under whichever broker has the directory, and every offset is there."""
    connect = f"{zookeeper.connect}/moving-{uuid.uuid4().hex[:8]}"
    settings = {**SETTINGS, "log.dirs": tmp_path / "data"}
    kafka = KafkaBroker(kafka_classpath, connect, tmp_path / "kafka", overrides=settings)
    pkafka = Broker(tmp_path / "pkafka", {**settings, "zookeeper.connect": connect, "pkafka.workers": 2})
    member, generation = "", 0
    try:
        turns: list[Either] = [kafka, pkafka, kafka, pkafka]
        for turn, broker in enumerate(turns):
            _turn(broker, connect)
            script = Script(broker.bootstrap)
            if turn == 0:
                with talking(broker.bootstrap) as talk:
                    talk.create(TOPIC, 2)
                    talk.create("other")
                script.make_topic_of_groups()
                for group in ("members", "simple", "deleted"):
                    script.coordinate(group)
                member, generation = script.settle(
                    "members", metadata=subscription(TOPIC), session_timeout_ms=60_000
                )
                script.commit("deleted", {(TOPIC, 0): 1})
                script.ask(DeleteGroupsRequest(groups_names=["deleted"]), 1)
            else:
                for group in ("members", "simple"):
                    script.coordinate(group)
                _check_turn(script, turn, member, generation)
            script.commit("simple", {(TOPIC, turn % 2): (turn, f"turn {turn}")})
            [topic] = script.commit(
                "members", {(TOPIC, 0): turn}, generation=generation, member=member
            ).topics
            assert topic.partitions[0].error_code == 0
            script.client.close()
            getattr(broker, how)()
    finally:
        kafka.kill()
        pkafka.kill()


def _turn(broker: Either, connect: str) -> None:
    with ZooKeeperStore(connect, create_chroot=True) as store:
        path = BrokerRegistration.path(0)
        wait_for(lambda: store.exists(path) is None, what="the end of the other's session")
    broker.start()


def _check_turn(script: Script, turn: int, member: str, generation: int) -> None:
    """What the broker before left is there."""
    assert script.heartbeat("members", member, generation) == 0
    [members, deleted] = script.describe("members", "deleted").groups
    assert (members.group_state, members.protocol_data) == ("Stable", "range")
    [only] = members.members
    assert (only.member_id, only.client_id, only.member_assignment) == (member, "raw", b"share")
    assert only.member_metadata == subscription(TOPIC)
    assert deleted.group_state == "Dead"
    assert script.offsets("members") == {(TOPIC, 0): (turn - 1, "")}
    latest = {(TOPIC, (turn - 1) % 2): (turn - 1, f"turn {turn - 1}")}
    if turn > 1:
        latest[TOPIC, turn % 2] = (turn - 2, f"turn {turn - 2}")
    assert script.offsets("simple") == latest
    assert script.offsets("deleted") == {}


def test_groups_of_an_adopted_directory(kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """Its ZooKeeper is not needed for what groups have committed."""
    connect = f"{zookeeper.connect}/adopted-{uuid.uuid4().hex[:8]}"
    settings = {**SETTINGS, "log.dirs": tmp_path / "data"}
    kafka = KafkaBroker(kafka_classpath, connect, tmp_path / "kafka", overrides=settings)
    alone = Broker(tmp_path / "alone", {"log.dirs": tmp_path / "data", "pkafka.workers": 2})
    try:
        _turn(kafka, connect)
        with talking(kafka.bootstrap) as talk, GroupClient(kafka.bootstrap) as client:
            talk.create(TOPIC, 2)
            client.make_topic_of_groups()
            client.coordinate("simple")
            client.coordinate("members")
            client.commit("simple", {(TOPIC, 1): (5, "m")})
            member, generation = client.settle("members", session_timeout_ms=60_000)
        kafka.stop()
        alone.start("--adopt")
        with GroupClient(alone.bootstrap) as client:
            client.coordinate("simple")
            client.coordinate("members")
            assert client.offsets("simple") == {(TOPIC, 1): (5, "m")}
            assert client.heartbeat("members", member, generation) == 0
    finally:
        kafka.kill()
        alone.kill()


def test_offsets_that_kafka_committed_in_transactions(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    """A committed one counts, an aborted one never was, and an open one is known to be on its way."""
    connect = f"{zookeeper.connect}/transactions-{uuid.uuid4().hex[:8]}"
    settings = {
        **SETTINGS,
        "log.dirs": tmp_path / "data",
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
    }
    kafka = KafkaBroker(kafka_classpath, connect, tmp_path / "kafka", overrides=settings)
    pkafka = Broker(tmp_path / "pkafka", {**settings, "zookeeper.connect": connect, "pkafka.workers": 2})
    try:
        _turn(kafka, connect)
        with talking(kafka.bootstrap) as talk, GroupClient(kafka.bootstrap) as client:
            talk.create(TOPIC, 3)
            client.make_topic_of_groups()
            client.coordinate("g")
            client.commit("g", {(TOPIC, partition): 1 for partition in range(3)})
        for partition, end in enumerate(("commit_transaction", "abort_transaction", "")):
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"t{partition}"})
            consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g"})
            producer.init_transactions(30)
            producer.begin_transaction()
            offsets = [TopicPartition(TOPIC, partition, 5)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            if end:
                getattr(producer, end)(30)
            consumer.close()
        kafka.kill()
        _turn(pkafka, connect)
        with GroupClient(pkafka.bootstrap) as client:
            client.coordinate("g")
            offsets_now = {key: offset for key, (offset, _) in client.offsets("g").items()}
            assert offsets_now == {(TOPIC, 0): 5, (TOPIC, 1): 1, (TOPIC, 2): 1}
            topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1, 2])]
            request = OffsetFetchRequest(group_id="g", topics=topics, require_stable=True)
            [topic] = client.ask(request, 7).topics
            codes = {one.partition_index: one.error_code for one in topic.partitions}
            assert codes == {0: 0, 1: 0, 2: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    finally:
        kafka.kill()
        pkafka.kill()
