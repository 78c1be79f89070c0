"""Redundant storage: what was acknowledged is kept until it was used, whatever dies in between.

The broker is killed with kill -9 right after it acknowledged the records, and started again: all of them are there. On
a cluster of several brokers (--bootstrap-server) the topic has up to three replicas instead, and nobody is killed.
"""

from scene import Scene, read, say, scene

from pkafka.clients.admin import Admin
from pkafka.clients.admin.topic_results import NewTopic

COUNT = 1_000


def replicated_topic(play: Scene) -> str:
    """A topic with as many replicas as there are brokers, at most three."""
    topic = f"{play.topic()}-replicated"
    with Admin({"bootstrap.servers": play.bootstrap}) as admin:
        brokers = len(admin.describe_cluster().brokers)
        outcome = admin.create_topics([NewTopic(topic, 1, replication_factor=min(3, brokers))])[topic]
    if isinstance(outcome, Exception):
        raise outcome
    return topic


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = replicated_topic(play)
        with play.producer(acks="all") as producer:
            futures = [producer.send(topic, b"payment %d" % number) for number in range(COUNT)]
            producer.flush()
            assert all(future.result().offset == number for number, future in enumerate(futures))
        say(f"{COUNT} records are acknowledged")
        if play.broker is not None:
            play.broker.kill()
            play.broker.start()
            say("the broker was killed with kill -9, and is back")
        with play.consumer(topic) as consumer:
            records = read(consumer, COUNT)
        assert [record.value for record in records] == [b"payment %d" % number for number in range(COUNT)]
        say("every record is there, once and in its order")


if __name__ == "__main__":
    main()
