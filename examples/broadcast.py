"""Broadcast and queue: both come from groups.

Within one group each record goes to one member: the group is a queue. Each group gets every record: between groups it
is publish and subscribe. Here two dashboards, each a group, see everything, and two workers of one group share it.
"""

from scene import read, say, scene, wait_until

COUNT = 60


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic(2)
        workers = f"{topic}-workers"
        with play.consumer(topic, workers) as first, play.consumer(topic, workers) as second:

            def shared() -> bool:
                for each in (first, second):
                    each.poll(50)
                return len(first.assignment()) == len(second.assignment()) == 1

            wait_until(shared, "each worker has a partition")
            with play.producer() as producer:
                for number in range(COUNT):
                    producer.send(topic, b"%d" % number, partition=number % 2)
            half, other_half = read(first, COUNT // 2), read(second, COUNT // 2)
        done = [int(record.value) for record in half + other_half]
        say(f"queue: of {COUNT} records one worker got {len(half)}, the other {len(other_half)}, none both")
        assert sorted(done) == list(range(COUNT))
        for name in ("sales", "operations"):
            with play.consumer(topic, f"{topic}-{name}") as dashboard:
                seen = [int(record.value) for record in read(dashboard, COUNT)]
            say(f"publish and subscribe: the dashboard of {name} got {len(seen)}")
            assert sorted(seen) == list(range(COUNT))


if __name__ == "__main__":
    main()
