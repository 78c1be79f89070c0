"""What elections would come to, and files that name partitions."""

import pytest

from pkafka.clients.admin.results import ElectionType, PartitionDescription
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.tools.elections.leader import foreseen, parse_partitions
from pkafka.tools.json_input import JsonInputError

PREFERRED, UNCLEAN = ElectionType


@pytest.mark.parametrize(
    ("kind", "leader", "isr", "live", "code"),
    [
        (PREFERRED, 1, (1, 2), {1, 2}, ErrorCode.ELECTION_NOT_NEEDED),
        (PREFERRED, 2, (1, 2), {1, 2}, None),
        (PREFERRED, 2, (2,), {1, 2}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, 2, (1, 2), {2}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, None, (1,), {1}, None),
        (UNCLEAN, 2, (2,), {1, 2}, ErrorCode.ELECTION_NOT_NEEDED),
        (UNCLEAN, None, (2,), {1}, None),
        (UNCLEAN, None, (2,), {3}, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_an_election_is_foreseen(
    kind: ElectionType, leader: int | None, isr: tuple[int, ...], live: set[int], code: ErrorCode | None
) -> None:
    found = foreseen(kind, PartitionDescription(0, leader, (1, 2), isr), live)
    assert (found.code if isinstance(found, ApiError) else None) == code


def test_a_partition_that_is_not_there_elects_nobody() -> None:
    found = foreseen(PREFERRED, None, {1})
    assert isinstance(found, ApiError)
    assert found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_file_names_partitions_once() -> None:
    data = b'{"partitions":[{"topic":"a","partition":1},{"topic":"b","partition":0}]}'
    assert parse_partitions(data) == [TopicPartition("a", 1), TopicPartition("b", 0)]
    assert parse_partitions(b'{"partitions":[]}') == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b" ", "Replica election data is empty"),
        (b"{}", 'Replica election data is missing "partitions" field'),
        (
            b'{"partitions":[{"topic":"a","partition":0},{"topic":"a","partition":0}]}',
            r"Replica election data contains duplicate partitions: \[a-0\]",
        ),
        (b'{"partitions":[{"topic":"a"}]}', "No such field exists: `partition`"),
    ],
)
def test_a_file_that_names_none_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(JsonInputError, match=problem):
        parse_partitions(data)
