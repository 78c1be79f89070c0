"""Scaling out: more workers share the work, and nobody has to be told.

A topic has four partitions. One member of a group reads all of them; when a second joins, the group gives it half; when
one leaves, the other has all again. A partition is read by one member at a time, so each record is worked on once.
"""

from scene import say, scene, wait_until

from pkafka.clients.consumer import Consumer

PARTITIONS = 4


def settled(*members: Consumer, share: int) -> bool:
    """Whether each of the members has its share; polling is what keeps them in the group."""
    for member in members:
        member.poll(50)
    return all(len(member.assignment()) == share for member in members)


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic(PARTITIONS)
        group = f"{topic}-workers"
        with play.consumer(topic, group) as first:
            wait_until(lambda: settled(first, share=4), "one member has all partitions")
            say("one worker: it has 4 partitions")
            with play.consumer(topic, group) as second:
                wait_until(lambda: settled(first, second, share=2), "two members share them")
                say("two workers: 2 partitions each")
                assert not set(first.assignment()) & set(second.assignment())
                done: list[int] = []
                with play.producer() as producer:
                    for number in range(40):
                        producer.send(topic, b"%d" % number, partition=number % PARTITIONS)

                def all_done() -> bool:
                    done.extend(int(record.value) for each in (first, second) for record in each.poll(50))
                    return len(done) >= 40

                wait_until(all_done, "the work is done")
                assert sorted(done) == list(range(40))
                say("40 pieces of work were shared, each was done once")
                first.commit_sync()
                second.commit_sync()
            wait_until(lambda: settled(first, share=4), "the one that stays has all again")
            say("one worker left: the other has 4 partitions again")


if __name__ == "__main__":
    main()
