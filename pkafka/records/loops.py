"""The inner loops in use: the compiled ones where they were built, plain Python elsewhere.

``PKAFKA_PURE=1`` in the environment forces the plain ones.
"""

import os
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Final


def _plain_loops(name: str = "_loops") -> ModuleType:
    """The source of ``name`` as a module even where its compiled form stands beside it."""
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_loader
    from pathlib import Path

    loader = SourceFileLoader(f"pkafka.records.{name}_plain", str(Path(__file__).with_name(f"{name}.py")))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _loops(name: str = "_loops") -> ModuleType:
    if os.environ.get("PKAFKA_PURE") == "1":
        return _plain_loops(name)
    return import_module(f"pkafka.records.{name}")


_in_use: Final = _loops("_loops")
_keys: Final = _loops("_keys")
_writing: Final = _loops("_writing")

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
