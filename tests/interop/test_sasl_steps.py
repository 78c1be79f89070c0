"""The login step by step, right and wrong: each answer, and what becomes of the connection, as with Apache Kafka."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest

from pkafka.net.scram import ScramMechanism
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.security.sasl.scram import ScramExchange
from tests.differences import differences
from tests.interop.secured_kafka import PASSWORD, secured_kafka
from tests.interop.secured_pkafka import secured_pkafka
from tests.interop.test_every_api import comparable
from tests.raw_client import ClosedByBroker, RawClient

MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
ALICE: Final = b"\0alice\0" + PASSWORD.encode()
BOB: Final = b"\0bob\0bobs"
WRONG: Final = b"\0alice\0other"
FRESH: Final = b"fyko+d2lbbFgONRv9qkxdawL"


class Steps:
    """One connection: what it is told to send, and what comes back."""

    def __init__(self, address: str) -> None:
        self.client = RawClient(address, timeout_s=60)
        self.seen: list[Any] = []

    def request(self, message: Any, version: int) -> Any:
        """A request and its answer."""
        return self._noted(lambda: self.client.call(message, version))

    def versions(self, version: int = 3, name: str = "raw") -> None:
        """ApiVersions; which keys there are is not what this is about."""
        asked = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        if version > 4:
            # The answer is in version 0.
            frame = bytearray(self.client.encoded(asked, 3))
            frame[6:8] = version.to_bytes(2)
            self.client.forget()
            self.raw(bytes(frame[4:]), framed=True, cut=6)
        else:
            self._noted(lambda: self.client.call(asked, version), lambda answer: answer.error_code)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        self.request(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, token: bytes, version: int = 2) -> Any:
        return self.request(SaslAuthenticateRequest(auth_bytes=token), version)

    def raw(self, data: bytes, *, framed: bool = True, cut: int | None = None) -> None:
        """Bytes that are no request that this test decodes."""

        def ask() -> bytes:
            if framed:
                self.client.send_frame(data)
            else:
                self.client.send_bytes(data)
            return self.client.read_frame()[:cut]

        self._noted(ask, bytes)

    def scram(
        self, *, first: bytes | None = None, change: Callable[[bytes], bytes] = lambda final: final
    ) -> None:
        """Both tokens of SCRAM; what is random is left out."""
        exchange = ScramExchange(ScramMechanism.SCRAM_SHA_256, "alice", PASSWORD, FRESH.decode())
        begun = exchange.first() if first is None else first
        answer = self._noted(
            lambda: self.client.call(SaslAuthenticateRequest(auth_bytes=begun), 2),
            lambda answer: (answer.error_code, answer.error_message, answer.auth_bytes[:26]),
        )
        if answer is not None and not answer.error_code:
            final = exchange.answer(answer.auth_bytes)
            assert final is not None
            self._noted(
                lambda: self.client.call(SaslAuthenticateRequest(auth_bytes=change(final)), 2),
                lambda answer: (answer.error_code, answer.error_message, answer.auth_bytes[:2]),
            )

    def served(self) -> None:
        """Whether requests are served."""
        self._noted(
            lambda: self.client.call(MetadataRequest(topics=[]), 9), lambda answer: bool(answer.brokers)
        )

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # the time itself is what a session is about

    def _noted(
        self, ask: Callable[[], Any], shown: Callable[[Any], Any] = lambda answer: comparable(answer)
    ) -> Any:
        if self.seen and self.seen[-1] == "closed":
            return None
        try:
            answer = ask()
        except (ClosedByBroker, BrokenPipeError, ConnectionResetError):
            self.seen.append("closed")
            return None
        self.seen.append(shown(answer))
        return answer


def _login(steps: Steps) -> None:
    steps.handshake()
    steps.token(BOB, 1)


def _names(*names: str) -> Mapping[str, Callable[[Steps], None]]:
    return {
        f"handshake {name!r} v{version}": _handshake(name, version) for name in names for version in (0, 1)
    }


def _handshake(name: str, version: int) -> Callable[[Steps], None]:
    def play(steps: Steps) -> None:
        steps.handshake(name, version)
        steps.token(ALICE)

    return play


def _plain(token: bytes, version: int = 2) -> Callable[[Steps], None]:
    def play(steps: Steps) -> None:
        steps.handshake()
        steps.token(token, version)
        steps.served()

    return play


def _bare(token: bytes) -> Callable[[Steps], None]:
    def play(steps: Steps) -> None:
        steps.handshake(version=0)
        steps.raw(token)
        steps.served()

    return play


def _first(token: bytes) -> Callable[[Steps], None]:
    def play(steps: Steps) -> None:
        steps.handshake("SCRAM-SHA-256")
        steps.scram(first=token)

    return play


def _final(change: Callable[[bytes], bytes]) -> Callable[[Steps], None]:
    def play(steps: Steps) -> None:
        steps.handshake("SCRAM-SHA-256")
        steps.scram(change=change)
        steps.served()

    return play


def _in_turn(*parts: Callable[[Steps], object]) -> Callable[[Steps], None]:
    def play(steps: Steps) -> None:
        for part in parts:
            part(steps)

    return play


def _then(*rest: Callable[[Steps], object]) -> Callable[[Steps], None]:
    return _in_turn(_login, *rest)


PLAIN_TOKENS: Final = {
    "right": ALICE,
    "wrong": WRONG,
    "of nobody": b"\0nobody\0x",
    "empty": b"",
    "no password": b"\0alice\0",
    "no user": b"\0\0x",
    "two parts": b"alice\0x",
    "four parts": b"\0alice\0x\0y",
    "six parts": b"\0" * 5,
    "acts for another": b"alice\0bob\0bobs",
    "acts for itself": b"bob\0bob\0bobs",
    "no UTF-8": b"\0alice\0\xff\xfe",
    "long": b"\0alice\0" + b"x" * 100_000,
    "odd key": b"\0a=b\0x",
}
SCRAM_FIRST: Final = {
    "empty": b"",
    "nobody": b"n,,n=nobody,r=" + FRESH,
    "no name": b"n,,n=,r=" + FRESH,
    "no nonce": b"n,,n=alice,r=",
    "other order": b"n,,r=" + FRESH + b",n=alice",
    "channel binding": b"y,,n=alice,r=" + FRESH,
    "wants channel binding": b"p=tls-unique,,n=alice,r=" + FRESH,
    "reserved": b"n,,m=x,n=alice,r=" + FRESH,
    "acts for another": b"n,a=bob,n=alice,r=" + FRESH,
    "acts for another that cannot be read": b"n,b=bob,n=alice,r=" + FRESH,
    "bad escape": b"n,,n=al=2ice,r=" + FRESH,
    "no ASCII": "n,,n=ärger,r=".encode() + FRESH,
    "no UTF-8": b"n,,n=\xff,r=" + FRESH,
    "a token that is not there": b"n,,n=alice,r=" + FRESH + b",tokenauth=true",
    "bad extension": b"n,,n=alice,r=" + FRESH + b",ext",
}
SCRAM_FINAL: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "right": lambda final: final,
    "wrong proof": lambda final: final[:-8] + b"AAAAAAA=",
    "short proof": lambda final: final.partition(b",p=")[0] + b",p=AAAA",
    "no proof": lambda final: final.partition(b",p=")[0],
    "other nonce": lambda final: final.replace(FRESH, FRESH[::-1]),
    "short nonce": lambda final: final.replace(FRESH, b""),
    "nothing": lambda _final: b"",
    "first again": lambda _final: b"n,,n=alice,r=" + FRESH,
}
SCRIPTS: Final[Mapping[str, Callable[[Steps], None]]] = {
    **_names("PLAIN", "GSSAPI", "plain", "", "x" * 300, "OAUTHBEARER"),
    **{
        f"plain {name} v{version}": _plain(token, version)
        for name, token in PLAIN_TOKENS.items()
        for version in (0, 2)
    },
    **{f"bare plain {name}": _bare(token) for name, token in PLAIN_TOKENS.items()},
    **{f"scram first {name}": _first(token) for name, token in SCRAM_FIRST.items()},
    **{f"scram final {name}": _final(change) for name, change in SCRAM_FINAL.items()},
    "metadata first": lambda steps: steps.served(),
    "metadata after the handshake": _in_turn(lambda steps: steps.handshake(), lambda steps: steps.served()),
    "metadata after versions": _in_turn(lambda steps: steps.versions(), lambda steps: steps.served()),
    "authenticate first": lambda steps: steps.token(ALICE),
    "versions, then the login": _in_turn(
        lambda steps: steps.versions(), _login, lambda steps: steps.served()
    ),
    "versions v0, then the login": _in_turn(
        lambda steps: steps.versions(0), _login, lambda steps: steps.served()
    ),
    "versions twice": _in_turn(lambda steps: steps.versions(), lambda steps: steps.versions()),
    "versions of a bad name, then again": _in_turn(
        lambda steps: steps.versions(name=""), lambda steps: steps.versions(), _login
    ),
    "versions too new, then again": _in_turn(
        lambda steps: steps.versions(99), lambda steps: steps.versions(), _login
    ),
    "versions after the handshake": _in_turn(lambda steps: steps.handshake(), lambda steps: steps.versions()),
    "handshake twice": _in_turn(lambda steps: steps.handshake(), lambda steps: steps.handshake()),
    "garbage": lambda steps: steps.raw(b"GET / HTTP/1.1\r\n\r\n"),
    "garbage without a length": lambda steps: steps.raw(b"GET / HTTP/1.1\r\n\r\n", framed=False),
    "an empty frame": lambda steps: steps.raw(b""),
    "a negative length": lambda steps: steps.raw(b"\xff\xff\xff\xff", framed=False),
    "a gigabyte": lambda steps: steps.raw(b"\x40\0\0\0", framed=False),
    "garbage after versions": _in_turn(
        lambda steps: steps.versions(), lambda steps: steps.raw(b"\x7f\xff" * 8)
    ),
    "a token as garbage": _in_turn(lambda steps: steps.handshake(), lambda steps: steps.raw(ALICE)),
    "a handshake cut short": lambda steps: steps.raw(b"\0\x11\0\x01\0\0\0\x01\0\x01c\0\x09PL"),
    "a handshake too new": lambda steps: steps.raw(b"\0\x11\0\x02\0\0\0\x01\0\x01c\0\x05PLAIN"),
    "handshake after the login": _then(lambda steps: steps.handshake(), lambda steps: steps.served()),
    "token after the login": _then(lambda steps: steps.token(BOB), lambda steps: steps.served()),
    "versions after the login": _then(lambda steps: steps.versions(), lambda steps: steps.served()),
}
BETTER: Final[Mapping[str, object]] = {
    # Kafka fails with an index that is out of bounds.
    "scram final short proof": "closed",
    # Kafka answers each request with an error in its own form before it closes the connection; pkafka closes it.
    "metadata after the handshake": False,
    "a request amid a renewal": False,
}
"""What Apache Kafka does last where pkafka does something else."""
PAUSE_S: Final = 1.1
RENEWALS: Final[Mapping[str, Callable[[Steps], None]]] = {
    "renewed": _then(_login, lambda steps: steps.served()),
    "renewed by a wrong password": _then(
        lambda steps: steps.handshake(),
        lambda steps: steps.token(b"\0bob\0wrong"),
        lambda steps: steps.served(),
    ),
    "renewed as another": _then(
        lambda steps: steps.handshake(), lambda steps: steps.token(ALICE), lambda steps: steps.served()
    ),
    "renewed by another mechanism": _then(
        lambda steps: steps.handshake("SCRAM-SHA-256"),
        lambda steps: steps.scram(),
        lambda steps: steps.served(),
    ),
    "renewed by a mechanism that is not there": _then(
        lambda steps: steps.handshake("GSSAPI"), lambda steps: steps.served()
    ),
    "renewed twice at once": _then(_login, lambda steps: steps.handshake(), lambda steps: steps.served()),
    "renewed twice, a second apart": _then(
        _login, lambda steps: steps.pause(PAUSE_S), _login, lambda steps: steps.served()
    ),
    "a request amid a renewal": _then(lambda steps: steps.handshake(), lambda steps: steps.served()),
    "versions amid a renewal": _then(lambda steps: steps.handshake(), lambda steps: steps.versions()),
    "a request after the end": _then(lambda steps: steps.pause(1.7), lambda steps: steps.served()),
    "renewed after the end": _then(lambda steps: steps.pause(1.7), _login, lambda steps: steps.served()),
    "token without a handshake": _then(lambda steps: steps.token(BOB), lambda steps: steps.served()),
    "an old client": _in_turn(
        lambda steps: steps.handshake(version=0),
        lambda steps: steps.raw(BOB),
        lambda steps: steps.served(),
        lambda steps: steps.pause(1.7),
        lambda steps: steps.served(),
    ),
}


class Sides(NamedTuple):
    """The listeners of Apache Kafka and of pkafka."""

    kafka: Mapping[str, str]
    pkafka: Mapping[str, str]


@pytest.fixture(scope="module")
def sides(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    directory = tmp_path_factory.mktemp("sasl")
    mechanisms = {"sasl.enabled.mechanisms": MECHANISMS}
    with (
        secured_kafka(directory / "kafka", overrides=mechanisms) as kafka,
        secured_pkafka(directory / "pkafka") as pkafka,
    ):
        yield Sides(kafka.listeners, pkafka.listeners)


def outcomes(sides: Sides, listener: str, play: Callable[[Steps], None]) -> Iterator[Sequence[Any]]:
    for addresses in sides:
        steps = Steps(addresses[listener])
        try:
            play(steps)
        finally:
            steps.client.close()
        yield steps.seen


def compare(sides: Sides, listener: str, play: Callable[[Steps], None], kafkas_last: object) -> None:
    one, other = outcomes(sides, listener, play)
    if kafkas_last is None:
        assert list(differences(list(one), list(other))) == []
        return
    at = next(index for index, answer in enumerate(one) if answer != other[index])
    assert one[at] == kafkas_last
    assert other[-1] == "closed"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_login(sides: Sides, name: str) -> None:
    compare(sides, "sasl_plaintext", SCRIPTS[name], BETTER.get(name))


@pytest.mark.nightly  # they wait for sessions to end; tests/e2e/test_sasl.py renews some in each change
@pytest.mark.parametrize("name", RENEWALS)
def test_a_renewal(sides: Sides, name: str) -> None:
    compare(sides, "renewing", RENEWALS[name], BETTER.get(name))
