"""The transactions of Spark's tasks, without Spark, on both systems: attempts at a batch find what was committed."""

import pyarrow as pa
import pytest

from pkafka.clients.producer import Producer
from pkafka.clients.producer.errors import ProducerFencedError
from pkafka.pipeline.topics.exactly_once import (
    ExactlyOnceError,
    Transactions,
    TransactionScope,
    WriteNames,
    names_of,
)
from pkafka.pipeline.topics.options import WriteOptions, write_options
from pkafka.pipeline.topics.transactional_writing import WrittenOnce, check_batch, write_once
from tests.interop.conftest import System
from tests.talk import talking

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


class Job:
    """A write into a topic that its rows name, or all of them have."""

    def __init__(self, system: System, topic: str, *, is_named: bool) -> None:
        self.system, self.topic = system, topic
        with talking(system.bootstrap) as talk:
            talk.create(topic)
        given = {"kafka.bootstrap.servers": system.bootstrap, "delivery": "exactly-once"}
        self.options: WriteOptions = write_options(given if is_named else {**given, "topic": topic})

    def names(self, batch: int, run: str = "q1") -> WriteNames:
        given = Transactions(self.topic, TransactionScope.TASK, None)
        return names_of(given, self.options.topic, f"{run}-{self.topic}", batch)

    def write(self, task: int, batch: int, *values: str, run: str = "q1") -> WrittenOnce:
        rows = pa.RecordBatch.from_pydict({"value": list(values), "topic": [self.topic] * len(values)})
        return write_once(iter([rows]), self.options, self.names(batch, run), task)

    def committed(self) -> list[bytes | None]:
        with talking(self.system.bootstrap) as talk:
            return [record.value for record in talk.read(self.topic, 0)]


@pytest.mark.parametrize("is_named", [False, True])
def test_an_attempt_finds_what_another_has_committed(system: System, topic: str, is_named: bool) -> None:
    job = Job(system, topic, is_named=is_named)
    first = [job.write(0, 0, "a"), job.write(1, 0, "b"), job.write(2, 0)]
    check_batch(first, job.options)
    again = [job.write(0, 0, "a"), job.write(1, 0, "b"), job.write(2, 0)]
    check_batch(again, job.options)
    assert [each.outcome.earlier is not None for each in again] == [True, True, False]
    assert job.committed() == [b"a", b"b"]
    for messages in ([job.write(0, 0, "a")], [job.write(0, 0, "a"), job.write(1, 0, "other")]):
        with pytest.raises(ExactlyOnceError, match="has written other rows as task 1 "):
            check_batch(messages, job.options)
    check_batch([job.write(0, 1, "c")], job.options)
    with pytest.raises(ExactlyOnceError, match="batch 0 comes after batch 1"):
        job.write(0, 0, "a")
    job.write(0, 0, "d", run="q2")  # another query has marks of its own
    assert job.committed() == [b"a", b"b", b"c", b"d"]


def test_zombies_are_fenced_whether_a_task_has_their_number_or_not(system: System, topic: str) -> None:
    job = Job(system, topic, is_named=False)
    names = job.names(0)
    keys = {"bootstrap.servers": system.bootstrap}
    zombies = {task: Producer({**keys, "transactional.id": names.transactional_id(task)}) for task in (0, 7)}
    try:
        for task, zombie in zombies.items():
            zombie.init_transactions()
            zombie.begin_transaction()
            zombie.send(topic, b"zombie", partition=0)
            zombie.send_offsets_to_transaction({names.marked: 0}, names.group(task))
        check_batch([job.write(0, 0, "a"), job.write(1, 0, "b")], job.options)
        for zombie in zombies.values():
            with pytest.raises(ProducerFencedError):
                zombie.commit_transaction()
    finally:
        for zombie in zombies.values():
            zombie.close()
