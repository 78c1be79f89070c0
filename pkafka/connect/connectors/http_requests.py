"""Records as HTTP requests, and what becomes of the answers: pure, without a client."""

import email.utils
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import quote

from pkafka.connect.converters.json_converter import JsonConverter
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.errors import DataError

FORMATS: Final = ("json", "text", "bytes")
CONTENT_TYPES: Final = {
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "bytes": "application/octet-stream",
}
_TOPIC, _KEY, _PARTITION, _OFFSET = "${topic}", "${key}", "${partition}", "${offset}"
OF_ONE_RECORD: Final = (_KEY, _PARTITION, _OFFSET)
"""Parts of a URL that differ from record to record."""
_AGAIN: Final = frozenset({408, 425, 429})
_NOT_LET_IN: Final = frozenset({401, 403, 407})
_GONE: Final = frozenset({404, 410})
_MAYBE_ONE: Final = frozenset({400, 413, 422})


class Entry(NamedTuple):
    """A record, and what is sent of it.

    Args:
        body: None: a deletion is sent.
        error: why nothing can be sent.
        is_ignored: whether nothing is to be sent.
    """

    record: SinkRecord
    url: str = ""
    body: bytes | None = None
    error: DataError | None = None
    is_ignored: bool = False


class Fate(Enum):
    """What an answer means for the records of its request."""

    DONE = "done"
    AGAIN = "again"
    """The same request may succeed later."""
    NOT_LET_IN = "not let in"
    """Whoever asks is not allowed to: that is no fault of the records."""
    SPLIT = "split"
    """One of the records may be to blame."""
    REFUSED = "refused"


def fate_of(status: int, count: int, *, is_deletion: bool = False) -> Fate:
    """What an answer means.

    Args:
        count: how many records the request had.
        is_deletion: then nothing is wrong when there is nothing to delete.
    """
    if 200 <= status < 300 or (is_deletion and status in _GONE):
        return Fate.DONE
    if status in _AGAIN or status >= 500:
        return Fate.AGAIN
    if status in _NOT_LET_IN:
        return Fate.NOT_LET_IN
    return Fate.SPLIT if status in _MAYBE_ONE and count > 1 else Fate.REFUSED


def retry_after_ms(header: str | None, now: datetime) -> int | None:
    """The wait that ``Retry-After`` asks for (RFC 9110, 10.2.3): seconds, or a date; None: it asks for none."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdecimal():
        return int(text[:9]) * 1000
    try:
        at = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0, round((at - now).total_seconds() * 1000))


def body_maker(format: str) -> Callable[[SinkRecord], bytes]:
    """What makes the body of a record's value; raises DataError for a value that has none in this format."""
    if format == "json":
        converter = JsonConverter()
        converter.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"})

        def make_json(record: SinkRecord) -> bytes:
            return converter.from_connect("", None, record.value_schema, record.value) or b"null"

        return make_json
    return _text_of if format == "text" else _bytes_of


def _text_of(record: SinkRecord) -> bytes:
    if isinstance(record.value, bytes):
        return record.value
    return java_text(record.value).encode()


def _bytes_of(record: SinkRecord) -> bytes:
    if isinstance(record.value, bytes):
        return record.value
    if isinstance(record.value, str):
        return record.value.encode()
    raise DataError(
        f"The value at offset {record.offset} of {record.topic}-{record.partition} is neither bytes nor text"
    )


def url_of(template: str, record: SinkRecord) -> str:
    """The URL of a record.

    Raises:
        DataError: the URL wants a key, and the record has none.
    """
    if _KEY in template and (record.key is None or record.key == ""):
        raise DataError(
            f"The record at offset {record.offset} of {record.topic}-{record.partition} has no key"
        )
    key = record.key.decode("utf-8", "replace") if isinstance(record.key, bytes) else java_text(record.key)
    for place, text in (
        (_TOPIC, record.topic or ""),
        (_PARTITION, str(record.partition)),
        (_OFFSET, str(record.offset)),
        (_KEY, key),
    ):
        template = template.replace(place, quote(text, safe=""))
    return template


def batches(entries: Iterable[Entry], records_max: int, bytes_max: int) -> Iterator[list[Entry]]:
    """Entries that go together: neighbours with one URL, up to so many records and bytes. What has no body is alone."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        length = len(entry.body or b"")
        if batch and (
            len(batch) == records_max
            or size + length > bytes_max
            or batch[0].url != entry.url
            or entry.body is None
            or batch[0].body is None
        ):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += length
    if batch:
        yield batch


def joined(bodies: Sequence[bytes], shape: str) -> bytes:
    """The body of a batch.

    Args:
        shape: ``single``: the only body; ``array``: of JSON; ``lines``.
    """
    if shape == "single":
        (body,) = bodies
        return body
    if shape == "array":
        return b"[" + b",".join(bodies) + b"]"
    return b"".join(each + b"\n" for each in bodies)
