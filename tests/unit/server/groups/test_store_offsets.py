"""Offsets in the coordination store (OffsetCommit and OffsetFetch of version 0)."""

from pathlib import Path

from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.znodes import ConsumerOffset
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.server.groups import store_offsets

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
UNKNOWN = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1)


def test_what_is_committed_is_found_again(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "store") as store:
        assert store_offsets.fetch(store, "g", [A]) == [UNKNOWN]
        assert store_offsets.commit(store, "g", [(A, 1), (B, 2)]) == [0, 0]
        assert store_offsets.commit(store, "g", [(A, 3)]) == [0]
        assert store_offsets.fetch(store, "g", [B, A]) == [(0, 2), (0, 3)]
        assert store_offsets.fetch(store, "h", [A]) == [UNKNOWN]
        assert store.get("/consumers/g/offsets/a/0")[0] == b"3"


def test_what_is_no_offset_and_what_no_path_can_name(tmp_path: Path) -> None:
    error = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    with EmbeddedStore(tmp_path / "store") as store:
        store.create(ConsumerOffset.path("g", A), b"seven", make_parents=True)
        assert store_offsets.fetch(store, "g", [A, B]) == [(error, -1), UNKNOWN]
        assert store_offsets.commit(store, "..", [(A, 1)]) == [error]
        assert store_offsets.fetch(store, "..", [A]) == [(error, -1)]


def test_a_store_that_is_closed(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "store")
    store.close()
    error = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert store_offsets.commit(store, "g", [(A, 1)]) == [error]
    assert store_offsets.fetch(store, "g", [A]) == [(error, -1)]
