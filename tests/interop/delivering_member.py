"""A member of a group that copies records into a SQLite file, in one of three ways, and dies at the worst moment.

Arguments: bootstrap, topic, group, way, file, the number of the record at which to die (-1: at none; ends when all is
read).
"""

import os
import signal
import sqlite3
import sys

from pkafka.clients.consumer import Consumer, ConsumerRecord
from pkafka.model import TopicPartition


def main() -> None:
    bootstrap, topic, group, way, path, count = sys.argv[1:]
    results = sqlite3.connect(path)
    results.execute("CREATE TABLE IF NOT EXISTS done (value TEXT)")
    results.execute("CREATE TABLE IF NOT EXISTS place (position INTEGER)")
    left = int(count)

    def die_when_due() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def process(record: ConsumerRecord) -> None:
        assert record.value is not None
        results.execute("INSERT INTO done VALUES (?)", (record.value.decode(),))

    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "max.poll.records": "7",
        "session.timeout.ms": "6000",
    }
    partition = TopicPartition(topic, 0)
    with Consumer(config) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        if way == "exactly-once":
            row = results.execute("SELECT max(position) FROM place").fetchone()
            consumer.seek(partition, row[0] or 0)
        while consumer.position(partition) < end:
            records = consumer.poll(500)
            if records and way == "at-most-once":
                consumer.commit_sync()
            for record in records:
                if way == "exactly-once":
                    # The result and how far it reaches are one transaction; the group's offset plays no part.
                    process(record)
                    results.execute("INSERT INTO place VALUES (?)", (record.offset + 1,))
                    die_when_due()
                    results.commit()
                elif way == "at-most-once":
                    die_when_due()
                    process(record)
                    results.commit()
                else:
                    process(record)
                    results.commit()
                    die_when_due()
            if records and way == "at-least-once":
                consumer.commit_sync()


main()
