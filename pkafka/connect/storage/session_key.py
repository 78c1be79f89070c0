"""The key by which the workers of a Connect cluster sign what they ask of each other (KIP-507): make, sign, verify.

Pure but for the random bytes of a new key.
"""

import binascii
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pkafka.connect.errors import ConfigError
from pkafka.connect.rest_errors import RestError, bad_request

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"


class _Algorithm(NamedTuple):
    name: str
    """As Java writes it."""
    hash: str
    """As Python writes it."""
    size_bits: int
    """How long the keys are that Java makes when nothing is said."""
    size_min_bits: int


_MIN_BITS: Final = 40
_ALGORITHMS: Final = (
    _Algorithm("HmacMD5", "md5", 512, 1),
    _Algorithm("HmacSHA1", "sha1", 512, 1),
    _Algorithm("HmacSHA224", "sha224", 224, _MIN_BITS),
    _Algorithm("HmacSHA256", "sha256", 256, _MIN_BITS),
    _Algorithm("HmacSHA384", "sha384", 384, _MIN_BITS),
    _Algorithm("HmacSHA512", "sha512", 512, _MIN_BITS),
    _Algorithm("HmacSHA512/224", "sha512_224", 224, _MIN_BITS),
    _Algorithm("HmacSHA512/256", "sha512_256", 256, _MIN_BITS),
    _Algorithm("HmacSHA3-224", "sha3_224", 224, _MIN_BITS),
    _Algorithm("HmacSHA3-256", "sha3_256", 256, _MIN_BITS),
    _Algorithm("HmacSHA3-384", "sha3_384", 384, _MIN_BITS),
    _Algorithm("HmacSHA3-512", "sha3_512", 512, _MIN_BITS),
)
_BY_NAME: Final = {each.name.lower(): each for each in _ALGORITHMS}
"""Java takes their names in any case."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A key that all workers of a cluster know.

    Args:
        key: its bytes, which are not shown.
        algorithm: by which it was made, such as ``HmacSHA256``.
        created_ms: when it was made, in milliseconds since the epoch.
    """

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int


def make_key(algorithm: str, size_bits: int | None, now_ms: int) -> SessionKey:
    """A new key.

    Args:
        algorithm: ``inter.worker.key.generation.algorithm``.
        size_bits: ``inter.worker.key.size``; None: as long as the algorithm's keys are.
        now_ms: in milliseconds since the epoch.

    Raises:
        ConfigError: there is no such key.
    """
    size_bytes = key_size_bytes(algorithm, size_bits)
    return SessionKey(secrets.token_bytes(size_bytes), _BY_NAME[algorithm.lower()].name, now_ms)


def key_size_bytes(algorithm: str, size_bits: int | None) -> int:
    """How many bytes a key has.

    Raises:
        ConfigError: there is no such key.
    """
    known = _BY_NAME.get(algorithm.lower())
    if known is None:
        raise _no_key(algorithm, size_bits, f"{algorithm} KeyGenerator not available")
    size = known.size_bits if size_bits is None else size_bits
    if size < known.size_min_bits:
        raise _no_key(algorithm, size_bits, f"Key length must be at least {known.size_min_bits} bits")
    return (size + 7) // 8


def _no_key(algorithm: str, size_bits: int | None, problem: str) -> ConfigError:
    size = "null" if size_bits is None else size_bits
    return ConfigError(
        f"Unable to create key generator with algorithm {algorithm} and key size {size}: {problem}"
    )


def is_outdated(
    key: SessionKey | None, now_ms: int, *, ttl_ms: int, algorithm: str, size_bits: int | None
) -> bool:
    """Whether the leader has to write a new key: there is none, it is too old, or of another kind.

    Args:
        ttl_ms: ``inter.worker.key.ttl.ms``; 0: keys never grow old.
    """
    if key is None:
        return True
    if key.algorithm.lower() != algorithm.lower() or len(key.key) != key_size_bytes(algorithm, size_bits):
        return True
    return ttl_ms > 0 and now_ms - key.created_ms >= ttl_ms


def sign(key: SessionKey, body: bytes, algorithm: str) -> dict[str, str]:
    """The headers that sign a request.

    Args:
        body: of the request, maybe of no bytes.
        algorithm: ``inter.worker.signature.algorithm``.
    """
    signature = hmac.digest(key.key, body, _BY_NAME[algorithm.lower()].hash)
    return {SIGNATURE_HEADER: b64encode(signature).decode("ascii"), ALGORITHM_HEADER: algorithm}


def verify(
    key: SessionKey | None, body: bytes, headers: Mapping[str, str], algorithms: Collection[str]
) -> None:
    """Let a request of another worker pass.

    Args:
        key: the last that was read; None: none was.
        body: of the request.
        headers: of the request; their names in any case.
        algorithms: ``inter.worker.verification.algorithms``.

    Raises:
        RestError: 400 it is not signed, or by an algorithm that is not allowed; 503 there is no key yet; 403 another
            key signed it, or another body.
    """
    found = {name.lower(): value for name, value in headers.items()}
    encoded, named = found.get(SIGNATURE_HEADER.lower()), found.get(ALGORITHM_HEADER.lower())
    if encoded is None or named is None:
        raise bad_request("Internal request missing required signature")
    known = _BY_NAME.get(named.lower())
    if known is None:
        raise bad_request(f"Algorithm {named} not available")
    signature = _decoded(encoded)
    if named not in algorithms:
        raise bad_request(
            f"This worker does not support the '{named}' key signing algorithm used by other workers. This worker is"
            f" currently configured to use: [{', '.join(algorithms)}]. Check that all workers' configuration files"
            " permit the same set of signature algorithms, and correct any misconfigured worker and restart it."
        )
    if key is None:
        raise RestError(
            503,
            "This worker is still starting up and has not been able to read a session key from the config topic yet",
        )
    if not hmac.compare_digest(hmac.digest(key.key, body, known.hash), signature):
        raise RestError(403, "Internal request contained invalid signature.")


def _decoded(encoded: str) -> bytes:
    try:
        return b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise bad_request(str(error)) from error


def check_key_algorithm(name: str, value: object) -> None:
    """Refuse a ``inter.worker.key.generation.algorithm`` that this worker has not.

    Raises:
        ConfigError: it has not.
    """
    _check_algorithm(name, value)


def check_signature_algorithm(name: str, value: object) -> None:
    """The same for ``inter.worker.signature.algorithm``."""
    _check_algorithm(name, value)


def check_verification_algorithms(name: str, value: object) -> None:
    """The same for the list ``inter.worker.verification.algorithms``, which must not be empty."""
    algorithms = value if isinstance(value, list) else []
    if not algorithms:
        raise ConfigError.of(
            name, algorithms, "At least one signature verification algorithm must be provided"
        )
    for each in algorithms:
        _check_algorithm(name, each)


def _check_algorithm(name: str, value: object) -> None:
    if not isinstance(value, str) or value.lower() not in _BY_NAME:
        supported = ", ".join(each.name for each in _ALGORITHMS)
        raise ConfigError.of(
            name,
            value,
            f"the algorithm is not supported by this worker; the supported algorithms are: [{supported}]",
        )
