"""One broker a module, and connections to it.

A module says with a fixture ``broker_settings`` what is special about its broker. ``PKAFKA_TEST_BOOTSTRAP=host:port``
asks another broker instead, such as Apache Kafka: then ``broker`` is None.
"""

from collections.abc import Callable, Iterator

import pytest

from pkafka.testing import Broker, running_broker
from tests.raw_client import OTHER_BROKER, RawClient, new_topic_name
from tests.talk import Talk, talking

WORKERS = 2

pytest.register_assert_rewrite("tests.e2e.json_cases")


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    """Keys of server.properties."""
    return {"pkafka.workers": WORKERS}


@pytest.fixture(scope="module")
def broker(
    broker_settings: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker | None]:
    """The module's broker; None where the tests ask another one."""
    if OTHER_BROKER:
        yield None
        return
    with running_broker(tmp_path_factory.mktemp("e2e") / "broker", broker_settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def no_error_is_logged(broker: Broker | None) -> Iterator[None]:
    """For modules that do nothing to a broker that it should complain about."""
    yield
    if broker is not None:
        assert complaints(broker) == []


@pytest.fixture(scope="module")
def address(broker: Broker | None) -> str:
    """``host:port`` of whoever is asked."""
    if broker is None:
        assert OTHER_BROKER is not None
        return OTHER_BROKER
    return broker.bootstrap


@pytest.fixture
def client(address: str) -> Iterator[RawClient]:
    with RawClient(address) as client:
        yield client


@pytest.fixture
def plain_environment(pkafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands know the plugin's broker from the environment, and nothing else."""
    monkeypatch.delenv("PK_COMPAT", raising=False)
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", pkafka_broker.bootstrap)


@pytest.fixture
def topic() -> str:
    """The name of a topic that does not exist yet."""
    return new_topic_name()


@pytest.fixture
def talk(broker: Broker) -> Iterator[Talk]:
    with talking(broker.bootstrap) as talk:
        yield talk


@pytest.fixture
def own_broker(broker: Broker | None) -> Broker:
    """For tests that look at processes and files."""
    if broker is None:
        pytest.skip("looks at pkafka's processes")
    return broker


def complaints(broker: Broker, said_before: int = 0) -> list[str]:
    """The lines of the broker's log, from that byte on, which should not be there."""
    with broker.log_file.open(errors="replace") as log:
        log.seek(said_before)
        return [
            line for line in log if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")
        ]


@pytest.fixture
def inherit(talk: Talk) -> Iterator[Callable[..., None]]:
    """Sets defaults of all brokers, which are gone again after the test."""
    changed: dict[str, None] = {}

    def change(**settings: object) -> None:
        changed.update(dict.fromkeys(settings))
        talk.set_broker("", **settings)

    yield change
    talk.set_broker("", **changed)
