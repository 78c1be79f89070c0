"""Delegation tokens in the store: read, followed and written as Apache Kafka does it, on a store of either kind."""

import queue
from collections.abc import Callable
from dataclasses import replace

import pytest

from pkafka.clock import ManualClock
from pkafka.coordination.change_notes import NOTE_EXPIRY_MS
from pkafka.coordination.store import Store
from pkafka.coordination.znodes_security import TOKEN_CHANGES, DelegationToken, TokenChange
from pkafka.errors import ApiError, ErrorCode
from pkafka.server.security.token_store import Tokens, TokenStore

TOKEN = DelegationToken("one", "User:alice", "User:alice", ("User:bob",), 1, 2, 3)
LATER = replace(TOKEN, expires_ms=3)


class Follower:
    """A broker that follows the tokens."""

    def __init__(self, store: Store) -> None:
        self.clock = ManualClock()
        self.heard: list[Tokens] = []
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.tokens = TokenStore(clock=self.clock, on_change=self.heard.append, post=self.posted.put)
        self.first = self.tokens.start(store)

    def wait(self) -> Tokens:
        """What the next note brings."""
        self.heard.clear()
        while not self.heard:
            self.posted.get(timeout=20)()
        return self.heard[-1]


def test_a_token_is_written_with_a_note_and_followed(store: Store) -> None:
    writer = Follower(store)
    assert writer.tokens.change("one", lambda _: TOKEN) == TOKEN
    assert DelegationToken.decode(store.get(DelegationToken.path("one"))[0]) == TOKEN
    assert len(store.children(TOKEN_CHANGES)) == 1
    reader = Follower(store)
    assert reader.first == {"one": TOKEN}
    writer.tokens.change("one", lambda _: LATER)
    assert reader.wait() == {"one": LATER}
    writer.tokens.change("one", lambda stored: stored)
    assert len(store.children(TOKEN_CHANGES)) == 2  # what changes nothing leaves no note
    assert writer.tokens.change("one", lambda _: None) is None
    assert reader.wait() == {"one": None}
    assert store.exists(DelegationToken.path("one")) is None


def test_an_edit_that_refuses_changes_nothing(store: Store) -> None:
    follower = Follower(store)

    def refuse(_stored: DelegationToken | None) -> DelegationToken | None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)

    with pytest.raises(ApiError):
        follower.tokens.change("one", refuse)
    assert store.children(TOKEN_CHANGES) == []


def test_what_kafka_wrote_without_a_note_is_read_at_the_start(store: Store) -> None:
    Follower(store)
    store.create(DelegationToken.path("one"), TOKEN.encode())
    store.create(DelegationToken.path("bad"), b"no JSON")
    store.create(DelegationToken.path("odd"), replace(TOKEN, token_id="odd", owner="alice").encode())
    assert Follower(store).first == {"one": TOKEN}


def test_a_note_that_names_no_token_is_skipped(store: Store) -> None:
    reader = Follower(store)
    store.create(TokenChange.create_path(), b"\xff", sequential=True)
    store.create(TokenChange.create_path(), b"a/../b", sequential=True)
    store.create(DelegationToken.path("one"), TOKEN.encode())
    store.create(TokenChange.create_path(), b"one", sequential=True)
    heard: dict[str, DelegationToken | None] = {}
    while "one" not in heard:
        heard.update(reader.wait())
    assert heard["one"] == TOKEN


def test_old_notes_are_removed_by_whoever_reads(store: Store) -> None:
    one = Follower(store)
    one.tokens.change("one", lambda _: TOKEN)
    [name] = store.children(TOKEN_CHANGES)
    made_ms = store.get(f"{TOKEN_CHANGES}/{name}")[1].ctime_ms
    one.clock.advance(ms=made_ms + NOTE_EXPIRY_MS - one.clock.now_ms())
    one.tokens.process_notes()
    assert store.children(TOKEN_CHANGES) == [name]
    one.clock.advance(ms=1)
    one.tokens.process_notes()
    assert store.children(TOKEN_CHANGES) == []
