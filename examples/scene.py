"""What the examples share: a broker to play on, clients that talk to it, and a way to read until everything has come.

Without ``--bootstrap-server`` an example starts a broker of its own in a temporary directory, which is gone afterwards.
"""

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pkafka.clients.admin import Admin
from pkafka.clients.admin.topic_results import NewTopic
from pkafka.clients.consumer import Consumer
from pkafka.clients.consumer.records import ConsumerRecord
from pkafka.clients.producer import Producer
from pkafka.testing import Broker, running_broker

PATIENCE_S = 60.0


class Scene:
    """A broker, and clients of it.

    Args:
        bootstrap: where brokers listen.
        broker: the broker that the example has started; None where it plays on somebody else's, which it never stops.
    """

    def __init__(self, bootstrap: str, broker: Broker | None) -> None:
        self.bootstrap = bootstrap
        self.broker = broker

    def topic(self, partitions: int = 1, **configs: object) -> str:
        """Make a topic that nobody else uses; configuration keys are written with ``_``."""
        name = f"example-{uuid.uuid4().hex[:8]}"
        keys = {key.replace("_", "."): str(value) for key, value in configs.items()}
        with Admin({"bootstrap.servers": self.bootstrap}) as admin:
            outcome = admin.create_topics([NewTopic(name, partitions, configs=keys)])[name]
            if isinstance(outcome, Exception):
                raise outcome
        return name

    def producer(self, **keys: object) -> Producer:
        """A producer; keys are written with ``_``."""
        return Producer(self._keys(keys))

    def consumer(self, topic: str, group: str | None = None, **keys: object) -> Consumer:
        """A consumer of a topic from its beginning, where its group has not committed anything yet."""
        given = self._keys({"auto_offset_reset": "earliest", "enable_auto_commit": False, **keys})
        consumer = Consumer({**given, "group.id": group or f"example-{uuid.uuid4().hex[:8]}"})
        consumer.subscribe([topic])
        return consumer

    def _keys(self, keys: dict[str, object]) -> dict[str, object]:
        return {
            "bootstrap.servers": self.bootstrap,
            **{key.replace("_", "."): value for key, value in keys.items()},
        }


@contextmanager
def scene(about: str | None, **broker_keys: object) -> Iterator[Scene]:
    """Say what an example shows, and give it a broker until the block ends.

    Args:
        about: the example's own text.
        broker_keys: configuration of a broker that is started, written with ``_``.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="play on this cluster")
    given = parser.parse_args()
    say((about or "").strip())
    if given.bootstrap_server:
        yield Scene(given.bootstrap_server, None)
        return
    overrides = {key.replace("_", "."): value for key, value in broker_keys.items()}
    with (
        tempfile.TemporaryDirectory(prefix="pkafka-example-") as directory,
        running_broker(Path(directory), overrides) as broker,
    ):
        yield Scene(broker.bootstrap, broker)


def say(text: str) -> None:
    """Print a line at once, so that it can be followed."""
    print(text, flush=True)


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until so many records have come.

    Raises:
        TimeoutError: they did not.
    """
    found: list[ConsumerRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(found)} of {count} records came")
        found += consumer.poll(200)
    return found


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something is so.

    Raises:
        TimeoutError: it does not become so.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.05)
