"""Replay: reading takes nothing away, so a group can go back and work on the same records again.

A first version of a program has a fault. When it is mended, the offsets of its group are set back to the beginning, and
the same records come again; a consumer can go to a moment as well.
"""

from scene import read, say, scene

from pkafka.clients.admin import Admin
from pkafka.model import TopicPartition

COUNT = 20
T0 = 1_700_000_000_000


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic(retention_ms=-1)  # the records are of a day long ago
        partition, group = TopicPartition(topic, 0), f"{topic}-report"
        with play.producer() as producer:
            for number in range(COUNT):
                producer.send(topic, b"%d" % number, timestamp_ms=T0 + number * 60_000)
        with play.consumer(topic, group) as consumer:
            wrong = sum(int(record.value) for record in read(consumer, COUNT) if int(record.value) % 2)
            consumer.commit_sync()
        say(f"the program, which has a fault, came to {wrong}")
        with Admin({"bootstrap.servers": play.bootstrap}) as admin:
            assert admin.alter_group_offsets(group, {partition: 0}) == {partition: None}
        with play.consumer(topic, group) as consumer:
            right = sum(int(record.value) for record in read(consumer, COUNT))
            say(f"mended, and run again from the beginning, it came to {right}")
            consumer.seek_to_time(T0 + 10 * 60_000)
            again = [int(record.value) for record in read(consumer, 10)]
            say(f"from the tenth minute on: {again[0]} to {again[-1]}")
        assert (wrong, right) == (100, 190)
        assert again == list(range(10, 20))


if __name__ == "__main__":
    main()
