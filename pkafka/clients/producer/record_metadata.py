"""Where a record went."""

from collections.abc import Callable
from typing import Final, NamedTuple


class RecordMetadata(NamedTuple):
    """Where a record went.

    ``offset`` is -1 when the broker was not asked (acks=0), did not say, or refused the record; sizes are -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1


# Without a frame of Python for each record.
new_metadata: Final[Callable[[type[RecordMetadata], tuple[str, int, int, int, int, int]], RecordMetadata]] = (
    tuple.__new__
)
