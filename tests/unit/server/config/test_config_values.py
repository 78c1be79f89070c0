"""Configuration values: text to value, rules, and Kafka's words for what breaks them."""

import pytest

from pkafka.errors import ConfigError
from pkafka.server.config.keys import ConfigKey, broker_keys, topic_keys
from pkafka.server.config.keys.values import Value, kafka_message, parse, render


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("num.partitions", " 12 ", 12),
        ("num.partitions", "+12", 12),
        ("log.retention.ms", "-1", -1),
        ("log.retention.bytes", str(2**63 - 1), 2**63 - 1),
        ("delete.topic.enable", "TRUE", True),
        ("delete.topic.enable", "false", False),
        ("log.cleaner.min.cleanable.ratio", ".25", 0.25),
        ("log.cleaner.min.cleanable.ratio", "1e-3f", 0.001),
        ("log.cleanup.policy", " delete , compact", ("delete", "compact")),
        ("log.cleanup.policy", "", ()),
        ("broker.rack", " r1 ", "r1"),
        ("broker.rack", "\x1f r1\xa0", "r1\xa0"),
        ("num.partitions", " +5\t", 5),
        ("num.partitions", "\u0663", 3),
        ("log.cleaner.min.cleanable.ratio", "0x1p-1", 0.5),
        ("inter.broker.protocol.version", "3.9", "3.9"),
        ("inter.broker.protocol.version", "0.10.1-IV2", "0.10.1-IV2"),
    ],
)
def test_text_becomes_value(name: str, text: str, expected: Value) -> None:
    assert parse(broker_keys()[name], text) == expected


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("num.partitions", "x", "Invalid value x for configuration num.partitions: Not a number of type INT"),
        (
            "num.partitions",
            "1_0",
            "Invalid value 1_0 for configuration num.partitions: Not a number of type INT",
        ),
        (
            "num.partitions",
            "\u00b2",
            "Invalid value \u00b2 for configuration num.partitions: Not a number of type INT",
        ),
        (
            "num.partitions",
            str(2**31),
            f"Invalid value {2**31} for configuration num.partitions: Not a number of type INT",
        ),
        ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        (
            "offsets.topic.replication.factor",
            "40000",
            "Invalid value 40000 for configuration offsets.topic.replication.factor: Not a number of type SHORT",
        ),
        (
            "compression.lz4.level",
            "18",
            "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17",
        ),
        (
            "log.cleaner.min.cleanable.ratio",
            "2",
            "Invalid value 2.0 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1",
        ),
        (
            "log.cleaner.min.cleanable.ratio",
            "nan?",
            "Invalid value nan? for configuration log.cleaner.min.cleanable.ratio: Not a number of type DOUBLE",
        ),
        (
            "delete.topic.enable",
            "yes",
            "Invalid value yes for configuration delete.topic.enable: Expected value to be either true or false",
        ),
        (
            "log.cleanup.policy",
            "delete,shred",
            "Invalid value shred for configuration log.cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "inter.broker.protocol.version",
            "3.9-IV1",
            "Invalid value 3.9-IV1 for configuration inter.broker.protocol.version:"
            " Version 3.9-IV1 is not a valid version",
        ),
        (
            "remote.log.storage.manager.impl.prefix",
            "",
            "Invalid value  for configuration remote.log.storage.manager.impl.prefix: String must be non-empty",
        ),
    ],
)
def test_wrong_text_is_refused_in_the_words_of_kafka(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(broker_keys()[name], text)
    assert caught.value.key == name
    assert kafka_message(caught.value) == sentence


def test_secret_is_not_repeated() -> None:
    key = ConfigKey("x.password", "password", None, ("range", 1, None), "high", "read-only")
    assert key.sensitive
    assert parse(key._replace(rule=None), "geheim") == "geheim"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (5, "5"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1e-4, "1.0E-4"),
        (1.2345e-4, "1.2345E-4"),
        (1e-9, "1.0E-9"),
        (0.001, "0.001"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-2.5e10, "-2.5E10"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_value_is_shown_as_java_shows_it(value: Value, text: str | None) -> None:
    assert render(value) == text


@pytest.mark.parametrize("key", [*broker_keys().values(), *topic_keys().values()], ids=lambda key: key.name)
def test_every_default_keeps_its_own_rule(key: ConfigKey) -> None:
    if key.default is not None or key.rule is None or key.rule[0] != "not null":
        assert render(parse(key, key.default)) == key.default


def test_registry_has_every_key_of_the_reference() -> None:
    own = [name for name in broker_keys() if name.startswith("pkafka.")]
    assert (len(broker_keys()) - len(own), len(topic_keys())) == (328, 36)
    assert sum(key.dynamic for key in broker_keys().values()) == 89
    for key in topic_keys().values():
        assert {name for name, _ in key.synonyms} <= broker_keys().keys()
