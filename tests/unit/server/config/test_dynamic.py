"""Dynamic settings: layers, legal changes, what is described, what is stored and followed."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.coordination.change_notes import NOTE_EXPIRY_MS
from pkafka.coordination.entity_configs import update_config
from pkafka.coordination.store import ConnectionLossError
from pkafka.coordination.znodes import EntityConfig
from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from pkafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.broker_loggers import ProcessLoggers, check_logger_changes
from pkafka.server.config.description import Source, Synonym, describe_broker, describe_topic
from pkafka.server.config.dynamic import (
    BrokerLayers,
    Change,
    Configs,
    Operation,
    ResourceType,
    apply_changes,
    check_broker_change,
    check_new_topic_configs,
    check_topic_change,
    usable_broker_configs,
)
from pkafka.server.config.keys import broker_keys, topic_keys
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.config.sasl import sasl_listener
from pkafka.server.handlers import describe_configs, incremental_alter_configs
from tests.fakes.config_context import FakeControl

SET, DELETE, APPEND, SUBTRACT = Operation


@pytest.fixture
def control(tmp_path: Path) -> Iterator[FakeControl]:
    static = BrokerConfig({"broker.id": "7", "log.retention.hours": "48"})
    loggers = {"root": "INFO", "pkafka": "INFO"}
    control = FakeControl(tmp_path, static, broker_id=7, topics=("orders", "été"), loggers=loggers)
    yield control
    control.close()


def _node(configs: Configs) -> bytes:
    return EntityConfig(configs).encode()


def _alter(
    control: FakeControl, kind: int, name: str, *changes: Change, validate_only: bool = False
) -> AlterConfigsResourceResponse:
    configs = [
        AlterableConfig(name=each.name, config_operation=each.operation, value=each.value) for each in changes
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)],
        validate_only=validate_only,
    )
    (response,) = asyncio.run(incremental_alter_configs.handle(control, request, 1)).responses
    return response


def _describe(control: FakeControl, kind: int, name: str, *keys: str) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = asyncio.run(describe_configs.handle(control, request, 4)).results
    return result


# -- layers ---------------------------------------------------------------------------------------------------


def test_each_layer_beats_the_ones_below() -> None:
    layers = BrokerLayers(BrokerConfig({"message.max.bytes": "1"}))
    assert layers.current.message_max_bytes == 1
    layers = layers.with_layer({"message.max.bytes": "2"}, per_broker=False)
    assert layers.current.message_max_bytes == 2
    layers = layers.with_layer({"message.max.bytes": "3"}, per_broker=True)
    assert layers.current.message_max_bytes == 3
    assert layers.with_layer({}, per_broker=True).current.message_max_bytes == 2


def test_dynamic_time_drives_out_the_coarser_units_of_the_file() -> None:
    layers = BrokerLayers(BrokerConfig({"log.retention.hours": "48"}), cluster={"log.retention.ms": "5"})
    assert layers.current.topic_default("retention.ms") == 5
    assert "log.retention.hours" not in layers.current.originals


def test_synonyms_run_from_strong_to_weak_and_start_at_the_very_name() -> None:
    layers = BrokerLayers(
        BrokerConfig({"log.retention.hours": "48"}),
        cluster={"message.max.bytes": "2"},
        broker={"message.max.bytes": "3"},
    )
    (entry,) = describe_broker(layers, only=["message.max.bytes"])
    assert entry.value == "3"
    assert entry.source is Source.DYNAMIC_BROKER
    assert entry.synonyms == (
        Synonym("message.max.bytes", "3", Source.DYNAMIC_BROKER),
        Synonym("message.max.bytes", "2", Source.DYNAMIC_DEFAULT_BROKER),
        Synonym("message.max.bytes", "1048588", Source.DEFAULT),
    )
    (entry,) = describe_topic(layers, {}, only=["max.message.bytes"])
    assert (entry.value, entry.source, len(entry.synonyms)) == ("3", Source.DYNAMIC_BROKER, 3)
    (entry,) = describe_topic(layers, {}, only=["retention.ms"])
    assert (entry.value, entry.source, entry.synonyms) == ("172800000", Source.DEFAULT, ())


def test_secrets_and_unknown_keys_are_described_without_value() -> None:
    layers = BrokerLayers(BrokerConfig({"ssl.key.password": "s3cret", "plugin.token": "s3cret"}))
    entries = describe_broker(layers)
    assert "s3cret" not in repr(entries)
    assert {each.name for each in entries if each.source is Source.STATIC_BROKER} == {
        "ssl.key.password",
        "plugin.token",
    }


def test_internal_keys_are_shown_only_when_set() -> None:
    hidden = {name for name, key in broker_keys().items() if key.internal}
    assert hidden
    assert not hidden & {each.name for each in describe_broker(BrokerLayers(BrokerConfig({})))}
    shown = describe_broker(BrokerLayers(BrokerConfig({"log.initial.task.delay.ms": "5"})))
    assert ("log.initial.task.delay.ms", "5") in [(each.name, each.value) for each in shown]


# -- legal changes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configs", "per_broker", "part"),
    [
        ({"num.partitions": "5"}, True, "Cannot update these configs dynamically: Set(num.partitions)"),
        ({"listeners": "PLAINTEXT://:1"}, False, "at default cluster level, broker id must be specified"),
        ({"listeners": "PLAINTEXT://:1"}, True, "while the broker runs"),
        ({"ssl.keystore.location": "/x"}, True, "using the listener prefix"),
        ({"listener.name.plaintext.ssl.client.auth": "none"}, False, "broker id must be specified"),
        ({"num.io.threads": "17"}, True, "should not be greater than double the current value 8"),
        ({"num.io.threads": "3"}, True, "should be at least half the current value 8"),
        ({"num.replica.fetchers": "0"}, False, "num.replica.fetchers=0, value should be at least 1"),
        ({"log.cleaner.threads": "3"}, False, "more than double the current value 1"),
        ({"message.max.bytes": "-1"}, True, "Invalid value -1 for configuration message.max.bytes"),
        ({"log.retention.ms": "0"}, True, "requirement failed: log.retention.ms must be unlimited (-1)"),
        ({"leader.replication.throttled.rate": "-1"}, True, "Value must be at least 0"),
        ({"sasl.jaas.config": "x"}, True, "password.encoder.secret is not set"),
    ],
)
def test_illegal_broker_change_is_an_invalid_request(configs: Configs, per_broker: bool, part: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_broker_change(BrokerLayers(BrokerConfig({})), configs, per_broker=per_broker)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert part in caught.value.message


LOGINS = {
    "listeners": "CLIENTS://:1,INSIDE://:2",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": "a.PlainLoginModule required;",
}
OWN = "listener.name.clients."


@pytest.mark.parametrize(
    ("configs", "part"),
    [
        (
            {f"{OWN}plain.sasl.kerberos.min.time.before.relogin": "x"},
            "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value x for configuration"
            " sasl.kerberos.min.time.before.relogin: Not a number of type LONG for configuration Invalid dynamic"
            " configuration",
        ),
        ({f"{OWN}plain.sasl.login.class": "a.B"}, "sasl.login.class: Class a.B could not be found."),
        ({f"{OWN}sasl.enabled.mechanisms": "NOPE"}, "has NOPE for the listener CLIENTS"),
        ({"sasl.enabled.mechanisms": ""}, "names no mechanism for the listener CLIENTS"),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "scram-sha-256.sasl.jaas.config is missing"),
        ({"sasl.server.max.receive.size": "9"}, "dynamically: Set(sasl.server.max.receive.size)"),
        ({f"{OWN}own": "x", "sasl.kerberos.kinit.cmd": "/x"}, "restart broker or create a new listener"),
    ],
)
def test_illegal_changes_of_logins(configs: Configs, part: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_broker_change(
            BrokerLayers(BrokerConfig(LOGINS)), configs, per_broker=True, stores_passwords=True
        )
    assert part in caught.value.message


def test_a_listeners_own_setting_that_came_before_counts_as_in_kafka() -> None:
    layers = check_broker_change(BrokerLayers(BrokerConfig(LOGINS)), {f"{OWN}own": "x"}, per_broker=True)
    with pytest.raises(ApiError, match="restart broker or create a new listener"):
        check_broker_change(layers, {**layers.broker, "sasl.kerberos.kinit.cmd": "/x"}, per_broker=True)


def test_settings_of_logins_change_together() -> None:
    jaas = f"{OWN}scram-sha-256.sasl.jaas.config"
    configs = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", jaas: "a.ScramLoginModule required;"}
    changed = check_broker_change(
        BrokerLayers(BrokerConfig(LOGINS)),
        {**configs, f"{OWN}connections.max.reauth.ms": "5"},
        per_broker=True,
        stores_passwords=True,
    )
    assert sasl_listener(changed.current, "CLIENTS").sessions_max_ms == {"SCRAM-SHA-256": 5}


def test_legal_broker_change_gives_the_layers_after_it() -> None:
    changed = check_broker_change(
        BrokerLayers(BrokerConfig({})), {"num.io.threads": "16", "own": "x"}, per_broker=True
    )
    assert changed.current.num_io_threads == 16


def test_stored_settings_that_cannot_be_applied_do_not_stop_a_broker() -> None:
    stored = {
        "num.partitions": "5",
        "message.max.bytes": "x",
        "listener.name.a.ssl.key.password": "y",
        "log.cleaner.backoff.ms": "1",
    }
    usable, problems = usable_broker_configs(stored, per_broker=True)
    assert usable == {"log.cleaner.backoff.ms": "1"}
    assert len(problems) == 3


@pytest.mark.parametrize(
    ("configs", "sentence"),
    [
        ({"retention": "1"}, "Unknown topic config name: retention"),
        (
            {"retention.ms": "x"},
            "Invalid config value for resource ConfigResource(type=TOPIC, name='orders'): Invalid value x for"
            " configuration retention.ms: Not a number of type LONG",
        ),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
    ],
)
def test_illegal_topic_settings_are_invalid_config(configs: Configs, sentence: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_topic_change("orders", BrokerConfig({}), configs)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_CONFIG, sentence)


def test_topic_settings_are_checked_against_what_the_broker_gives() -> None:
    broker = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "5"})
    with pytest.raises(ApiError, match="conflict"):
        check_new_topic_configs(broker, {"min.compaction.lag.ms": "6"})
    check_new_topic_configs(broker, {"min.compaction.lag.ms": "5"})


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, Change("cleanup.policy", APPEND, "compact"), "delete,compact"),
        (
            {"cleanup.policy": "compact"},
            Change("cleanup.policy", APPEND, "compact, delete"),
            "compact,delete",
        ),
        ({"cleanup.policy": ""}, Change("cleanup.policy", APPEND, "compact"), "compact"),
        ({}, Change("cleanup.policy", SUBTRACT, "delete"), ""),
        ({"cleanup.policy": "delete, compact"}, Change("cleanup.policy", SUBTRACT, "delete"), "compact"),
        ({"cleanup.policy": "delete"}, Change("cleanup.policy", SUBTRACT, "nothing"), "delete"),
    ],
)
def test_lists_grow_and_shrink(before: Configs, change: Change, after: str) -> None:
    assert apply_changes(before, [change], topic_keys(), kind="topic")["cleanup.policy"] == after


# -- requests -------------------------------------------------------------------------------------------------


def test_change_is_stored_noted_described_and_reported(control: FakeControl) -> None:
    assert _alter(control, ResourceType.TOPIC, "orders", Change("retention.ms", SET, "5")).error_code == 0
    assert control.store.get("/config/topics/orders")[0] == b'{"version":1,"config":{"retention.ms":"5"}}'
    note = control.store.get("/config/changes/config_change_0000000000")[0]
    assert note == b'{"version":2,"entity_path":"topics/orders"}'
    (entry,) = _describe(control, ResourceType.TOPIC, "orders", "retention.ms").configs
    assert (entry.value, entry.config_source, entry.read_only) == ("5", Source.TOPIC, False)
    assert control.heard == [("topics", "orders", {"retention.ms": "5"})]
    assert control.configs.topic("orders") == {"retention.ms": "5"}


def test_a_change_is_answered_when_workers_act_by_it(control: FakeControl) -> None:
    _alter(control, ResourceType.TOPIC, "orders", Change("retention.ms", SET, "5"), validate_only=True)
    assert control.waited_for == []
    _alter(control, ResourceType.TOPIC, "orders", Change("retention.ms", SET, "5"))
    assert control.waited_for == [len(control.heard)] == [1]


def test_default_of_all_brokers_has_its_own_node(control: FakeControl) -> None:
    _alter(control, ResourceType.BROKER, "", Change("message.max.bytes", SET, "9"))
    _alter(control, ResourceType.BROKER, "7", Change("message.max.bytes", SET, "8"))
    assert control.store.children("/config/brokers") == ["7", "<default>"]
    assert control.configs.layers.current.message_max_bytes == 8
    _alter(control, ResourceType.BROKER, "7", Change("message.max.bytes", DELETE, None))
    assert control.configs.layers.current.message_max_bytes == 9
    assert [name for _, name, _ in control.heard] == ["<default>", "7", "7"]


def test_validate_only_writes_nothing(control: FakeControl) -> None:
    response = _alter(
        control, ResourceType.TOPIC, "orders", Change("retention.ms", SET, "5"), validate_only=True
    )
    assert response.error_code == 0
    assert control.store.exists("/config/topics/orders") is None
    assert control.store.children("/config/changes") == []
    response = _alter(
        control, ResourceType.TOPIC, "orders", Change("retention.ms", SET, "x"), validate_only=True
    )
    assert response.error_code == ErrorCode.INVALID_CONFIG


def test_refused_change_leaves_everything_alone(control: FakeControl) -> None:
    changes = (Change("retention.ms", SET, "5"), Change("segment.ms", SET, "x"))
    assert _alter(control, ResourceType.TOPIC, "orders", *changes).error_code == ErrorCode.INVALID_CONFIG
    assert control.store.children("/config/changes") == []
    assert control.heard == []


def test_resource_that_comes_twice_is_refused_twice(control: FakeControl) -> None:
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="orders")
    request = IncrementalAlterConfigsRequest(resources=[resource, resource])
    responses = asyncio.run(incremental_alter_configs.handle(control, request, 1)).responses
    assert [each.error_code for each in responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_lost_connection_is_a_timeout_that_clients_retry(
    control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> None:
        raise ConnectionLossError("/config/topics/orders")

    monkeypatch.setattr(control.store, "multi", lose)
    response = _alter(control, ResourceType.TOPIC, "orders", Change("retention.ms", SET, "5"))
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_concurrent_change_is_kept(control: FakeControl) -> None:
    control.configs.update("topics", "orders", lambda _: {"segment.ms": "5"})
    rounds = iter([True, False])

    def change(stored: dict[str, str]) -> Configs:
        if next(rounds):
            other = _node({**stored, "segment.bytes": "1000"})
            control.store.set("/config/topics/orders", other)
        return {**stored, "retention.ms": "5"}

    written = control.configs.update("topics", "orders", change)
    assert written == {"segment.ms": "5", "segment.bytes": "1000", "retention.ms": "5"}


def test_loggers_are_set_and_follow_their_parent_again(control: FakeControl) -> None:
    assert _alter(control, ResourceType.BROKER_LOGGER, "7", Change("pkafka", SET, "DEBUG")).error_code == 0
    (entry,) = _describe(control, ResourceType.BROKER_LOGGER, "7", "pkafka").configs
    assert (entry.value, entry.config_source, entry.synonyms) == ("DEBUG", Source.DYNAMIC_BROKER_LOGGER, [])
    assert _alter(control, ResourceType.BROKER_LOGGER, "7", Change("pkafka", DELETE, None)).error_code == 0
    assert control.loggers.levels()["pkafka"] == "INFO"


def test_loggers_of_this_process() -> None:
    name = "pkafka.test_dynamic_config.probe"
    logger, loggers = logging.getLogger(name), ProcessLoggers()
    loggers.set_level(name, "TRACE")
    assert loggers.levels()[name] == "TRACE"
    assert logger.isEnabledFor(5)
    loggers.set_level(name, "FATAL")
    assert not logger.isEnabledFor(logging.ERROR)
    loggers.set_level(name, None)
    assert logger.level == logging.NOTSET
    assert "root" in loggers.levels()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (Change("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (Change("root", 9, "INFO"), ErrorCode.INVALID_REQUEST),
        (Change("root", SET, "info"), ErrorCode.INVALID_CONFIG),
        (Change("nobody", SET, "INFO"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_illegal_logger_changes(change: Change, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        check_logger_changes([change], {"root": "INFO"})
    assert caught.value.code is code


# -- storage --------------------------------------------------------------------------------------------------


def test_changes_of_others_are_followed(control: FakeControl) -> None:
    control.store.create("/config/topics/orders", _node({"retention.ms": "1"}), make_parents=True)
    for body in (
        b'{"version":2,"entity_path":"topics/orders"}',
        b"garbage",
        b'{"version":2,"entity_path":"topics/.."}',
        b'{"version":3}',
        b'{"version":1,"entity_type":"brokers","entity_name":"7"}',
        b'{"version":2,"entity_path":"brokers/8"}',
    ):
        control.store.create("/config/changes/config_change_", body, sequential=True)
    control.store.create("/config/brokers/7", _node({"message.max.bytes": "4"}), make_parents=True)
    control.configs.process_notes()
    assert control.heard == [
        ("topics", "orders", {"retention.ms": "1"}),
        ("brokers", "7", {"message.max.bytes": "4"}),
    ]
    control.configs.process_notes()
    assert len(control.heard) == 2


def test_settings_that_contradict_each_other_are_not_applied(
    control: FakeControl, caplog: pytest.LogCaptureFixture
) -> None:
    control.configs.update("brokers", "7", lambda _: {"log.retention.ms": "0", "message.max.bytes": "4"})
    assert control.configs.layers.current.message_max_bytes == 1_048_588
    assert "/config/brokers/7 is not applied" in caplog.text
    control.configs.update("brokers", "7", lambda _: {"message.max.bytes": "4"})
    assert control.configs.layers.current.message_max_bytes == 4


def test_restart_finds_everything_again(control: FakeControl) -> None:
    control.configs.update("topics", "été", lambda _: {"retention.ms": "5"})
    control.configs.update("brokers", "<default>", lambda _: {"message.max.bytes": "4"})
    second = ConfigRepository(
        BrokerConfig({}), 7, clock=control.clock, on_change=lambda *_: None, post=lambda _: None
    )
    second.start(control.store)
    assert second.topics() == {"été": {"retention.ms": "5"}}
    assert second.layers.current.message_max_bytes == 4
    second.stop()


def test_users_clients_and_addresses_are_loaded_and_followed(control: FakeControl) -> None:
    heard: list[tuple[str, str, Configs]] = []
    for kind, name in (
        ("users", "alice"),
        ("users", "alice/clients/app%2A"),
        ("users", "bob/clients/<default>"),
        ("clients", "<default>"),
        ("ips", "::1"),
    ):
        update_config(control.store, kind, name, lambda _: {"request_percentage": "50"})
    second = ConfigRepository(
        BrokerConfig({}),
        7,
        clock=control.clock,
        on_change=lambda *each: heard.append(each),
        post=lambda _: None,
    )
    second.start(control.store)
    half = {"request_percentage": "50"}
    assert second.entities("users") == {
        "alice": half,
        "alice/clients/app%2A": half,
        "bob/clients/<default>": half,
    }
    assert (second.entities("clients"), second.entities("ips")) == ({"<default>": half}, {"::1": half})
    assert len(heard) == 5

    update_config(control.store, "users", "alice/clients/app%2A", lambda _: {})
    update_config(control.store, "users", "carol", lambda _: half)
    heard.clear()
    second.process_notes()
    assert heard == [("users", "alice/clients/app%2A", {}), ("users", "carol", half)]

    heard.clear()
    control.store.delete("/config/users/carol")
    second.start(control.store)  # a new session finds what it missed, and only that
    assert heard == [("users", "carol", {})]
    second.stop()


def test_old_notes_are_removed_and_young_ones_kept(control: FakeControl) -> None:
    control.configs.update("topics", "orders", lambda _: {"retention.ms": "1"})
    control.clock.advance(ms=NOTE_EXPIRY_MS - 1)
    control.configs.update("topics", "orders", lambda _: {"retention.ms": "2"})
    control.configs.process_notes()
    assert len(control.store.children("/config/changes")) == 2
    control.clock.advance(ms=2)
    control.configs.process_notes()
    assert control.store.children("/config/changes") == ["config_change_0000000001"]


def test_deleted_topic_is_forgotten(control: FakeControl) -> None:
    control.configs.update("topics", "orders", lambda _: {"retention.ms": "1"})
    # The nodes of a deleted topic go after its metadata, and settings that are still stored are not forgotten.
    control.configs.forget_topics(["orders", "unknown"])
    assert control.configs.topic("orders") == {"retention.ms": "1"}
    control.store.delete("/config/topics/orders")
    control.configs.forget_topics([])
    assert control.configs.topics() == {}


def test_foreign_content_of_a_settings_node_counts_as_no_settings(
    control: FakeControl, caplog: pytest.LogCaptureFixture
) -> None:
    control.store.create("/config/topics/orders", b"[1", make_parents=True)
    assert control.configs.load_topics(["orders"]) == {"orders": {}}
    assert "/config/topics/orders" in caplog.text


def test_settings_written_by_hand_are_shown_but_only_the_legal_ones_used(
    control: FakeControl, caplog: pytest.LogCaptureFixture
) -> None:
    stored = {"retention.ms": "long", "segment.ms": "5", "of.another.version": "x"}
    control.configs.update("topics", "orders", lambda _: stored)
    assert control.configs.topic("orders") == {"segment.ms": "5", "of.another.version": "x"}
    assert control.heard == [("topics", "orders", {"segment.ms": "5", "of.another.version": "x"})]
    assert "retention.ms=long" in caplog.text
    entries = _describe(control, ResourceType.TOPIC, "orders", *stored).configs
    assert {each.name: (each.value, each.is_sensitive) for each in entries} == {
        "retention.ms": ("long", False),
        "segment.ms": ("5", False),
        "of.another.version": (None, True),
    }


def test_passwords_that_cannot_be_read_outlive_other_changes(control: FakeControl) -> None:
    password = "listener.name.external.ssl.key.password"
    control.configs.update("brokers", "7", lambda _: {password: "encoded"})
    assert _alter(control, ResourceType.BROKER, "7", Change("message.max.bytes", SET, "9")).error_code == 0
    assert control.configs.peek("brokers", "7") == {password: "encoded", "message.max.bytes": "9"}
    assert _alter(control, ResourceType.BROKER, "7", Change(password, DELETE, None)).error_code == 0
    assert control.configs.peek("brokers", "7") == {"message.max.bytes": "9"}


def test_without_a_session_requests_fail_softly(control: FakeControl) -> None:
    control.configs.stop()
    response = _alter(control, ResourceType.TOPIC, "orders", Change("retention.ms", SET, "5"))
    assert response.error_code != 0
    result = _describe(control, ResourceType.TOPIC, "orders")
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    control.configs.process_notes()


def test_config_error_is_one_of_ours() -> None:
    with pytest.raises(ConfigError):
        BrokerLayers(BrokerConfig({}), cluster={"log.retention.ms": "0"}).current  # noqa: B018
