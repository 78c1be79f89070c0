"""What answers to fetches are in the versions of the past: codes, lists that are empty or null, converted records."""

import os
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.net.answers import FileRange
from pkafka.records.conversion import for_old_consumer
from pkafka.records.errors import RecordError
from pkafka.server.replicas.reading import Aborted, Found

_FIRST_VERSION_WITH_MAGIC_1: Final = 2
_FIRST_VERSION_WITH_STORAGE_ERRORS: Final = 6
_NOT_KNOWN_HERE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Errors that Kafka answers before it asks the log: the list of aborted transactions is then empty, not null."""
_TOO_OLD: Final = (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNSUPPORTED_VERSION)
"""Errors that Kafka answers after it has asked the log: records are then null, and aborted transactions empty."""
_NULL: Final = -1


def beside_error(found: Found, version: int) -> tuple[int, Aborted, int]:
    """Return the code to answer, with the aborted transactions and the length of records that Kafka sends with it."""
    code = found.error
    if code == ErrorCode.KAFKA_STORAGE_ERROR and version < _FIRST_VERSION_WITH_STORAGE_ERRORS:
        # These clients know this error and look for the leader again.
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code in _TOO_OLD:
        return code, [], _NULL
    return code, [] if code in _NOT_KNOWN_HERE else found.aborted, found.length


def for_old_client(found: Found, offset: int, version: int) -> Found:
    """Convert the records to the format that a client from before 0.11 reads."""
    records = found.records
    if type(records) is not FileRange or not records.length:
        return found
    magic = 1 if version >= _FIRST_VERSION_WITH_MAGIC_1 else 0
    try:
        data = os.pread(records.fd, records.length, records.position)
        return found._replace(records=for_old_consumer(data, magic, offset))
    except RecordError as error:
        return Found(error.code)
