"""What librdkafka's consumer finds in a topic that transactions write to."""

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition


def committed_values(bootstrap: str, topic: str, partitions: int = 1) -> list[bytes]:
    """What a reader of committed records finds, one partition after the other."""
    return [value for values in committed_by_partition(bootstrap, topic, partitions) for value in values]


def committed_by_partition(bootstrap: str, topic: str, partitions: int) -> list[list[bytes]]:
    """What a reader of committed records finds in each partition, in order."""
    keys = {
        "bootstrap.servers": bootstrap,
        "group.id": f"reads-{topic}",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    reader = ConfluentConsumer(keys)
    reader.assign([ConfluentPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    ends = 0
    while ends < partitions:
        message = reader.poll(60)
        assert message is not None, "neither a record nor an end"
        if message.error() is not None:
            ends += 1
        else:
            found[message.partition() or 0].append(message.value() or b"")
    reader.close()
    return found
