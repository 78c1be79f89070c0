"""Setting, removing and describing SCRAM credentials: the same codes and words as Apache Kafka's, whatever is asked."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from pkafka.net.scram import ScramMechanism, salted_password
from pkafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pkafka.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.interop.conftest import System
from tests.raw_client import RawClient

SALT: Final = bytes(range(24))
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
USERS: Final = ("alice", "b c/d,e=f", "ärger", "<default>", "x" * 200, "a%20b", "~tilde*")
Changes = Sequence[ScramCredentialDeletion | ScramCredentialUpsertion]


def setting(
    user: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = SALT, password: bytes = b"p"
) -> ScramCredentialUpsertion:
    salted = salted_password(SHA_256, password, salt, 1) if password else b""
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def removing(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


CHANGES: Final[dict[str, Changes]] = {
    "nothing": [],
    "users with odd names": [setting(user) for user in USERS],
    "another mechanism of one": [setting("alice", SHA_512, 8192)],
    "iterations at the limits": [setting("least", iterations=4096), setting("most", iterations=16384)],
    "too few and too many": [setting("few", iterations=4095), setting("many", iterations=16385)],
    "absurd iterations": [setting("none", iterations=0), setting("minus", iterations=-1)],
    "unknown mechanisms": [setting("m0", 0), setting("m3", 3), removing("m-1", -1)],
    "no name": [setting(""), removing("")],
    "an empty salt": [setting("unsalted", salt=b"")],
    "an empty password": [setting("open", password=b"")],
    "one and the same twice": [setting("twice"), setting("twice")],
    "set and removed at once": [setting("both"), removing("both")],
    "two of one, and one of them wrong": [setting("half"), setting("half", SHA_512, 1)],
    "wrong in two ways": [setting("w", iterations=1), setting("w", SHA_512, 20_000), removing("w", 9)],
    "twice and wrong": [setting("tw"), setting("tw"), setting("tw", SHA_512, 1)],
    "removing what is not there": [removing("nobody"), removing("alice", SHA_512), setting("other")],
    "removing one, setting the other": [setting("alice", SHA_512), removing("alice", SHA_256)],
    "removing one that is there and one that is not": [removing("alice", SHA_512), removing("alice")],
    "removing the last": [removing("ärger")],
}
DESCRIBED: Final[dict[str, list[str] | None]] = {
    "all": None,
    "all by an empty list": [],
    "named": [*USERS, "nobody", ""],
    "twice": ["alice", "nobody", "alice", "nobody", "", ""],
}


def described(client: RawClient, users: list[str] | None) -> Any:
    names = None if users is None else [UserName(name=user) for user in users]
    response = client.call(DescribeUserScramCredentialsRequest(users=names), 0)
    rows = [
        (
            row.user,
            row.error_code,
            row.error_message,
            sorted((info.mechanism, info.iterations) for info in row.credential_infos),
        )
        for row in response.results
    ]
    return response.error_code, response.error_message, rows


def told(system: System) -> Iterator[tuple[str, Any]]:
    """What a broker answers to all of it, in this order, and what it has in the end."""
    with RawClient(system.bootstrap, timeout_s=60) as client:
        for name, changes in CHANGES.items():
            request = AlterUserScramCredentialsRequest(
                deletions=[row for row in changes if isinstance(row, ScramCredentialDeletion)],
                upsertions=[row for row in changes if isinstance(row, ScramCredentialUpsertion)],
            )
            results = client.call(request, 0).results
            # Kafka's come in the order of a hash. Of an error that it did not expect it has words of its own.
            yield (
                name,
                sorted(
                    (row.user, row.error_code, row.error_code != -1 and row.error_message) for row in results
                ),
            )
            for kind, users in DESCRIBED.items():
                yield f"{name}; described {kind}", described(client, users)


@pytest.fixture
def systems(kafka: System | None, pkafka: System | None, pkafka_on_zookeeper: System | None) -> list[System]:
    return [system for system in (kafka, pkafka, pkafka_on_zookeeper) if system is not None]


def test_every_change_and_every_description(systems: list[System]) -> None:
    answers = [dict(told(system)) for system in systems]
    for one, other in itertools.pairwise(answers):
        assert {name: said for name, said in other.items() if said != one[name]} == {}
