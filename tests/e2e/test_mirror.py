"""MirrorMaker 2's connectors between two clusters of pkafka: topics, records, positions of groups, heartbeats."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pkafka.cli import console_consumer
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigResource, ResourceType
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.connect.errors import ConnectError
from pkafka.connect.mirror.client import MirrorClient
from pkafka.connect.mirror.records import Heartbeat, OffsetSync
from pkafka.model import TopicPartition
from pkafka.testing import Broker, running_broker
from tests.connect_fixtures import source_broker
from tests.connect_workers import ConnectWorker, standalone
from tests.mirrors import HEARTBEATS, PACKAGE, SYNCS, WORKER, connector
from tests.raw_client import new_topic_name
from tests.sockets import free_port
from tests.talk import Talk, good, talking, wait_for

__all__ = ["source_broker"]


@pytest.fixture
def a(source: Broker) -> Iterator[Talk]:
    with talking(source.bootstrap) as talk:
        yield talk


@pytest.fixture
def b(broker: Broker) -> Iterator[Talk]:
    with talking(broker.bootstrap) as talk:
        yield talk


@pytest.fixture
def topic() -> str:
    return new_topic_name()


@pytest.fixture
def worker(broker: Broker, tmp_path: Path) -> Iterator[ConnectWorker]:
    with standalone(tmp_path / "worker", broker.bootstrap, WORKER) as worker:
        yield worker


def mirror(
    worker: ConnectWorker, kind: str, source: Broker, target: Broker, tasks: int = 1, **more: object
) -> str:
    """Have a connector made, and wait until it runs; returns its name."""
    settings = {name.replace("__", "-").replace("_", "."): value for name, value in more.items()}
    configs = connector(kind, source.bootstrap, target.bootstrap, settings)
    worker.create(configs)
    worker.rest.wait_until(configs["name"], "RUNNING", *["RUNNING"] * tasks)
    return configs["name"]


def has_all(talk: Talk, topic: str, partition: int, count: int) -> bool:
    return len(talk.read(topic, partition)) >= count


def test_records_are_copied_as_they_are(
    worker: ConnectWorker, source: Broker, broker: Broker, a: Talk, b: Talk, topic: str
) -> None:
    a.create(topic, 3, **{"retention.ms": -1})  # the records are years old
    sent: list[tuple[bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]]]] = [
        (b"k", b"v", 1_700_000_000_000, 0, [("h", b"1"), ("h", None)]),
        (None, b"w", 1_700_000_000_500, 0, []),
        (b"gone", None, 1_700_000_001_000, 2, [("é", b"\xff")]),
    ]
    with Producer({"bootstrap.servers": source.bootstrap}) as producer:
        for key, value, timestamp_ms, partition, headers in sent:
            producer.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            ).result(120)
    mirror(worker, "Source", source, broker, 2, topics=topic, tasks_max=2)
    copy = f"A.{topic}"
    wait_for(lambda: has_all(b, copy, 0, 2) and has_all(b, copy, 2, 1))
    found = [
        (each.key, each.value, each.timestamp, partition, list(each.headers))
        for partition in range(3)
        for each in b.read(copy, partition)
    ]
    assert found == sent
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        assert len(good(admin.describe_topics([copy])[copy]).partitions) == 3


def syncs(talk: Talk, topic: str) -> list[tuple[int, int, int]]:
    """Partition, offset of the source and offset of the copy of each sync."""
    found = [OffsetSync.of(each.key, each.value) for each in talk.read(SYNCS)]
    return [
        (each.partition.partition, each.upstream, each.downstream)
        for each in found
        if each.partition.topic == topic
    ]


def test_offsets_and_syncs_tell_how_far_a_copy_has_come(
    worker: ConnectWorker, source: Broker, broker: Broker, a: Talk, b: Talk, topic: str
) -> None:
    a.create(topic)
    a.send(topic, *(b"%d" % number for number in range(20)))
    name = mirror(worker, "Source", source, broker, topics=topic, offset_lag_max=8)
    # The first record, those by which a translation would be too far behind, and the last with the next commit.
    wait_for(lambda: syncs(a, topic)[-1:] == [(0, 19, 19)])
    # A commit in the middle brings one more.
    found = syncs(a, topic)
    assert {(0, 0, 0), (0, 9, 9), (0, 18, 18)} <= {*found}
    assert found == sorted(found)
    assert len(found) < 10
    place = {"cluster": "A", "partition": 0, "topic": topic}
    stored = {"offsets": [{"partition": place, "offset": {"offset": 19}}]}
    wait_for(lambda: worker.rest.call("GET", f"/connectors/{name}/offsets").body == stored)
    # A worker that begins again goes on where it was.
    worker.stop()
    a.send(topic, b"20")
    worker.start()
    mirror(worker, "Source", source, broker, topics=topic, offset_lag_max=8)
    wait_for(lambda: has_all(b, f"A.{topic}", 0, 21))
    assert [each.value for each in b.read(f"A.{topic}")] == [b"%d" % number for number in range(21)]
    wait_for(lambda: syncs(a, topic)[-1:] == [(0, 20, 20)])


def partitions_of(admin: Admin, topic: str) -> int:
    found = admin.describe_topics([topic])[topic]
    return 0 if isinstance(found, Exception) else len(found.partitions)


def test_topics_partitions_and_settings_follow_the_source(
    worker: ConnectWorker, source: Broker, broker: Broker, a: Talk, b: Talk, topic: str
) -> None:
    a.create(topic, 1, **{"retention.ms": 700_000, "min.insync.replicas": 1})
    name = mirror(worker, "Source", source, broker, topics=f"{topic}.*", topics_exclude=f"{topic}-not")
    copy = f"A.{topic}"
    with (
        Admin({"bootstrap.servers": source.bootstrap}) as at_source,
        Admin({"bootstrap.servers": broker.bootstrap}) as at_target,
    ):
        assert partitions_of(at_target, copy) == 1
        settings = b.described(ResourceType.TOPIC, copy)
        assert settings["retention.ms"].value == "700000"
        assert settings["min.insync.replicas"].is_default
        # More partitions, another topic, other settings: with the next looks.
        good(at_source.create_partitions({topic: 3})[topic])
        a.create(f"{topic}-more")
        a.create(f"{topic}-not")
        a.set_topic(topic, **{"retention.ms": 800_000, "segment.bytes": 1_048_576})
        wait_for(
            lambda: partitions_of(at_target, copy) == 3 and partitions_of(at_target, f"{copy}-more") == 1
        )
        wait_for(lambda: b.described(ResourceType.TOPIC, copy)["retention.ms"].value == "800000")
        worker.rest.wait_until(name, "RUNNING", "RUNNING")
        a.send(topic, b"late", partition=2)
        a.send(f"{topic}-more", b"new")
        wait_for(lambda: has_all(b, copy, 2, 1) and has_all(b, f"{copy}-more", 0, 1))
        assert partitions_of(at_target, f"{copy}-not") == 0
        # What is unset there is unset here.
        at_source.alter_configs(
            {
                ConfigResource(ResourceType.TOPIC, topic): [
                    ConfigChange("retention.ms", AlterOp.DELETE),
                    ConfigChange("segment.bytes", AlterOp.DELETE),
                ]
            }
        )
        wait_for(lambda: b.described(ResourceType.TOPIC, copy)["retention.ms"].is_default)
        assert b.described(ResourceType.TOPIC, copy)["segment.bytes"].is_default


def commit(bootstrap: str, group: str, offsets: dict[TopicPartition, int]) -> None:
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        for outcome in admin.alter_group_offsets(group, offsets).values():
            good(outcome)


def committed(bootstrap: str, group: str) -> dict[TopicPartition, int]:
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        found = good(admin.list_group_offsets({group: None})[group])
        positions = {partition: good(each) for partition, each in found.items()}
        return {partition: each.offset for partition, each in positions.items() if each is not None}


def test_a_group_goes_on_at_the_copy(
    worker: ConnectWorker, source: Broker, broker: Broker, a: Talk, b: Talk, topic: str
) -> None:
    group, other = f"{topic}-group", f"{topic}-other"
    copy = TopicPartition(f"A.{topic}", 0)
    a.create(topic)
    a.create(other)
    # The copy's offsets are others: something was there before.
    b.create(copy.topic)
    b.send(copy.topic, *[b"before"] * 5)
    a.send(topic, *(b"%d" % number for number in range(10)))
    mirror(worker, "Source", source, broker, topics=topic, offset_lag_max=0)
    wait_for(lambda: has_all(b, copy.topic, 0, 15))
    commit(source.bootstrap, group, {TopicPartition(topic, 0): 4})
    commit(source.bootstrap, other, {TopicPartition(other, 0): 0})
    name = mirror(
        worker,
        "Checkpoint",
        source,
        broker,
        topics=topic,
        groups=f"{topic}.*",
        sync_group_offsets_enabled="true",
    )
    wait_for(lambda: committed(broker.bootstrap, group) == {copy: 9})
    with MirrorClient({"bootstrap.servers": broker.bootstrap}) as client:
        assert client.checkpoint_topics() == {"A.checkpoints.internal"}
        assert copy.topic in client.remote_topics("A")
        assert client.remote_topics("C") == set()
        # The group's offset here may be there before the checkpoint.
        wait_for(lambda: copy in client.remote_consumer_offsets(group, "A"))
        position = client.remote_consumer_offsets(group, "A")[copy]
        assert (position.offset, client.remote_consumer_offsets(other, "A")) == (9, {})
    place = f'partition="0",source="A",target="B",topic="A.{topic}"'
    wanted = (
        f'checkpoint_latency_ms{{group="{group}",{place}}}',
        f'record_count{{partition="0",target="B",topic="A.{topic}"}} 10.0',
    )
    wait_for(lambda: all(each in worker.rest.call("GET", "/metrics").body for each in wanted))
    # The group goes on, here and there; the position here is never taken back.
    commit(source.bootstrap, group, {TopicPartition(topic, 0): 7})
    wait_for(lambda: committed(broker.bootstrap, group) == {copy: 12})
    commit(broker.bootstrap, group, {copy: 15})
    commit(source.bootstrap, group, {TopicPartition(topic, 0): 8})
    with MirrorClient({"bootstrap.servers": broker.bootstrap}) as client:
        wait_for(lambda: client.remote_consumer_offsets(group, "A")[copy].offset == 13)
    assert committed(broker.bootstrap, group) == {copy: 15}
    # A group with members here is left alone.
    keys = {"bootstrap.servers": broker.bootstrap, "group.id": f"{group}-2", "enable.auto.commit": "false"}
    with Consumer(keys) as consumer:
        consumer.subscribe([copy.topic])
        wait_for(lambda: consumer.poll(100) is not None and consumer.assignment())
        commit(source.bootstrap, f"{group}-2", {TopicPartition(topic, 0): 3})
        with MirrorClient({"bootstrap.servers": broker.bootstrap}) as client:
            wait_for(lambda: f"{group}-2" in {each.group for each in client.checkpoints("A")})
        assert committed(broker.bootstrap, f"{group}-2") == {}
    # After a restart the task knows what it has written.
    worker.rest.call("POST", f"/connectors/{name}/restart?includeTasks=true")
    worker.rest.wait_until(name, "RUNNING", "RUNNING")
    commit(source.bootstrap, group, {TopicPartition(topic, 0): 10})
    with MirrorClient({"bootstrap.servers": broker.bootstrap}) as client:
        wait_for(lambda: client.remote_consumer_offsets(group, "A")[copy].offset == 15)


def test_heartbeats_tell_which_clusters_are_upstream(
    worker: ConnectWorker,
    source: Broker,
    broker: Broker,
    a: Talk,
    b: Talk,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    # A heartbeat on A, as the flow from B writes it, and its copy on B.
    configs = connector("Heartbeat", broker.bootstrap, source.bootstrap)
    swapped = {"source.cluster.alias": "B", "target.cluster.alias": "A"}
    configs |= swapped | {"producer.override.bootstrap.servers": source.bootstrap}
    del configs["source.cluster.bootstrap.servers"]  # who writes heartbeats does not ask the source
    worker.create(configs)
    mirror(worker, "Source", source, broker, topics="none")
    wait_for(lambda: has_all(b, f"A.{HEARTBEATS}", 0, 2))
    beat = Heartbeat.of(b.read(f"A.{HEARTBEATS}")[0].key, b.read(f"A.{HEARTBEATS}")[0].value)
    assert (beat.source, beat.target) == ("B", "A")
    with MirrorClient({"bootstrap.servers": broker.bootstrap}) as client:
        assert f"A.{HEARTBEATS}" in client.heartbeat_topics()
        assert client.upstream_clusters() == {"A"}
        assert (client.replication_hops("A"), client.replication_hops("C")) == (1, None)
        assert client.heartbeats(f"A.{HEARTBEATS}")["B", "A"] >= beat.timestamp_ms
        args = [
            "--bootstrap-server",
            broker.bootstrap,
            "--topic",
            f"A.{HEARTBEATS}",
            "--from-beginning",
            "--max-messages",
            "1",
        ]
        args += ["--formatter", f"{PACKAGE}formatters.HeartbeatFormatter"]
        assert console_consumer.main.run(args) == ExitStatus.OK
        assert capfdbinary.readouterr().out == f"{beat}\n".encode()
        with pytest.raises(ConnectError, match=r"There is no topic C\.checkpoints\.internal"):
            client.remote_consumer_offsets("g", "C")


def test_what_is_disabled_has_no_tasks(worker: ConnectWorker, source: Broker, broker: Broker) -> None:
    for kind in ("Source", "Checkpoint"):
        mirror(worker, kind, source, broker, 0, enabled="false")
    mirror(worker, "Heartbeat", source, broker, 0, emit_heartbeats_enabled="false")


def test_a_source_that_comes_later_is_found(
    worker: ConnectWorker, broker: Broker, b: Talk, tmp_path: Path, topic: str
) -> None:
    port = free_port()
    configs = connector("Source", f"127.0.0.1:{port}", broker.bootstrap, {"admin.timeout.ms": 500})
    configs |= {"topics": topic, "refresh.topics.interval.seconds": "1"}
    worker.create(configs)
    with running_broker(
        tmp_path / "late", {"broker.id": 0, "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    ) as late:
        with talking(late.bootstrap) as talk:
            talk.create(topic)
            talk.send(topic, b"late")
        wait_for(lambda: has_all(b, f"A.{topic}", 0, 1))
    # It goes away and the task waits for it.
    assert worker.rest.state(configs["name"]) == ("RUNNING", ("RUNNING",))


def test_names_can_stay_as_they_are(
    worker: ConnectWorker, source: Broker, broker: Broker, a: Talk, b: Talk, topic: str
) -> None:
    a.create(topic)
    b.create(f"{topic}-own")
    a.send(topic, b"same name")
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    mirror(worker, "Source", source, broker, topics=topic, replication_policy_class=policy)
    wait_for(lambda: has_all(b, topic, 0, 1))


def has_failed(worker: ConnectWorker, name: str) -> bool:
    return worker.rest.state(name)[0] == "FAILED"


def test_topics_that_are_copied_back_under_their_names_are_copied_no_more(
    worker: ConnectWorker, source: Broker, broker: Broker, a: Talk, b: Talk, topic: str
) -> None:
    a.create(topic)
    a.send(topic, b"round")
    policy = {"topics": topic, "replication.policy.class": f"{PACKAGE}IdentityReplicationPolicy"}
    there = {**connector("Source", source.bootstrap, broker.bootstrap, policy), "name": "there"}
    back = {**connector("Source", broker.bootstrap, source.bootstrap, policy), "name": "back"}
    back |= {"source.cluster.alias": "B", "target.cluster.alias": "A"}
    worker.create(there)
    worker.create({**back, "producer.override.bootstrap.servers": source.bootstrap})
    wait_for(lambda: has_all(a, topic, 0, 3))
    for name in ("there", "back"):
        wait_for(partial(has_failed, worker, name))
    trace = worker.rest.call("GET", "/connectors/there/status").body["connector"]["trace"]
    assert f"A flow from B to A copies topics back that this one copies: {topic}." in trace
    b.send(topic, b"stays")
    a.send(topic, b"stays")
    ends = a.ends(topic), b.ends(topic)
    a.create(f"{topic}-other")  # some time passes
    assert (a.ends(topic), b.ends(topic)) == ends
