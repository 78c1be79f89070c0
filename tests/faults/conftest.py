"""Brokers of their own for tests that kill, stop and starve."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import psutil
import pytest

from pkafka.testing import Broker
from tests.interop import kafka as oracle

SOON_IN_STARTS = 12  # of forked brokers, which take a third of what programs do
SOON_AT_LEAST_S = 20.0  # the start may have had the machine to itself, and what is measured not
SYSTEMS: Final = tuple(os.environ.get("PKAFKA_INTEROP_SYSTEMS", "kafka pkafka").split())
# Kafka shows that what is demanded holds where nothing is wrong: at night that is often enough.
EITHER_KIND: Final = tuple(
    pytest.param(name, marks=[pytest.mark.nightly] if name == "kafka" else []) for name in SYSTEMS
)

# What tests about groups of Apache Kafka and pkafka have in common: a broker alone, and few partitions to load.
GROUP_SETTINGS: Final = {
    "broker.id": 0,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 5,
}


class MeasuredBroker(Broker):
    """A broker that knows how fast the machine is just now."""

    soon_s = 0.0
    """So many times as long as its last start took: what happens at once is over by then, on a busy machine too."""

    def start(self, *arguments: str) -> None:
        began = time.monotonic()
        super().start(*arguments)
        self.soon_s = max(SOON_AT_LEAST_S, SOON_IN_STARTS * (time.monotonic() - began))


MakeBroker = Callable[..., MeasuredBroker]
AnyBroker: TypeAlias = MeasuredBroker | oracle.KafkaBroker


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


@contextmanager
def broker_of_kind(
    kind: str, make_broker: MakeBroker, directory: Path, settings: Mapping[str, object]
) -> Iterator[AnyBroker]:
    """A started broker of its own, of a kind out of :data:`EITHER_KIND`."""
    if kind == "kafka":
        try:
            with oracle.running_kafka(directory / "kafka", overrides=settings) as theirs:
                yield theirs
        except oracle.OracleUnavailableError as missing:
            pytest.skip(str(missing))
    else:
        ours = make_broker(**settings)
        ours.start()
        yield ours


def memory_bytes(broker: AnyBroker) -> int:
    """What its processes have to themselves, and their share of what they share."""
    process = psutil.Process(broker.pid)
    return sum(each.memory_full_info().pss for each in (process, *process.children(recursive=True)))
