"""Producers of Python on the same broker: what they send in a second, in bulk and record by record."""

import time
from typing import Final

from benchmarks import client_process, wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target

# How it is called here: the way of benchmarks.producers, and whether with plain loops.
_WAYS: Final = {
    "bulk": ("pkafka_bulk", False),
    "bulk, pure": ("pkafka_bulk", True),
    "bulk, confluent": ("confluent_bulk", False),
    "bulk, aiokafka": ("aiokafka_bulk", False),
    "one by one": ("pkafka_send", False),
    "one by one, pure": ("pkafka_send", True),
    "one by one, confluent": ("confluent_send", False),
    "one by one, aiokafka": ("aiokafka_send", False),
    "one by one, kafka-python": ("kafka_python_send", False),
    "with all": ("pkafka_send_all", False),
    "with all, confluent": ("confluent_send_all", False),
}
# One way, another one, and at least how many times as fast the one is to be.
_RATIOS: Final = (
    ("bulk", "bulk, confluent", 1),
    ("bulk", "one by one, aiokafka", 3),
    ("bulk, pure", "one by one, kafka-python", 8),
    ("one by one, pure", "one by one, kafka-python", 3),
)


def _ratio_name(one: str, other: str) -> str:
    return f"{one} / {other.rpartition(' ')[2]}"


def _scenario(record_bytes: int) -> Scenario:
    def measure(target: Target, settings: Settings) -> dict[str, float]:
        figures: dict[str, float] = {}
        for name, (way, pure) in _WAYS.items():
            topic = f"producers-{time.time_ns():x}"
            wire.create_topic(target.address, topic, 1, {"file.delete.delay.ms": "0"})
            found = client_process.run(
                "benchmarks.producers",
                *(way, target.broker.bootstrap, topic, record_bytes),
                seconds=settings.seconds / 2,
                pure=pure,
            )
            (there,) = wire.end_offsets(target.address, topic, 1)
            if there < found["records"]:
                raise RuntimeError(f"{way}: {found['records']} records acknowledged, {there} there")
            wire.delete_topic(target.address, topic)
            figures[name] = found["records"] / found["seconds"] / 1e3
        for one, other, _floor in _RATIOS:
            figures[_ratio_name(one, other)] = figures[one] / figures[other]
        return figures

    return Scenario(
        name=f"producers_{'1k' if record_bytes == 1000 else f'{record_bytes}b'}",
        about=(
            f"produce {record_bytes} B records with pkafka's producer and others', acks=all, no codec, 1 partition, "
            "thousands of records/s; with all: one by one, each with a key, a header and a callback"
        ),
        figures=(
            *(Figure(name, "k/s", more_is_better=True) for name in _WAYS),
            *(
                Figure(_ratio_name(one, other), "x", more_is_better=True, floor=floor)
                for one, other, floor in _RATIOS
            ),
        ),
        measure=measure,
    )


SCENARIOS = (_scenario(100), _scenario(1000))
"""For :mod:`benchmarks.registry`."""
