"""Every znode against the bytes that Apache Kafka 3.9.1 writes.

``znodes_of_kafka_3.9.1.tsv`` was written by the encoders of ``kafka.zk`` (ZkData.scala) in the released jars.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.coordination import znodes as z
from pkafka.coordination import znodes_security as zs
from pkafka.coordination.znode_json import ZnodeFormatError, in_scala_order, string_hash
from pkafka.model import TopicPartition, parse_topic_id
from pkafka.net.scram import ScramMechanism, keys_of, salted_password

GOLDEN: dict[str, bytes] = {
    name: value.encode()
    for name, value in (
        line.split("\t")
        for line in (Path(__file__).with_name("znodes_of_kafka_3.9.1.tsv"))
        .read_text(encoding="utf-8")
        .splitlines()
    )
}
TOPIC_ID = parse_topic_id("kKTGaW0eTgKGkOE2DzHHhw")
CONFIG_KEYS = [
    "cleanup.policy",
    "retention.ms",
    "segment.bytes",
    "min.insync.replicas",
    "max.message.bytes",
    "compression.type",
    "flush.ms",
    "flush.messages",
    "file.delete.delay.ms",
    "delete.retention.ms",
    "index.interval.bytes",
    "message.timestamp.type",
    "preallocate",
]


def topic(partitions: int, *, with_id: bool = True) -> z.TopicAssignment:
    return z.TopicAssignment(
        {
            number: z.PartitionAssignment(
                replicas=(number % 3, (number + 1) % 3),
                adding=((number + 1) % 3,) if number in (1, 3) else (),
                removing=(1,) if number == 1 else (),
            )
            for number in range(partitions)
        },
        TOPIC_ID if with_id else None,
    )


def config(count: int) -> z.EntityConfig:
    return z.EntityConfig({key: f'v\x01ü\x1f/"{at}' for at, key in enumerate(CONFIG_KEYS[:count])})


def timestamp_of(name: str) -> int:
    return z.BrokerRegistration.decode(GOLDEN[name]).timestamp_ms


PLAINTEXT = z.Endpoint("PLAINTEXT", "h1", 9092)
INTERNAL = z.Endpoint("INTERNAL", "::1", 9093, "SASL_SSL")
EXTERNAL = z.Endpoint("EXT", "h1", 9094, "SSL")
RACK = 'r"1ü'
ALL = (PLAINTEXT, INTERNAL, EXTERNAL)
A1, B0, B1 = TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 1)
READ = zs.AclEntry("User:bob", "Allow", "*", "Read")
WRITE = zs.AclEntry("User:bob", "Deny", "*", "IdempotentWrite")

VALUES: dict[str, Any] = {
    **{f"topic{count}": topic(count) for count in (1, 2, 3, 11, 12, 13, 30, 100)},
    "topicnoid": topic(2, with_id=False),
    "state": z.PartitionState(1, 5, (1, 2, 3), 9),
    "state-rec": z.PartitionState(1, 5, (1,), 9, recovering=True),
    "broker-null": z.BrokerRegistration(ALL, timestamp_of("broker-null")),
    f"broker-{RACK}": z.BrokerRegistration(ALL, timestamp_of(f"broker-{RACK}"), RACK),
    "broker-nohost-null": z.BrokerRegistration(
        (INTERNAL,), timestamp_of("broker-nohost-null"), jmx_port=9999
    ),
    f"broker-nohost-{RACK}": z.BrokerRegistration(
        (INTERNAL,), timestamp_of(f"broker-nohost-{RACK}"), RACK, jmx_port=9999
    ),
    "controller": z.Controller(3, 1234567890123),
    **{f"config{count}": config(count) for count in (0, 1, 2, 5, 11, 12, 13)},
    "cchange": z.ConfigChange("users/<default>"),
    "isr": z.IsrChange((TopicPartition("a", 0), B1)),
    "logdir": z.LogDirEvent(3),
    "reassign": z.Reassignments({B0: (1, 2), A1: (3,)}),
    "preferred": z.PreferredReplicaElection((B0, A1)),
    "pid": z.ProducerIdBlock(7, 3000, 3999),
    "cluster": z.ClusterId("abc"),
    "feature0": z.Features(),
    "feature1": z.Features({"group.version": 1}),
    "featureDis": z.Features(enabled=False),
    "offset": z.ConsumerOffset(77),
    "token": zs.DelegationToken("tid", "User:alice", "User:bob", ("User:bob",), 10, 15, 20),
    "token0": zs.DelegationToken("tid", "User:alice", "User:alice", (), 10, 15, 20),
    "tokenchange": zs.TokenChange("tid"),
    "acl": zs.ResourceAcls((READ, WRITE)),
    "acllit": zs.AclChange("TransactionalId", "n"),
    "aclx": zs.AclChange("TransactionalId", "n", prefixed=True),
}

PATHS = {
    "isrpath": z.IsrChange.create_path(),
    "ldpath": z.LogDirEvent.create_path(),
    "tokenpath": zs.DelegationToken.path("tid"),
    "tokenchangepath": zs.TokenChange.create_path(),
    "offsetpath": z.ConsumerOffset.path("g", TopicPartition("t", 3)),
    "aclchangepath": zs.AclChange("Topic", "n", prefixed=True).create_path(),
    "aclpath": zs.ResourceAcls.path("TransactionalId", "n"),
    "paths": " ".join(z.PERSISTENT_PATHS),
    "sensitive": " ".join(z.SENSITIVE_PATHS),
}


def test_every_golden_line_is_checked() -> None:
    assert GOLDEN.keys() == VALUES.keys() | PATHS.keys() | {"secure"}


@pytest.mark.parametrize("name", VALUES)
def test_a_znode_is_written_to_the_byte_and_read_back(name: str) -> None:
    value = VALUES[name]
    assert value.encode() == GOLDEN[name]
    assert type(value).decode(GOLDEN[name]) == value


@pytest.mark.parametrize("name", PATHS)
def test_a_path_is_kafkas(name: str) -> None:
    assert PATHS[name].encode() == GOLDEN[name]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (z.BrokerRegistration.path(7), "/brokers/ids/7"),
        (z.TopicAssignment.path("t"), "/brokers/topics/t"),
        (z.PartitionState.path(B1), "/brokers/topics/b/partitions/1/state"),
        (z.PartitionState.partitions_path("b"), "/brokers/topics/b/partitions"),
        (z.EntityConfig.path("brokers", z.DEFAULT_ENTITY), "/config/brokers/<default>"),
        (
            z.EntityConfig.path("users", f"{z.sanitize('us er')}/clients/c1"),
            "/config/users/us%20er/clients/c1",
        ),
        (z.ConfigChange.create_path(), "/config/changes/config_change_"),
        (z.DeletedTopic.path("t"), "/admin/delete_topics/t"),
        (zs.ResourceAcls.path("Topic", "pre", prefixed=True), "/kafka-acl-extended/prefixed/Topic/pre"),
        (zs.AclChange("Topic", "t").create_path(), "/kafka-acl-changes/acl_changes_"),
    ],
)
def test_paths_as_seen_in_a_live_tree(path: str, expected: str) -> None:
    assert path == expected


def test_nodes_of_older_brokers_are_read() -> None:
    assert z.BrokerRegistration.decode(b'{"version":1,"host":"h","port":9,"timestamp":"5"}') == (
        z.BrokerRegistration((z.Endpoint("PLAINTEXT", "h", 9),), 5, version=1)
    )
    v3 = (
        b'{"version":3,"host":"h","port":9,"jmx_port":1,"timestamp":"5","rack":"r","endpoints":["SSL://h:9"]}'
    )
    assert z.BrokerRegistration.decode(v3).endpoints == (z.Endpoint("SSL", "h", 9, "SSL"),)
    v1 = z.TopicAssignment.decode(b'{"version":1,"partitions":{"1":[2],"0":[1,2]}}')
    assert v1 == z.TopicAssignment({0: z.PartitionAssignment((1, 2)), 1: z.PartitionAssignment((2,))}, None)
    assert z.Controller.decode(b'{"version":1,"brokerid":4,"timestamp":"5"}') == z.Controller(4, 5)
    old_change = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert z.ConfigChange.decode(old_change) == z.ConfigChange("topics/t")
    old_token = (
        b'{"version":1,"owner":"User:a","renewers":[],"issueTimestamp":1,'
        b'"maxTimestamp":3,"expiryTimestamp":2,"tokenId":"x"}'
    )
    assert zs.DelegationToken.decode(old_token).requester == "User:a"
    assert z.EntityConfig.decode(b"") == z.EntityConfig({})
    assert zs.ResourceAcls.decode(b"") == zs.ResourceAcls(())


DECODERS = [*{type(value) for value in VALUES.values()}]


@pytest.mark.parametrize("kind", DECODERS, ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize(
    "data",
    [b"{", b"[1]", b"null", b'{"version":"x"}', b'{"version":0}', b"\xff\xfe", b"{}" * 2, b"[" * 100_000],
)
def test_damage_is_reported_as_such(kind: Any, data: bytes) -> None:
    if kind is zs.TokenChange and data != b"\xff\xfe":
        return  # its content is any text
    if kind is z.EntityConfig and data.startswith(b'{"version"'):
        return  # Kafka too asks for no more than an object there
    with pytest.raises(ZnodeFormatError):
        kind.decode(data)


@pytest.mark.parametrize("kind", DECODERS, ids=lambda kind: str(kind.__name__))
@given(data=st.binary(max_size=60) | st.sampled_from(sorted(GOLDEN.values())))
def test_only_the_documented_error_leaves_a_decoder(kind: Any, data: bytes) -> None:
    decode: Callable[[bytes], object] = kind.decode
    with contextlib.suppress(ZnodeFormatError):
        decode(data)


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=20), max_size=40))
def test_any_config_survives(values: dict[str, str]) -> None:
    encodable = {
        key: value
        for key, value in values.items()
        if key.isprintable() and not any("\ud800" <= char <= "\udfff" for char in value)
    }
    assert z.EntityConfig.decode(z.EntityConfig(encodable).encode()).config == encodable


def test_names_are_sanitized_as_kafka_does() -> None:
    assert z.sanitize("us er*+~/ü._-") == "us%20er%2A%2B%7E%2F%C3%BC._-"
    assert z.desanitize(z.sanitize("us er*+~/ü%")) == "us er*+~/ü%"


def test_hashes_and_orders_are_the_jvms() -> None:
    assert string_hash("") == 0
    assert string_hash("11") == 1568
    assert string_hash("polygenelubricants") == 0x80000000
    assert string_hash("\U0001f600") == 1772899
    assert in_scala_order(["0", "1", "10", "11", *"23456789"]) == ["11", *"0123456789", "10"]


def test_a_scram_credential_of_kafka() -> None:
    """As kafka-configs.sh 3.9.1 stored SCRAM-SHA-512=[password=a=b,c]."""
    text = (
        "salt=c3lnZWR5NzZjcjdudDlpYnY5OWdkdnhnYg==,"
        "stored_key=su9WINde3lTzhOubAADbpuvaufYAe6nc4vkyRQas63Uhv2ev26/0nATyYq+wqI2QroygjZSMmLvmogunqwkWGA==,"
        "server_key=fi0IjO3JG5cYuHTHseWBFOonsYVTLXuXtLWNtq4fIj/iBmSh/HUHTUWjdFDswkK69E/2gEinv//i4ZW8mEF4Bg==,"
        "iterations=4096"
    )
    credential = zs.ScramCredential.decode(text)
    assert credential.encode() == text
    salted = salted_password(ScramMechanism.SCRAM_SHA_512, b"a=b,c", credential.salt, credential.iterations)
    assert keys_of(ScramMechanism.SCRAM_SHA_512, salted) == (credential.stored_key, credential.server_key)
    assert repr(credential) == "ScramCredential(iterations=4096)"
    for bad in ("", "salt=x", text.replace("salt=", "salt=!"), text.replace("4096", "many")):
        with pytest.raises(ZnodeFormatError):
            zs.ScramCredential.decode(bad)
