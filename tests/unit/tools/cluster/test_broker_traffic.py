"""Where the metrics pages of brokers are, by what these say of themselves."""

import pytest

from pkafka.tools.cluster.broker_traffic import page_url


def settings(port: str | None, host: str | None = "localhost") -> dict[str, str | None]:
    return {"pkafka.metrics.port": port, "pkafka.metrics.host": host}


@pytest.mark.parametrize(
    ("host", "port", "at", "address"),
    [
        ("127.0.0.1", "9999", "localhost", "localhost:9999"),
        ("localhost", "9999", "127.0.0.1", "127.0.0.1:9999"),
        ("::1", "9999", "::1", "[::1]:9999"),
        ("north", "9999", "north.inside", "north.inside:9999"),
        ("north", "9999", "0.0.0.0", "north:9999"),
        ("fd00::5", "9999", "::", "[fd00::5]:9999"),
    ],
)
def test_a_page_is_where_the_brokers_settings_say(host: str, port: str, at: str, address: str) -> None:
    assert page_url(host, settings(port, at)) == f"http://{address}"
    secured = {**settings(port, at), "pkafka.metrics.ssl.keystore.location": "page.pem"}
    assert page_url(host, secured) == f"https://{address}"


@pytest.mark.parametrize(
    ("host", "given"),
    [
        ("127.0.0.1", settings("-1")),
        ("127.0.0.1", settings("0")),  # its log alone knows where
        ("127.0.0.1", {}),  # a broker of Apache Kafka
        ("127.0.0.1", settings(None, None)),
        ("north", settings("9999", "localhost")),  # here that would be the page of another broker
        ("10.0.0.7", settings("9999", "127.0.0.1")),
    ],
)
def test_a_page_that_cannot_be_reached_from_here_is_none(host: str, given: dict[str, str | None]) -> None:
    assert page_url(host, given) is None
