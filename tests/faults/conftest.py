"""Brokers of their own for tests that kill, stop and starve."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.testing import Broker

MakeBroker = Callable[..., Broker]


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Makes brokers of two workers, not started; what still runs is killed, and each must be wholly gone."""
    made: list[Broker] = []

    def make(name: str = "broker", **overrides: object) -> Broker:
        settings = {"pkafka.workers": 2, **{key.replace("_", "."): value for key, value in overrides.items()}}
        broker = Broker(tmp_path / name, settings)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.kill()
        print(broker.log_tail())  # shown when the test fails


@pytest.fixture
def broker(make_broker: MakeBroker) -> Broker:
    """A started broker of two workers."""
    broker = make_broker()
    broker.start()
    return broker
