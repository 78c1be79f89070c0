"""Decoupling: the shop that takes orders does not know who uses them.

It writes what happened to a topic and ends. Billing and shipping, which were not running then, read it when they come,
and a third service is added later without a change to the shop or to the others.
"""

from scene import Scene, read, say, scene


def shop(play: Scene, topic: str) -> None:
    """The only thing the shop knows is the name of the topic."""
    with play.producer(value_serializer="StringSerializer") as producer:
        for number in range(5):
            producer.send(topic, f"order {number}")
    say("the shop has written 5 orders and is gone")


def service(play: Scene, topic: str, name: str) -> list[str]:
    """A service has a group of its own, which remembers how far it has read."""
    with play.consumer(topic, f"{topic}-{name}", value_deserializer="StringDeserializer") as consumer:
        orders = [record.value for record in read(consumer, 5)]
        consumer.commit_sync()
    say(f"{name} has read {len(orders)} orders, the first is {orders[0]!r}")
    return orders


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic()
        shop(play, topic)
        expected = [f"order {number}" for number in range(5)]
        for name in ("billing", "shipping"):
            assert service(play, topic, name) == expected
        say("a year later somebody wants statistics, too")
        assert service(play, topic, "statistics") == expected


if __name__ == "__main__":
    main()
