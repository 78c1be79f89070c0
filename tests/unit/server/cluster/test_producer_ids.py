"""Producer ids: blocks of them, and what a producer is given."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pkafka.coordination.cluster import create_persistent_paths
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.znodes import ProducerIdBlock
from pkafka.server.cluster.producer_ids import BLOCK_SIZE, ProducerIds, ProducerIdsExhaustedError, claim_block


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path / "store") as store:
        create_persistent_paths(store)
        yield store


class _Control:
    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.producer_ids = ProducerIds(1)
        self.claims = 0

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        self.claims += 1
        await asyncio.sleep(0)
        return function(*args)


def test_blocks_are_claimed_once(store: EmbeddedStore) -> None:
    blocks = [claim_block(store, broker) for broker in (1, 2, 1)]
    assert [(one.broker_id, one.first, one.last) for one in blocks] == [
        (1, 0, 999),
        (2, 1000, 1999),
        (1, 2000, 2999),
    ]
    assert ProducerIdBlock.decode(store.get("/latest_producer_id_block")[0]) == blocks[-1]


def test_no_id_is_given_twice_and_a_block_lasts(store: EmbeddedStore) -> None:
    control: Any = _Control(store)

    async def many() -> list[int]:
        wanted = (control.producer_ids.next(control) for _ in range(BLOCK_SIZE + 5))
        return list(await asyncio.gather(*wanted))

    given = asyncio.run(many())
    assert len(set(given)) == BLOCK_SIZE + 5
    assert control.claims == 2


def test_the_last_ids_end_with_an_error(store: EmbeddedStore) -> None:
    store.set("/latest_producer_id_block", ProducerIdBlock(1, 2**63 - 2000, 2**63 - 900).encode())
    with pytest.raises(ProducerIdsExhaustedError):
        claim_block(store, 1)


def test_a_claim_survives_another_broker_that_is_faster(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_set = EmbeddedStore.set
    rivals = [ProducerIdBlock(9, 0, 999)]

    def slow_set(self: EmbeddedStore, path: str, data: bytes, *, version: int = -1) -> Any:
        if rivals:
            real_set(self, path, rivals.pop().encode())
        return real_set(self, path, data, version=version)

    monkeypatch.setattr(EmbeddedStore, "set", slow_set)
    assert claim_block(store, 1).first == 1000
