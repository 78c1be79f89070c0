"""Keys of SCRAM passwords, by the examples of RFC 7677 and of Apache Kafka 3.9.1."""

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest

from pkafka.net.scram import ScramError, ScramMechanism, check_iterations, keys_of, salted_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def test_the_example_of_rfc_7677() -> None:
    salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
    salted = salted_password(SHA_256, b"pencil", b64decode(salt), 4096)
    messages = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={NONCE},s={salt},i=4096,c=biws,r={NONCE}".encode()
    keys = keys_of(SHA_256, salted)
    server_signature = hmac.digest(keys.server_key, messages, "sha256")
    assert b64encode(server_signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(keys.stored_key, messages, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == keys.stored_key


def test_mechanisms_by_name() -> None:
    assert ScramMechanism.of_name("SCRAM-SHA-512") is SHA_512
    assert [ScramMechanism.of_name(each) for each in ("UNKNOWN", "SCRAM-SHA-1", "scram-sha-256")] == [
        None
    ] * 3
    assert (SHA_512.mechanism_name, SHA_512.hash_name) == ("SCRAM-SHA-512", "sha512")


def test_too_few_iterations() -> None:
    check_iterations(SHA_256, 4096)
    with pytest.raises(
        ScramError, match="Iterations 4095 is less than the minimum 4096 required for SCRAM-SHA-256"
    ):
        check_iterations(SHA_256, 4095)
