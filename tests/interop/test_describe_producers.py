"""Who writes to a partition: what the admin client and Kafka's tool are told, on both systems."""

import time
from typing import Final

import pytest

from pkafka.clients.admin.results import ProducerState
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.records.builder import build_batch
from tests.interop.conftest import Everywhere
from tests.talk import Talk, code_of, good, talking

TRANSACTIONS: Final = "org.apache.kafka.tools.TransactionsCommand"
NOON: Final = time.time_ns() // 1_000_000
"""Of the present: every ten minutes a broker forgets the producers whose last record is older than a day."""


def _batch(producer_id: int, epoch: int, sequence: int, *, timestamps: tuple[int, ...]) -> bytes:
    records = [(timestamp, None, b"v", ()) for timestamp in timestamps]
    return bytes(build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def _write(talk: Talk, topic: str) -> None:
    """Three producers of partition 0, one of them in its second epoch; nobody who could be known in the last one."""
    talk.produce(topic, _batch(7_001, 0, 0, timestamps=(NOON, NOON + 9, NOON + 1)))
    talk.produce(topic, _batch(7_001, 0, 3, timestamps=(NOON - 5,)))
    talk.produce(topic, _batch(7_002, 4, 0, timestamps=(NOON,)))
    talk.produce(topic, _batch(7_000, 1, 0, timestamps=(NOON,) * 5))
    talk.produce(topic, _batch(7_000, 2, 0, timestamps=(NOON + 2,)))
    talk.produce(topic, _batch(7_003, 0, 0, timestamps=(NOON,)), partition=1)
    talk.send(topic, b"v", partition=2)


@pytest.mark.parametrize("partitions", [(0, 1, 2), (0,)])
def test_what_the_leader_remembers_of_each(talk: Talk, topic: str, partitions: tuple[int, ...]) -> None:
    talk.create(topic, 3, retention_ms=-1)
    _write(talk, topic)
    asked = [TopicPartition(topic, one) for one in partitions]
    found = talk.admin.describe_producers([*asked, TopicPartition(topic, 9)], timeout_ms=20_000)
    expected = [
        [
            ProducerState(7_000, 2, 0, NOON + 2, None, None),
            ProducerState(7_001, 0, 3, NOON - 5, None, None),
            ProducerState(7_002, 4, 0, NOON, None, None),
        ],
        [ProducerState(7_003, 0, 0, NOON, None, None)],
        [],
    ]
    assert [good(found[one]) for one in asked] == expected[: len(asked)]
    assert code_of(found[TopicPartition(topic, 9)]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_kafkas_tool_shows_them(everywhere: Everywhere, topic: str) -> None:
    for system in everywhere.systems:
        with talking(system.bootstrap) as talk:
            talk.create(topic, 3, retention_ms=-1)
            _write(talk, topic)
    for partition, rows in ((0, 3), (1, 1), (2, 0)):
        words = ("describe-producers", "--topic", topic, "--partition", partition)
        shown = everywhere.run(TRANSACTIONS, *words, sorted_lines=True)
        assert len(shown.splitlines()) == 1 + rows
