"""A group that never comes to rest, and then does: members join, leave and are killed every tenth of a second."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.faults.churn import PARTITIONS, SETTLED_S, TOPIC, Churn
from tests.faults.conftest import (
    EITHER_KIND,
    GROUP_SETTINGS,
    AnyBroker,
    MakeBroker,
    MeasuredBroker,
    broker_of_kind,
    memory_bytes,
)
from tests.group_client import GroupClient
from tests.talk import talking

MEMBERS: Final = 50
PAUSE_S: Final = 0.1
SECONDS: Final = 6.0
NIGHTLY_SECONDS: Final = 180.0
SEED: Final = int(os.environ.get("PKAFKA_CHURN_SEED", "432"))
GROWTH_BYTES: Final = 8 << 20
"""What a broker may need more afterwards: the log's index and the like, not thousands of members and connections."""
SETTINGS: Final = GROUP_SETTINGS | {
    "group.initial.rebalance.delay.ms": 500,
    "group.min.session.timeout.ms": 500,
}


@pytest.fixture(params=EITHER_KIND)
def broker(request: pytest.FixtureRequest, make_broker: MakeBroker, tmp_path: Path) -> Iterator[AnyBroker]:
    with broker_of_kind(request.param, make_broker, tmp_path, SETTINGS) as broker:
        yield broker


@pytest.mark.parametrize(
    "seconds", [SECONDS, pytest.param(NIGHTLY_SECONDS, marks=pytest.mark.nightly, id="for-long")]
)
@pytest.mark.timeout(NIGHTLY_SECONDS + 3 * SETTLED_S + 60)
def test_a_group_comes_to_rest_after_churn(broker: AnyBroker, seconds: float) -> None:
    with talking(broker.bootstrap) as talk, GroupClient(broker.bootstrap) as client:
        talk.create(TOPIC, PARTITIONS)
        client.make_topic_of_groups()
        client.coordinate("churn")
    with closing(Churn(broker.bootstrap, "churn", seed=SEED)) as churn:
        for _ in range(MEMBERS):
            churn.join()
        churn.settle()
        before = memory_bytes(broker)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            churn.act(MEMBERS)
            churn.run(PAUSE_S)
        began_s = time.monotonic()
        churn.settle()
        settled_s = time.monotonic() - began_s
        churn.check()
        churn.check_fence()
        generations = max(churn.shares)
        grown = memory_bytes(broker) - before
        print(
            f"{generations} generations, {len(churn.shares)} of them synced, {len(churn.members)} members stay; "
            f"settled in {settled_s:.1f} s; {grown / 1e6:.1f} MB more; heard {dict(churn.heard)}"
        )
        churn.empty()
        assert generations > seconds / 10
        if isinstance(broker, MeasuredBroker):
            assert grown < GROWTH_BYTES
