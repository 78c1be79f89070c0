"""Stored passwords: read again by the secret that has encrypted them, and by no other."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.security.password_encoder import EncoderSettings, PasswordEncoder, PasswordError, is_encoded

BY_KAFKA = (
    "keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:{salt},"
    "iterations:4096,encryptedPassword:{hidden},passwordLength:7,initializationVector:{vector}"
)


@given(st.text(max_size=40), st.text(min_size=1, max_size=10))
def test_a_password_is_read_again(password: str, secret: str) -> None:
    encoder = PasswordEncoder(secret, os.urandom, settings=EncoderSettings(iterations=1024))
    text = encoder.encode(password)
    assert is_encoded(text)
    assert encoder.decode(text) == password
    assert encoder.encode(password) != text
    assert len(password) < 4 or password not in text


def test_an_old_secret_is_tried_too() -> None:
    old = PasswordEncoder("old", os.urandom)
    text = old.encode("password")
    both = PasswordEncoder("new", os.urandom, old_secret="old")
    assert both.decode(text) == "password"
    assert both.is_old(text)
    assert not both.is_old(both.encode("password"))
    with pytest.raises(PasswordError, match="another secret"):
        PasswordEncoder("new", os.urandom).decode(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password",
        "encryptedPassword:AAAA",
        BY_KAFKA.format(salt="&", hidden="AAAA", vector="AAAA"),
        BY_KAFKA.format(salt="AAAA", hidden="AAAA", vector="AAAA"),
        BY_KAFKA.format(salt="AAAA", hidden="", vector="AAAAAAAAAAAAAAAAAAAAAA=="),
        BY_KAFKA.replace("CBC", "GCM").format(salt="AAAA", hidden="AAAA", vector="AAAA"),
        BY_KAFKA.replace("128", "x").format(salt="AAAA", hidden="AAAA", vector="AAAA"),
        BY_KAFKA.replace("4096", "0").format(salt="AAAA", hidden="AAAA", vector="AAAA"),
    ],
)
def test_what_is_none_is_told(text: str) -> None:
    with pytest.raises(PasswordError):
        PasswordEncoder("secret", os.urandom).decode(text)
