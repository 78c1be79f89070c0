"""Principals as texts."""

import pytest

from pkafka.security.principal import ANONYMOUS, Principal


def test_a_principal_is_read_as_it_is_written() -> None:
    for text in ("User:alice", "User:CN=a, O=b:c", "Group:", ":alice", str(ANONYMOUS)):
        assert str(Principal.parse(text)) == text


@pytest.mark.parametrize("text", ["", "alice"])
def test_what_names_no_principal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="principalType:principalName"):
        Principal.parse(text)
