"""What a broker reads in its own certificate, against a library that reads all of it."""

import pytest

from pkafka.security.certificates import read_certificate, subject
from tests.certificates import Authority


def test_name_hosts_and_end() -> None:
    for days in (10, 20_000):  # the year has two digits before 2050, and four from then on
        signed = Authority().signed("one", ["127.0.0.1", "a.example", "::1"], days=days)
        found = read_certificate(signed.chain_der)
        assert found.subject == subject(signed.chain_der) == "CN=one"
        assert found.names >= {"[7, 127.0.0.1]", "[2, a.example]"}
        assert len(found.names) == 3
        assert found.expires == signed.certificate.not_valid_after_utc


def test_one_for_no_host() -> None:
    assert read_certificate(Authority("Any").der).names == frozenset()


def test_what_is_cut_short_is_none() -> None:
    whole = Authority().signed("one").chain_der
    for size in (0, 1, 2, 50, 150):
        with pytest.raises(ValueError, match="no certificate"):
            read_certificate(whole[:size])
