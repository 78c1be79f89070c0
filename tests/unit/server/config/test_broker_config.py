"""BrokerConfig: where values come from, what is refused, what is warned about."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ConfigError
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.keys import broker_keys
from pkafka.server.config.listeners import Listener
from pkafka.storage.config import LogConfig


def _load(tmp_path: Path, text: str, **overrides: str) -> BrokerConfig:
    file = tmp_path / "server.properties"
    file.write_text(text)
    return BrokerConfig.load(file, {name.replace("_", "."): value for name, value in overrides.items()})


def test_without_a_file_it_serves_on_loopback_and_keeps_data_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = BrokerConfig.load(None)
    assert config.listeners == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert config.log_dirs == (tmp_path / "data",)
    assert config.broker_id == 0
    assert config.zookeeper_connect is None
    assert config.offsets_topic_replication_factor == 1
    assert config.warnings == ()


def test_a_file_without_log_dirs_never_means_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = _load(tmp_path, "zookeeper.connect=localhost:2181/kafka")
    assert config.log_dirs == (tmp_path / "data",)
    assert "log.dirs" in config.defaulted
    assert config.zookeeper_connect == "localhost:2181/kafka"
    assert config.broker_id == -1
    assert config.offsets_topic_replication_factor == 3
    assert config.listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)


def test_log_dir_is_read_where_log_dirs_is_not_set(tmp_path: Path) -> None:
    assert _load(tmp_path, "log.dir=/srv/kafka").log_dirs == (Path("/srv/kafka"),)
    assert _load(tmp_path, "log.dir=/a\nlog.dirs=/b, /c").log_dirs == (Path("/b"), Path("/c"))


def test_override_beats_file_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\ndefault.replication.factor=2")
    config = BrokerConfig.load(
        file,
        {"num.partitions": "3"},
        {"num.partitions": "1", "default.replication.factor": "1", "message.max.bytes": "1"},
    )
    assert (config.num_partitions, config.default_replication_factor, config.message_max_bytes) == (3, 2, 1)


def test_unknown_key_is_warned_about_once_and_plugin_prefixes_are_not(tmp_path: Path) -> None:
    config = _load(tmp_path, "num.partitons=3\nlistener.name.plaintext.max.connections=5\nrsm.config.x=1")
    assert config.warnings == ("num.partitons: no such configuration key; it is ignored",)


def test_classes_of_java_that_are_not_loaded_are_warned_about(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        "metric.reporters=com.example.Reporter\nkafka.metrics.reporters=",
    )
    assert config.warnings == ("metric.reporters: classes of Java cannot be loaded; it is ignored",)


ACLS = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"


@pytest.mark.parametrize(
    ("text", "key", "part"),
    [
        ("num.partitions=many", "num.partitions", "Not a number of type INT"),
        ("num.partitions=0", "num.partitions", "at least 1"),
        ("auto.create.topics.enable=ja", "auto.create.topics.enable", "true or false"),
        ("pkafka.workers=-1", "pkafka.workers", "at least 0"),
        ("pkafka.metrics.port=70000", "pkafka.metrics.port", "no more than 65535"),
        ("process.roles=broker,controller\nnode.id=1", "process.roles", "embedded store"),
        (f"{ACLS}\nsuper.users=alice;User:bob", "super.users", "principalType:principalName but got alice"),
        (f"{ACLS}\nallow.everyone.if.no.acl.found=ja", "allow.everyone.if.no.acl.found", "true or false"),
        (f"{ACLS}\nauthorizer.zookeeper.url=z:1", "authorizer.zookeeper.url", "where zookeeper.connect says"),
        (
            "password.encoder.secret=s\npassword.encoder.cipher.algorithm=DES",
            "password.encoder.cipher.algorithm",
            "must be AES/CBC/PKCS5Padding",
        ),
        (
            "password.encoder.secret=s\npassword.encoder.keyfactory.algorithm=MD5",
            "password.encoder.keyfactory.algorithm",
            "PBKDF2WithHmacSHA512",
        ),
        ("password.encoder.secret=s\npassword.encoder.key.length=99", "password.encoder.key.length", "192"),
        ("zookeeper.connect=z:1\nzookeeper.ssl.crl.enable=true", "zookeeper.ssl.crl.enable", "revoked"),
        ("zookeeper.connect=z:1\nzookeeper.ssl.ocsp.enable=true", "zookeeper.ssl.ocsp.enable", "revoked"),
        ("broker.id=1001", "broker.id", "reserved.broker.max.id (1000)"),
        ("broker.id=1\nnode.id=2", "node.id", "same value"),
        ("broker.id.generation.enable=false", "broker.id", "greater than or equal to 0"),
        ("log.dirs=,", "log.dirs", "At least one log directory"),
        ("log.roll.ms=0", "log.roll.ms", "greater than or equal to 1"),
        ("log.retention.minutes=0", "log.retention.minutes", "unlimited (-1)"),
        ("log.cleaner.dedupe.buffer.size=100", "log.cleaner.dedupe.buffer.size", "1MB"),
        ("log.cleaner.threads=0", "log.cleaner.threads", "log.cleaner.enable"),
        ("num.replica.fetchers=0", "num.replica.fetchers", "at least 1"),
        ("replica.selector.class=com.example.Mine", "replica.selector.class", "RackAwareReplicaSelector"),
        ("replica.fetch.wait.max.ms=40000", "replica.socket.timeout.ms", "replica.fetch.wait.max.ms"),
        ("replica.lag.time.max.ms=100", "replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
        ("offsets.commit.required.acks=5", "offsets.commit.required.acks", "less or equal"),
        ("offsets.topic.compression.codec=5", "offsets.topic.compression.codec", "0 to 4"),
        ("queued.max.request.bytes=5", "queued.max.request.bytes", "socket.request.max.bytes"),
        ("max.connections.per.ip=0", "max.connections.per.ip", "max.connections.per.ip.overrides"),
        ("max.connections.per.ip.overrides=host:x", "max.connections.per.ip.overrides", "host:number"),
        ("max.connections.per.ip.overrides=host", "max.connections.per.ip.overrides", "name:value"),
        ("log.dirs=", "log.dirs", "At least one log directory"),
        ("log.dirs= ", "log.dirs", "At least one log directory"),
        ("log.dir=", "log.dir", "At least one log directory"),
        ("log.dir=/a\nlog.dirs=", "log.dirs", "At least one log directory"),
        ("log.dirs=/d,/d", "log.dirs", "Duplicate log directory found: /d, /d"),
        ("log.dirs=/d,/e/../d/", "log.dirs", "Duplicate log directory"),
        ("zookeeper.connect=", "zookeeper.connect", "is empty"),
        ("zookeeper.connect=/chroot", "zookeeper.connect", "names no server"),
        ("zookeeper.connect=,", "zookeeper.connect", "names no server"),
        ("zookeeper.connect=a:1,b:x/c", "zookeeper.connect", "'b:x' is no server"),
        ("zookeeper.connect=a:70000", "zookeeper.connect", "'a:70000' is no server"),
        ("zookeeper.connect=::1:2181", "zookeeper.connect", "is no server"),
        ("remote.log.storage.system.enable=true", "remote.log.storage.system.enable", "no tiered storage"),
        ("zookeeper.metadata.migration.enable=true", "zookeeper.metadata.migration.enable", "KRaft"),
        ("controller.listener.names=C", "controller.listener.names", "KRaft mode"),
        ("controller.quorum.voters=1", "controller.quorum.voters", "{id}@{host}:{port}"),
        ("controller.quorum.bootstrap.servers=a", "controller.quorum.bootstrap.servers", "{host}:{port}"),
        ("client.quota.callback.class=com.example.Q", "client.quota.callback.class", "could not be found"),
        ("principal.builder.class=com.example.B", "principal.builder.class", "classes of Java"),
        ("principal.builder.class=", "principal.builder.class", "could not be found"),
        ("create.topic.policy.class.name=", "create.topic.policy.class.name", "could not be found"),
        ("advertised.listeners=", "advertised.listeners", "at least one broker advertised listener"),
        ("inter.broker.listener.name=", "inter.broker.listener.name", "null or empty"),
        ("control.plane.listener.name=", "control.plane.listener.name", "null or empty"),
        ("early.start.listeners=plaintext", "early.start.listeners", "listener plaintext"),
        (
            "max.connections.per.ip.overrides=a b:5",
            "max.connections.per.ip.overrides",
            "invalid addresses : a b",
        ),
        (
            "connections.max.idle.ms=100",
            "connection.failed.authentication.delay.ms",
            "less than connections.max.idle.ms=100",
        ),
        ("group.coordinator.rebalance.protocols=", "group.coordinator.rebalance.protocols", "classic"),
        (
            "group.coordinator.rebalance.protocols=classic,consumer",
            "group.coordinator.rebalance.protocols",
            "KRaft",
        ),
        ("group.consumer.assignors=uniform", "group.consumer.assignors", "Class uniform"),
        (
            "group.consumer.session.timeout.ms=1",
            "group.consumer.session.timeout.ms",
            "min.session.timeout.ms",
        ),
        (
            "group.share.heartbeat.interval.ms=999999",
            "group.share.heartbeat.interval.ms",
            "less than or equals to group.share.max.heartbeat.interval.ms",
        ),
        ("inter.broker.protocol.version=0.10.2", "log.message.format.version", "not 0.10.2"),
        ("inter.broker.protocol.version=4.0", "inter.broker.protocol.version", "not a valid version"),
        ("listeners=", "listeners", "at least one listener"),
        ("listeners=localhost:9092", "listeners", "NAME://host:port"),
        ("listeners=PLAINTEXT://localhost", "listeners", "NAME://host:port"),
        ("listeners=PLAINTEXT://localhost:70000", "listeners", "between 0 and 65535"),
        ("listeners=EXTERNAL://localhost:9092", "listeners", "listener.security.protocol.map"),
        ("listeners=SSL://localhost:9092", "ssl.keystore.location", "needs a key and a certificate"),
        ("listeners=PLAINTEXT://a:1,PLAINTEXT://b:2", "listeners", "different name"),
        ("listener.security.protocol.map=A:HTTP", "listener.security.protocol.map", "SASL_SSL"),
        ("listener.security.protocol.map=A", "listener.security.protocol.map", "name:value"),
        ("listeners=PLAINTEXT://0.0.0.0:9092", "listeners", "advertised.listeners=PLAINTEXT://HOST:9092"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners", "routable"),
        ("advertised.listeners=SSL://host:9092", "advertised.listeners", "SSL is not"),
        ("inter.broker.listener.name=OTHER", "inter.broker.listener.name", "options"),
        ("security.inter.broker.protocol=SSL", "inter.broker.listener.name", "PLAINTEXT"),
        (
            "inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT",
            "inter.broker.listener.name",
            "Only one",
        ),
        ("control.plane.listener.name=PLAINTEXT", "control.plane.listener.name", "other than"),
        (
            "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\nlisteners=A://h:1,B://h:1\n"
            "inter.broker.listener.name=A",
            "listeners",
            "different port",
        ),
    ],
)
def test_wrong_setting_is_refused_with_key_and_what_is_allowed(
    tmp_path: Path, text: str, key: str, part: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text)
    assert caught.value.key == key
    assert part in caught.value.problem
    assert "\n" not in str(caught.value)


def test_security_of_zookeeper_matters_only_with_one(tmp_path: Path) -> None:
    text = "zookeeper.set.acl=true\nzookeeper.ssl.client.enable=true"
    assert _load(tmp_path, text).zookeeper_connect is None


@pytest.mark.parametrize(
    "text", ["a", "a:1", "a:1,,b:2", "a_b:1, c.d", "[::1]:2181/x/y", "10.0.0.1:2181,[fe80::1%1]:2"]
)
def test_servers_of_zookeeper(tmp_path: Path, text: str) -> None:
    assert _load(tmp_path, f"zookeeper.connect={text}").zookeeper_connect == text


def test_one_directory_under_two_names_is_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    with pytest.raises(ConfigError, match="Duplicate log directory"):
        _load(tmp_path, f"log.dirs={tmp_path}/data,{tmp_path}/link")


def test_details_of_what_is_off_are_accepted(tmp_path: Path) -> None:
    text = (
        "remote.log.storage.system.enable=false\nremote.log.storage.manager.class.name=com.example.Storage\n"
        "controller.quorum.voters=1@a:1,2@[::1]:2\ndelegation.token.secret.key=secret\n"
        "early.start.listeners=PLAINTEXT\ninter.broker.protocol.version=0.10.2\nlog.message.format.version=0.10.0\n"
        "principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder\n"
    )
    assert _load(tmp_path, text).warnings == ()


def test_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nope\.properties: cannot be read: No such file"):
        BrokerConfig.load(tmp_path / "nope.properties")
    with pytest.raises(ConfigError, match="cannot be read"):
        BrokerConfig.load(tmp_path)


def test_listeners_of_several_names_and_families(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        "listeners=internal://[::1]:9092,EXTERNAL://:0,V4://127.0.0.1:9092\n"
        "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:plaintext,V4:PLAINTEXT\n"
        "inter.broker.listener.name=internal\n"
        "advertised.listeners=INTERNAL://[fe80::1]:9092,EXTERNAL://kafka.example:19092",
    )
    assert config.listeners == (
        Listener("INTERNAL", "::1", 9092, "PLAINTEXT"),
        Listener("EXTERNAL", "", 0, "PLAINTEXT"),
        Listener("V4", "127.0.0.1", 9092, "PLAINTEXT"),
    )
    assert [str(each) for each in config.advertised_listeners] == [
        "INTERNAL://[fe80::1]:9092",
        "EXTERNAL://kafka.example:19092",
    ]
    assert config.inter_broker_listener_name == "INTERNAL"


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [
        ("", 7 * 24 * 3_600_000),
        ("log.retention.hours=1", 3_600_000),
        ("log.retention.hours=1\nlog.retention.minutes=2", 120_000),
        ("log.retention.hours=1\nlog.retention.minutes=2\nlog.retention.ms=3", 3),
        ("log.retention.hours=-1", -1),
        ("log.retention.ms=-7", -1),
    ],
)
def test_topics_inherit_the_finest_unit_that_is_set(tmp_path: Path, text: str, retention_ms: int) -> None:
    assert _load(tmp_path, text).topic_default("retention.ms") == retention_ms


def test_log_config_is_what_topics_inherit(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        "log.segment.bytes=1000\nlog.roll.hours=2\nlog.cleanup.policy=compact,delete\nlog.flush.interval.ms=9\n"
        "log.cleaner.min.cleanable.ratio=0.25\nlog.preallocate=true\nlog.message.timestamp.type=LogAppendTime\n",
    ).log_config()
    assert (config.segment_bytes, config.segment_ms, config.flush_ms) == (1000, 7_200_000, 9)
    assert config.cleanup_policy == ("compact", "delete")
    assert config.min_cleanable_dirty_ratio == 0.25
    assert config.preallocate
    assert config.uses_append_time


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("log.roll.hours=3", "segment.ms", 10_800_000),
        ("log.roll.hours=3\nlog.roll.ms=5", "segment.ms", 5),
        ("log.roll.jitter.hours=2", "segment.jitter.ms", 7_200_000),
        ("log.roll.jitter.hours=2\nlog.roll.jitter.ms=5", "segment.jitter.ms", 5),
    ],
)
def test_age_of_segments_in_the_finest_unit_that_is_set(
    tmp_path: Path, text: str, key: str, expected: int
) -> None:
    assert _load(tmp_path, text).topic_default(key) == expected


@pytest.mark.parametrize(
    ("broker", "topic", "before", "after"),
    [
        ("", {"difference": 5}, 5, 5),
        ("", {"difference": 5, "before": 7}, 7, 5),
        ("difference=5", {}, 5, 5),
        ("difference=5", {"difference": 6}, 5, 5),
        ("difference=5,before=7", {"difference": 6}, 7, 5),
        ("difference=5", {"before": 2**63 - 1}, 5, 5),
        ("after=9", {"difference": 6}, 6, 9),
    ],
)
def test_limits_of_timestamps_as_apache_kafka_combines_them(
    tmp_path: Path, broker: str, topic: dict[str, int], before: int, after: int
) -> None:
    lines = [f"log.message.timestamp.{part.replace('=', '.max.ms=')}" for part in broker.split(",") if part]
    overrides = {f"message.timestamp.{name}.max.ms": str(value) for name, value in topic.items()}
    config = LogConfig.from_topic_configs(overrides, _load(tmp_path, "\n".join(lines)).log_config())
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (before, after)


def test_defaults_of_logs_are_the_same_in_both_rooms() -> None:
    assert BrokerConfig({}, check=False).log_config() == LogConfig()


def test_every_typed_attribute_has_a_key_of_its_type() -> None:
    config = BrokerConfig({})
    read = [name for name in dir(BrokerConfig) if not name.startswith("_")]
    values = {name: getattr(config, name) for name in read}
    assert values["zookeeper_connection_timeout_ms"] == 18_000
    assert len(values) > 100


def test_replace_makes_a_new_value_and_checks_it() -> None:
    config = BrokerConfig({"num.partitions": "2"})
    assert config.replace({"num.partitions": "5"}).num_partitions == 5
    assert config.replace({"num.partitions": None}).num_partitions == 1
    assert config.num_partitions == 2
    with pytest.raises(ConfigError):
        config.replace({"num.partitions": "0"})


def test_workers_follow_the_cores_unless_set() -> None:
    assert BrokerConfig({}).workers >= 1
    assert BrokerConfig({"pkafka.workers": "7"}).workers == 7


def test_import_does_not_pull_in_the_storage_room() -> None:
    program = (
        "import sys, pkafka.server.config.broker_config\n"
        "print('pkafka.storage' in sys.modules, 'asyncio' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert shown.stdout.split() == ["False", "False"]


@given(
    settings=st.dictionaries(
        st.sampled_from([name for name in broker_keys() if name != "pkafka.workers"]),
        st.text(max_size=20)
        | st.integers().map(str)
        | st.sampled_from(
            ["PLAINTEXT://[::1]:0", "A:PLAINTEXT,B", "true", "0.5", "delete,compact", ",", "://:"]
        ),
        max_size=4,
    )
)
def test_only_config_errors_escape(settings: dict[str, str]) -> None:
    try:
        config = BrokerConfig(settings)
    except ConfigError:
        return
    assert config.listeners
    assert config.topic_defaults()
