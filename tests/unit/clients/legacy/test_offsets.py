"""Offsets in the coordination store; those in Kafka need a broker (tests/interop/test_legacy_consumers.py)."""

from pathlib import Path

import pytest

from pkafka.clients.legacy.offsets import ZooKeeperOffsets
from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_offsets_are_nodes_and_written_when_they_changed(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / STORE_FILE) as store:
        offsets = ZooKeeperOffsets("g", lambda: store)
        assert offsets.fetch([A, B]) == {A: -1, B: -1}
        assert offsets.commit({A: 5})
        assert store.get("/consumers/g/offsets/t/0")[0] == b"5"
        assert offsets.commit({A: 5, B: 1})
        assert store.get("/consumers/g/offsets/t/0")[1].version == 0
        assert offsets.commit({A: 6, B: 1})
        assert store.get("/consumers/g/offsets/t/0")[1].version == 1
        assert ZooKeeperOffsets("g", lambda: store).fetch([B, A]) == {A: 6, B: 1}


def test_an_offset_that_is_none(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / STORE_FILE) as store:
        store.create("/consumers/g/offsets/t/0", b"five", make_parents=True)
        with pytest.raises(ZnodeFormatError):
            ZooKeeperOffsets("g", lambda: store).fetch([A])
