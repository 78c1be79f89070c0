"""The inner loops in use: the compiled ones where they were built, plain Python elsewhere.

``PKAFKA_PURE=1`` in the environment has the plain ones imported (``pkafka.hot_path``).
"""

from functools import partial
from importlib import import_module
from typing import Final

_in_use: Final = import_module("pkafka.records._loops")
_keys: Final = import_module("pkafka.records._keys")
_writing: Final = import_module("pkafka.records._writing")

COMPILED: Final = not str(_in_use.__file__).endswith(".py")
"""Whether the loops in use are compiled."""

decode_records = _in_use.decode_records
decode_headers = _in_use.decode_headers
offset_deltas = _in_use.offset_deltas

if COMPILED:
    walk = _in_use.walk
    decode_columns = _in_use.decode_columns
    decode_batches = _in_use.decode_batches
else:  # where they are compiled, the plain ones are not even imported: that would be felt in every command
    from pkafka.records import _plain, _plain_columns

    walk = partial(_plain.walk, walk_part=_in_use.walk_part)
    decode_columns = partial(
        _plain_columns.decode_columns, columns_part=_in_use.columns_part, new_times=_in_use.new_times
    )
    decode_batches = partial(_plain_columns.decode_batches, decode=decode_columns)

map_keys = _keys.map_keys
select_records = _keys.select_records
retime = _keys.retime
move_slots = _keys.move_slots
last_values = _keys.last_values
others_than = _keys.others_than

_writes: Final = (
    import_module("pkafka.records._plain") if str(_writing.__file__).endswith(".py") else _writing
)
append_record = _writes.append_record
append_records = _writes.append_records
murmur2 = _writes.murmur2
partitions_of_keys = _writes.partitions_of_keys
