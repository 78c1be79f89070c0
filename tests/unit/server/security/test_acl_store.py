"""Rules in the store: read, followed and written as Apache Kafka does it, on a store of either kind."""

import queue
from collections.abc import Callable

import pytest

from pkafka.clock import ManualClock
from pkafka.coordination.change_notes import NOTE_EXPIRY_MS
from pkafka.coordination.store import BadVersionError, NodeExistsError, NoNodeError, Store
from pkafka.coordination.znodes_security import (
    ACL_CHANGES,
    ACL_EXTENDED_CHANGES,
    AclChange,
    AclEntry,
    ResourceAcls,
)
from pkafka.security.acl import Entry, Operation, Pattern, PatternType, Permission, ResourceType
from pkafka.server.security.acl_store import AclStore, Rules

ORDERS = Pattern(ResourceType.TOPIC, "orders")
PREFIX = Pattern(ResourceType.TRANSACTIONAL_ID, "or", PatternType.PREFIXED)
READ = Entry("User:alice", "*", Operation.READ, Permission.ALLOW)
DENIED = Entry("User:bob", "10.0.0.1", Operation.DESCRIBE_CONFIGS, Permission.DENY)


class Follower:
    """A broker that follows the rules."""

    def __init__(self, store: Store) -> None:
        self.clock = ManualClock()
        self.heard: list[Rules] = []
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.acls = AclStore(clock=self.clock, on_change=self.heard.append, post=self.posted.put)
        self.first = self.acls.start(store)

    def wait(self) -> Rules:
        """What the next note brings."""
        self.heard.clear()
        while not self.heard:
            self.posted.get(timeout=20)()
        return self.heard[-1]


def add(*entries: Entry) -> Callable[[tuple[Entry, ...]], tuple[Entry, ...]]:
    return lambda stored: (*stored, *entries)


def test_what_is_written_is_what_kafka_writes(store: Store) -> None:
    one = Follower(store)
    one.acls.change(ORDERS, add(READ))
    one.acls.change(PREFIX, add(DENIED))
    path = ResourceAcls.path("Topic", "orders")
    assert store.get(path)[0] == (
        b'{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}'
    )
    assert ResourceAcls.decode(store.get("/kafka-acl-extended/prefixed/TransactionalId/or")[0]).entries == (
        AclEntry("User:bob", "Deny", "10.0.0.1", "DescribeConfigs"),
    )
    for folder, note in ((ACL_CHANGES, AclChange("Topic", "orders")), (ACL_EXTENDED_CHANGES, None)):
        [name] = store.children(folder)
        change = AclChange.decode(store.get(f"{folder}/{name}")[0])
        assert change == (note or AclChange("TransactionalId", "or", prefixed=True))
    # What is there already changes nothing, and leaves no note; the last entry takes its node along.
    one.acls.change(ORDERS, add(READ))
    assert len(store.children(ACL_CHANGES)) == 1
    one.acls.change(ORDERS, lambda _stored: ())
    assert (store.exists(path), len(store.children(ACL_CHANGES))) == (None, 2)
    assert one.acls.change(ORDERS, lambda stored: stored) == {ORDERS: ()}


def test_a_broker_reads_what_there_is_and_follows_others(store: Store) -> None:
    writer = Follower(store)
    writer.acls.change(ORDERS, add(READ))
    writer.acls.change(PREFIX, add(DENIED))
    reader = Follower(store)
    assert reader.first == {ORDERS: (READ,), PREFIX: (DENIED,)}
    writer.acls.change(ORDERS, add(DENIED))
    assert reader.wait() == {ORDERS: (READ, DENIED)}
    writer.acls.change(PREFIX, lambda _stored: ())
    assert reader.wait() == {PREFIX: ()}
    assert Follower(store).first == {ORDERS: (READ, DENIED)}
    reader.acls.stop()
    writer.acls.change(ORDERS, lambda _stored: ())
    reader.acls.process_notes()
    assert len(reader.heard) == 1


def test_what_others_write_meanwhile_stays(store: Store) -> None:
    one, other = Follower(store), Follower(store)

    def meanwhile(stored: tuple[Entry, ...]) -> tuple[Entry, ...]:
        if not stored:
            other.acls.change(ORDERS, add(DENIED))
        return (*stored, READ)

    with pytest.raises((NodeExistsError, BadVersionError)):
        one.acls.change(ORDERS, meanwhile)
    one.acls.change(ORDERS, meanwhile)
    assert Follower(store).first == {ORDERS: (DENIED, READ)}

    def removed(_stored: tuple[Entry, ...]) -> tuple[Entry, ...]:
        other.acls.change(ORDERS, lambda _: ())
        return (READ,)

    with pytest.raises((BadVersionError, NoNodeError)):
        one.acls.change(ORDERS, removed)
    assert Follower(store).first == {}


def test_old_notes_are_removed_by_whoever_reads_one(store: Store) -> None:
    one = Follower(store)
    one.acls.change(ORDERS, add(READ))
    [name] = store.children(ACL_CHANGES)
    made_ms = store.get(f"{ACL_CHANGES}/{name}")[1].ctime_ms
    one.clock.advance(ms=made_ms + NOTE_EXPIRY_MS - one.clock.now_ms())
    one.acls.process_notes()
    assert store.children(ACL_CHANGES) == [name]
    one.clock.advance(ms=1)
    one.acls.process_notes()
    assert store.children(ACL_CHANGES) == []
    # The number of a note goes on where its folder is empty.
    one.acls.change(ORDERS, add(DENIED))
    assert one.wait() == {ORDERS: (READ, DENIED)}


def test_what_cannot_be_read_is_no_rule_and_stops_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    for name, data in (
        ("/kafka-acl/Topic/broken", b"{"),
        ("/kafka-acl/Topic/odd", ResourceAcls((AclEntry("User:a", "Allow", "*", "Fly"),)).encode()),
        ("/kafka-acl/Planet/mars", b""),
        ("/kafka-acl/Topic/empty", b""),
        (f"{ACL_CHANGES}/acl_changes_0000000000", b"nonsense"),
    ):
        store.create(name, data, make_parents=True)
    one = Follower(store)
    assert one.first == {}
    for data in (b"nonsense", b"Planet:mars", b"Topic:a/../b", b'{"version":1}', b"Topic:never"):
        store.create(f"{ACL_CHANGES}/acl_changes_", data, sequential=True)
    one.acls.process_notes()
    assert one.heard == [{Pattern(ResourceType.TOPIC, "never"): ()}]
    one.acls.change(ORDERS, add(READ))
    assert one.wait()[ORDERS] == (READ,)
    said = "\n".join(caplog.messages)
    for part in ("Topic/broken", "Topic/odd", "unknown ResourceType: Planet", "is skipped"):
        assert part in said
    with pytest.raises(ValueError, match="part"):
        one.acls.change(Pattern(ResourceType.GROUP, ".."), add(READ))
