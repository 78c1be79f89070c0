"""Order: records of one partition are read in the order in which they were written; between partitions there is none.

Records with the same key go to the same partition, so what happens to one account stays in order, though the topic
has three partitions. Over the whole topic no order is promised: a reader gets one partition's records after another's.
"""

from collections import defaultdict

from scene import read, say, scene

ACCOUNTS = [b"ann", b"bob", b"cleo", b"dan", b"eve", b"fred"]
STEPS = 50


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic(3)
        with play.producer() as producer:
            for step in range(STEPS):
                for account in ACCOUNTS:
                    producer.send(topic, b"%d" % step, account)
        with play.consumer(topic) as consumer:
            records = read(consumer, STEPS * len(ACCOUNTS))
        by_account: dict[bytes, list[int]] = defaultdict(list)
        places: dict[bytes, set[int]] = defaultdict(set)
        offsets: dict[int, list[int]] = defaultdict(list)
        for record in records:
            by_account[record.key].append(int(record.value))
            places[record.key].add(record.partition)
            offsets[record.partition].append(record.offset)
        for account in ACCOUNTS:
            assert by_account[account] == list(range(STEPS))
            assert len(places[account]) == 1
        say(f"the {STEPS} steps of each of {len(ACCOUNTS)} accounts came in their order")
        for partition, found in sorted(offsets.items()):
            assert found == sorted(found)
            say(f"partition {partition}: {len(found)} records, offsets in order")
        as_read = [int(record.value) for record in records]
        assert len(offsets) > 1
        assert as_read != sorted(as_read)
        say("over all partitions the steps did not come in order")


if __name__ == "__main__":
    main()
