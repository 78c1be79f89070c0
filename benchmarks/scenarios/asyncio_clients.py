"""The clients of asyncio on the same broker, pkafka's and aiokafka: what they send and read in a second, one by one."""

import time
from typing import Final

from benchmarks import client_process, wire
from benchmarks.consuming import Data, fill
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target

_RECORD_BYTES: Final = 100
_DATA: dict[str, Data] = {}
# How it is called here, and the way of benchmarks.asyncio_clients.
_SENDERS: Final = {
    "send": "pkafka_send",
    "send, aiokafka": "aiokafka_send",
    "send in turn": "pkafka_send_in_turn",
    "send in turn, aiokafka": "aiokafka_send_in_turn",
}
_READERS: Final = {"read": "pkafka_read", "read, aiokafka": "aiokafka_read"}
_TIMES_AIOKAFKA: Final = 3
_RATIOS: Final = ("send", "send in turn", "read")


def _prepare(target: Target, settings: Settings) -> None:
    _DATA[target.name] = fill(
        target,
        record_bytes=_RECORD_BYTES,
        batch_bytes=16_000,
        partitions=1,
        total_bytes=settings.scaled(100_000_000, 20_000_000),
    )


def _rate(way: str, target: Target, topic: str, settings: Settings) -> float:
    found = client_process.run(
        "benchmarks.asyncio_clients",
        *(way, target.broker.bootstrap, topic, _RECORD_BYTES),
        seconds=settings.seconds / 2,
    )
    return found["records"] / found["seconds"] / 1e3


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, way in _SENDERS.items():
        topic = f"asyncio-{time.time_ns():x}"
        wire.create_topic(target.address, topic, 1, {"file.delete.delay.ms": "0"})
        figures[name] = _rate(way, target, topic, settings)
        wire.delete_topic(target.address, topic)
    for name, way in _READERS.items():
        figures[name] = _rate(way, target, _DATA[target.name].topic, settings)
    for verb in _RATIOS:
        figures[f"{verb} / aiokafka"] = figures[verb] / figures[f"{verb}, aiokafka"]
    return figures


SCENARIOS = (
    Scenario(
        name="asyncio_clients",
        about=(
            f"{_RECORD_BYTES} B records one by one with clients of asyncio, 1 partition: sent with acks=all, 1,000 "
            "outcomes awaited at a time, by gather() or in turn; read from 16 kB batches; thousands of records/s"
        ),
        figures=(
            *(Figure(name, "k/s", more_is_better=True) for name in (*_SENDERS, *_READERS)),
            *(
                Figure(f"{verb} / aiokafka", "x", more_is_better=True, floor=_TIMES_AIOKAFKA)
                for verb in _RATIOS
            ),
        ),
        measure=_measure,
        prepare=_prepare,
    ),
)
"""For :mod:`benchmarks.registry`."""
