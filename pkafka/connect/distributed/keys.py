"""The cluster's session key as the settings of this worker have it: when a new one is due, and what is signed by it."""

import time
from collections.abc import Mapping

from pkafka.connect.errors import ConnectError
from pkafka.connect.storage.session_key import SessionKey, is_outdated, make_key, sign, verify
from pkafka.connect.worker_config import WorkerConfig


class SessionKeys:
    """Makes and uses keys.

    Args:
        config: of the worker: ``inter.worker.*``.
    """

    def __init__(self, config: WorkerConfig) -> None:
        parsed = config.parsed
        self._algorithm: str = parsed["inter.worker.key.generation.algorithm"]
        self._size_bits: int | None = parsed["inter.worker.key.size"]
        self._ttl_ms: int = parsed["inter.worker.key.ttl.ms"]
        self._signature: str = parsed["inter.worker.signature.algorithm"]
        self._verification: list[str] = parsed["inter.worker.verification.algorithms"]

    def new(self) -> SessionKey:
        """A new key."""
        return make_key(self._algorithm, self._size_bits, _now_ms())

    def is_due(self, key: SessionKey | None) -> bool:
        """Whether the leader has to write a new key."""
        return is_outdated(
            key, _now_ms(), ttl_ms=self._ttl_ms, algorithm=self._algorithm, size_bits=self._size_bits
        )

    def due_in_s(self, key: SessionKey | None) -> float | None:
        """When the leader has to write a new key, in seconds from now; None: never."""
        if key is None or self._ttl_ms <= 0:
            return None
        return max(0.0, (key.created_ms + self._ttl_ms - _now_ms()) / 1000)

    def headers(self, key: SessionKey | None, body: bytes) -> dict[str, str]:
        """The headers that sign a request to another worker.

        Raises:
            ConnectError: there is no key yet.
        """
        if key is None:
            raise ConnectError("No session key has been read from the config topic yet")
        return sign(key, body, self._signature)

    def verify(self, key: SessionKey | None, body: bytes, headers: Mapping[str, str]) -> None:
        """Let a request of another worker pass; see :func:`~pkafka.connect.storage.session_key.verify`."""
        verify(key, body, headers, self._verification)


def _now_ms() -> int:
    return int(time.time() * 1000)
