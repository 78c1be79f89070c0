"""What clients measure and how they let themselves be throttled, beside Apache Kafka's own clients."""

from collections.abc import Iterator

import pytest

from pkafka.clients.throttling import is_kept
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from tests.interop.kafka import ToolServer, compile_java

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def java(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    """Runs the programs of tests/interop/java that this module needs."""
    classes = tmp_path_factory.mktemp("metrics-java")
    server = ToolServer(compile_java(kafka_classpath, classes, "ToolServer", "ThrottledApis"))
    yield server
    server.close()


def test_throttles_are_kept_to_for_the_same_versions(java: ToolServer) -> None:
    lines = java.run("ThrottledApis").stdout.splitlines()
    theirs = {ApiKey(api): set(versions) for api, *versions in (map(int, line.split()) for line in lines)}
    ours = {key: {version for version in registry.versions(key) if is_kept(key, version)} for key in theirs}
    assert ours == {key: versions & set(registry.versions(key)) for key, versions in theirs.items()}
    assert sum(map(bool, ours.values())) > 40
