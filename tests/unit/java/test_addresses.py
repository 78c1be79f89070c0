"""Addresses as Java writes them."""

import pytest

from pkafka.java.addresses import host_address, java_text_of


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "/2001:db8:0:0:0:ff00:42:8329"),
        ("::ffff:10.0.0.7", "/10.0.0.7"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1%eth0"),
        ("somewhere", "/somewhere"),
    ],
)
def test_hosts_are_named_as_java_names_them(host: str, text: str) -> None:
    assert java_text_of(host) == text
    assert host_address(host) == text[1:]
