"""The internal topics of a Connect cluster: Java's stores and pkafka's write the same bytes, and read each other's."""

import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.topic_results import NewTopic
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.connect.config_types import config_text
from pkafka.connect.distributed.config import distributed_config_def
from pkafka.java.hashing import hash_order
from pkafka.model import TopicPartition
from tests.connect_stores import JavaStores, OurStores, Stores, opened, worker_settings
from tests.connect_workers import ConnectWorker, java_command
from tests.interop.conftest import System
from tests.interop.kafka import compile_java
from tests.interop.stores_process import stores_process
from tests.talk import wait_for

KEY = {"do": "put_key", "key": "c2VjcmV0", "algorithm": "HmacSHA256", "created_ms": 1_700_000_000_000}
TRACE = "org.apache.kafka.connect.errors.ConnectException: no\n\tat a.B.c(D.java:1)\n"
CALLS: list[dict[str, Any]] = [
    {"do": "put_connector", "name": "c", "configs": {"name": "c", "é": "ü\u2028\"\\/\u0001"}, "target": "STOPPED"},
    {"do": "put_connector", "name": "a-b", "configs": {"name": "a-b", "file": None}},
    {"do": "put_tasks", "name": "a-b", "tasks": [{"task.class": "x", "name": "a-b", "file": "1"}, {"b": "2"}]},
    {"do": "put_tasks", "name": "c", "tasks": []},
    {"do": "put_target", "name": "c", "target": "PAUSED"},
    {"do": "put_target", "name": "c", "target": "STARTED"},
    {"do": "put_target", "name": "c", "target": "STOPPED"},
    {"do": "put_task_count", "name": "a-b", "count": 2},
    {"do": "put_restart", "name": "c", "only_failed": True, "include_tasks": False},
    {"do": "put_level", "name": "org.apache", "level": "DEBUG"},
    KEY,
    {"do": "remove_connector", "name": "c"},
    {"do": "put_status", "connector": "c", "state": "RUNNING", "worker": "h:1", "generation": 3},
    {"do": "put_status", "connector": "c", "state": "FAILED", "worker": "h:1", "generation": 3, "trace": TRACE},
    {"do": "put_status", "connector": "c", "task": 0, "state": "FAILED", "worker": "h:1", "generation": 4,
     "trace": "é"},
    {"do": "put_status", "connector": "c", "task": 0, "state": "DESTROYED", "worker": "h:1", "generation": 4},
    {"do": "put_status", "connector": "c", "state": "DESTROYED", "worker": "h:1", "generation": 4},
    {"do": "put_topic", "topic": "t", "connector": "c", "task": 1, "discovered_ms": 1_700_000_000_001},
    {"do": "delete_topic", "topic": "t", "connector": "c"},
    {"do": "put_offsets", "connector": "c", "offsets": [[{"file": "a"}, {"position": 5}]]},
    {"do": "put_offsets", "connector": "c",
     "offsets": [[{"cluster": "A", "partition": 0, "topic": "x"}, {"offset": 2**40}]]},
    {"do": "put_offsets", "connector": "c", "offsets": [[{"file": "é"}, {"a": True, "b": 0.5, "c": None, "d": "x"}]]},
    {"do": "put_offsets", "connector": "c", "offsets": [[{"file": "a"}, None]]},
]  # fmt: skip


@pytest.fixture(scope="module")
def java(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaStores]:
    class_path = compile_java(kafka_classpath, tmp_path_factory.mktemp("stores"), "ConnectStoresOracle")
    with stores_process(class_path) as process:
        yield JavaStores(process)


