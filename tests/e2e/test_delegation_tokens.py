"""Delegation tokens at a broker: who gets one, who logs in by one, and for how long."""

import time
from functools import partial
from typing import Any, Final

import pytest

from pkafka.clients.errors import AuthenticationError
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.principal import Principal
from pkafka.testing import Broker
from tests.e2e.conftest import WORKERS
from tests.sockets import free_port
from tests.talk import wait_for
from tests.token_clients import as_user, by_token, token_settings

ALICE: Final = Principal("User", "alice")
BOB: Final = Principal("User", "bob")
HOUR_MS: Final = 3_600_000


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker_settings(port: int) -> dict[str, object]:
    more = {
        "delegation.token.expiry.check.interval.ms": 200,
        "delegation.token.expiry.time.ms": 5 * HOUR_MS,
        "delegation.token.max.lifetime.ms": 20 * HOUR_MS,
        "pkafka.workers": WORKERS,
    }
    return token_settings(port, **more)


@pytest.fixture(scope="module")
def secured(broker: Broker | None, port: int) -> str:
    """Where clients log in."""
    if broker is None:
        pytest.skip("another broker has no such listener")
    return f"127.0.0.1:{port}"


def refusal(call: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_lets_in_as_its_owner(secured: str, mechanism: str) -> None:
    with as_user(secured, "alice") as alice:
        token = alice.create_delegation_token()
        assert (token.owner, token.requester) == (ALICE, ALICE)
        for _ in range(2 * WORKERS):  # whichever worker takes the connection
            with by_token(secured, token, mechanism) as client:
                assert client.describe_cluster().brokers
                assert refusal(client.create_delegation_token) == (
                    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
                )
        assert alice.describe_delegation_tokens([ALICE]) == [token]
        assert alice.describe_delegation_tokens([]) == []
        alice.expire_delegation_token(token.hmac)
        assert alice.describe_delegation_tokens([ALICE]) == []
    with pytest.raises(AuthenticationError), by_token(secured, token, mechanism) as client:
        client.describe_cluster()


def test_settings_say_how_long_a_token_lasts(secured: str) -> None:
    with as_user(secured, "alice") as alice:
        for lifetime_max_ms in (-1, 100 * HOUR_MS):
            token = alice.create_delegation_token(lifetime_max_ms=lifetime_max_ms)
            assert token.expires_ms - token.issued_ms == 5 * HOUR_MS
            assert token.expires_latest_ms - token.issued_ms == 20 * HOUR_MS
            alice.expire_delegation_token(token.hmac)


def test_owner_and_renewers_change_a_token_and_nobody_else(secured: str) -> None:
    with as_user(secured, "alice") as alice, as_user(secured, "bob") as bob:
        mine = alice.create_delegation_token(lifetime_max_ms=2 * HOUR_MS)
        shared = alice.create_delegation_token(renewers=[BOB], lifetime_max_ms=2 * HOUR_MS)
        assert mine.expires_ms == mine.expires_latest_ms == mine.issued_ms + 2 * HOUR_MS
        for call in (bob.renew_delegation_token, bob.expire_delegation_token):
            assert refusal(partial(call, mine.hmac)) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
            assert refusal(partial(call, b"none")) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert bob.renew_delegation_token(shared.hmac) == shared.expires_latest_ms
        assert bob.expire_delegation_token(shared.hmac, period_ms=HOUR_MS) < shared.expires_latest_ms
        assert {one.token_id for one in bob.describe_delegation_tokens([BOB])} == {shared.token_id}
        for token in (mine, shared):
            alice.expire_delegation_token(token.hmac)


def test_a_token_ends_by_itself(secured: str) -> None:
    with as_user(secured, "alice") as alice:
        for lifetime_max_ms in (1_500, 15_000, 150_000):
            token = alice.create_delegation_token(lifetime_max_ms=lifetime_max_ms)
            with by_token(secured, token) as client:
                try:
                    assert client.describe_cluster().brokers
                except AuthenticationError:
                    # Its time was over before the client had come: the machine stood still.
                    assert time.time() * 1000 > token.expires_ms
                    continue
                wait_for(
                    lambda: not alice.describe_delegation_tokens(), timeout_s=200, what="the token's end"
                )
                with pytest.raises(AuthenticationError):
                    client.describe_cluster()
            return
    pytest.fail("no token lasted until its client had come")
