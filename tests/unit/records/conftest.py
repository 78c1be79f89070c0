"""The fixture with which a module runs its tests with the plain loops and with the compiled ones."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pkafka.records import _loops, _plain, _plain_columns, _writing, builder, reading, validation
from tests.unit.records.sources import plain_loops

COMPILED_HERE = not str(_loops.__file__).endswith(".py")
_source = plain_loops()


@pytest.fixture(params=["plain", "compiled"])
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which loops the room uses during the test."""
    name: str = request.param
    if name == "compiled" and not COMPILED_HERE:
        pytest.skip(
            "the compiled loops are not built: pip install -e . with Cython and a C compiler builds them"
        )
    columns: Callable[..., Any]
    batches: Callable[..., Any]
    if name == "compiled":
        columns, batches = _loops.decode_columns, _loops.decode_batches
        walk, source, append = _loops.walk, _loops, _writing.append_record
    else:
        columns = partial(
            _plain_columns.decode_columns, columns_part=_source.columns_part, new_times=_source.new_times
        )
        batches = partial(_plain_columns.decode_batches, decode=columns)
        walk, source, append = (
            partial(_plain.walk, walk_part=_source.walk_part),
            _source,
            _plain.append_record,
        )
    monkeypatch.setattr(validation, "walk", walk)
    monkeypatch.setattr(validation, "decode_records", source.decode_records)
    monkeypatch.setattr(reading, "decode_records", source.decode_records)
    monkeypatch.setattr(reading, "decode_columns", columns)
    monkeypatch.setattr(reading, "decode_batches", batches)
    monkeypatch.setattr(builder, "append_record", append)
    return name
