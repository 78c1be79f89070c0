"""A position that a group has stored, or is to store, for a partition."""

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """Where a group goes on reading.

    Args:
        offset: of the next record to read.
        metadata: a note of the committer's own; brokers bound its length (``offset.metadata.max.bytes``).
        leader_epoch: of the record before, so that a truncated log can be told (KIP-320); None when not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
