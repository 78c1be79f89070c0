"""When a stream that is to end behind its batch ends. Spark is not there, only its report of batches."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pkafka.pipeline.runner import _run_until


class Query:
    """A stream that finishes one batch with each look at it.

    Args:
        batches: how many there are; then it waits for more.
    """

    def __init__(self, batches: int) -> None:
        self.recentProgress: list[Any] = []
        self.stopped_behind: int | None = None
        self._left = batches

    @property
    def lastProgress(self) -> Any:
        return self.recentProgress[-1] if self.recentProgress else None

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": self._left > 0}

    def awaitTermination(self, _timeout_s: float) -> bool:
        if self._left:
            self._left -= 1
            report = {
                "batchId": len(self.recentProgress),
                "timestamp": "2026-01-31T10:00:00.000Z",
                "durationMs": {"addBatch": 1},
                "sources": [],
                "numInputRows": 1,
            }
            self.recentProgress.append(SimpleNamespace(json=json.dumps(report)))
        return False

    def stop(self) -> None:
        self.stopped_behind = len(self.recentProgress)


@pytest.mark.parametrize(
    ("batches", "asked_behind", "ends_behind"),
    [(0, 0, 0), (5, 2, 3), (2, 2, 2)],
    ids=["no batch in hand", "the next one is in hand", "none is in hand any more"],
)
def test_it_ends_behind_the_batch_in_hand(batches: int, asked_behind: int, ends_behind: int) -> None:
    query: Any = Query(batches)
    told: list[int] = []
    _run_until(
        query,
        lambda batch: told.append(batch.batch),
        lambda: False,
        lambda: len(query.recentProgress) >= asked_behind,
    )
    assert query.stopped_behind == ends_behind
    assert told == list(range(ends_behind))
