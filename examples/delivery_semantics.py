"""Delivery semantics: what a crash of the consumer costs is a matter of when it says how far it has got.

At most once: it commits, then works; what it had in hand is lost. At least once: it works, then commits; what it had in
hand is done again. Exactly once, in effect: the result and the offset are stored together, in one transaction of a
database, and the producer is idempotent, so no resend writes a record twice.
"""

import sqlite3

from scene import Scene, read, say, scene

from pkafka.model import TopicPartition

COUNT = 10
CRASHES_AT = 5


class CrashError(Exception):
    """The consumer is gone in the middle of its work."""


def work(done: list[int], number: int, *, is_first_run: bool) -> None:
    """Do a piece of work; the first run crashes at one of them."""
    if is_first_run and number == CRASHES_AT:
        raise CrashError
    done.append(number)


def run(play: Scene, topic: str, done: list[int], *, commit_first: bool, is_first_run: bool) -> None:
    """Read what the group has not committed, one batch of three after the other."""
    group = f"{topic}-{'at-most' if commit_first else 'at-least'}-once"
    with play.consumer(topic, group, max_poll_records=3) as consumer:
        position = (consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)] or (0,))[0]
        while position < COUNT:
            records = read(consumer, 1)
            position = records[-1].offset + 1
            if commit_first:
                consumer.commit_sync({TopicPartition(topic, 0): position})
            for record in records:
                work(done, int(record.value), is_first_run=is_first_run)
            if not commit_first:
                consumer.commit_sync({TopicPartition(topic, 0): position})


def run_exactly_once(play: Scene, topic: str, database: sqlite3.Connection, *, is_first_run: bool) -> None:
    """Read from where the database says; each result is stored together with where to go on."""
    partition = TopicPartition(topic, 0)
    (position,) = database.execute("SELECT coalesce(max(number) + 1, 0) FROM done").fetchone()
    with play.consumer(topic, max_poll_records=3) as consumer:
        consumer.unsubscribe()
        consumer.assign([partition])
        consumer.seek(partition, position)
        for record in read(consumer, COUNT - position):
            found: list[int] = []
            work(found, int(record.value), is_first_run=is_first_run)
            with database:
                database.execute("INSERT INTO done VALUES (?, ?)", (record.offset, found[0]))


def twice(play: Scene, topic: str, *, commit_first: bool) -> list[int]:
    """What was done by a run that crashes and the one after it."""
    done: list[int] = []
    try:
        run(play, topic, done, commit_first=commit_first, is_first_run=True)
    except CrashError:
        run(play, topic, done, commit_first=commit_first, is_first_run=False)
    return done


def main() -> None:
    """Play it."""
    with scene(__doc__) as play:
        topic = play.topic()
        with play.producer(enable_idempotence=True) as producer:
            for number in range(COUNT):
                producer.send(topic, b"%d" % number)
        done = twice(play, topic, commit_first=True)
        say(f"at most once:  {done}: 5 is lost, nothing is repeated")
        assert len(set(done)) == len(done)
        assert CRASHES_AT not in done
        done = twice(play, topic, commit_first=False)
        say(f"at least once: {done}: nothing is lost, 3 and 4 are repeated")
        assert set(done) == set(range(COUNT))
        assert len(done) > COUNT
        database = sqlite3.connect(":memory:")
        database.execute("CREATE TABLE done (number INTEGER PRIMARY KEY, result INTEGER)")
        try:
            run_exactly_once(play, topic, database, is_first_run=True)
        except CrashError:
            run_exactly_once(play, topic, database, is_first_run=False)
        results = [result for (result,) in database.execute("SELECT result FROM done ORDER BY number")]
        database.close()
        say(f"exactly once:  {results}")
        assert results == list(range(COUNT))


if __name__ == "__main__":
    main()
