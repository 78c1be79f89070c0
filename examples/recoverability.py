"""Recoverability: a worker that dies loses nothing; the next one goes on where its group had got to.

The first worker, a process, handles some of the records and says so (it commits), begins with the next ones, and dies
without a word. When the group has not heard of it for a while, its successor gets what was not committed.
"""

import multiprocessing
import os

from scene import Scene, read, say, scene

from pkafka.model import TopicPartition

COUNT = 100
HANDLED = 30
# The least that brokers allow by default: so soon the group takes a silent member for dead.
SESSION_MS = 6_000


def worker_that_dies(bootstrap: str, topic: str, group: str) -> None:
    """Handle some records, begin with more, and be gone."""
    consumer = Scene(bootstrap, None).consumer(
        topic, group, session_timeout_ms=SESSION_MS, max_poll_records=HANDLED
    )
    records = read(consumer, HANDLED)
    consumer.commit_sync({TopicPartition(topic, 0): records[-1].offset + 1})
    read(consumer, 1)
    os._exit(9)


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic()
        group = f"{topic}-workers"
        with play.producer() as producer:
            for number in range(COUNT):
                producer.send(topic, b"%d" % number)
        process = multiprocessing.get_context("spawn").Process(
            target=worker_that_dies, args=(play.bootstrap, topic, group)
        )
        process.start()
        process.join()
        assert process.exitcode == 9
        say(f"a worker handled {HANDLED} records, began with more, and died")
        with play.consumer(topic, group, max_poll_records=HANDLED) as successor:
            rest = [int(record.value) for record in read(successor, COUNT - HANDLED)]
        say(f"the next one handled {rest[0]} to {rest[-1]}")
        assert rest == list(range(HANDLED, COUNT))


if __name__ == "__main__":
    main()
