"""When topics are whole."""

import pytest

from pkafka.clients.admin.results import Outcome, PartitionDescription, TopicDescription
from pkafka.errors import ApiError, ErrorCode
from pkafka.tools.cluster.topic_wait import what_is_missing


def topic(*partitions: tuple[int | None, tuple[int, ...]]) -> TopicDescription:
    rows = [
        PartitionDescription(index, leader, (1, 2), isr) for index, (leader, isr) in enumerate(partitions)
    ]
    return TopicDescription("t", bytes(16), False, tuple(rows))


WHOLE = (1, (1, 2))


@pytest.mark.parametrize(
    ("found", "partitions", "missing"),
    [
        (topic(WHOLE, WHOLE), None, None),
        (topic(WHOLE, WHOLE), 2, None),
        (topic(WHOLE, WHOLE), 3, "topic t has 2 of 3 partitions"),
        (topic(WHOLE, (None, (1, 2))), None, "partition t-1 has no leader"),
        (topic((1, (1,))), None, "partition t-0 has 1 of 2 replicas in sync"),
        (ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None, "there is no topic t"),
        (ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"), None, "topic t: no"),
    ],
)
def test_what_is_missing_is_said(
    found: Outcome[TopicDescription], partitions: int | None, missing: str | None
) -> None:
    assert what_is_missing({"t": found}, partitions) == missing
