"""A state store on a compacted topic: a program that loses its local state reads it back from its changelog.

Balances are kept in memory. Each change is also written to a topic with cleanup.policy=compact, under the account as
the key; an account that is closed gets a null. When the program's memory is gone, it reads the topic from the start,
and has what it had. Compaction removes what newer records have made void, so reading back takes less, and gives the
same: a snapshot that keeps itself up to date.
"""

from scene import Scene, say, scene, wait_until

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigResource, ResourceType
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition

ACCOUNTS = 20
CHANGES = 4_000


class Store:
    """Balances, each change of which goes to the changelog as well."""

    def __init__(self, changelog: str, producer: Producer) -> None:
        self.balances: dict[bytes, int] = {}
        self._changelog = changelog
        self._producer = producer

    def put(self, account: bytes, balance: int) -> None:
        """Set a balance."""
        self.balances[account] = balance
        self._producer.send(self._changelog, b"%d" % balance, account)

    def close_account(self, account: bytes) -> None:
        """Forget an account; a record without a value says so to whoever restores."""
        del self.balances[account]
        self._producer.send(self._changelog, None, account)


def restore(play: Scene, changelog: str) -> tuple[dict[bytes, int], int]:
    """Balances as the changelog has them, and how many records had to be read."""
    partition = TopicPartition(changelog, 0)
    balances: dict[bytes, int] = {}
    count = 0
    with play.consumer(changelog) as consumer:
        consumer.unsubscribe()
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for record in consumer.poll(200):
                count += 1
                if record.value is None:
                    balances.pop(record.key, None)
                else:
                    balances[record.key] = int(record.value)
    return balances, count


def let_compact(play: Scene, changelog: str) -> None:
    """Until now the topic kept records for an hour before it compacts them, so that there is something to compare."""
    topic = ConfigResource(ResourceType.TOPIC, changelog)
    with Admin({"bootstrap.servers": play.bootstrap}) as admin:
        outcome = admin.alter_configs({topic: [ConfigChange("min.compaction.lag.ms", AlterOp.SET, "0")]})[
            topic
        ]
    if outcome is not None:
        raise outcome


def main() -> None:
    """Play it."""
    with scene(__doc__, log_cleaner_backoff_ms=100) as play:
        changelog = play.topic(
            cleanup_policy="compact",
            segment_bytes=20_000,
            min_cleanable_dirty_ratio=0.01,
            min_compaction_lag_ms=3_600_000,
        )
        with play.producer(batch_size=2_000) as producer:
            store = Store(changelog, producer)
            for number in range(CHANGES):
                store.put(b"account %d" % (number % ACCOUNTS), number)
            store.close_account(b"account 7")
            # Another segment begins behind the last change of everything: the one that is written to is not compacted.
            for number in range(1_000):
                store.put(b"account 0", CHANGES + number)
        kept = dict(store.balances)
        del store
        say(f"{CHANGES} changes were made to {ACCOUNTS} accounts, and the memory of the program is gone")
        full, many = restore(play, changelog)
        say(f"restored: {len(full)} accounts, by reading {many} records")
        assert full == kept
        assert b"account 7" not in full
        few = many
        let_compact(play, changelog)

        def is_compacted() -> bool:
            nonlocal few
            _, few = restore(play, changelog)
            return few < many / 4

        wait_until(is_compacted, "the log is compacted")
        again, few = restore(play, changelog)
        say(f"restored after compaction: the same, by reading {few} records")
        assert again == kept


if __name__ == "__main__":
    main()
