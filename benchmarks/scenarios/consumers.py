"""Consumers of Python on the same broker: what they read in a second, in bulk and record by record."""

from typing import Final

from benchmarks import client_process
from benchmarks.consuming import Data, fill
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target

_DATA: dict[tuple[int, str], Data] = {}
# How it is called here: the way of benchmarks.consumers, and whether with plain loops.
_WAYS: Final = {
    "bulk": ("pkafka_bulk", False),
    "bulk, pure": ("pkafka_bulk", True),
    "bulk, confluent": ("confluent_bulk", False),
    "bulk, aiokafka": ("aiokafka_bulk", False),
    "bulk, kafka-python": ("kafka_python_bulk", False),
    "one by one": ("pkafka_poll", False),
    "one by one, pure": ("pkafka_poll", True),
    "one by one, confluent": ("confluent_poll", False),
    "one by one, aiokafka": ("aiokafka_poll", False),
    "one by one, kafka-python": ("kafka_python_poll", False),
}
# One way, another one, and at least how many times as fast the one is to be.
_RATIOS: Final = (
    ("bulk", "bulk, confluent", 1),
    ("bulk", "bulk, aiokafka", 3),
    ("bulk, pure", "bulk, kafka-python", 4),
    ("one by one, pure", "one by one, kafka-python", 3),
)


def _ratio_name(one: str, other: str) -> str:
    return f"{one} / {other.rpartition(' ')[2]}"


def _scenario(record_bytes: int) -> Scenario:
    def prepare(target: Target, settings: Settings) -> None:
        _DATA[record_bytes, target.name] = fill(
            target,
            record_bytes=record_bytes,
            batch_bytes=16_000,
            partitions=1,
            total_bytes=settings.scaled(1_000_000_000, 100_000_000),
        )

    def measure(target: Target, settings: Settings) -> dict[str, float]:
        data = _DATA[record_bytes, target.name]
        figures: dict[str, float] = {}
        for name, (way, pure) in _WAYS.items():
            found = client_process.run(
                "benchmarks.consumers",
                *(way, target.broker.bootstrap, data.topic, data.partitions),
                seconds=settings.seconds / 2,
                pure=pure,
            )
            figures[name] = found["records"] / found["seconds"] / 1e3
        for one, other, _floor in _RATIOS:
            figures[_ratio_name(one, other)] = figures[one] / figures[other]
        return figures

    return Scenario(
        name=f"consumers_{'1k' if record_bytes == 1000 else f'{record_bytes}b'}",
        about=(
            f"consume {record_bytes} B records from 16 kB batches with pkafka's consumer and others', 1 partition, "
            "thousands of records/s"
        ),
        figures=(
            *(Figure(name, "k/s", more_is_better=True) for name in _WAYS),
            *(
                Figure(_ratio_name(one, other), "x", more_is_better=True, floor=floor)
                for one, other, floor in _RATIOS
            ),
        ),
        measure=measure,
        prepare=prepare,
    )


SCENARIOS = (_scenario(100), _scenario(1000))
"""For :mod:`benchmarks.registry`."""
