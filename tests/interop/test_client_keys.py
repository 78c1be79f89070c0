"""The clients have the keys of Kafka's own, with their importance and their defaults."""

from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Final

import pytest

from pkafka.clients.config import ClientConfig, ConsumerConfig, ProducerConfig
from pkafka.clients.config.documentation import WITHOUT_EFFECT, about
from tests.interop.kafka import ToolServer, compile_java

CLIENTS: Final[dict[str, type[ClientConfig]]] = {
    "admin": ClientConfig,
    "consumer": ConsumerConfig,
    "producer": ProducerConfig,
}
_OTHER_DEFAULTS: Final = {
    # One value for all clients, where Kafka's differ.
    ("producer", "receive.buffer.bytes"),
    ("admin", "connections.max.idle.ms"),
    # What is written another way: classes of Python, one word for -1, nothing for nobody.
    ("consumer", "partition.assignment.strategy"),
    ("producer", "acks"),
}


@pytest.fixture(scope="module")
def java(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    classes = tmp_path_factory.mktemp("client-keys-java")
    server = ToolServer(compile_java(kafka_classpath, classes, "ToolServer", "ClientConfigs"))
    yield server
    server.close()


def test_keys_importance_and_defaults_are_kafkas(java: ToolServer) -> None:
    done = java.run("ClientConfigs")
    assert done.returncode == 0, done
    seen = set()
    for line in done.stdout.splitlines():
        client, key, importance, default = line.split("\t")
        defaults = CLIENTS[client].defaults()
        if key not in defaults:
            assert any(fnmatch(key, pattern) for pattern in WITHOUT_EFFECT), f"{client}: {key} is not known"
            continue
        seen.add((client, key))
        assert about(key, client).importance == importance, f"{client}: {key}"
        if (client, key) not in _OTHER_DEFAULTS:
            assert written(defaults[key]) == default.replace("[]", "null"), f"{client}: {key}"
    # Those that no client of Kafka has are shared ones that only the others of them have.
    beyond = {(client, key) for client, config in CLIENTS.items() for key in config.defaults()} - seen
    assert {key for _client, key in beyond} <= ClientConfig.defaults().keys()


def written(value: object) -> str:
    """A default as Java writes it; its empty lists and texts are nothing, as None."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and value:
        return f"[{', '.join(value)}]"
    return "null" if value in (None, ()) else str(value)
