"""Requests that reach a worker of a cluster that cannot answer them."""

import pytest

from pkafka.connect.distributed.elsewhere import ElsewhereError, RebalanceNeededError
from pkafka.connect.rest.calls import Answer, Call
from pkafka.connect.rest.forwarding import passing_on
from pkafka.connect.rest_errors import RestError

SIGNED = {
    "authorization": "Basic eA==",
    "x-connect-authorization": "c2ln",
    "x-connect-request-signature-algorithm": "HmacSHA256",
    "user-agent": "curl",
}


class Others:
    """Stands for the other workers: keeps what is sent to them."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str, bytes, dict[str, str]]] = []

    def send(self, method: str, url: str, target: str, body: bytes, headers: dict[str, str]) -> Answer:
        self.sent.append((method, url, target, body, headers))
        return Answer(202)


def elsewhere(url: str | None) -> Answer:
    raise ElsewhereError("another one", url)


def ask(url: str | None, query: str) -> list[tuple[str, str, str, bytes, dict[str, str]]]:
    others = Others()
    handler = passing_on(lambda _call: elsewhere(url), "PUT", others.send)
    handler(Call({"connector": "c"}, query, b"[]", "/connectors/c%2Fd/fence", SIGNED))
    return others.sent


def test_a_request_goes_to_the_leader_and_to_an_owner_as_it_came() -> None:
    passed = {name: SIGNED[name] for name in list(SIGNED)[:3]}
    assert ask("http://b:1", "includeTasks=true") == [
        ("PUT", "http://b:1", "/connectors/c%2Fd/fence?includeTasks=true&forward=true", b"[]", passed)
    ]
    assert ask("http://b:1", "forward=true") == [
        ("PUT", "http://b:1", "/connectors/c%2Fd/fence?forward=false", b"[]", passed)
    ]


@pytest.mark.parametrize(
    ("url", "query", "text"),
    [
        ("http://b:1", "forward=false", "because of a conflicting operation"),
        (None, "", "due to no known leader URL"),
        ("", "", "due to no known leader URL"),
    ],
)
def test_nobody_to_ask_is_a_conflict(url: str | None, query: str, text: str) -> None:
    with pytest.raises(RestError, match=text) as caught:
        ask(url, query)
    assert caught.value.status == 409


def test_a_rebalance_that_is_expected_is_a_conflict() -> None:
    def expects(_call: Call) -> Answer:
        raise RebalanceNeededError("soon")

    with pytest.raises(RestError, match="stale configuration") as caught:
        passing_on(expects, "GET", Others().send)(Call({}, "", b""))
    assert caught.value.status == 409
