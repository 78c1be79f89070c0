"""Every message and version that both have, against kio, an independent implementation of Kafka 4's schemas.

Written by pkafka, read by kio: every value is the same. Written again by kio: the same bytes, which pkafka
reads back.
"""

from dataclasses import fields
from datetime import datetime, timedelta
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import kio.schema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages.records import cluster_metadata
from pkafka.protocol.registry import declared_versions, keys, request_class, response_class
from pkafka.protocol.schema import Field, Message, version_range
from tests.unit.protocol.strategies import instances_of, record_classes

# Kafka 4 has none of these: ZooKeeper's controller is gone, and one API has another name.
GONE_IN_KAFKA_4 = {
    "leader_and_isr",
    "stop_replica",
    "update_metadata",
    "controlled_shutdown",
    "list_client_metrics_resources",
}
NO_RECORD_IN_KIO = {
    "ConsumerGroup",
    "GroupMetadata",
    "OffsetCommit",
    "Remote",
    "TransactionLog",
}


_KIO_SCHEMAS = Path(*kio.schema.__path__)


def snake(name: str) -> str:
    return "".join(["_" + letter.lower() if letter.isupper() else letter for letter in name]).lstrip("_")


def pairs() -> list[tuple[type[Message], int, str]]:
    """Messages, their versions, and the names of kio's modules for them; importing those takes long."""
    found = []
    for key in keys():
        for module, cls in (("request", request_class(key)), ("response", response_class(key))):
            for version in declared_versions(key):
                found.append((cls, version, f"{key.name.lower()}.v{version}.{module}"))
    for cls in record_classes():
        for version in version_range(cls.__versions__):
            found.append((cls, version, f"{snake(cls.__name__)}.v{version}.data"))
    return [each for each in found if (_KIO_SCHEMAS / f"{each[2].replace('.', '/')}.py").is_file()]


PAIRS = pairs()
_ENDS = {
    (cls, of(version for each, version, _ in PAIRS if each is cls))
    for cls, _, _ in PAIRS
    for of in (min, max)
}
"""The first and the last version of each message; those between are read and written nightly."""


# kio turns error codes, durations and times into objects of their own, which not every number fits.
_CODES = st.sampled_from([code.value for code in KioErrorCode])
_SECONDS = st.integers(0, 10**9).map(lambda seconds: seconds * 1000)
_SHORT_MS = st.integers(0, 2**31 - 1)


def that_kio_can_hold(field: Field) -> st.SearchStrategy[Any] | None:
    if field.name.endswith("error_code"):
        return _CODES
    if field.kind == "int64" and ("time" in field.name or field.name.endswith("_ms")):
        return _SECONDS
    if field.kind == "int32" and field.name.endswith("_ms"):
        return _SHORT_MS
    return None


def plain(value: Any) -> Any:
    """A value of kio's as the one that pkafka has for it."""
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, KioErrorCode):
        return value.value
    if isinstance(value, UUID):
        return value.bytes
    return value


def assert_same(ours: Message, theirs: Any, version: int) -> None:
    carried = [field for field in ours.__fields__ if field.is_in(version)]
    their_fields = fields(theirs)
    assert len(carried) == len(their_fields), (ours, theirs)
    for field, their_field in zip(carried, their_fields, strict=True):
        assert field.name.startswith(their_field.name.removesuffix("_")), (field.name, their_field.name)
        mine, other = getattr(ours, field.name), getattr(theirs, their_field.name)
        if isinstance(mine, list) and other is not None:
            assert len(mine) == len(other)
            for one, another in zip(mine, other, strict=True):
                if isinstance(one, Message):
                    assert_same(one, another, version)
                else:
                    assert one == plain(another)
        elif isinstance(mine, Message):
            assert_same(mine, other, version)
        elif field.kind == "uuid" and other is None:
            assert mine == bytes(16)
        else:
            assert mine == plain(other), field.name


@pytest.mark.parametrize(
    ("cls", "version", "module"),
    [pytest.param(*each, marks=() if each[:2] in _ENDS else pytest.mark.nightly) for each in PAIRS],
    ids=[f"{cls.__name__}-v{version}" for cls, version, _ in PAIRS],
)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 4, suppress_health_check=list(HealthCheck))
def test_both_read_what_the_other_writes(
    cls: type[Message], version: int, module: str, data: st.DataObject
) -> None:
    theirs = getattr(import_module(f"kio.schema.{module}"), cls.__name__)
    message = data.draw(instances_of(cls, version, that_kio_can_hold))
    wire = encode(message, version)

    entity, size = entity_reader(theirs)(wire, 0)
    assert size == len(wire)
    assert_same(message, entity, version)

    written = BytesIO()
    entity_writer(theirs)(written, entity)
    assert written.getvalue() == wire
    assert decode(cls, version, written.getvalue()) == message


def test_nothing_is_left_out_by_accident() -> None:
    compared = {cls.__name__ for cls, _, _ in PAIRS}
    left_out = {
        cls.__name__ for key in keys() for cls in (request_class(key), response_class(key))
    } - compared
    assert {
        snake(name.removesuffix("Request").removesuffix("Response")) for name in left_out
    } == GONE_IN_KAFKA_4
    records = {cls for cls in record_classes() if cls.__name__ not in compared}
    of_kraft = {cls for cls in records if cls.__module__ == cluster_metadata.__name__}
    names = {cls.__name__ for cls in records - of_kraft}
    assert all(name.startswith(tuple(NO_RECORD_IN_KIO)) for name in names), names
    assert len(PAIRS) > 350
