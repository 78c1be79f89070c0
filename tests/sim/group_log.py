"""What the log of __consumer_offsets says that groups have committed, read in the plainest way."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from pkafka.records.control import ControlType
from pkafka.records.control import decode_key as decode_control_key
from pkafka.records.reading import read_batches
from pkafka.server.groups.records import OffsetKey, decode_key, decode_offset_value

NO_OFFSET: Final = -1

_Offsets: TypeAlias = dict[OffsetKey, int]


def offsets_in(segments: Iterable[bytes]) -> _Offsets:
    """The last offset that counts of each group and partition.

    Those of a transaction count from its marker on, and only if that commits.
    """
    committed: _Offsets = {}
    pending: dict[int, _Offsets] = {}
    for data in segments:
        for header, records in read_batches(data):
            if header.is_control:
                found = pending.pop(header.producer_id, {})
                if decode_control_key(records[0].key) is ControlType.COMMIT:
                    committed |= found
                continue
            counts = pending.setdefault(header.producer_id, {}) if header.is_transactional else committed
            for record in records:
                key = decode_key(record.key or b"")
                if isinstance(key, OffsetKey):
                    counts[key] = (
                        NO_OFFSET if record.value is None else decode_offset_value(record.value).offset
                    )
    return committed
