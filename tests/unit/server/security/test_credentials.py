"""What users log in by, on its way from the store to the workers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.coordination.znodes_security import ScramCredential
from pkafka.net.scram import ScramMechanism
from pkafka.security.sasl.scram import ScramUser
from pkafka.server.control.credential_fanout import CredentialFanout
from pkafka.server.security.credentials import Credentials

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
STORED = ScramCredential(b"salt", b"stored", b"server", 4096)
FOUND = ScramUser(b"salt", b"stored", b"server", 4096, "b c/d")
BOTH = {"SCRAM-SHA-256": STORED.encode(), "SCRAM-SHA-512": STORED.encode(), "producer_byte_rate": "5"}


class World:
    """A control process with these settings of users, and one worker that hears of them."""

    def __init__(self, **users: dict[str, str]) -> None:
        self.credentials = Credentials()
        configs = SimpleNamespace(entities=lambda _kind: users)
        siblings = SimpleNamespace(tell_workers=self._tell)
        self.fanout = CredentialFanout(cast("Any", SimpleNamespace(configs=configs)), cast("Any", siblings))

    def _tell(self, word: str, payload: Any) -> None:
        self.credentials.operations[word](cast("Any", None), payload, memoryview(b""), [])

    async def call(self, word: str, payload: Any) -> None:
        self._tell(word, payload)


async def told(**users: dict[str, str]) -> World:
    world = World(**users)
    await world.fanout.tell_all(cast("Any", world))
    return world


def run(**users: dict[str, str]) -> World:
    coroutine = told(**users)
    try:
        coroutine.send(None)
    except StopIteration as done:
        world = done.value
        assert isinstance(world, World)
        return world
    raise AssertionError("it waits for something")


def test_a_worker_that_comes_hears_of_all_users() -> None:
    pairs = {"b%20c%2Fd/clients/x": BOTH, "<default>": BOTH}
    world = run(**{"b%20c%2Fd": BOTH, "quota": {"consumer_byte_rate": "1"}, **pairs})
    for mechanism in (SHA_256, SHA_512):
        assert world.credentials.find(mechanism, "b c/d") == FOUND
        for name in ("quota", "<default>", "b c/d/clients/x", "b%20c%2Fd"):
            assert world.credentials.find(mechanism, name) is None


def test_a_change_is_told_at_once() -> None:
    world = run(alice=BOTH)
    world.fanout.changed("users", "bob", {"SCRAM-SHA-512": STORED.encode()})
    world.fanout.changed("users", "alice", {"producer_byte_rate": "5"})
    world.fanout.changed("users", "nobody", {})
    world.fanout.changed("topics", "carol", BOTH)
    assert world.credentials.find(SHA_512, "bob") is not None
    assert world.credentials.find(SHA_256, "bob") is None
    for name in ("alice", "nobody", "carol"):
        assert world.credentials.find(SHA_256, name) is None


def test_what_cannot_be_read_lets_nobody_in_and_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    world = run(alice={"SCRAM-SHA-256": "stored_key=TOPSECRET", "SCRAM-SHA-512": STORED.encode()})
    assert world.credentials.find(SHA_256, "alice") is None
    assert world.credentials.find(SHA_512, "alice") is not None
    assert "The SCRAM-SHA-256 credential of user alice cannot be read" in caplog.text
    assert "TOPSECRET" not in caplog.text
