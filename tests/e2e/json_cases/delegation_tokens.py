"""What pk-delegation-tokens prints."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pkafka.security.principal import Principal
from pkafka.testing import running_broker
from tests.e2e.json_cases.case import At, Cases, Words
from tests.sockets import free_port
from tests.token_clients import as_user, plain_jaas, token_settings

CASES = Cases()


@contextmanager
def with_tokens() -> Iterator[Words]:
    """The flags of a broker that has tokens, for alice."""
    port = free_port()
    settings = token_settings(port, pkafka_workers=1)
    with running_broker(None, settings), TemporaryDirectory() as directory:
        file = Path(directory) / "alice.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={plain_jaas('alice')}\n"
        )
        yield ["--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(file)]


@CASES.of(*(f"pk-delegation-tokens.{action}" for action in ("create", "renew", "expire", "describe")))
def tokens_are_made_renewed_described_and_ended(at: At) -> None:
    with with_tokens() as alice:
        create = ["--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"]
        describe = [*alice, "--describe", "--owner-principal", "User:alice"]
        action = at.name.partition(".")[2]
        if action == "create":
            [made] = at.every_form([*alice, *create])["tokens"]
            assert (made["owner"], made["requester"], made["renewers"]) == (
                "User:alice",
                "User:alice",
                ["User:bob"],
            )
            at.error(*create)  # the other broker lets nobody ask
            return
        at.run(*alice, *create, command="pk-delegation-tokens")
        if action == "describe":
            assert [one["owner"] for one in at.every_form(describe)["tokens"]] == ["User:alice"]
            assert at.document(*alice, "--describe") == {"tokens": []}
            return
        hmac = _hmac(describe)
        period = "--renew-time-period" if action == "renew" else "--expiry-time-period"
        words = [*alice, f"--{action}", "--hmac", hmac, period]
        if action == "renew":
            assert at.every_form([*words, "60000"])["tokens"][0]["hmac"] == hmac
        else:
            assert at.every_form([*words, "-1", "--dry-run"])["dry_run"] is True
            assert at.document(*words, "-1")["tokens"][0]["hmac"] == hmac
        at.error(*alice, f"--{action}", "--hmac", "AAAA", period, "-1")


def _hmac(describe: Words) -> str:
    _, server, *_ = describe
    with as_user(server, "alice") as admin:
        return admin.describe_delegation_tokens([Principal("User", "alice")])[0].password
