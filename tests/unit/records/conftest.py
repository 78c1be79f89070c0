"""The fixture with which a module runs its tests with the plain loops and with the compiled ones."""

from functools import partial

import pytest

from pkafka.records import _loops, _plain, builder, loops, reading, validation

COMPILED_HERE = not str(_loops.__file__).endswith(".py")
_source = loops._plain_loops()


@pytest.fixture(params=["plain", "compiled"])
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which loops the room uses during the test."""
    name: str = request.param
    if name == "compiled" and not COMPILED_HERE:
        pytest.skip(
            "the compiled loops are not built: pip install -e . with Cython and a C compiler builds them"
        )
    if name == "compiled":
        walk, source, append = _loops.walk, _loops, _loops.append_record
    else:
        walk, source, append = (
            partial(_plain.walk, walk_part=_source.walk_part),
            _source,
            _plain.append_record,
        )
    monkeypatch.setattr(validation, "walk", walk)
    monkeypatch.setattr(validation, "decode_records", source.decode_records)
    monkeypatch.setattr(reading, "decode_records", source.decode_records)
    monkeypatch.setattr(builder, "append_record", append)
    return name
