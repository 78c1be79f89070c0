"""Every accepted configuration key has a test of its effect or stands on the list of those without one."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from pkafka.server.config.keys import broker_keys, documentation_of, topic_keys
from pkafka.server.config.keys.effects import (
    BROKER_ACCEPTED_WITHOUT_EFFECT,
    BROKER_EFFECTIVE,
    BROKER_WITHOUT_MEANING,
    TOPIC_ACCEPTED_WITHOUT_EFFECT,
    TOPIC_EFFECTIVE,
    TOPIC_WITHOUT_MEANING,
)

_ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("keys", "tables"),
    [
        (broker_keys(), (BROKER_EFFECTIVE, BROKER_WITHOUT_MEANING, BROKER_ACCEPTED_WITHOUT_EFFECT)),
        (topic_keys(), (TOPIC_EFFECTIVE, TOPIC_WITHOUT_MEANING, TOPIC_ACCEPTED_WITHOUT_EFFECT)),
    ],
    ids=["broker", "topic"],
)
def test_every_key_stands_in_exactly_one_table(
    keys: Collection[str], tables: Sequence[Collection[str]]
) -> None:
    assert sorted(name for table in tables for name in table) == sorted(keys)


@pytest.mark.parametrize("tests", [BROKER_EFFECTIVE, TOPIC_EFFECTIVE], ids=["broker", "topic"])
def test_every_named_test_exists(tests: Mapping[str, str]) -> None:
    for key, node in tests.items():
        path, _, function = node.partition("::")
        file = _ROOT / path
        assert file.is_file(), f"{key}: {path} does not exist"
        assert f"def {function}(" in file.read_text(encoding="utf-8"), f"{key}: {node} does not exist"


def test_every_topic_key_and_every_effective_broker_key_is_documented_in_one_line() -> None:
    lines = {name: documentation_of(name) for name in broker_keys()}
    lines |= {f"topic {name}": documentation_of(name, topic=True) for name in topic_keys()}
    assert [
        name for name in lines if not lines[name] and (name in BROKER_EFFECTIVE or name.startswith("topic "))
    ] == []
    assert all("\n" not in line and (not line or line.endswith(".")) for line in lines.values())
