"""The index of APIs against Kafka 3.9.1's table, and against the declarations."""

import subprocess
import sys

import pytest

from pkafka.protocol.api import ApiKey
from pkafka.protocol.registry import (
    declared_versions,
    is_flexible,
    keys,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
    versions,
)
from pkafka.protocol.schema import Field, Message, version_range

# key: (highest version, first flexible version), from Apache Kafka 3.9.1; every range begins at 0.
# fmt: off
TABLE = {
    0: (11, 9), 1: (17, 12), 2: (9, 6), 3: (12, 9), 4: (7, 4), 5: (4, 2),
    6: (8, 6), 7: (3, 3), 8: (9, 8), 9: (9, 6), 10: (6, 3), 11: (9, 6),
    12: (4, 4), 13: (5, 4), 14: (5, 4), 15: (5, 5), 16: (5, 3), 17: (1, None),
    18: (4, 3), 19: (7, 5), 20: (6, 4), 21: (2, 2), 22: (5, 2), 23: (4, 4),
    24: (5, 3), 25: (4, 3), 26: (4, 3), 27: (1, 1), 28: (4, 3), 29: (3, 2),
    30: (3, 2), 31: (3, 2), 32: (4, 4), 33: (2, 2), 34: (2, 2), 35: (4, 2),
    36: (2, 2), 37: (3, 2), 38: (3, 2), 39: (2, 2), 40: (2, 2), 41: (3, 2),
    42: (2, 2), 43: (2, 2), 44: (1, 1), 45: (0, 0), 46: (0, 0), 47: (0, None),
    48: (1, 1), 49: (1, 1), 50: (0, 0), 51: (0, 0), 55: (2, 0), 56: (3, 0),
    57: (1, 0), 58: (0, 0), 60: (1, 0), 61: (0, 0), 64: (0, 0), 65: (0, 0),
    66: (1, 0), 67: (0, 0), 68: (0, 0), 69: (0, 0), 71: (0, 0), 72: (0, 0),
    74: (0, 0), 75: (0, 0), 80: (0, 0), 81: (0, 0),
}
# fmt: on


def test_the_ranges_are_those_of_kafka_3_9_1() -> None:
    assert {int(key): versions(key)[-1] for key in keys()} == {
        key: highest for key, (highest, _) in TABLE.items()
    }
    for key, (highest, first_flexible) in TABLE.items():
        assert versions(key) == range(highest + 1)
        for version in range(highest + 3):
            assert is_flexible(key, version) == (first_flexible is not None and version >= first_flexible)


def test_clients_know_the_requests_of_transactions_of_version_2_beside_them() -> None:
    later = {key: declared_versions(key)[-1] for key in keys() if declared_versions(key) != versions(key)}
    assert later == {ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 5}


@pytest.mark.parametrize("key", keys(), ids=lambda key: key.name)
def test_declarations_agree_with_the_index(key: ApiKey) -> None:
    for cls, suffix in ((request_class(key), "Request"), (response_class(key), "Response")):
        assert cls.__api_key__ == key
        assert cls.__name__.upper() == key.name.replace("_", "") + suffix.upper()
        assert version_range(cls.__versions__) == declared_versions(key)
        flexible = version_range(cls.__flexible__)
        assert all((version in flexible) == is_flexible(key, version) for version in declared_versions(key))


def test_every_structure_of_a_message_reaches_no_further_than_the_message() -> None:
    def check(cls: type[Message], valid: range, flexible: range) -> None:
        tags = [field.tag for field in cls.__fields__ if field.tag is not None]
        assert len(tags) == len(set(tags)), cls
        for field in cls.__fields__:
            carried = [version for version in valid if field.is_in(version)]
            assert carried, f"{cls.__name__}.{field.name} is in no valid version"
            assert all(version in flexible for version in carried if field.is_tagged(version)), field.name
            if field.struct is not None:
                check(field.struct, valid, flexible)

    for key in keys():
        for cls in (request_class(key), response_class(key)):
            check(cls, version_range(cls.__versions__), version_range(cls.__flexible__))


def test_header_versions() -> None:
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 0) == 0
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 1) == 1
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 3) == 2
    assert request_header_version(ApiKey.SASL_HANDSHAKE, 1) == 1
    assert request_header_version(ApiKey.API_VERSIONS, 99) == 2
    assert response_header_version(ApiKey.METADATA, 8) == 0
    assert response_header_version(ApiKey.METADATA, 9) == 1
    assert response_header_version(ApiKey.API_VERSIONS, 4) == 0


@pytest.mark.parametrize("key", [-1, ApiKey.VOTE, ApiKey.SHARE_FETCH, 88, 1000])
def test_unknown_keys(key: int) -> None:
    assert not versions(key)
    assert not declared_versions(key)
    for ask in (request_class, response_class):
        with pytest.raises(KeyError):
            ask(key)
    for ask_version in (is_flexible, request_header_version, response_header_version):
        with pytest.raises(KeyError):
            ask_version(key, 0)


def test_api_keys_are_all_88() -> None:
    assert [int(key) for key in ApiKey] == list(range(88))


def test_importing_the_protocol_pulls_in_nothing_slow() -> None:
    code = (
        "import sys, pkafka.protocol.headers, pkafka.protocol.hot, pkafka.protocol.messages.fetch; "
        "print(*sorted({'dataclasses', 'inspect', 'ast', 'asyncio', 'socket', 'pkafka.protocol.messages.metadata'} "
        "& set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == ""


def test_no_field_reaches_an_object() -> None:
    message = request_class(ApiKey.FETCH)()
    assert not any(isinstance(getattr(message, field.name), Field) for field in message.__fields__)
