"""Headers as they stand in a record, remembered: most applications send few different ones."""

from collections.abc import Sequence
from typing import Final

from pkafka.records.builder import NO_HEADERS, encode_headers

_REMEMBERED: Final = 256


class EncodedHeaders:
    """The headers of one producer; for any thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, bytes | None], ...], bytes] = {}
        self._last: tuple[Sequence[tuple[str, bytes | None]], bytes] = ((), NO_HEADERS)
        """What most records have: found without a hash. A copy, as the application may change its list."""

    def of(self, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
        """The bytes of headers, their number included."""
        last, encoded = self._last
        if headers == last:
            return encoded
        if not headers:
            return NO_HEADERS
        each = tuple(headers)
        try:
            found = self._known.get(each)
        except TypeError:
            return encode_headers(each)  # one of them cannot be a key, as a bytearray
        if found is None:
            found = encode_headers(each)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[each] = found
        self._last = list(each) if isinstance(headers, list) else each, found
        return found
