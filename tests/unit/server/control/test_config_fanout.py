"""Dynamic settings on their way to the workers, the cleaner and the controller."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import DYNAMIC_ONLY_KEYS
from pkafka.server.control.config_fanout import ConfigFanout
from pkafka.server.ipc import words
from pkafka.server.security.encryption import Encryption

FILE = {"log.retention.ms": "5", "num.io.threads": "3"}
UNCLEAN = "unclean.leader.election.enable"


class World:
    """A fan-out, and what is heard of it."""

    def __init__(self, *gone: str, **broker: str) -> None:
        self.told: list[tuple[str, Any]] = []
        self.elections: list[str | None] = []
        self.advertised = 0
        self.key_sets: list[BrokerConfig] = []
        static = BrokerConfig(FILE)
        changed = {key.replace("_", "."): text for key, text in broker.items()}
        config = BrokerConfig({key: text for key, text in {**FILE, **changed}.items() if key not in gone})
        self.layers = SimpleNamespace(current=config, broker={}, cluster={})
        controller = SimpleNamespace(allow_unclean_election=self.elections.append)
        self._fanout = ConfigFanout(
            static,
            cast(
                "Any",
                SimpleNamespace(
                    config=config,
                    configs=SimpleNamespace(layers=self.layers),
                    controller=controller,
                    encryption=Encryption(config),
                ),
            ),
            cast("Any", SimpleNamespace(cleaner=None, tell_workers=lambda *said: self.told.append(said))),
            cast("Any", SimpleNamespace(take=self.key_sets.append)),
            self._advertise,
        )
        self.changed = self._fanout.changed

    def _advertise(self) -> None:
        self.advertised += 1


def test_the_settings_that_differ_from_the_file_are_told() -> None:
    world = World("num.io.threads", log_retention_ms="7", log_segment_bytes="2048")
    throttles: dict[str, str | None] = dict.fromkeys(DYNAMIC_ONLY_KEYS)
    first = next(iter(throttles))
    throttles[first] = world.layers.broker[first] = "9"
    world.changed("brokers", "0", {})
    [(word, settings)] = world.told
    assert word == words.BROKER_CONFIG
    assert settings == {
        "log.retention.ms": "7",
        "log.segment.bytes": "2048",
        "num.io.threads": None,
        **throttles,
    }
    assert world.advertised == 1


def test_the_settings_of_a_topic_are_told_as_they_are() -> None:
    world = World()
    world.changed("topics", "t", {"retention.ms": "1"})
    assert world.told == [(words.TOPIC_CONFIGS, {"t": {"retention.ms": "1"}})]
    assert (world.elections, world.advertised) == ([], 0)


@pytest.mark.parametrize(("text", "elections"), [("true", ["t"]), (" True", ["t"]), ("false", [])])
def test_a_topic_that_allows_unclean_elections_has_them_at_once(text: str, elections: list[str]) -> None:
    world = World()
    world.changed("topics", "t", {UNCLEAN: text})
    assert world.elections == elections


@pytest.mark.parametrize(("text", "elections"), [("true", [None]), ("false", [])])
def test_a_broker_that_allows_unclean_elections_has_them_for_all_topics(
    text: str, elections: list[None]
) -> None:
    world = World(unclean_leader_election_enable=text)
    world.changed("brokers", "", {UNCLEAN: text})
    assert world.elections == elections
