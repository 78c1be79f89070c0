"""How delegation tokens are made, how long they last, and who may do what with one."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Final

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.security.principal import Principal
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.delegation_tokens import TokenSettings, token_settings
from pkafka.server.security.delegation_tokens import (
    LATEST_MS,
    ended,
    has_expired,
    hmac_of,
    is_asked_for,
    may_see,
    new_token,
    renewed,
)

ALICE, BOB, CAROL, DAVE = (Principal("User", name) for name in ("alice", "bob", "carol", "dave"))
SETTINGS: Final = TokenSettings(b"s", lifetime_max_ms=1_000, renewal_ms=100, check_ms=10)


def token(**more: Any) -> Any:
    return new_token(
        SETTINGS,
        "id",
        ALICE,
        CAROL,
        [BOB],
        **{"lifetime_ms": more.pop("lifetime_ms", -1), "now_ms": 0, **more},
    )


def test_the_hmac_is_made_of_the_secret_and_the_id() -> None:
    assert hmac_of(b"secret", "id") == hmac.new(b"secret", b"id", hashlib.sha512).digest()


@pytest.mark.parametrize(
    ("lifetime_ms", "latest_ms", "ends_ms"),
    [(-1, 1_000, 100), (0, 1_000, 100), (50, 50, 50), (500, 500, 100), (LATEST_MS, 1_000, 100)],
)
def test_a_new_token_lasts_as_long_as_the_broker_allows(
    lifetime_ms: int, latest_ms: int, ends_ms: int
) -> None:
    made = token(lifetime_ms=lifetime_ms)
    assert (made.expires_latest_ms, made.expires_ms) == (latest_ms, ends_ms)


def test_no_time_is_more_than_the_wire_holds() -> None:
    endless = TokenSettings(b"s", LATEST_MS, LATEST_MS, 1)
    made = new_token(endless, "id", ALICE, ALICE, [], lifetime_ms=-1, now_ms=7)
    assert (made.expires_ms, made.expires_latest_ms) == (LATEST_MS, LATEST_MS)
    assert renewed(endless, made, ALICE, period_ms=LATEST_MS, now_ms=7).expires_ms == LATEST_MS


def test_a_renewal_is_from_now_on_and_not_beyond_the_longest_life() -> None:
    made = token()
    assert renewed(SETTINGS, made, BOB, period_ms=-1, now_ms=50).expires_ms == 150
    assert renewed(SETTINGS, made, ALICE, period_ms=0, now_ms=50).expires_ms == 50
    assert renewed(SETTINGS, made, ALICE, period_ms=9_999, now_ms=50).expires_ms == 1_000


def test_an_end_is_now_or_later() -> None:
    made = token()
    assert ended(made, ALICE, period_ms=-1, now_ms=500) is None  # though it has expired
    later = ended(made, BOB, period_ms=20, now_ms=50)
    assert later is not None
    assert later.expires_ms == 70


@pytest.mark.parametrize("asker", [CAROL, DAVE, Principal("Group", "alice")])
def test_only_owner_and_renewers_change_a_token(asker: Principal) -> None:
    changes: list[Callable[[], object]] = [
        lambda: renewed(SETTINGS, token(), asker, period_ms=1, now_ms=0),
        lambda: ended(token(), asker, period_ms=-1, now_ms=0),
    ]
    for change in changes:
        with pytest.raises(ApiError) as caught:
            change()
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_a_token_that_has_expired_is_not_renewed() -> None:
    made = token()
    assert not has_expired(made, 100)
    assert has_expired(made, 101)
    changes: list[Callable[[], object]] = [
        lambda: renewed(SETTINGS, made, ALICE, period_ms=1, now_ms=101),
        lambda: ended(made, ALICE, period_ms=1, now_ms=101),
    ]
    for change in changes:
        with pytest.raises(ApiError) as caught:
            change()
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_who_sees_a_token() -> None:
    made = token()
    for asker in (ALICE, BOB, CAROL):
        assert may_see(made, asker, lambda _: False, lambda _: False)
        assert is_asked_for(made, {asker})
    assert not may_see(made, DAVE, lambda _: False, lambda _: False)
    assert may_see(made, DAVE, lambda name: name == "id", lambda _: False)
    assert may_see(made, DAVE, lambda _: False, lambda name: name == "User:alice")
    assert is_asked_for(made, None)
    assert not is_asked_for(made, {DAVE})


def test_settings_of_a_broker() -> None:
    assert token_settings(config({})) is None
    assert token_settings(config({"delegation.token.secret.key": ""})) is None
    old = token_settings(config({"delegation.token.master.key": "old"}))
    new = token_settings(config({"delegation.token.master.key": "old", "delegation.token.secret.key": "nëw"}))
    assert old == TokenSettings(b"old", 7 * 86_400_000, 86_400_000, 3_600_000)
    assert new is not None
    assert new.secret == "nëw".encode()
    assert "old" not in repr(old)


def config(more: dict[str, str]) -> BrokerConfig:
    return BrokerConfig({"broker.id": "0", **more})
