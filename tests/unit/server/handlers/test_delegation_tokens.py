"""Who may ask about delegation tokens at all, and in which order that is checked."""

from typing import Any, Final, cast

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.security.principal import ANONYMOUS, Principal
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ports.token_context import check_may_ask, enabled
from pkafka.server.serving.context import Caller

ALICE: Final = Principal("User", "alice")
CONFIG: Final = BrokerConfig(
    {
        "broker.id": "0",
        "listeners": "PLAINTEXT://:1,SSL://:2,SASL_PLAINTEXT://:3,SASL_SSL://:4",
    },
    check=False,
)


class Context:
    """A request to a broker without a secret for tokens."""

    config = CONFIG
    tokens = None

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


@pytest.mark.parametrize(
    ("listener", "principal", "by_token", "may"),
    [
        ("PLAINTEXT", ANONYMOUS, False, False),
        ("PLAINTEXT", ALICE, False, False),
        ("SSL", ANONYMOUS, False, False),
        ("SSL", ALICE, False, True),
        ("SASL_PLAINTEXT", ALICE, False, True),
        ("SASL_PLAINTEXT", ANONYMOUS, False, True),
        ("SASL_SSL", ALICE, False, True),
        ("SASL_SSL", ALICE, True, False),
        ("SASL_PLAINTEXT", ALICE, True, False),
        ("of-another-time", ALICE, False, False),
    ],
)
def test_who_may_ask(listener: str, principal: Principal, by_token: bool, may: bool) -> None:
    context = cast("Any", Context(Caller("me", "10.0.0.1", listener, principal, by_token)))
    if may:
        check_may_ask(context)
        return
    with pytest.raises(ApiError) as caught:
        check_may_ask(context)
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_broker_without_a_secret_has_no_tokens() -> None:
    with pytest.raises(ApiError) as caught:
        enabled(cast("Any", Context(Caller("me", "10.0.0.1", "SSL", ALICE))))
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
