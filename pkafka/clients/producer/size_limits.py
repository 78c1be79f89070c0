"""How large a record may be, by ``max.request.size`` and ``buffer.memory``."""

from collections.abc import Sequence
from typing import Final

from pkafka.clients.config import ProducerConfig
from pkafka.errors import ApiError, ErrorCode
from pkafka.records.batch import BATCH_OVERHEAD
from pkafka.records.builder import encode_headers

_SMALL_ENOUGH: Final = 1_000


class SizeLimits:
    """The limits of a producer."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self.unchecked = min(config.max_request_size, config.buffer_memory) - _SMALL_ENOUGH
        """A record whose key, value and encoded headers are no longer together needs not be measured exactly."""

    def check(self, key: bytes | None, value: bytes | None, headers: bytes) -> None:
        """See that a record is not too large.

        Args:
            headers: encoded.

        Raises:
            ApiError: MESSAGE_TOO_LARGE.
        """
        size = BATCH_OVERHEAD + record_bytes_max(key, value, headers)
        for name, limit in (
            ("max.request.size", self._config.max_request_size),
            ("buffer.memory", self._config.buffer_memory),
        ):
            if size > limit:
                what = (
                    f"{limit}, which is the value of the {name} configuration."
                    if name == "max.request.size"
                    else f"the total memory buffer you have configured with the {name} configuration."
                )
                text = f"The message is {size} bytes when serialized which is larger than {what}"
                raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def check_all(
        self,
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        """See that none of many records is too large.

        Raises:
            ApiError: MESSAGE_TOO_LARGE.
        """
        longest = max((len(each) for each in values if each is not None), default=0)
        if keys is not None:
            longest += max((len(each) for each in keys if each is not None), default=0)
        if headers or longest > self.unchecked:
            encoded = encode_headers(headers)
            for index, value in enumerate(values):
                self.check(None if keys is None else keys[index], value, encoded)


def record_bytes_max(key: bytes | None, value: bytes | None, headers: bytes) -> int:
    """The upper bound that Kafka reckons with for a record in a batch, the batch's header not included.

    Args:
        headers: encoded, with their number.
    """
    return 21 + _field_bytes(key) + _field_bytes(value) + len(headers)


def _field_bytes(data: bytes | None) -> int:
    return 1 if data is None else _varint_bytes(len(data)) + len(data)


def _varint_bytes(number: int) -> int:
    return ((number << 1).bit_length() + 6) // 7 or 1