def records(system: System, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Partition, key and value of all records."""
    with Consumer({"bootstrap.servers": system.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        partitions = [
            TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic).partitions
        ]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        found: list[tuple[int, bytes | None, bytes | None]] = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            found += [(each.partition, each.key, each.value) for each in consumer.poll(1_000)]
        return sorted(found, key=lambda each: each[0])


def test_the_same_calls_write_the_same_bytes(system: System, java: JavaStores, topic: str) -> None:
    written = []
    for who, stores in (("java", java), ("ours", OurStores())):
        with opened(stores, worker_settings(system.bootstrap, f"{topic}-{who}")):
            for call in CALLS:
                # Java's REST API gives the configs of connectors in their order; the oracle has a HashMap.
                configs = {key: call["configs"][key] for key in hash_order(call.get("configs", ()))}
                assert stores.ask(**{**call, **({"configs": configs} if configs else {})}) == {}, call
        written.append(
            {kind: records(system, f"{topic}-{who}-{kind}") for kind in ("config", "status", "offset")}
        )
    assert written[1] == written[0]
    assert len(written[0]["config"]) == 16


def test_they_take_turns_on_the_same_topics(system: System, java: JavaStores, topic: str) -> None:
    chance = random.Random(3)
    # One partition: a tombstone of a connector takes its tasks along, in the order of the records alone.
    worker = worker_settings(system.bootstrap, topic, status_storage_partitions="1")
    ours = OurStores()
    with opened(java, worker), opened(ours, worker):
        for _ in range(60):
            call = a_call(chance)
            assert chance.choice((java, ours)).ask(**call) == {}, call
            if "status" in call["do"]:
                # Whether the next status is safe to write is known by who has read the last.
                agree_on_statuses(java, ours)
        agree(java, ours)
        assert ours.ask(do="told") == java.ask(do="told")
    for _ in range(2):  # who comes later understands the same
        with opened(java, worker), opened(ours, worker):
            agree(java, ours)
            assert ours.ask(do="told") == java.ask(do="told") == []


def test_a_connector_has_a_topic_of_its_own_for_offsets(system: System, java: JavaStores, topic: str) -> None:
    wanted = [{"file": name} for name in "abc"]
    asked = {"do": "offsets", "connector": "c", "partitions": wanted}
    written, read = [], []
    for who, stores in (("java", java), ("ours", OurStores())):
        with opened(stores, worker_settings(system.bootstrap, f"{topic}-{who}")):
            put = partial(stores.ask, do="put_offsets", connector="c")
            assert put(offsets=[[{"file": "a"}, {"n": 1}], [{"file": "b"}, {"n": 2}]]) == {}
            assert stores.ask(do="open_own", topic=f"{topic}-{who}-own") == {}
            read.append(stores.ask(**asked))
            assert put(offsets=[[{"file": "b"}, {"n": 3}], [{"file": "c"}, {"n": 4}]]) == {}
            read.append(stores.ask(**asked))
            assert (
                put(offsets=[[{"file": "a"}, None], [{"file": "b"}, None], [{"file": "c"}, {"n": 5}]]) == {}
            )
            read.append(stores.ask(**asked))
        # Keys are written in the order of a HashMap of Java's; the records of one key have an order.
        found = (records(system, f"{topic}-{who}-{kind}") for kind in ("offset", "own"))
        written.append([sorted(each, key=lambda record: record[:2]) for each in found])
    theirs, ours = read[:3], read[3:]
    # Java's worker means to look in the workers' topic too (KIP-618), but null of the connector's hides what it finds.
    assert theirs[:2] == [[None] * 3, [None, {"n": 3}, {"n": 4}]]
    assert ours[:2] == [[{"n": 1}, {"n": 2}, None], [{"n": 1}, {"n": 3}, {"n": 4}]]
    assert ours[2] == theirs[2] == [None, None, {"n": 5}]
    assert written[1] == written[0]


CONNECTORS = ("c", "a-b", "x-1")


def agree(java: Stores, ours: Stores) -> None:
    """Both know the same."""
    assert ours.ask(do="snapshot") == java.ask(do="snapshot")
    agree_on_statuses(java, ours)
    for name in CONNECTORS:
        wanted = [{"file": "0"}, {"file": "1"}, {"cluster": "A", "partition": 1, "topic": "t"}]
        asked = {"do": "offsets", "connector": name, "partitions": wanted}
        assert ours.ask(**asked) == java.ask(**asked)


def agree_on_statuses(java: Stores, ours: Stores) -> None:
    """The same of statuses, which Java's store cannot be made to read to their end."""
    for name in CONNECTORS:
        wait_for(partial(_same, java, ours, do="statuses", connector=name), what=f"the same status of {name}")


def _same(java: Stores, ours: Stores, **call: object) -> bool:
    return bool(ours.ask(**call) == java.ask(**call))


def a_call(chance: random.Random) -> dict[str, Any]:
    """Something that a worker writes."""
    name = chance.choice(CONNECTORS)
    number = chance.randrange(3)
    return chance.choice([
        {"do": "put_connector", "name": name, "configs": {"name": name, "n": str(number)}},
        {"do": "put_connector", "name": name, "configs": {"name": name}, "target": "PAUSED"},
        {"do": "put_tasks", "name": name, "tasks": [{"n": str(each)} for each in range(number)]},
        {"do": "put_tasks", "name": name, "tasks": [{"n": str(each)} for each in range(number)]},
        {"do": "remove_connector", "name": name},
        {"do": "put_target", "name": name, "target": chance.choice(["STARTED", "PAUSED", "STOPPED"])},
        {"do": "put_task_count", "name": name, "count": number},
        {"do": "put_restart", "name": name, "only_failed": True, "include_tasks": True},
        {"do": "put_level", "name": "a.b", "level": "INFO"},
        KEY,
        *[{
            "do": "put_status", "connector": name, "task": chance.choice([None, 0, 1]),
            "state": chance.choice(["RUNNING", "UNASSIGNED", "FAILED", "DESTROYED"]),
            "worker": chance.choice(["h:1", "h:2"]), "generation": number, "safe": chance.random() < 0.5,
        }] * 3,
        {"do": "put_topic", "topic": f"t{number}", "connector": name, "task": 0, "discovered_ms": number},
        {"do": "delete_topic", "topic": f"t{number}", "connector": name},
        {"do": "put_offsets", "connector": name, "offsets": [[{"file": str(number)}, {"position": number}]]},
        {"do": "put_offsets", "connector": name, "offsets": [[{"file": str(number)}, None]]},
        {"do": "put_offsets", "connector": name,
         "offsets": [[{"topic": "t", "partition": 1, "cluster": "A"}, {"offset": number}]]},
    ])  # fmt: skip


# Values that are understood, and some that are not; those that end Java's thread are left out.
ODD_VALUES = [b"{}", b"[1]", b'"x"', b"null", b"{", b"7"]


def a_record(chance: random.Random) -> tuple[str, bytes | None]:
    """A record as a config topic may have it, with gaps where compaction was."""
    name = chance.choice(CONNECTORS)
    count = chance.randrange(3)
    properties = json.dumps({"properties": {"n": str(count)}}).encode()
    key, value = chance.choice([
        (f"connector-{name}", properties),
        (f"connector-{name}", None),
        (f"task-{name}-{count}", properties),
        (f"task-{name}-{count}", properties),
        (f"task-{name}-{count}", properties),
        (f"commit-{name}", json.dumps({"tasks": count}).encode()),
        (f"commit-{name}", json.dumps({"tasks": count}).encode()),
        (f"commit-{name}", None),
        (f"target-state-{name}", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
        (f"target-state-{name}", b'{"state":"PAUSED"}'),
        (f"target-state-{name}", b'{"state":"x","state.v2":7}'),
        (f"target-state-{name}", None),
        (f"tasks-fencing-{name}", json.dumps({"task-count": count}).encode()),
        (f"restart-connector-{name}", b'{"include-tasks":1,"only-failed":true}'),
        ("logger-cluster-a.b", b'{"level":"INFO"}'),
        ("session-key", b'{"key":"YQ==","algorithm":"HmacSHA256","creation-timestamp":7}'),
        ("session-key", b'{"key":"YQ==","algorithm":7,"creation-timestamp":7}'),
        ("task-x", properties), ("task-x-y", properties), ("task-a--1", properties), ("task-a-+1", properties),
        ("nonsense", properties),
    ])  # fmt: skip
    if value is not None and not key.startswith(("commit", "tasks-f")) and chance.random() < 0.1:
        value = chance.choice(ODD_VALUES)
    return key, value


@pytest.mark.parametrize("seed", range(3))
def test_they_understand_any_records_alike(system: System, java: JavaStores, topic: str, seed: int) -> None:
    chance = random.Random(seed)
    worker = worker_settings(system.bootstrap, topic)
    ours = OurStores()
    with Producer({"bootstrap.servers": system.bootstrap}) as producer:
        with opened(java, worker), opened(ours, worker):
            for _ in range(300):
                key, value = a_record(chance)
                producer.send(f"{topic}-config", value, key.encode())
                if chance.random() < 0.05:
                    producer.flush()
                    assert ours.ask(do="snapshot") == java.ask(do="snapshot")
            producer.flush()
            assert ours.ask(do="snapshot") == java.ask(do="snapshot")
            assert ours.ask(do="told") == java.ask(do="told")
        with opened(java, worker), opened(ours, worker):
            assert ours.ask(do="snapshot") == java.ask(do="snapshot")


@pytest.mark.parametrize("support", ["preparing", "enabled"])
def test_a_leader_fences_the_one_before(system: System, java: JavaStores, topic: str, support: str) -> None:
    worker = worker_settings(system.bootstrap, topic, exactly_once_source_support=support)
    put = {"do": "put_connector", "name": "c", "configs": {"name": "c"}}
    fenced = {
        "error": "org.apache.kafka.connect.storage.PrivilegedWriteException",
        "message": "Failed to perform fencable send to config topic",
    }
    ours = OurStores()
    with opened(java, worker), opened(ours, worker):
        for leader, other in ((java, ours), (ours, java), (java, ours)):
            assert leader.ask(do="claim") == {}
            assert leader.ask(**put) == {}
            assert leader.ask(do="put_tasks", name="c", tasks=[{"n": "1"}]) == {}
            if other.ask(**put) != fenced:
                # It had no privileges to lose.
                assert other is ours
            assert ours.ask(do="snapshot") == java.ask(do="snapshot")
        assert ours.ask(do="told") == java.ask(do="told")


@pytest.mark.parametrize(
    ("kind", "partitions", "policy"),
    [
        ("config", 1, "delete"),
        ("status", 5, "compact,delete"),
        ("offset", 5, "delete"),
        ("config", 2, "compact"),
    ],
)
def test_topics_that_lose_records_are_refused_in_the_same_words(
    system: System, java: JavaStores, topic: str, kind: str, partitions: int, policy: str
) -> None:
    with Admin({"bootstrap.servers": system.bootstrap}) as admin:
        new = NewTopic(f"{topic}-{kind}", partitions, 1, configs={"cleanup.policy": policy})
        admin.create_topics([new])
    worker = worker_settings(system.bootstrap, topic)
    refusals = []
    for stores in (java, OurStores()):
        refusals.append(stores.ask(do="open", worker=worker))
        stores.ask(do="close")
    assert refusals[1] == refusals[0]
    assert refusals[0]["error"] == "org.apache.kafka.common.config.ConfigException"


def test_a_worker_of_java_runs_what_our_stores_wrote(system: System, topic: str, tmp_path: Path) -> None:
    settings = worker_settings(system.bootstrap, topic)
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    place = {"filename": str(lines)}
    name = "org.apache.kafka.connect.file.FileStreamSource"
    own = {"file": str(lines), "topic": topic}
    configs = {"name": "c", "connector.class": f"{name}Connector", "tasks.max": "1", **own}
    ours = OurStores()
    worker = ConnectWorker(
        java_command(tmp_path, "Distributed"), tmp_path / "java", system.bootstrap, settings
    )

    def state_of_task() -> object:
        return ours.ask(do="statuses", connector="c")["tasks"].get("0", {}).get("state")

    def position() -> object:
        return ours.ask(do="offsets", connector="c", partitions=[place])[0]["position"]

    with opened(ours, settings):
        ours.ask(do="put_connector", name="c", configs=configs)
        ours.ask(do="put_tasks", name="c", tasks=[{**own, "task.class": f"{name}Task"}])
        ours.ask(do="put_offsets", connector="c", offsets=[[place, {"position": 2}]])
        try:
            worker.start()
            wait_for(lambda: state_of_task() == "RUNNING", timeout_s=60)
            wait_for(lambda: position() == 4, timeout_s=60)
            ours.ask(do="put_target", name="c", target="PAUSED")
            wait_for(lambda: state_of_task() == "PAUSED", timeout_s=60)
        finally:
            worker.close()
        found = ours.ask(do="snapshot")
        assert found["connectors"]["c"]["configs"] == configs
        assert found["session_key"] is not None
        assert list(ours.ask(do="statuses", connector="c")["topics"]) == [topic]
    assert [value for _, _, value in records(system, topic)] == [
        b'{"schema":{"type":"string","optional":false},"payload":"b"}'
    ]


SETTINGS: list[dict[str, str]] = [
    {},
    {"inter.worker.key.size": "8"},
    {"inter.worker.key.size": "40"},
    {"inter.worker.key.generation.algorithm": "HmacSHA1", "inter.worker.key.size": "8"},
    {"inter.worker.signature.algorithm": "HmacSHA1"},
    {
        "inter.worker.signature.algorithm": "HmacSHA1",
        "inter.worker.verification.algorithms": "HmacMD5,HmacSHA1",
    },
    {"inter.worker.verification.algorithms": ""},
    {"connect.protocol": "x"},
    {"connect.protocol": "COMPATIBLE"},
    {"exactly.once.source.support": "x"},
    {"exactly.once.source.support": "PREPARING"},
    {"offset.storage.partitions": "0"},
    {"offset.storage.partitions": "-1"},
    {"status.storage.replication.factor": "-2"},
    {"scheduled.rebalance.max.delay.ms": "-1"},
    {"inter.worker.key.ttl.ms": "x"},
    {"security.protocol": "x"},
    {"send.buffer.bytes": "-2"},
    {"metadata.recovery.strategy": "x"},
    {"sasl.login.refresh.window.factor": "0.1"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_settings_are_refused_in_the_same_words(java: JavaStores, settings: dict[str, str]) -> None:
    worker = {**worker_settings("127.0.0.1:1", "x"), **settings}
    assert OurStores().ask(do="check", worker=worker) == java.ask(do="check", worker=worker)


def test_there_are_the_same_settings(java: JavaStores) -> None:
    ours = [
        f"{name} {key.type} {config_text(key.default, key.type) if key.has_default else '-'} {key.importance.name}"
        for name, key in distributed_config_def().keys.items()
        if not name.startswith("pkafka.")
    ]
    # Classes that log in are Java's, and only named here.
    theirs = [each.replace(" CLASS ", " STRING ") for each in java.ask(do="settings")]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize(
    "algorithm", ["HmacSHA256", "HmacSHA1", "HmacMD5", "HmacSHA512", "HmacSHA512/256", "HmacSHA3-256"]
)
def test_requests_are_signed_alike(java: JavaStores, algorithm: str) -> None:
    for body in ("", "W10="):
        call = {"do": "sign", "key": "c2VjcmV0", "body": body, "algorithm": algorithm}
        assert OurStores().ask(**call) == java.ask(**call)
