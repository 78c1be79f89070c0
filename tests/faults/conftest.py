"""Brokers of their own for tests that kill, stop and starve."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.testing import Broker

SOON_IN_STARTS = 5


class MeasuredBroker(Broker):
    """A broker that knows how fast the machine is just now."""

    soon_s = 0.0
    """So many times as long as its last start took: what happens at once is over by then, on a busy machine too."""

    def start(self, *arguments: str) -> None:
        began = time.monotonic()
        super().start(*arguments)
        self.soon_s = SOON_IN_STARTS * (time.monotonic() - began)


MakeBroker = Callable[..., MeasuredBroker]


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Makes brokers of two workers, not started; what still runs is killed, and each must be wholly gone."""
    made: list[MeasuredBroker] = []

    def make(name: str = "broker", **overrides: object) -> MeasuredBroker:
        settings = {"pkafka.workers": 2, **{key.replace("_", "."): value for key, value in overrides.items()}}
        broker = MeasuredBroker(tmp_path / name, settings)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.kill()
        print(broker.log_tail())  # shown when the test fails


@pytest.fixture
def broker(make_broker: MakeBroker) -> MeasuredBroker:
    """A started broker of two workers."""
    broker = make_broker()
    broker.start()
    return broker
