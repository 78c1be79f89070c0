"""Keys by which workers sign, signatures, and what is refused."""

import pytest

from pkafka.connect.errors import ConfigError
from pkafka.connect.rest_errors import RestError
from pkafka.connect.storage.session_key import (
    ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    SessionKey,
    is_outdated,
    key_size_bytes,
    make_key,
    sign,
    verify,
)

KEY = SessionKey(b"secret", "HmacSHA256", 1_000)
DEFAULT = ["HmacSHA256"]


def test_what_is_signed_is_let_in() -> None:
    for body in (b"", b'{"a":1}'):
        headers = sign(KEY, body, "HmacSHA256")
        verify(KEY, body, {name.lower(): value for name, value in headers.items()}, DEFAULT)


@pytest.mark.parametrize(
    ("key", "headers", "status"),
    [
        (KEY, {}, 400),
        (KEY, {SIGNATURE_HEADER: "YQ=="}, 400),
        (KEY, {ALGORITHM_HEADER: "HmacSHA256"}, 400),
        (KEY, {SIGNATURE_HEADER: "YQ==", ALGORITHM_HEADER: "none"}, 400),
        (KEY, {SIGNATURE_HEADER: "%", ALGORITHM_HEADER: "HmacSHA256"}, 400),
        (KEY, sign(KEY, b"x", "HmacMD5"), 400),
        (None, sign(KEY, b"x", "HmacSHA256"), 503),
        (KEY, sign(KEY, b"y", "HmacSHA256"), 403),
        (KEY, sign(SessionKey(b"other", "HmacSHA256", 0), b"x", "HmacSHA256"), 403),
        (KEY, {SIGNATURE_HEADER: "", ALGORITHM_HEADER: "HmacSHA256"}, 403),
    ],
)
def test_what_is_refused(key: SessionKey | None, headers: dict[str, str], status: int) -> None:
    with pytest.raises(RestError) as refused:
        verify(key, b"x", headers, DEFAULT)
    assert refused.value.status == status
    assert "secret" not in str(refused.value)


def test_new_keys_differ() -> None:
    one, other = (make_key("hmacsha256", None, 5) for _ in range(2))
    assert one.key != other.key
    assert (len(one.key), one.algorithm, one.created_ms) == (32, "HmacSHA256", 5)


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(KEY)


@pytest.mark.parametrize(
    ("algorithm", "bits", "size"),
    [("HmacSHA256", None, 32), ("HmacSHA1", None, 64), ("HmacSHA512/224", None, 28), ("HmacSHA256", 129, 17)],
)
def test_how_long_keys_are(algorithm: str, bits: int | None, size: int) -> None:
    assert key_size_bytes(algorithm, bits) == size


@pytest.mark.parametrize(("algorithm", "bits"), [("x", None), ("HmacSHA256", 39)])
def test_keys_that_there_are_not(algorithm: str, bits: int | None) -> None:
    with pytest.raises(ConfigError, match="Unable to create key generator"):
        make_key(algorithm, bits, 0)


@pytest.mark.parametrize(
    ("key", "now_ms", "ttl_ms", "bits", "outdated"),
    [
        (None, 0, 1_000, None, True),
        (KEY, 1_999, 1_000, 48, False),
        (KEY, 2_000, 1_000, 48, True),
        (KEY, 10**9, 0, 48, False),
        (KEY, 1_001, 1_000, None, True),
    ],
)
def test_when_the_leader_makes_a_new_key(
    key: SessionKey | None, now_ms: int, ttl_ms: int, bits: int | None, outdated: bool
) -> None:
    assert is_outdated(key, now_ms, ttl_ms=ttl_ms, algorithm="HmacSHA256", size_bits=bits) is outdated
    assert is_outdated(KEY, 1_001, ttl_ms=1_000, algorithm="HmacSHA1", size_bits=48)
