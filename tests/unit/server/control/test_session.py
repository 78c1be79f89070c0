"""The session of a broker with the store, and the one before it."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.clock import ManualClock
from pkafka.coordination.cluster import create_persistent_paths
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.broker_loggers import ProcessLoggers
from pkafka.server.control import session as session_module
from pkafka.server.control import session_file
from pkafka.server.control.registration import Registration
from pkafka.server.control.session import BrokerSession
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.ipc.child import Birth
from pkafka.server.limits.mutation_quotas import MutationQuotas
from pkafka.server.security.encryption import Encryption


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path / "store") as store:
        create_persistent_paths(store)
        yield store


@pytest.mark.parametrize("is_over", [False, True])
def test_a_broker_whose_machine_was_started_anew_stays_away_for_a_while(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """Also when its session is over already, perhaps just now: a controller that was elected because of that has to
    read that it is gone, since it may have lost records."""
    boot, path = tmp_path / "boot_id", tmp_path / "pkafka-session"
    monkeypatch.setattr(session_file, "BOOT_ID_FILE", boot)
    monkeypatch.setattr(session_module, "_ABSENCE_S", 0.5)
    boot.write_text("first\n")
    session_file.write_session(path, 7)
    boot.write_text("second\n")
    config = BrokerConfig(
        {
            "log.dirs": str(tmp_path),
            "listeners": "PLAINTEXT://:0",
            "broker.id": "3",
            "zookeeper.connect": "nowhere:1",
        }
    )
    if not is_over:
        store.create("/brokers/ids/3", b"{}")

    async def run() -> float:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            birth = Birth(theirs, "control", first=True, session=None)
            registration = Registration(3, lambda: config, {"PLAINTEXT": 40001}, clock=ManualClock())
            mutations = MutationQuotas(samples=11, window_s=1, clock=ManualClock())
            broker = ThisBroker(3, ManualClock(), ProcessLoggers(), Encryption(config), mutations)
            broker.store = store
            session = BrokerSession(config, birth, path, broker)
            session.recall()
            assert session.previous_id is None
            registering = asyncio.create_task(session.register(registration))
            await asyncio.sleep(0)
            if not is_over:
                store.delete("/brokers/ids/3")
            gone_s = asyncio.get_running_loop().time()
            await registering
            return asyncio.get_running_loop().time() - gone_s

    assert asyncio.run(run()) >= 0.5
    assert store.exists("/brokers/ids/3") is not None
