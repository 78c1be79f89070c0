"""Stored passwords that Apache Kafka has encrypted, and those that it has to read."""

import base64
import os
from collections.abc import Iterator
from typing import Final

import pytest

from pkafka.security.password_encoder import DERIVATIONS, EncoderSettings, PasswordEncoder, PasswordError
from tests.interop.line_oracle import LineOracle, line_oracle

pytestmark = pytest.mark.nightly

PASSWORDS: Final = ("", "a", "exactly16letters", "pässwörd 😀", "x" * 500, "with,comma:colon=")


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "PasswordOracle") as started:
        yield started


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def answer(java: LineOracle, *words: object) -> str | None:
    said = java.ask(" ".join(map(str, words)))
    return base64.b64decode(said[1:]).decode() if said.startswith("=") else None


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("secret", ["secret", "gehëim"])
def test_what_kafka_has_encrypted_is_read(java: LineOracle, secret: str, password: str) -> None:
    for derivation, bits in [("", 128), *((name, 256) for name in DERIVATIONS)]:
        text = answer(java, "encode", encoded(secret), encoded(password), derivation, bits, 2048)
        assert text is not None
        assert PasswordEncoder(secret, os.urandom).decode(text) == password
        with pytest.raises(PasswordError):
            PasswordEncoder("another", os.urandom).decode(text)


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("secret", ["secret", "gehëim"])
def test_kafka_reads_what_was_encrypted_here(java: LineOracle, secret: str, password: str) -> None:
    for settings in (EncoderSettings(), EncoderSettings("PBKDF2WithHmacSHA1", 192, 1024)):
        text = PasswordEncoder(secret, os.urandom, settings=settings).encode(password)
        assert answer(java, "decode", encoded(secret), encoded(text)) == password
