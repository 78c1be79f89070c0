"""Logins by delegation tokens at a worker: by what was told last, as the owner, until the token ends."""

from typing import Any, cast

import pytest

from pkafka.net.scram import ScramMechanism
from pkafka.security.sasl import SaslError
from pkafka.security.sasl.scram import ScramExchange, ScramServerExchange
from pkafka.server.ipc import words
from pkafka.server.ipc.words import TokenRow
from pkafka.server.security.delegation_tokens import password_of
from pkafka.server.security.token_credentials import TokenCredentials

SECRET = b"secret"


def told(credentials: TokenCredentials, word: str, *rows: tuple[str, TokenRow | None]) -> TokenCredentials:
    cast("Any", credentials.operations[word])(None, rows, memoryview(b""), [])
    return credentials


def with_token() -> TokenCredentials:
    return told(TokenCredentials(SECRET), words.EVERY_TOKEN, ("id", TokenRow("id", "User:alice", 100)))


@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_a_token_logs_in_as_its_owner(mechanism: ScramMechanism) -> None:
    credentials = with_token()
    client = ScramExchange(mechanism, "id", password_of(SECRET, "id").decode(), "abc", is_token=True)

    def users(name: str, is_token: bool) -> Any:
        return credentials.find(mechanism, name, 99) if is_token else None

    server = ScramServerExchange(mechanism, users, "xyz")
    final = client.answer(server.answer(client.first()))
    assert final is not None
    client.answer(server.answer(final))
    assert (server.user, server.expires_ms, server.is_token) == ("alice", 100, True)
    with pytest.raises(SaslError):  # a name and a password of the same kind, but not as a token
        ScramServerExchange(mechanism, users, "xyz").answer(b"n,,n=id,r=abc")


def test_expired_removed_and_unknown_tokens_let_nobody_in() -> None:
    mechanism, credentials = ScramMechanism.SCRAM_SHA_256, with_token()
    assert credentials.find(mechanism, "id", 100) is not None
    assert credentials.find(mechanism, "id", 101) is None
    assert credentials.find(mechanism, "other", 1) is None
    told(credentials, words.TOKENS, ("id", TokenRow("id", "User:alice", 200)))
    found = credentials.find(mechanism, "id", 101)
    assert found is not None
    assert found.expires_ms == 200
    told(credentials, words.TOKENS, ("id", None), ("never", None))
    assert credentials.find(mechanism, "id", 1) is None
    assert told(with_token(), words.EVERY_TOKEN).find(mechanism, "id", 1) is None
    no_secret = told(TokenCredentials(None), words.EVERY_TOKEN, ("id", TokenRow("id", "User:a", 9)))
    assert no_secret.find(mechanism, "id", 1) is None
